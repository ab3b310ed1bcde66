"""Chunks are cut by absolute position alone, alike in Python and on the device."""

import ctypes
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from kernels import attention
from kernels.attention.chunks import TILE, chunk_edges, chunk_size, num_chunks

FULL = 262_144


def test_edges_are_whole_tiles_and_sizes_only_grow():
    edges = chunk_edges(FULL)
    sizes = [high - low for low, high in pairwise(edges)]
    assert all(edge % TILE == 0 for edge in edges)
    assert sizes == sorted(sizes)
    assert all(low % size == 0 for low, size in zip(edges, sizes, strict=False))


def test_a_longer_context_has_the_edges_of_a_shorter_one():
    whole = chunk_edges(FULL)
    for positions in (1, 64, 65, 1000, 1024, 1025, 5000, 40_000):
        edges = chunk_edges(positions)
        assert edges == whole[: len(edges)]
        assert edges[-2] < positions <= edges[-1]


@pytest.mark.parametrize(
    ("positions", "chunks"),
    [(1024, 16), (2048, 24), (8192, 48), (32_768, 96), (131_072, 192), (FULL, 256)],
)
def test_the_table_of_the_docstring(positions, chunks):
    assert num_chunks(positions) == chunks


@pytest.fixture(scope="module")
def device_code(tmp_path_factory):
    """chunks.cuh as a host library."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no host compiler: the device's edges are compared on a GPU alone")
    folder = tmp_path_factory.mktemp("chunks")
    text = (Path(attention.__file__).parent / "chunks.cuh").read_text()
    text = text.replace("__device__ __forceinline__", "static inline").replace("#pragma once", "")
    text += """
extern "C" int of(int position) { return chunk_of(position); }
extern "C" int low(int chunk) { return chunk_span(chunk).low; }
extern "C" int high(int chunk) { return chunk_span(chunk).high; }
"""
    (folder / "chunks.cpp").write_text(text)
    library = folder / "chunks.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "chunks.cpp")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def test_the_device_cuts_alike(device_code):
    edges = chunk_edges(2 * FULL)
    for chunk, (low, high) in enumerate(pairwise(edges)):
        assert (device_code.low(chunk), device_code.high(chunk)) == (low, high)
        assert high - low == chunk_size(low) == chunk_size(high - 1)
        for position in (low, low + 1, high - 1):
            assert device_code.of(position) == chunk
