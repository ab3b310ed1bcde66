"""The slash commands, one table for both front ends: what they are called, take and do.

Knows no screen: a front end looks a line up here and acts in its own way.
"""

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

from engine.errors import RequestError, did_you_mean

Ran = Literal["done", "refused", "message"]
"""What became of a line that may be a command: run, not run, or none."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command; ``args`` is how its arguments are written, empty for none."""

    name: str
    args: str
    help: str

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"/{self.name} {self.args}".strip()


SLASH_COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "show these commands and the keys"),
    SlashCommand("new", "", "begin a new conversation"),
    SlashCommand("resume", "[ID]", "go on with an earlier conversation; without ID the last one"),
    SlashCommand("sessions", "", "list the conversations"),
    SlashCommand("rename", "[TITLE]", "give this conversation a title, or its first words again"),
    SlashCommand("delete", "[ID]", "delete a conversation for good; this one when asked twice"),
    SlashCommand("session", "", "say where this conversation is kept and how long it is"),
    SlashCommand("system", "[TEXT]", "show or change the system prompt; '-' takes it away"),
    SlashCommand("set", "[NAME [VALUE]]", "change a setting, such as temperature 0.6"),
    SlashCommand("profile", "[NAME]", "open another weight profile; without NAME show them all"),
    SlashCommand("compare", "[PROFILE]", "answer the last prompt under another profile as well"),
    SlashCommand("think", "[on|off]", "let the model think before it answers, or not"),
    SlashCommand("thoughts", "[live|open|folded|hidden]", "how thinking is shown; the next way"),
    SlashCommand("edit", "[N]", "open your editor; N: write your Nth message from the end anew"),
    SlashCommand("read", "PATH", "send a file along with the message, as @PATH in it does"),
    SlashCommand("redo", "[N]", "answer once more, the last or the Nth from the end"),
    SlashCommand(
        "retry", "[N] [NAME=VALUE]", "answer once more with other values than that answer had"
    ),
    SlashCommand("continue", "", "go on with the last answer where it stopped, or as edited"),
    SlashCommand("branch", "next|previous|N", "go to another branch of this conversation"),
    SlashCommand("tree", "", "list the branches of this conversation"),
    SlashCommand("stop", "", "stop the answer and keep its text"),
    SlashCommand("now", "[TEXT]", "stop the answer and send TEXT, or the message that is queued"),
    SlashCommand("history", "[TEXT]", "search earlier prompts"),
    SlashCommand("find", "[TEXT]", "find a text in this conversation"),
    SlashCommand("copy", "[N] [code K]", "copy the Nth answer from the end, or its Kth code block"),
    SlashCommand("pager", "[N]", "open an answer, the Nth from the end, in your pager"),
    SlashCommand("tokens", "[on|off]", "mark each token: drafted, corrected, bonus"),
    SlashCommand("view", "[pane|lines|off|full|next]", "show the instruments another way"),
    SlashCommand(
        "export",
        "[FILE]",
        "write the conversation, as Markdown or FILE.json, into this folder",
    ),
    SlashCommand("trace", "[FILE]", "write the timing for ui.perfetto.dev, into this folder"),
    SlashCommand("quit", "", "leave; the conversation is kept"),
)

_BY_NAME = {one.name: one for one in SLASH_COMMANDS}
_ALIASES = {"exit": "quit", "q": "quit", "regen": "redo", "regenerate": "redo", "?": "help"}
_COMMAND = re.compile(r"/([a-z?]+)(?:\s+(.*))?", re.DOTALL)
_SET_SYSTEM = re.compile(r"system(?:\s+(.*))?", re.DOTALL)


def parse_slash(line: str) -> tuple[SlashCommand, str] | None:
    """The command on ``line`` with its argument text, or None when ``line`` is a message.

    Only a slash with one lower-case word counts, so a path such as /etc/hosts is a message.
    ``/set system`` is ``/system``: the prompt of this conversation. The prompt that new ones begin
    with has its full name, chat.system.

    Raises:
        RequestError: there is no such command, or it takes no argument.
    """
    match = _COMMAND.fullmatch(line.strip())
    if match is None:
        return None
    name = _ALIASES.get(match[1], match[1])
    if name not in _BY_NAME:
        hint = did_you_mean(name, _BY_NAME) or "/help lists them."
        raise RequestError(
            f"There is no command /{name}.", f"{hint} Begin with // to send it as a message."
        )
    argument = (match[2] or "").strip()
    if name == "set" and (found := _SET_SYSTEM.fullmatch(argument)):
        name, argument = "system", found[1] or ""
    command = _BY_NAME[name]
    if argument and not command.args:
        raise RequestError(f"/{name} takes nothing behind it.", f"You wrote '{argument}'.")
    return command, argument


def message_text(line: str) -> str:
    """The message behind ``line``: a doubled slash at its beginning stands for one."""
    return line[1:] if line.startswith("//") else line


def typed_text(message: str) -> str:
    """What a person types to send ``message``: the inverse of `message_text`."""
    return f"/{message}" if message.startswith("/") else message


def help_text(cells: int = 100) -> str:
    """The table as plain text, for a terminal of ``cells`` columns; no word is cut."""
    usage = max(len(one.usage) for one in SLASH_COMMANDS)
    hanging = " " * min(usage + 2, cells // 2)
    return "\n".join(
        textwrap.fill(
            f"{one.usage:<{usage}}  {one.help}",
            max(cells - 1, 20),
            subsequent_indent=hanging,
            break_on_hyphens=False,
        )
        for one in SLASH_COMMANDS
    )
