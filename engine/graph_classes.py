"""Name launches that are captured as graphs: a profile says which ones already while it opens."""

from dataclasses import dataclass

from engine.draft.prices import ROW_CLASSES

SMALLEST_CONTEXT = 1024
"""Positions that the launches of the shortest conversations provide for."""

CONTEXTS = tuple(SMALLEST_CONTEXT << step for step in range(11))
"""Classes of contexts, up to that of the longest conversation that can be asked for."""

CHUNK_ROWS = (64, 128, 192, 256, 384, 512, 768, 1024)
"""Rows that a chunk of a prompt is computed with, padding among them."""

MAX_LATER_GRAPHS = 44
"""Graphs kept of those that nobody named; the one not used for longest goes first."""


def context_class(num_tokens: int) -> int:
    """The power of two that serves so many positions, of at least `SMALLEST_CONTEXT`."""
    return max(SMALLEST_CONTEXT, 1 << max(num_tokens - 1, 0).bit_length())


@dataclass(frozen=True, slots=True)
class GraphClasses:
    """What is captured while a model opens; everything else when it first comes, with a notice.

    A graph of a round serves chains and trees alike, and one of a larger context changes no bit.

    Attributes:
        rows: of rounds, 1 to 32, rising.
        context_tokens: positions that rounds and proposals of the MTP head provide for, powers of
            two from `SMALLEST_CONTEXT` on, rising.
        chunk_rows: of a prompt's chunks, among `CHUNK_ROWS`, rising.
    """

    rows: tuple[int, ...] = ROW_CLASSES
    context_tokens: tuple[int, ...] = (SMALLEST_CONTEXT,)
    chunk_rows: tuple[int, ...] = CHUNK_ROWS

    def within(self, max_tokens: int) -> "GraphClasses":
        """Those that a conversation of at most ``max_tokens`` can come to."""
        most = context_class(max_tokens)
        return GraphClasses(
            self.rows,
            tuple(one for one in self.context_tokens if one <= most),
            tuple(one for one in self.chunk_rows if one <= max_tokens),
        )

    @property
    def num_graphs(self) -> int:
        """Graphs through all layers of the model: of rounds and of chunks."""
        return len(self.rows) * len(self.context_tokens) + len(self.chunk_rows)
