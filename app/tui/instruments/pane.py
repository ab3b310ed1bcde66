"""The pane beside the conversation: its sections one below the other, as many rows as there are."""

from collections.abc import Callable, Iterator

from app.tui.instruments import sections
from app.tui.instruments.bars import Row
from app.tui.instruments.reading import Reading, Tones, tones_of
from app.tui.instruments.sections import Ranked
from app.tui.theme import Look

COLUMNS_FOR_PANE = 112

Section = Callable[[Reading, Tones, int, Look], Iterator[Ranked]]

OPEN: tuple[Section, ...] = (
    sections.speed,
    sections.rounds,
    sections.phases,
    sections.bandwidth,
    sections.context,
    sections.machine,
)
LOADING: tuple[Section, ...] = (sections.loading, sections.machine)


def pane_rows(reading: Reading, width: int, height: int, look: Look) -> list[Row]:
    """The rows of the pane; what has the lowest rank leaves first where there are too many."""
    tones = tones_of(look, live=reading.is_live or reading.phase == "loading")
    ranked: list[Ranked] = []
    for section in LOADING if reading.phase == "loading" else OPEN:
        found = list(section(reading, tones, width, look))
        if found and ranked:
            ranked.append((len(ranked) // 100, []))  # a blank row leaves before any other
        ranked += found
    while len(ranked) > height:
        lowest = min(rank for rank, _ in ranked)
        last = max(at for at, (rank, _) in enumerate(ranked) if rank == lowest)
        del ranked[last]
    return [row for _, row in ranked]
