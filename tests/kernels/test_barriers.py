"""Barriers in shared memory keep the rules of the memory model, on every path of the PTX.

What breaks them may run well for years: no test of results sees it.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import pytest

from kernels.attention import verify_launch
from kernels.attention.verify_tile import default as verify_tile
from kernels.common import nvrtc
from kernels.common.chips import Capability
from kernels.delta import prefill_launch, walk_launch
from kernels.delta.prefill_tile import BY_FOUR_WARPS, BY_ONE_WARP
from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem, SkinnyTile
from kernels.linear.tile_choice import candidates
from kernels.mixer import launch as mixer_launch
from tests.kernels.ptx import Paths, ptx_of

MEETINGS = ("bar.sync", "barrier.sync", "bar.warp.sync", "bar.red", "barrier.cluster.wait")
USES = ("mbarrier.arrive", "mbarrier.expect_tx", "mbarrier::complete_tx")

Compile = Callable[[Capability], bytes]


def skinny(
    shape: tuple[int, int, str, int], splits: int, *, finishers: bool, streamed: bool = False
) -> Compile:
    problem = SkinnyProblem(*shape)

    def compiled(capability: Capability) -> bytes:
        def fits(tile: SkinnyTile) -> bool:
            chosen = tile.splits, tile.finishers > 0, tile.is_streamed
            return chosen == (splits, finishers, streamed)

        tile = next(one for one in candidates(problem, capability) if fits(one))
        return skinny_launch.cubin(tile, problem, capability, overlap=True, prepared=True)

    return compiled


def verify(kernel: str, kv_bytes: int) -> Compile:
    def compiled(capability: Capability) -> bytes:
        sm = 90 if capability == (9, 0) else 121
        tile = verify_tile(5, 6, sm, 32_768, kv_bytes)
        return verify_launch.cubin(kernel, tuple(tile.macros(6).items()), True, capability)

    return compiled


BOTH = ((9, 0), (12, 1))
KERNELS: list[tuple[str, Compile, tuple[Capability, ...], int]] = [
    # name, how it is compiled, for what, places where it waits for other blocks of its cluster
    ("prefill walk", partial(prefill_launch.walk_cubin, BY_ONE_WARP), BOTH, 0),
    ("prefill walk, four warps", partial(prefill_launch.walk_cubin, BY_FOUR_WARPS), BOTH[:1], 0),
    ("walk", lambda chip: walk_launch.cubin(128, 128, chip, gated=False), BOTH, 0),
    ("gated walk", lambda chip: walk_launch.cubin(128, 128, chip, gated=True), BOTH, 1),
    ("team", lambda chip: walk_launch.team_cubin(128, 128, chip, gated=False), BOTH, 0),
    ("gated team", lambda chip: walk_launch.team_cubin(128, 128, chip, gated=True), BOTH, 1),
    ("gated mixer", lambda chip: mixer_launch.cubin(3, 5120, chip, gated=True), BOTH, 1),
    ("verify", verify("verify", 2), BOTH, 0),
    ("verify of codes", verify("verify_codes", 1), BOTH, 0),
    ("product", skinny((34816, 5120, "nvfp4", 8), 1, finishers=True), BOTH, 0),
    ("product, finished behind", skinny((34816, 5120, "nvfp4", 8), 8, finishers=True), BOTH, 3),
    ("product, K shared", skinny((5120, 17408, "nvfp4", 32), 8, finishers=False), BOTH[:1], 1),
    ("streamed product", skinny((34816, 5120, "nvfp4", 32), 1, finishers=False, streamed=True),
     BOTH[:1], 0),
    ("streamed product, K shared",
     skinny((5120, 17408, "nvfp4", 32), 2, finishers=False, streamed=True), BOTH[:1], 1),
]  # fmt: skip
BUILDS = [(name, chip) for name, _, chips, _ in KERNELS for chip in chips]


@cache
def paths(name: str, chip: Capability) -> Paths:
    """The PTX of what a kernel's launch would compile."""
    build = next(one[1] for one in KERNELS if one[0] == name)
    noted: list[tuple[Path, Mapping[str, int]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            nvrtc, "compile_file", lambda path, _chip, macros: noted.append((path, macros)) or b""
        )
        build(chip)
    [(path, macros)] = noted
    return Paths(ptx_of(path, nvrtc.architecture(chip), macros))


def meets(line: str) -> bool:
    return line.startswith(MEETINGS)


def uses(line: str) -> bool:
    return any(word in line for word in USES)


def waits(line: str) -> bool:
    return "mbarrier.try_wait" in line


def waits_for_others(line: str) -> bool:
    return waits(line) and ".cluster." in line


def acquires(line: str) -> bool:
    """Whether a wait or a fence orders memory for the whole cluster."""
    return ".acquire.cluster." in line or bool(re.fullmatch(r"fence\.acquire\.\S+\.cluster", line))


def releases(line: str) -> bool:
    return ".release.cluster." in line or bool(re.fullmatch(r"fence\.release\.\S+\.cluster", line))


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_a_barrier_is_set_up_by_the_thread_that_uses_it_or_behind_a_meeting(build):
    """One that each of some threads sets up is another's to use behind a meeting alone."""
    found = paths(*build)
    for at in found.all(lambda line: "mbarrier.init" in line):
        assert found.reached(at, waits, meets) == []
        [barrier] = re.findall(r"\[(%\w+)\]", found.lines[at])
        if found.is_made_of(barrier, "%tid.x"):
            used = found.reached(at, uses, meets)
            assert [line for line in used if f"[{barrier}]" not in line] == []


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_what_arrives_at_a_clusters_barrier_waits_there_before_it_ends(build):
    """Until then others may not have begun, and behind the end there is nothing to write to."""
    found = paths(*build)
    places = found.all(lambda line: "barrier.cluster.arrive" in line)
    is_cluster = next(waits for name, _, _, waits in KERNELS if name == build[0]) > 0
    assert bool(places) == is_cluster
    for at in places:
        ends = found.reached(at, lambda line: line == "ret", lambda line: "cluster.wait" in line)
        assert ends == []


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_what_orders_memory_of_other_blocks_has_the_scope_of_the_cluster(build):
    found = paths(*build)
    expected = next(waits for name, _, _, waits in KERNELS if name == build[0])
    places = found.all(waits_for_others)
    assert len(places) == expected
    for at in places:  # behind it is the branch back, and then what may acquire
        assert acquires(found.lines[at]) or acquires(found.lines[at + 2])
    for at in found.all(lambda line: "mbarrier.arrive" in line and "shared::cluster" in line):
        assert ".cluster." in found.lines[at]
        assert releases(found.lines[at]) or releases(found.lines[at - 1])
