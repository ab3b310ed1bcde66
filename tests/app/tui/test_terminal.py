"""The chat on a real pseudo-terminal: what bytes reach it, and how it is left."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
import pytest

from engine.settings.environment import child_environment
from tests.app.tui.hostile import HOSTILE
from tests.tries import PATIENCE_S, tries

ROOT = Path(__file__).parents[3]
SLOW = {"answer": " ".join(f"word{n}" for n in range(2000)), "round_s": 0.03}


class Terminal:
    """A chat in a pty with a pyte screen in front of it."""

    def __init__(
        self, folder: Path, scripts: list[dict], columns: int = 100, rows: int = 30, **names: str
    ):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes = termios.tcgetattr(side)
        self.fd, self.side = main, side
        names |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TZ": "UTC"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.tui.driver", str(folder), json.dumps(scripts)],
            stdin=side, stdout=side, stderr=side, cwd=ROOT, start_new_session=True,
            env=child_environment({**names, "PYTHONPATH": str(ROOT)}),
        )  # fmt: skip

    def read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], min(left, 0.05))[0]:
                data = os.read(self.fd, 65536)
                self.raw += data
                self.stream.feed(re.sub(rb"\x1b\[[<>=?][^a-zA-Z]*[a-zA-Z]", b"", data))

    def until(self, text: str, seconds: float = PATIENCE_S) -> None:
        end = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < end, self.text
            self.read(0.05)

    @property
    def text(self) -> str:
        # cell by cell: pyte's own display fails where a frame is through half of a wide sign
        rows = (self.screen.buffer[y] for y in range(self.screen.lines))
        return "\n".join("".join(row[x].data for x in range(self.screen.columns)) for row in rows)

    def send(self, data: str) -> None:
        os.write(self.fd, data.encode())

    def end(self, seconds: float = PATIENCE_S) -> int:
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        self.read(0.1)
        return self.process.wait(1)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)
        os.close(self.side)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*scripts: dict, **options) -> Terminal:
        opened.append(Terminal(tmp_path, list(scripts), **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def assert_sane(t: Terminal) -> None:
    assert termios.tcgetattr(t.side)[:4] == t.modes[:4]
    for on, off in ((b"?1049h", b"?1049l"), (b"?2004h", b"?2004l"), (b"?1000h", b"?1000l")):
        if on in t.raw:
            assert t.raw.rindex(off) > t.raw.rindex(on)
    assert t.raw.rindex(b"?25h") > t.raw.rindex(b"?25l")


def test_talk_quit_and_farewell(terminal):
    t = terminal({"answer": "A **volcano** is a mountain."})
    t.until("ready")
    t.send("what is a volcano?\r")
    t.until("A volcano is a mountain.")
    assert re.search(rb"\x1b\[22;2t\x1b\]2;qwen38 [^\x00-\x1f]*\x07", t.raw)
    t.send("\x11")
    assert t.end() == 0
    assert t.raw.rindex(b"\x1b[23;2t") > t.raw.rindex(b"\x1b]2;qwen38")
    assert_sane(t)
    assert re.search(rb"go on with: \S*qwen38 chat --resume ", t.raw)


def test_no_key_is_lost_that_is_typed_while_the_program_starts(terminal):
    t = terminal({"answer": "Well."})
    for number in range(10):
        t.send(f"<{number}>")
        t.read(0.1)
    t.until("ready")
    t.until("<9>")
    assert "<0><1><2><3><4><5><6><7><8><9>" in t.text


def test_a_line_that_is_typed_while_the_program_starts_is_sent(terminal):
    t = terminal({"answer": "Well."})
    t.send("how are you?\r")
    t.until("Well.")


def test_several_lines_that_come_while_the_program_starts_wait_in_the_box(terminal, tmp_path):
    t = terminal({"answer": "Well."})
    t.send("how\rare you?\r")
    t.until("are you?")
    t.until("ready")
    t.read(0.5)
    assert "Well." not in t.text
    draft = tmp_path / "state/drafts/new.txt"
    end = time.monotonic() + PATIENCE_S
    while not draft.is_file() and time.monotonic() < end:  # it is kept a while behind the last key
        t.read(0.1)
    assert draft.read_text() == "how\nare you?\n"


def test_a_line_that_is_typed_behind_a_draft_while_the_program_starts_waits(terminal, tmp_path):
    (tmp_path / "state/drafts").mkdir(parents=True)
    (tmp_path / "state/drafts/new.txt").write_text("half a thought, ")
    t = terminal({"answer": "Well."})
    t.send("how are you?\r")
    t.until("half a thought, how are you?")
    t.until("ready")
    t.read(0.5)
    assert "Well." not in t.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_chat_properly_and_keeps_the_answer(terminal, tmp_path, number):
    t = terminal(SLOW)
    t.until("ready")
    t.send("go\r")
    t.until("word20")
    t.process.send_signal(number)
    assert t.end() == 128 + number
    assert_sane(t)
    (saved,) = (tmp_path / "data" / "sessions").glob("*.jsonl")
    assert "word20" in saved.read_text()


def test_no_byte_of_a_hostile_text_is_obeyed(terminal):
    texts = [text.encode("utf-8", "replace").decode() for text in HOSTILE]
    t = terminal({"answer": "\n\n".join(texts) + "\n\nthe very end", "thinking": texts[0]})
    t.until("ready")
    t.send("go\r")
    t.until("the very end")
    for number in tries():
        t.send("\x1b[5~")
        t.read(0.15)
        if number >= 5 and "[@click=app.quit]" in without_codes(t.raw):
            break
    t.send("\x11")
    t.end()
    assert b"]52;" not in t.raw.replace("␛]52;".encode(), b"")
    for start in (b"\x1b]0;", b"\x1b]8;", b"\x1bP", b"\x1b_", b"\x1b[2J\x1b[H cleared"):
        assert start not in t.raw
    text = t.raw.decode("utf-8", "replace")
    assert not set(text) & set("\u202e\u202d\u2066\u2067\u200f\u061c")
    assert not re.search("[\x80-\x9f]", text)
    assert "[@click=app.quit]" in without_codes(t.raw)


def without_codes(raw: bytes) -> str:
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", raw.decode("utf-8", "replace"))


def test_bytes_to_the_terminal_stay_modest_while_streaming(terminal):
    t = terminal(SLOW, columns=120, rows=36)
    t.until("ready")
    t.send("go\r")
    t.until("word20")
    before = len(t.raw)
    t.read(2.0)
    assert (len(t.raw) - before) / 2.0 < 250_000
    t.send("\x1b")
    t.until("stopped, the text is kept")


PARAGRAPHS = "\n\n".join(
    " ".join(f"word{n}" for n in range(at, at + 60)) for at in range(0, 9000, 60)
)


def test_a_terminal_that_takes_nothing_for_a_while_is_not_sent_what_is_old(terminal):
    t = terminal({"answer": PARAGRAPHS, "round_s": 0.03}, columns=120, rows=36)
    t.until("ready")
    t.send("go\r")
    t.until("word300")
    time.sleep(3)
    t.send("typed")
    before = len(t.raw)
    t.until("typed")
    assert len(t.raw) - before < 80_000
    t.send("\x1b")
    t.until("kept")


def test_an_editor_that_is_not_there_leaves_the_chat_as_it_was(terminal):
    t = terminal({"answer": "still here"}, EDITOR="/nowhere/editor", VISUAL="")
    t.until("ready")
    t.send("half a thought\x07")
    t.until("the editor /nowhere/editor does not start")
    t.send("\r")
    t.until("still here")
    t.send("\x11")
    assert t.end() == 0
    assert_sane(t)


def test_an_interrupt_in_the_editor_is_the_editors(terminal, tmp_path):
    editor = tmp_path / "editor.sh"
    editor.write_text(
        "trap 'echo written >$1; exit 0' INT\necho editing; while :; do sleep 0.1; done\n"
    )
    t = terminal({"answer": "still here"}, EDITOR=f"sh {editor}", VISUAL="")
    t.until("ready")
    t.send("\x07")
    t.until("editing")
    os.killpg(t.process.pid, signal.SIGINT)  # as the terminal does for Ctrl+C
    t.until("written")
    t.read(0.5)
    t.send("\r")
    t.until("still here")
    t.send("\x11")
    assert t.end() == 0


def test_no_pasted_byte_is_a_key_or_the_end(terminal, tmp_path):
    t = terminal({"answer": "still here"})
    t.until("ready")
    os.write(t.fd, b"\x1b[200~caf\xe9 \xff\x1b[31mred\x1b[0m\x11\nsecond line\x1b[201~")
    t.until("second line")
    t.send("\r")
    t.until("still here")
    t.send("\x11")
    assert t.end() == 0
    (file,) = tmp_path.rglob("sessions/*.jsonl")
    assert "caf\N{REPLACEMENT CHARACTER} " in file.read_text("utf-8")
