"""What the line above the message box says: what is going on, and what one may do about it."""

from rich.text import Text

from app.slash import SLASH_COMMANDS, SlashCommand
from app.tui.conversation import Conversation
from app.tui.lines import Part, apart, fit
from app.tui.theme import Look
from app.tui.transcript import Transcript
from app.visible import visible_line
from engine.sizes import counted, size_text
from engine.types import PromptProgressed

BLOCK_KEYS = "j/k move · y copy · e edit · r again · Tab writes"
"""What the conversation understands."""


def state_text(chat: Conversation, seconds: float, hint: str, width: int, look: Look) -> Text:
    """The line, for a time on the conversation's clock and a hint of the moment (may be empty)."""
    right = _right(chat, look, wide=width >= 72)
    if hint:
        left = Text(f" {hint}", look.notice, end="")
        return apart(left, right if chat.is_busy else Text(end=""), width)
    room = width - right.cell_len - 2
    parts = fit(_left(chat, seconds, look), room, f" {look.signs.dot} ", look.faint)
    left = Text.assemble(" ", parts)
    return apart(left, right, width)


def _left(chat: Conversation, seconds: float, look: Look) -> list[Part]:
    is_at_work = chat.is_busy or chat.phase == "loading" or chat.ahead.goes_on
    sign = look.signs.busy if is_at_work else look.signs.idle
    tone = look.assistant if chat.is_busy else look.dim
    parts = [Part(f"{sign} {_word(chat)}", tone, 9)]
    match chat.phase:
        case "loading":
            parts += _load_parts(chat, look)
        case "reading":
            parts += _prompt_parts(chat, seconds, look)
        case "thinking" | "writing" | "stopping":
            parts += _answer_parts(chat, seconds, look)
        case "idle" if chat.ahead.goes_on and chat.ahead.progress is not None:
            parts += _reading_parts(chat.ahead.progress, look)
        case "idle" | "unloaded":
            pass
    if chat.waiting.queued:
        parts.append(Part("1 message queued", look.notice, 7))
    return parts


def _word(chat: Conversation) -> str:
    if chat.phase == "idle" and chat.ahead.goes_on:
        return "reading the conversation again"
    words = {
        "loading": "loading the model",
        "unloaded": "no model: a message tries to load it again",
        "idle": "ready",
    }
    return words.get(chat.phase, chat.phase)


def _load_parts(chat: Conversation, look: Look) -> list[Part]:
    step = chat.seat.load
    if step is None:
        return []
    if step.is_all_read:  # what goes on now has no bytes, and takes a while
        return [
            Part(visible_line(step.file, 40), look.text, 8),
            Part(f"{size_text(step.total_bytes)} read", look.dim, 4),
        ]
    return [
        Part(f"{step.share:.0%} of {size_text(step.total_bytes)}", look.text, 8),
        Part(f"{step.gb_s:.2f} GB/s", look.text, 6),
        Part(visible_line(step.file, 40), look.dim, 4),
    ]


def _prompt_parts(chat: Conversation, seconds: float, look: Look) -> list[Part]:
    step = chat.rates.prompt if chat.rates is not None else None
    elapsed = Part(f"{seconds - chat.answering.began_at:.1f} s", look.dim, 5)
    if step is None:
        return [elapsed]
    return [*_reading_parts(step, look), elapsed]


def _reading_parts(step: PromptProgressed, look: Look) -> list[Part]:
    return [
        Part(f"{step.num_tokens:,} of {step.num_total:,} tokens", look.text, 8),
        Part(f"{step.tok_s:,.0f} tok/s" if step.tok_s else "", look.text, 6),
        Part(f"{step.num_reused:,} held from before" if step.num_reused else "", look.dim, 3),
    ]


def _answer_parts(chat: Conversation, seconds: float, look: Look) -> list[Part]:
    rates = chat.rates
    if rates is None:
        return []
    return [
        Part(counted(rates.total_tokens, "token"), look.text, 7),
        Part(counted(len(rates.rounds), "round"), look.dim, 4),
        Part(f"{seconds - chat.answering.began_at:.1f} s", look.dim, 5),
    ]


def _right(chat: Conversation, look: Look, *, wide: bool) -> Text:
    if chat.phase == "loading":
        text = "Esc cancels" if wide else "Esc"
    elif chat.is_busy:
        text = "Esc stops and keeps the text" if wide else "Esc stops"
    elif chat.ahead.goes_on:
        text = "Esc leaves it for your message" if wide else "Esc stops"
    else:
        text = "F1 help"
    return Text(f"{text} ", look.accent if chat.is_busy else look.dim, end="")


def view_hint(transcript: Transcript, *, is_busy: bool) -> str:
    """How to follow again where the view is held, else the keys of a conversation in focus."""
    signs = transcript.look.signs
    if not transcript.is_following:
        back = ", Tab writes" if transcript.has_focus else ""
        return f"{signs.down} holding the view: End follows again{back}"
    return BLOCK_KEYS.replace("·", signs.dot) if transcript.has_focus and not is_busy else ""


def completion_hint(text: str) -> str:
    """The slash commands that begin like the text, or nothing."""
    found = _matching(text)
    if len(found) == 1 and found[0].name == text[1:].split(" ")[0]:
        return f"{found[0].usage}  {found[0].help}"
    names = "  ".join(f"/{one.name}" for one in found)
    return f"Tab completes: {names}" if found else ""


def complete(text: str) -> str | None:
    """The first command that begins like the text, ready for its argument."""
    found = _matching(text)
    if not found or " " in text:
        return None
    return f"/{found[0].name}" + (" " if found[0].args else "")


def _matching(text: str) -> list[SlashCommand]:
    if not text.startswith("/") or text.startswith("//") or "\n" in text:
        return []
    word, has_argument, _ = text[1:].partition(" ")
    if has_argument:
        return [one for one in SLASH_COMMANDS if one.name == word]
    return [one for one in SLASH_COMMANDS if one.name.startswith(word)]
