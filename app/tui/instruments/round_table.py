"""Rows about the rounds of an answer: a strip of all of them, a table, and one of them in full."""

from collections.abc import Callable, Sequence
from itertools import accumulate

from rich.segment import Segment
from rich.style import Style

from app.tui.instruments.bars import Row, cells_of, columns, line, parts, whole
from app.tui.instruments.reading import Tones
from app.tui.instruments.sections import row
from app.tui.instruments.token_kinds import Kind, Step, steps_of
from app.tui.lines import short
from app.tui.theme import Look
from app.visible import visible
from engine.records import BYTE_PARTS, PHASES, RoundRecord, share_of_read
from engine.sizes import size_text

Texts = Callable[[Sequence[int]], list[str]]
"""Spells ids, as ``engine.types.ChatEngine.token_texts`` does."""

MOST_TOKEN_CELLS = 14
STRIP_ROWS = 4
COLUMNS: tuple[tuple[str, int, Callable[[RoundRecord], str]], ...] = (
    ("round", 5, lambda one: str(one.index)),
    ("drafter", -10, lambda one: one.drafter[:10]),
    ("shape", -5, lambda one: one.shape),
    ("rows", 4, lambda one: str(one.rows)),
    ("accepted", 8, lambda one: f"{one.accepted}/{one.tested}"),
    ("tokens", 6, lambda one: str(len(one.token_ids))),
    ("context", 7, lambda one: short(one.context_tokens)),
    ("ms", 8, lambda one: f"{one.round_ms:.2f}"),
    ("GB/s", 7, lambda one: f"{one.gb_s:.1f}"),
    *((name, 7, lambda one, name=name: f"{one.ms[name]:.2f}") for name in PHASES),
)
"""What the table shows of a round, the most wanted first: heading, cells (below 0: to the left)."""

STYLES: dict[Kind, Style] = {
    "plain": Style(),
    "accepted": Style(),
    "corrected": Style(underline=True),
    "bonus": Style(bold=True),
}
"""How a committed token is marked, by how it came; a sign, not a colour alone."""


def strip_rows(
    rounds: Sequence[RoundRecord], chosen: int, width: int, tones: Tones, look: Look
) -> list[Row]:
    """Accepted tokens of the rounds around the chosen one, as columns; a mark below it."""
    first = min(max(chosen - width // 2, 0), max(len(rounds) - width, 0))
    seen = rounds[first : first + width]
    most = max((one.tested for one in seen), default=0)
    drawn = columns([one.accepted for one in seen], max(most, 1), STRIP_ROWS, look.signs)
    mark = " " * (chosen - first) + look.signs.up
    return [*(row((text, tones.accepted)) for text in drawn), row((mark, tones.strong))]


def table_rows(
    rounds: Sequence[RoundRecord], chosen: int, height: int, width: int, tones: Tones
) -> list[Row]:
    """The rounds around the chosen one, below their heading."""
    first = min(max(chosen - height // 2, 0), max(len(rounds) - height + 1, 0))
    shown = _columns_within(width)
    heading = " ".join(_aligned(name, cells) for name, cells, _ in shown)
    found = [row((heading, tones.label))]
    for at in range(first, min(first + height - 1, len(rounds))):
        style = Style(reverse=True) if at == chosen else Style()
        text = " ".join(_aligned(of(rounds[at]), cells) for _, cells, of in shown)
        found.append(row((text.ljust(width), tones.text + style)))
    return found


def _columns_within(width: int) -> list[tuple[str, int, Callable[[RoundRecord], str]]]:
    """Whole columns, as many as fit."""
    ends = accumulate(abs(cells) + 1 for _, cells, _ in COLUMNS)
    return [one for one, end in zip(COLUMNS, ends, strict=True) if end - 1 <= width]


def _aligned(text: str, cells: int) -> str:
    return text.rjust(cells) if cells > 0 else text.ljust(-cells)


def round_rows(
    one: RoundRecord, read_gb_s: float, texts: Texts, width: int, tones: Tones, look: Look
) -> list[Row]:
    """One round: what was drafted against what the model chose, where its time and bytes went."""
    title = f"ROUND {one.index}"
    about = (
        f"{one.drafter} {one.shape}, {one.rows} rows, "
        f"{one.accepted} of {one.tested} tested drafts accepted"
    )
    found = [row((title, tones.title), (f"  {about}", tones.label))]
    found += _compared(steps_of(one), texts, width, tones, look)
    found += [[], *_times(one, width, tones, look)]
    used = share_of_read(one.gb_s, read_gb_s)
    share = f" {look.signs.dot} {used:.0%} of measured" if read_gb_s else ""
    named = [name for name in BYTE_PARTS if one.num_bytes.get(name)]
    told = [
        row((f"{'  ' * bool(at)}{name} {size_text(one.num_bytes[name])}", tones.label))
        for at, name in enumerate(named)
    ]
    total = size_text(sum(one.num_bytes.values()))
    found.append(
        row((total, tones.text), (f" in {one.round_ms:.2f} ms = ", tones.label),
            (f"{one.gb_s:.1f} GB/s", tones.strong), (share, tones.label))
    )  # fmt: skip
    if read_gb_s:
        found.append(line(used, width, tones.bandwidth, tones.rest, look.signs))
    return [*found, whole(told, width)]


def _times(one: RoundRecord, width: int, tones: Tones, look: Look) -> list[Row]:
    ms = [one.ms[name] for name in PHASES]
    cells = parts(ms, width)
    signs = look.signs.phases
    bar = [(signs[at] * count, tones.phases[at]) for at, count in enumerate(cells)]
    legend = [
        row(("  " * bool(at), tones.text), (f"{signs[at]} ", tones.phases[at]),
            (f"{name} ", tones.label), (f"{ms[at]:.2f}", tones.text))
        for at, name in enumerate(PHASES)
    ]  # fmt: skip
    total = row(("  ", tones.text), (f"= {one.round_ms:.2f} ms", tones.label))
    return [row(*bar), whole([*legend, total], width)]


def _compared(steps: list[Step], texts: Texts, width: int, tones: Tones, look: Look) -> list[Row]:
    """Two rows: drafts, and below each what the model chose in its place."""
    drafted: Row = row(("draft  ", tones.label))
    chosen: Row = row(("model  ", tones.label))
    for step in steps:
        above, below = _draft_cell(step, texts, look), _chosen_cell(step, texts, look)
        wide = max(cells_of([Segment(above)]), cells_of([Segment(below)]))
        if cells_of(drafted) + wide + 2 > width:
            drafted.append(Segment(look.signs.more, tones.label))
            break
        is_wrong = (
            bool(step.drafted) and step.chosen is not None and step.chosen not in step.drafted
        )
        tone = tones.warning if is_wrong else tones.label if step.chosen is None else tones.text
        mark = tones.strong if step.kind in ("corrected", "bonus") else tones.text
        drafted += _cell(above, wide, tone)
        chosen += _cell(below, wide, mark + STYLES[step.kind])
    return [drafted, chosen]


def _cell(text: str, wide: int, style: Style) -> Row:
    blank = " " * (wide - cells_of([Segment(text)]) + 2)
    return [Segment(text, style), Segment(blank)]


def _draft_cell(step: Step, texts: Texts, look: Look) -> str:
    """The draft; of several the one that was right, and how many more there were."""
    if not step.drafted:
        return "" if step.kind in ("plain", "bonus") else "?"
    right = [one for one in step.drafted if one == step.chosen]
    shown = spelled((right or list(step.drafted))[:1], texts, look)
    more = len(step.drafted) - 1
    return f"{shown} +{more}" if more else shown


def _chosen_cell(step: Step, texts: Texts, look: Look) -> str:
    return "" if step.chosen is None else spelled([step.chosen], texts, look)


def spelled(ids: Sequence[int], texts: Texts, look: Look) -> str:
    """A token in few cells: spaces and line ends seen, its id where nobody can spell it."""
    text = texts(ids)[0]
    if not text:
        return f"#{ids[0]}"
    seen = visible(text.replace("\n", "\\n").replace("\t", "\\t")).replace(" ", look.signs.space)
    return seen if len(seen) <= MOST_TOKEN_CELLS else seen[: MOST_TOKEN_CELLS - 1] + look.signs.more
