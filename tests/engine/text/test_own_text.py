"""A person's own text, whatever was given for one."""

from pathlib import Path

import pytest

from engine.errors import RequestError
from engine.text.own_text import read_own_text


def test_a_text_is_read_as_it_is(tmp_path):
    (tmp_path / "x").write_bytes("\ufeffé\r\n".encode())
    assert read_own_text(tmp_path / "x", 8, "") == "\ufeffé\r\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff\xfe", "no UTF-8: byte 0 is 0xff"), (b" \n", "holds no text"), (b"", "holds no text"),
     (b"a\0b", "holds zero bytes"), (b"x" * 9, "holds more than 8 bytes"),
     (None, "does not read: No such file")],
)  # fmt: skip
def test_what_is_no_text_is_refused(tmp_path, content, said):
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        read_own_text(path, 8, "Give another.")


def test_a_device_without_an_end_is_read_no_further_than_it_may():
    with pytest.raises(RequestError, match="/dev/zero holds more than 8 bytes"):
        read_own_text(Path("/dev/zero"), 8, "")
