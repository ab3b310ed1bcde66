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
    own_positions: int,
) -> torch.Tensor:
    """Tabulate the shares of every context of a class that has more chunks than blocks.

    Args:
        max_context: the context class.
        bins: blocks of a KV head and row group.
        streams: of a block.
        position_bytes: that a block reads of a position: key and value.
        partial_bytes: that a block writes of a chunk.
        own_positions: that could be read while the rows' own, in the last chunk, are looked up.

    Returns:
        int16 [chunks - bins, bins, passes, streams] on the CPU: the first of contexts of bins + 1
        chunks. NO_MORE behind the chunks of a stream.
    """
    edges = chunk_edges(max_context)
    sizes = [(high - low) * position_bytes + partial_bytes for low, high in pairwise(edges)]
    tables: list[list[Share]] = []
    for active in range(bins + 1, len(edges)):
        last = sizes[active - 1] + own_positions * position_bytes
        tables.append(share_out([*sizes[: active - 1], last], bins, streams))
    passes = 1 + max((len(s) for table in tables for share in table for s in share), default=0)
    padded = [
        [[s + [NO_MORE] * (passes - len(s)) for s in share] for share in table] for table in tables
    ]
    found = torch.tensor(padded, dtype=torch.int16).view(len(tables), bins, streams, passes)
    return found.transpose(2, 3).contiguous()
