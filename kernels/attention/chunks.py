"""Cut the positions of a context into chunks, by absolute position alone. chunks.cuh is the same.

A chunk is what one block reads and one partial result stands for. Its size grows with its position,
about half as fast, so that a short context has blocks enough for every multiprocessor and a long
one few partials:

    positions    0 ..  1k ..  2k ..  8k .. 32k .. 128k ..
    chunk of       64    128    256    512   1,024   2,048
    chunks so far  16     24     48     96     192     256 at 256k
"""

TILE = 64
"""Positions of one step of the online softmax; a chunk is whole tiles."""

_FIRST_OCTAVE, _LAST_OCTAVE = 10, 17


def chunk_size(position: int) -> int:
    """Return the positions of the chunk that holds a position."""
    octave = min(max(position.bit_length() - 1, _FIRST_OCTAVE - 1), _LAST_OCTAVE)
    return TILE if octave < _FIRST_OCTAVE else TILE << (octave - 7) // 2


def chunk_edges(positions: int) -> tuple[int, ...]:
    """Return where chunks begin in a context of so many positions, and the end of the last."""
    edges = [0]
    while edges[-1] < positions:
        edges.append(edges[-1] + chunk_size(edges[-1]))
    return tuple(edges)


def num_chunks(positions: int) -> int:
    """Return the chunks that a context of so many positions reaches into."""
    return len(chunk_edges(positions)) - 1
