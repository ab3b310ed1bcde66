"""What stands in a person's folder is read when it is a plain file, and never waited for."""

import errno
import os

import pytest

from engine.own_file import NotPlainError, open_own, read_own, read_tail


def test_a_plain_file_and_a_link_to_one_are_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(path)
    for one in (path, tmp_path / "link"):
        assert read_own(one, 10) == b"0123456789"
        assert read_tail(one, 4) == b"6789"
        assert read_tail(one, 400) == b"0123456789"
    (tmp_path / "empty").touch()
    assert read_tail(tmp_path / "empty", 4) == read_own(tmp_path / "empty", 0) == b""


@pytest.mark.parametrize(
    "read", [open_own, lambda path: read_own(path, 9), lambda path: read_tail(path, 9)]
)
def test_what_is_no_plain_file_is_told_and_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for one in (tmp_path, tmp_path / "pipe", tmp_path / "zero"):
        with pytest.raises(NotPlainError):
            read(one)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone")


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 3 << 30)
    with pytest.raises(OSError, match=r"longer than 1\.0 KB") as refused:
        read_own(path, 1000)
    assert refused.value.errno == errno.EFBIG
    assert read_tail(path, 3) == b"\0\0\0"
