"""The line that says how the next answer is made."""

from rich.text import Text

from app.live import LiveSettings, show_value
from app.opening import sampling_of
from app.sessions.session import Session
from app.tui.lines import Part, apart, fit
from app.tui.theme import Look
from app.visible import visible_line
from engine.types import EngineInfo

SYSTEM_CELLS = 24


def parameters_text(
    live: LiveSettings, info: EngineInfo | None, session: Session, width: int, look: Look
) -> Text:
    """Sampling, thinking, drafting and system prompt; the least important leave first."""
    right = Text("F4 changes ", look.dim, end="")
    parts = [Part(text, look.dim, rank) for rank, text in _ranked(live, info)]
    system = visible_line(session.system, SYSTEM_CELLS) or "none"
    parts.append(Part(f"system: {system}", look.dim, 3))
    shown = fit(parts, width - right.cell_len - 3, f" {look.signs.dot} ", look.faint)
    return apart(Text.assemble(" ", shown, end=""), right, width)


def _ranked(live: LiveSettings, info: EngineInfo | None) -> list[tuple[int, str]]:
    settings = live.settings
    parts = _sampling(live, info) if info is not None else []
    parts.append((6, f"max {settings.sampling.max_tokens}"))
    seed = settings.sampling.seed
    parts.append((4, "seed fresh" if seed is None else f"seed {seed}"))
    if info is None or info.supports_thinking:
        parts.append((8, f"thinking {show_value(settings.chat.thinking)}"))
    return parts


def _sampling(live: LiveSettings, info: EngineInfo) -> list[tuple[int, str]]:
    now = sampling_of(live.settings, info)
    if now.temperature == 0:
        return [(9, "temp 0, greedy")]
    parts = [(9, f"temp {now.temperature:g}")]
    parts += [(7, f"top-p {now.top_p:g}")] if now.top_p < 1 else []
    parts += [(7, f"top-k {now.top_k}")] if now.top_k else []
    parts += [(5, f"min-p {now.min_p:g}")] if now.min_p else []
    parts += [(5, f"presence {now.presence_penalty:g}")] if now.presence_penalty else []
    if now.repetition_penalty != 1:
        parts.append((5, f"repetition {now.repetition_penalty:g}"))
    return parts


def drafter_text(live: LiveSettings) -> str:
    """Who drafts, for the header."""
    draft = live.settings.draft
    shape = "" if draft.shape == "auto" else f" {draft.shape}"
    count = f" {draft.tokens}" if draft.tokens is not None else ""
    return "drafts off" if draft.drafter == "off" else f"drafts {draft.drafter}{shape}{count}"
