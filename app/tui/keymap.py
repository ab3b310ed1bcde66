"""Every key, once: the bindings of the app and its parts, and what the help screen lists.

A key with a command does what the command does: its action is ``run('/NAME')``.
"""

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Where = Literal["anywhere", "message", "conversation"]


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it is called on screen, what it does, and the command that does the same."""

    keys: str
    action: str
    label: str
    about: str
    where: Where = "anywhere"
    command: str = ""
    is_bound: bool = True
    """False for keys that the widget itself understands; they are listed only."""

    @property
    def bound_action(self) -> str:
        """The action as a binding names it."""
        return f"run('{self.command}')" if self.action == "run" else self.action

    @property
    def id(self) -> str:
        """The name of the binding, for a keymap of the person's own."""
        return f"chat.{self.command.strip('/').split()[0] if self.action == 'run' else self.action}"


KEYS: tuple[Key, ...] = (
    Key("enter", "send", "Enter", "send; while an answer is written: queue", "message",
        is_bound=False),
    Key("alt+enter", "newline", "Alt+Enter, Ctrl+J", "new line; so does a \\ at the end",
        "message", is_bound=False),
    Key("ctrl+enter", "send_now", "Ctrl+Enter", "stop the answer and send now, where the terminal "
        "tells it from Enter", "message", "/now", is_bound=False),
    Key("up", "history", "Up / Down", "earlier prompts, at the edge of the box; Up takes a queued "
        "message back, Del drops it", "message", is_bound=False),
    Key("alt+r", "run", "Alt+R", "search earlier prompts", "message", "/history"),
    Key("ctrl+o", "expand", "Ctrl+O", "show pasted text in full", "message", is_bound=False),
    Key("ctrl+g", "run", "Ctrl+G", "write the message in your editor", "message", "/edit"),
    Key("escape", "stop", "Esc", "stop the answer and keep its text; close what is open",
        "anywhere", "/stop"),
    Key("ctrl+c", "interrupt", "Ctrl+C", "copy a selection; stop; clear the box; twice: quit"),
    Key("ctrl+n", "run", "Ctrl+N", "new conversation", "anywhere", "/new"),
    Key("ctrl+r", "run", "Ctrl+R", "earlier conversations", "anywhere", "/sessions"),
    Key("f5", "run", "F5", "answer again, as a branch beside the first", "anywhere",
        "/redo"),
    Key("shift+f5,f17", "run", "Shift+F5", "answer again with other values: temperature, seed, "
        "drafter and more begin as that answer had them", "anywhere", "/retry"),
    Key("ctrl+t", "run", "Ctrl+T", "thinking: live, open, folded, hidden", "anywhere",
        "/thoughts"),
    Key("ctrl+f", "run", "Ctrl+F", "find in this conversation", "anywhere", "/find"),
    Key("ctrl+p", "command_palette", "Ctrl+P", "every command, by name"),
    Key("f6", "run", "F6", "the branches of this conversation", "anywhere", "/tree"),
    Key("f1", "run", "F1", "this help", "anywhere", "/help"),
    Key("f2", "run", "F2", "instruments: pane, lines, off, full screen", "anywhere",
        "/view next"),
    Key("f3", "run", "F3", "weight profiles: what is here, what fits, how fast; open another",
        "anywhere", "/profile"),
    Key("f4", "run", "F4", "how answers are made: sampling, thinking, drafting, system prompt",
        "anywhere", "/set"),
    Key("f7", "run", "F7", "mark each token: as drafted, corrected, bonus", "anywhere", "/tokens"),
    Key("f8", "run", "F8", "write the timing trace into the folder you started in", "anywhere",
        "/trace"),
    Key("f9", "run", "F9", "the last prompt under another profile, beside this one's answer",
        "anywhere", "/compare"),
    Key("ctrl+l", "redraw", "Ctrl+L", "draw the screen anew"),
    Key("ctrl+q", "quit", "Ctrl+Q", "quit; Ctrl+D with an empty box does too", "anywhere",
        "/quit"),
    Key("tab", "switch_focus", "Tab", "between message and conversation", is_bound=False),
    Key("pageup", "page_up", "PgUp / PgDn", "scroll; scrolling up holds the view, End follows "
        "again", "anywhere"),
    Key("pagedown", "page_down", "", "", "anywhere"),
    Key("j", "next_block", "j / k", "next or previous block", "conversation", is_bound=False),
    Key("home", "scroll_home", "Home / End, g / G", "begin, or end and follow again",
        "conversation", is_bound=False),
    Key("n", "find_step", "n / N", "next or previous match of what Ctrl+F found", "conversation",
        is_bound=False),
    Key("y", "copy_block", "y", "copy the block as it was written", "conversation", "/copy code",
        is_bound=False),
    Key("Y", "command", "Y", "copy the whole answer as it was written", "conversation",
        "/copy", is_bound=False),
    Key("o", "open_block", "o", "open the block in your pager", "conversation", "/pager",
        is_bound=False),
    Key("e", "command", "e", "write this message anew: a branch beside it", "conversation",
        "/edit N", is_bound=False),
    Key("r", "command", "r", "answer again from here: a branch beside it", "conversation",
        "/redo N", is_bound=False),
    Key("R", "command", "R", "answer again from here with other values", "conversation",
        "/retry N", is_bound=False),
    Key("c", "command", "c", "go on with the last answer where it stopped", "conversation",
        "/continue", is_bound=False),
    Key("[", "command", "[ / ]", "previous or next branch at this message", "conversation",
        "/branch next", is_bound=False),
    Key("enter", "unfold", "Enter", "unfold or fold thinking; so does a click", "conversation",
        is_bound=False),
)  # fmt: skip

APP_BINDINGS: list[BindingType] = [
    Binding(key.keys, key.bound_action, key.about, show=False, priority=True, id=key.id)
    for key in KEYS
    if key.is_bound
]

TRANSCRIPT_BINDINGS: list[BindingType] = [
    Binding(keys, action, show=False)
    for keys, action in (
        ("j,down", "next_block"),
        ("k,up", "previous_block"),
        ("g,home", "scroll_home"),
        ("G,end,shift+g", "scroll_end"),
        ("y", "copy_block"),
        ("Y,shift+y", "command('/copy')"),
        ("o", "open_block"),
        ("enter,space", "unfold"),
        ("n", "app.find_step(1)"),
        ("N,shift+n", "app.find_step(-1)"),
        ("e", "command('/edit', '1')"),
        ("r", "command('/redo')"),
        ("R,shift+r", "command('/retry')"),
        ("c", "app.run('/continue')"),
        ("left_square_bracket", "command('/branch previous')"),
        ("right_square_bracket", "command('/branch next')"),
        ("ctrl+up", "scroll_up"),
        ("ctrl+down", "scroll_down"),
    )
]


def listed(where: Where) -> list[Key]:
    """The keys that the help screen lists for a part of the screen."""
    return [key for key in KEYS if key.where == where and key.label]
