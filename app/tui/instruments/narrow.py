"""The instruments of a narrow terminal: two rows, or one, below the message box."""

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from app.rates import TurnRates
from app.tui.instruments.bars import Row, cells_of, columns, line
from app.tui.instruments.reading import Reading, Tones, tones_of
from app.tui.lines import short
from app.tui.theme import Look
from engine.records import PHASES

COLUMNS_FOR_TWO, ROWS_FOR_TWO = 80, 24
COURSE_COLUMNS, ACCEPTED_COLUMNS, BAR_CELLS = 15, 16, 10


class Part(NamedTuple):
    """A part of a row; parts of a low rank leave first when the row is narrow.

    A ``picture`` stands beside the part before it, which it shows once more.
    """

    rank: int
    row: Row
    is_picture: bool = False


def two_rows(reading: Reading, width: int, look: Look) -> list[Row]:
    """Speed, acceptance and bandwidth; below them phases, positions and context."""
    tones = tones_of(look, live=reading.is_live)
    above = [*_speed(reading, tones, look), *_accepted(reading, tones, look)]
    above += _bandwidth(reading, tones, look)
    below = [*_phases(reading, tones), *_positions(reading, tones), *_context(reading, tones)]
    return [_fit(above, width, look), _fit(below, width, look)]


def one_row(reading: Reading, width: int, look: Look) -> list[Row]:
    """The figures of a small terminal."""
    tones = tones_of(look, live=reading.is_live)
    parts = [*_speed(reading, tones, look)[:1], *_accepted(reading, tones, look)[:1]]
    share = reading.share_of_read
    if share is not None:
        parts.append(Part(7, _pair("bw ", f"{share:.0%}", tones, tones.label, tones.text)))
    return [_fit([*parts, *_context(reading, tones)], width, look)]


def _speed(reading: Reading, tones: Tones, look: Look) -> list[Part]:
    rates = reading.rates
    now = rates.now_tok_s if rates is not None else None
    if rates is None or (now is None and not rates.is_over):
        return [Part(9, [Segment("no answer yet", tones.label)])]
    parts = [Part(9, _now(rates, now, tones, look))]
    if (mean := rates.mean_tok_s) is not None:
        parts.append(Part(4, _pair("mean ", f"{mean:.1f}", tones, tones.label, tones.text)))
    if (first := rates.ttft_s) is not None:
        parts.append(Part(3, _pair("TTFT ", f"{first:.2f} s", tones, tones.label, tones.text)))
    return parts


def _now(rates: TurnRates, now: float | None, tones: Tones, look: Look) -> Row:
    """Tokens a second and their course; of an answer of one token, which has no speed, that one."""
    if now is None:
        return _pair(f"{rates.total_tokens}", " token", tones, tones.strong)
    values = rates.course.values[-2 * COURSE_COLUMNS :]
    pairs = [max(values[at : at + 2]) for at in range(0, len(values), 2)]
    drawn = columns(pairs, max(pairs, default=0.0), 1, look.signs)[0]
    row = _pair(f"{now:.1f}", " tok/s", tones, tones.strong)
    return [*row, Segment(f" {drawn}", tones.speed)]


def _accepted(reading: Reading, tones: Tones, look: Look) -> list[Part]:
    rates = reading.rates
    if rates is None or not rates.num_tested:
        return []
    last = rates.rounds[-ACCEPTED_COLUMNS:]
    most = max(one.tested for one in last)
    text = _pair(f"{rates.accepted_a_round or 0:.2f}", f"/{most} taken", tones)
    drawn = columns([one.accepted for one in last], max(most, 1), 1, look.signs)[0]
    return [Part(8, text), Part(5, [Segment(drawn, tones.accepted)], is_picture=True)]


def _bandwidth(reading: Reading, tones: Tones, look: Look) -> list[Part]:
    recent = reading.rates.recent if reading.rates is not None else None
    if recent is None:
        ceiling = f"reads {reading.read_gb_s:,.1f} GB/s" if reading.read_gb_s else ""
        return [Part(2, [Segment(ceiling, tones.label)])] if ceiling else []
    share = reading.share_of_read
    text = _pair(f"{recent.gb_s:.1f}", " GB/s", tones)
    if share is None:
        return [Part(7, text)]
    text.append(Segment(f" {share:.0%}", tones.text))
    bar = line(share, BAR_CELLS, tones.bandwidth, tones.rest, look.signs)
    return [Part(7, text), Part(2, bar, is_picture=True)]


def _phases(reading: Reading, tones: Tones) -> list[Part]:
    recent = reading.rates.recent if reading.rates is not None else None
    if recent is None:
        return []
    row: Row = []
    for name, tone in zip(PHASES, tones.phases, strict=True):
        row += [Segment(f"{name} ", tone), Segment(f"{recent.phase_ms[name]:.1f} ", tones.text)]
    return [Part(8, [*row, Segment("ms", tones.label)])]


def _positions(reading: Reading, tones: Tones) -> list[Part]:
    shares = reading.rates.positions.shares[:4] if reading.rates is not None else ()
    if not shares:
        return []
    figures = " ".join(f"{one:.2f}".removeprefix("0") for one in shares)
    return [Part(6, _pair("pos ", figures, tones, tones.label, tones.text))]


def _context(reading: Reading, tones: Tones) -> list[Part]:
    if reading.info is None:
        return []
    held = reading.rates.context_tokens if reading.rates is not None else 0
    share = reading.share_of_context
    used = f"{short(held)}/{short(reading.info.max_context_tokens)}"
    return [Part(9, [
        Segment("context ", tones.label), Segment(used, tones.text),
        Segment(f" {share:.0%}", tones.of_context(share)),
    ])]  # fmt: skip


def _pair(
    left: str, right: str, tones: Tones, first: Style | None = None, second: Style | None = None
) -> Row:
    return [Segment(left, first or tones.text), Segment(right, second or tones.label)]


def _fit(parts: list[Part], width: int, look: Look) -> Row:
    """Join the parts that fit; the lowest ranks leave first and the order stays."""
    mark = Segment(f" {look.signs.side} ", look.faint)
    kept = list(parts)
    while len(kept) > 1 and _cells(kept) > width - 1:
        kept.remove(min(kept, key=lambda part: part.rank))
    joined: Row = [Segment(" ")]
    for at, part in enumerate(kept):
        before = Segment(" ") if part.is_picture else mark
        joined += [before, *part.row] if at else part.row
    return joined


def _cells(parts: list[Part]) -> int:
    between = sum(1 if part.is_picture else 3 for part in parts[1:])
    return sum(cells_of(part.row) for part in parts) + between
