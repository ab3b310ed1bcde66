"""Share the chunks of a context out among the blocks of a KV head: data that changes no bit.

A chunk moves its keys and values, and one partial result for each row. Chunks are dealt out from
the last and longest on, each to the block that has the fewest bytes by then, and there to the
stream that has. So the first round gives each block one chunk, in turn: what a block begins with
follows from its number alone, and is asked for before it has read anything else.
"""

from functools import cache
from heapq import heapreplace
from itertools import pairwise

import torch

from kernels.attention.chunks import chunk_edges

NO_MORE = -1

Share = tuple[list[int], ...]
"""The chunks of a block, for each of its streams, in the order of their computation."""


def share_out(sizes: list[int], bins: int, streams: int) -> list[Share]:
    """Deal chunks out, from the last on.

    Args:
        sizes: what each chunk of the context weighs, by number; never less than the one before.
        bins: blocks.
        streams: of a block.
    """
    shares: list[Share] = [tuple([] for _ in range(streams)) for _ in range(bins)]
    loads = [[0] * streams for _ in range(bins)]
    blocks = [(0, number) for number in range(bins)]
    for chunk in reversed(range(len(sizes))):
        load, block = blocks[0]
        of_streams = loads[block]
        stream = of_streams.index(min(of_streams))
        shares[block][stream].append(chunk)
        of_streams[stream] += sizes[chunk]
        heapreplace(blocks, (load + sizes[chunk], block))
    return shares


@cache
def share_table(
    max_context: int,
    bins: int,
    streams: int,
    position_bytes: int,
    partial_bytes: int,
) -> torch.Tensor:
    """Tabulate the shares of every context of a class that has more chunks than blocks.

    Args:
        max_context: the context class.
        bins: blocks of a KV head and row group.
        streams: of a block.
        position_bytes: that a block reads of a position: key and value.
        partial_bytes: that a block writes of a chunk.

    Returns:
        int16 [contexts, chunks + (streams - 1) * bins] on the CPU, from that of bins + 1 chunks on:
        behind each chunk the one that its stream takes next, then the first chunk of each block's
        second stream, and of more. NO_MORE where there is none. A first stream's first chunk is
        the block's number from the last on.
    """
    edges = chunk_edges(max_context)
    sizes = [(high - low) * position_bytes + partial_bytes for low, high in pairwise(edges)]
    chunks = len(sizes)
    table = torch.full((chunks - bins, chunks + (streams - 1) * bins), NO_MORE, dtype=torch.int16)
    for active, found in enumerate(table, bins + 1):
        for block, share in enumerate(share_out(sizes[:active], bins, streams)):
            for stream, taken in enumerate(share):
                for chunk, following in pairwise(taken):
                    found[chunk] = following
                if stream > 0 and taken:
                    found[chunks + (stream - 1) * bins + block] = taken[0]
    return table
