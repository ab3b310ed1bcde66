"""Every chunk of a context is computed once, by blocks that have about alike to move."""

import ctypes
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels import attention
from kernels.attention.chunks import chunk_edges, num_chunks
from kernels.attention.shares import NO_MORE, share_out, share_table

sizes = st.lists(st.sampled_from([64, 128, 256, 512]), min_size=1, max_size=60).map(sorted)
bins = st.integers(1, 40)
streams = st.integers(1, 3)


@settings(max_examples=60, deadline=None)
@given(sizes, bins, streams)
def test_every_chunk_is_somebodys_and_nobody_elses(sizes, bins, streams):
    shares = share_out(sizes, bins, streams)
    dealt = [chunk for share in shares for stream in share for chunk in stream]
    assert sorted(dealt) == list(range(len(sizes)))
    assert len(shares) == bins
    assert {len(share) for share in shares} == {streams}


@settings(max_examples=60, deadline=None)
@given(sizes, bins, streams)
def test_a_block_begins_with_the_chunk_that_its_number_names(sizes, bins, streams):
    for block, share in enumerate(share_out(sizes, bins, streams)):
        first = share[0][:1]
        assert first == ([len(sizes) - 1 - block] if block < len(sizes) else [])


@settings(max_examples=60, deadline=None)
@given(sizes, bins, streams)
def test_no_block_has_a_whole_chunk_more_than_another(sizes, bins, streams):
    shares = share_out(sizes, bins, streams)
    loads = [sum(sizes[chunk] for stream in share for chunk in stream) for share in shares]
    for share, load in zip(shares, loads, strict=True):
        dealt = [chunk for stream in share for chunk in stream]
        if dealt:
            assert load - sizes[min(dealt)] <= min(loads)


@settings(max_examples=60, deadline=None)
@given(sizes, bins, streams)
@example([64, 64, 64, 512], 1, 2)
def test_no_stream_of_a_block_has_a_whole_chunk_more_than_another(sizes, bins, streams):
    for share in share_out(sizes, bins, streams):
        loads = [sum(sizes[chunk] for chunk in stream) for stream in share]
        for stream, load in zip(share, loads, strict=True):
            assert not stream or load - sizes[min(stream)] <= min(loads)


@pytest.mark.parametrize(
    ("context", "bound"), [(8192, 4), (32_768, 16), (50_000, 25), (65_536, 32)]
)
def test_blocks_of_a_large_gpu_have_few_tiles_more_than_the_mean(context, bound):
    edges = chunk_edges(context)
    shares = share_out([high - low for low, high in pairwise(edges)], 33, 2)
    tiles = [
        sum(edges[chunk + 1] - edges[chunk] for stream in share for chunk in stream) / 64
        for share in shares
    ]
    assert max(tiles) <= bound


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("partial_bytes", [6144, 98_304])
def test_a_table_leads_every_stream_through_its_share(streams, partial_bytes):
    """Of 16 rows a partial result weighs as much as 96 positions: chunks go to other blocks."""
    context, bins = 8192, 12
    chunks = num_chunks(context)
    table = share_table(context, bins, streams, 1024, partial_bytes)
    edges = chunk_edges(context)
    sizes = [(high - low) * 1024 + partial_bytes for low, high in pairwise(edges)]
    by_positions = share_table(context, bins, streams, 1024, 0)
    assert table.equal(by_positions) == (partial_bytes == 6144)
    assert table.shape == (chunks - bins, chunks + (streams - 1) * bins)
    for active, found in enumerate(table.tolist(), bins + 1):
        for block, share in enumerate(share_out(sizes[:active], bins, streams)):
            for stream, taken in enumerate(share):
                first = (
                    found[chunks + (stream - 1) * bins + block] if stream else active - 1 - block
                )
                walked = []
                while first != NO_MORE:
                    walked.append(first)
                    first = found[first]
                assert walked == taken


def test_where_every_chunk_has_a_block_there_is_no_table():
    assert share_table(1024, 16, 1, 1024, 6144).numel() == 0


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """What the blocks of verify_work.cuh take of a context, on the host: two streams a block."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no host compiler: what blocks take is seen on a GPU alone")
    folder, sources = tmp_path_factory.mktemp("work"), Path(attention.__file__).parent
    text = (sources / "chunks.cuh").read_text() + (sources / "verify_work.cuh").read_text()
    text = re.sub(r"#(pragma once|include .*)", "", text).replace("__forceinline__", "inline")
    text = f"""
#include <algorithm>
#define __device__
using std::max; using std::min;
constexpr int FILLS = 2, SHARE = 6, STREAMS = 2;
struct {{ unsigned x; }} blockIdx;
struct Problem {{
  const int *start, *depths;
  const short* shares;
  int rows, heads, groups, group_rows, row_groups, bins, chunks;
}};
{text}
extern "C" int walk(int start, int rows, int bins, int chunks, const short* shares, int* taken) {{
  const Problem p = {{&start, nullptr, shares, rows, 6, 1, rows, 1, bins, chunks}};
  int count = 0;
  for (blockIdx.x = 0; blockIdx.x < bins; ++blockIdx.x) {{
    const Work work = work_of(p);
    for (int stream = 0; stream < STREAMS; ++stream)
      for (Chunk chunk = work.chunk(work.first_of(p, stream)); chunk.number >= 0;
           chunk = work.chunk(work.after(p, chunk.number)))
        taken[count++] = chunk.number;
  }}
  return count;
}}
"""
    (folder / "work.cpp").write_text(text)
    library = folder / "work.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "work.cpp")], check=True
    )
    return ctypes.CDLL(str(library)).walk


@pytest.mark.parametrize("start", [0, 63, 64, 1023, 2047, 4000, 8191, 20_000, 32_752])
@pytest.mark.parametrize("bins", [3, 16, 33])
def test_blocks_of_the_device_take_every_chunk_of_a_context_once(walk, start, bins):
    context, rows = 32_768, 16
    chunks = num_chunks(context)
    table = share_table(context, bins, 2, 1024, 6144)
    taken = (ctypes.c_int * (2 * chunks))()
    count = walk(start, rows, bins, chunks, ctypes.c_void_p(table.data_ptr()), taken)
    assert sorted(taken[:count]) == list(range(num_chunks(start + rows)))
