"""Every launch of the 27B's products, by default or from a table, fits the GPUs it is meant for.

Compiled for sm_90a and sm_121a without a GPU; binaries that two launches share are compiled once.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear import skinny_launch
from kernels.linear.skinny_launch import ADD_RESIDUAL, SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem, SkinnyTile, macros
from kernels.linear.tile_choice import PAIR_OP, defaults, from_row
from kernels.linear.tile_room import fits, shared_bytes
from tests.kernels.compiling import bases

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
NUM_SMS = {90: 132, 121: 48}
SHARED_OF_AN_SM = {90: 233_472, 121: 102_400}
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

REGISTERS_OF_AN_SM = 65_536
WIDE_SPILL_BYTES = 352
"""What a thread of a launch of more than 16 rows may spill on sm_90."""

GROUPS = ((34816, 5120), (16384, 5120), (14336, 5120), (12288, 5120), (10240, 5120), (6144, 5120),
          (5120, 17408), (5120, 6144), (1024, 5120))  # fmt: skip
FORMATS = ("nvfp4", "fp8_block", "e4m3_row", "bf16")


@dataclass(frozen=True)
class Launched:
    """One launch: for what GPU, with what tile, what it does with its sums."""

    capability: int
    tile: SkinnyTile
    problem: SkinnyProblem
    epilogue: int = STORE
    fp32_out: bool = False
    prepared: bool = False

    @property
    def key(self) -> object:
        chosen = tuple(macros(self.tile, self.problem).items())
        return self.capability, chosen, self.epilogue, self.fp32_out, self.prepared

    @property
    def kind(self) -> object:
        return self.capability, self.problem.format, self.tile.source, self.epilogue, self.prepared


@dataclass(frozen=True)
class Facts:
    usage: dict[str, int]
    mnemonics: Counter[str] | None


def by_default(capability: int) -> Iterator[Launched]:
    """What 1 to 32 rows launch of every shape and format of the 27B."""
    shapes = [(name, N, K, STORE, False) for name in FORMATS for N, K in GROUPS]
    shapes += [(name, 34816, 5120, SILU_PAIR, False) for name in FORMATS]
    shapes += [(name, 5120, K, ADD_RESIDUAL, False) for name in FORMATS for K in (6144, 17408)]
    shapes += [(name, 248320, 5120, STORE, True) for name in ("e4m3_row", "bf16")]
    shapes += [("bf16", 96, 5120, STORE, False)]
    for name, N, K, epilogue, fp32_out in shapes:
        paired = epilogue == SILU_PAIR
        tiles = defaults(N, K, name, CAPABILITIES[capability], paired=paired)
        for count in (8, 16, 24, 32):
            for rows, tile in tiles.launches(count):
                problem = SkinnyProblem(N, K, name, rows, paired)
                yield Launched(capability, tile, problem, epilogue, fp32_out)


def by_table(capability: int) -> Iterator[Launched]:
    """What every entry of the table that ships launches."""
    path = resources.files("kernels") / "linear" / "tiles" / f"sm_{capability}.toml"
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["tile"]:
        rows, paired = min(row["rows"], row["most_rows"]), row["op"] == PAIR_OP  # of one launch
        problem = SkinnyProblem(row["N"], row["K"], row["format"], rows, paired)
        tile, logits = from_row(row), row["N"] == 248320
        # as rounds have them: behind a norm, or silu(gate) * up, rows come as operands
        prepared = (
            tile.source != "global" and row["K"] != 6144 and not logits and row["format"] != "bf16"
        )
        epilogue = SILU_PAIR if paired else STORE
        yield Launched(capability, tile, problem, epilogue, logits, prepared)


LAUNCHES = [
    one
    for capability in CAPABILITIES
    for launched in (by_default(capability), by_table(capability))
    for one in launched
]
DISTINCT = list({one.key: one for one in LAUNCHES}.values())

DISASSEMBLED = list({one.kind: one for one in DISTINCT}.values())
"""One launch of each kind: disassembling takes longer than compiling."""


def facts_of(launched: Launched) -> Facts:
    cubin = skinny_launch.cubin(
        launched.tile,
        launched.problem,
        CAPABILITIES[launched.capability],
        launched.epilogue,
        launched.fp32_out,
        overlap=True,
        prepared=launched.prepared,
    )
    listed = mnemonics_of(cubin) if launched in DISASSEMBLED else None
    return Facts(usage_of(cubin), listed)


@pytest.fixture(scope="module")
def facts() -> dict[object, Facts]:
    """What every distinct binary uses, compiled two at a time."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(facts_of, DISTINCT)
        return {one.key: fact for one, fact in zip(DISTINCT, found, strict=True)}


def named(launched: Launched) -> str:
    return f"sm_{launched.capability} {launched.problem} {launched.tile}"


def test_shared_memory_is_within_a_blocks_and_a_multiprocessors():
    for one in LAUNCHES:
        num_sms, limit = NUM_SMS[one.capability], MAX_SHARED_BYTES[one.capability]
        held = shared_bytes(one.tile, one.problem, num_sms)
        assert fits(one.tile, one.problem, num_sms, limit), named(one)
        assert held + RESERVED <= SHARED_OF_AN_SM[one.capability], named(one)


def most_stack_bytes(launched: Launched) -> int:
    """Bytes of stack that a launch may have: sm_121 passes a tensor map's address through 8.

    On sm_90 a wide launch may spill what it was measured with: it still beats two launches.
    """
    if launched.capability == 121:
        return 16
    return WIDE_SPILL_BYTES if launched.problem.row_blocks > 2 else 0


def test_nothing_is_kept_in_local_memory(facts):
    for one in DISTINCT:
        usage = facts[one.key].usage
        assert usage["LOCAL"] == 0, named(one)
        assert usage["STACK"] <= most_stack_bytes(one), named(one)


def test_nothing_is_read_back_from_a_stack(facts):
    for one in DISASSEMBLED:
        counts = bases(facts[one.key].mnemonics)
        if facts[one.key].usage["STACK"] <= 8:
            assert counts["LDL"] == 0, named(one)
            assert counts["STL"] <= counts["UTMALDG"], named(one)


def test_a_blocks_threads_find_their_registers(facts):
    for one in DISTINCT:
        a_thread = -(-facts[one.key].usage["REG"] // 8) * 8
        of_all = a_thread * 32 * one.tile.warps
        assert of_all <= REGISTERS_OF_AN_SM, named(one)


def test_codes_are_decoded_by_the_instructions_there_are(facts):
    for one in DISASSEMBLED:
        names = set(facts[one.key].mnemonics)
        four = one.problem.format == "nvfp4"
        assert ("F2FP.F16.E2M1.UNPACK_B" in names) == (four and one.capability == 121), named(one)
        scaled_or_coded = one.problem.format != "bf16"
        assert ("F2FP.F16.E4M3.UNPACK_B" in names) == scaled_or_coded, named(one)


def test_products_run_on_the_matrix_unit_and_weights_come_by_the_copy_engine(facts):
    for one in DISASSEMBLED:
        names = set(facts[one.key].mnemonics)
        unit = "HMMA.16816.F32.BF16" if one.problem.format == "bf16" else "HMMA.16816.F32"
        unit = "HGMMA.64" if one.tile.is_streamed else unit
        assert {name for name in names if name.startswith(("HMMA", "HGMMA"))} == {unit}, named(one)
        assert "UTMALDG.4D" in names, named(one)


def test_rows_that_come_as_operands_are_brought_by_the_copy_engine(facts):
    for one in DISASSEMBLED:
        copies = bases(facts[one.key].mnemonics)["UBLKCP"]
        whole = 2 if one.tile.is_streamed else one.problem.row_blocks  # at the start, and later on
        assert copies == (whole if one.prepared else 0), named(one)


def test_no_sum_is_added_by_an_atomic(facts):
    for one in DISASSEMBLED:
        counts = bases(facts[one.key].mnemonics)
        assert not counts.keys() & {"RED", "ATOM", "REDG"}, named(one)
        counted = one.tile.is_streamed and one.tile.finishers > 0  # slices, not sums
        assert counts["ATOMG"] == counted, named(one)
