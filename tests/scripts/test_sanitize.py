"""The script whose launches a sanitizer watches: every family, and every kind of skinny launch."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import sanitize

from kernels import FAMILY_MODULES
from kernels.common.family import load_families
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear.problems import FORMATS
from kernels.linear.streamed import GROUP_TILES
from kernels.linear.tile import CLUSTERS, SOURCES
from kernels.linear.tile_room import fits, most_tiles


@pytest.mark.parametrize("name", FAMILY_MODULES)
def test_every_family_has_something_to_watch(name):
    (family,) = load_families([name])
    watched = {case.op for case in sanitize.small_cases(family)}
    assert watched == set(family.ops)
    assert watched or name in sanitize.MORE


def test_functions_take_turns_so_that_few_seconds_see_all():
    (family,) = load_families(["norm"])
    first = [about.split()[0] for about, _ in sanitize.calls_of(family)][: len(family.ops)]
    assert set(first) == set(family.ops)


def test_families_take_turns_too():
    rows = [[("a", None), ("b", None)], [], [("c", None)]]
    assert [about for about, _ in sanitize.in_turn(rows)] == ["a", "c", "b"]


@pytest.mark.parametrize(("gpu", "num_sms"), [(90, 132), (121, 48)])
def test_every_kind_of_skinny_launch_is_watched(gpu, num_sms):
    found = list(sanitize.skinny_tiles(MAX_SHARED_BYTES[gpu], num_sms))
    kinds = {(one.format, tile.splits, tile.source) for one, tile, _ in found}
    every = {(name, n, source) for name in FORMATS for n in CLUSTERS for source in sanitize.KEEPING}
    # little shared memory has no room for 24 rows of activations in one block
    assert all(n == 1 and source == "shared" for _, n, source in every - kinds)
    assert gpu == 121 or kinds == every
    assert {bool(tile.finishers) for _, tile, _ in found} == {False, True}
    several = [most_tiles(t, one, num_sms) > t.tiles for one, t, _ in found if t.finishers]
    assert sum(several) > len(several) // 2
    assert {1, 2, 3} <= {tile.tiles for _, tile, _ in found}
    rows_and_overlap = {(one.rows, overlap) for one, _, overlap in found}
    assert rows_and_overlap == {(rows, on) for rows in (8, 16, 24) for on in (False, True)}


def test_streamed_launches_of_every_cluster_are_watched_on_a_hopper():
    found = list(sanitize.streamed_tiles(132))
    assert [tile.splits for _, tile, _ in found] == list(CLUSTERS)
    assert {*sanitize.KEEPING, *(tile.source for _, tile, _ in found)} == set(SOURCES)
    assert all(fits(tile, one, 132, MAX_SHARED_BYTES[90]) for one, tile, _ in found)
    assert {one.rows for one, _, _ in found} == {24, 32}
    assert any(tile.tiles % GROUP_TILES for _, tile, _ in found)
