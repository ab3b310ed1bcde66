"""Draw weights and rows for the products of many rows, and prove one product or expansion."""

import torch

from kernels.common import interpreter
from kernels.common.compare import Tolerance, beyond_tolerance, different_bits
from kernels.linear import expand as expansion
from kernels.linear.laws import rounded_rows
from kernels.linear.middle import middle_linear
from kernels.linear.middle_tile import MiddleTile, default
from kernels.linear.pack import (
    pack_bf16,
    pack_e4m3_row,
    pack_fp8_block,
    pack_nvfp4,
    stored_codes,
)
from kernels.linear.prefill_fp8 import PrefillTile, fp8_prefill_linear
from kernels.linear.reference import dequantise, exact_values
from kernels.linear.requantise import requantise
from kernels.linear.weight import Nvfp4Weight, Weight, format_name

AXES = ("T", "N")
SPREAD = "nvfp4_spread"
FORMATS = ("nvfp4", SPREAD, "fp8_block", "e4m3_row", "bf16")
WIDTHS = {"nvfp4": 336, SPREAD: 336, "fp8_block": 300, "e4m3_row": 301, "bf16": 297}
"""A K of each format that is no whole number of steps."""

TRUTH = "within its bound of fp64"
ROWS = "rows stand alone"
NAN = "a NaN stays in its row"
ORDER = "bits of the stored order"
BITS = "bits of the reference"
MOVED = "weights move by their bound"
CODE = torch.float8_e4m3fn

Verdicts = dict[str, str | None]

generator = torch.Generator().manual_seed(0)


def codes_of(N: int, K: int) -> torch.Tensor:
    """All finite e4m3 codes, at random."""
    codes = torch.randint(0, 255, (N, K), generator=generator).to(torch.uint8)
    codes[codes == 0x7F] = 0x01
    return codes.view(torch.float8_e4m3fn)


def make(name: str, N: int, K: int) -> Weight:
    """A weight of every finite code; of NVFP4 also every scale from 2^-9 to 448."""
    if name == "bf16":
        return pack_bf16(torch.randn(N, K, generator=generator).bfloat16())
    if name == "fp8_block":
        scales = torch.rand(-(-N // 128), -(-K // 128), generator=generator) + 0.1
        return pack_fp8_block(codes_of(N, K), scales.bfloat16())
    if name == "e4m3_row":
        return pack_e4m3_row(codes_of(N, K), torch.rand(N, generator=generator) + 0.1)
    codes = torch.randint(0, 256, (N, K // 2), generator=generator).to(torch.uint8)
    scales = torch.randint(0, 127, (N, K // 16), generator=generator).to(torch.uint8)
    scales = scales.view(torch.float8_e4m3fn)
    return pack_nvfp4(codes, scales, torch.tensor(0.0123), spread=name == SPREAD)


def as_stored(weight: Nvfp4Weight) -> Nvfp4Weight:
    """The same numbers with their codes in the order of checkpoints."""
    return Nvfp4Weight(stored_codes(weight), weight.scale_runs, weight.row_scales, weight.K)


def rows_of(T: int, K: int) -> torch.Tensor:
    """Rows of a wider matrix, one of them a thousand times the others."""
    wide = torch.randn(T, K + 40, generator=generator).bfloat16()
    wide[T // 2] *= 1000
    return wide[:, 40:]


def poisoned(T: int, N: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Output rows of a wider and longer matrix, filled with NaN: a fault writes no one's memory."""
    return torch.full((T + 1, N + 8), float("nan"), dtype=dtype)[:T, :N]


def written_outside(out: torch.Tensor) -> str | None:
    """Say whether anything around a poisoned output was written."""
    T, N = out.shape
    around = torch.as_strided(out, (T + 1, N + 8), out.stride(), 0)
    clean = around[T:].isnan().all() and around[:, N:].isnan().all()
    return None if clean else "wrote outside of its output"


def bound_of(x: torch.Tensor, operand: torch.Tensor, steps_scaled: bool = False) -> torch.Tensor:
    """Largest error of fp32 sums of exact products: one rounding an addition, a few for scales.

    K additions lose at most 2^-24 of the sum of magnitudes each, in any order.
    """
    num_roundings = x.shape[1] + (2 * x.shape[1] // 128 if steps_scaled else 0) + 3
    return num_roundings * 2.0**-24 * (x.double().abs() @ operand.abs().t())


def outside(got: torch.Tensor, truth: torch.Tensor, bound: torch.Tensor) -> str | None:
    """Say where an output leaves its bound plus one rounding to its dtype."""
    rounding = 2.0**-8 if got.dtype == torch.bfloat16 else 2.0**-24
    excess = ((got.double() - truth).abs() - bound).clamp(min=0.0)
    excess = torch.where(got.isnan(), torch.nan, excess)
    size = torch.where(got.isnan(), torch.nan, truth.abs() + bound)
    one_rounding = Tolerance(rounding, 1e-40, "one rounding of the sum")
    return beyond_tolerance(size + excess, size, one_rounding, AXES)


def prove_product(name: str, T: int, N: int, K: int, tile: MiddleTile | None = None) -> Verdicts:
    """Prove `middle_linear` on one product, T at least 4."""
    generator.manual_seed(0)
    weight, x = make(name, N, K), rows_of(T, K)
    kind = format_name(weight)
    tile = default(kind, N, -(-K // 128), T) if tile is None else tile
    folded = kind == "fp8_block" and tile.fold_scale
    operand = dequantise(weight).double() if folded else exact_values(weight)
    truth = x.double() @ operand.t()
    bound = bound_of(x, operand, steps_scaled=kind == "fp8_block")
    verdicts: Verdicts = {}
    for dtype in (torch.bfloat16, torch.float32):
        out = middle_linear(x, weight, tile=tile, out=poisoned(T, N, dtype))
        fault = outside(out, truth, bound) or written_outside(out)
        verdicts[TRUTH] = verdicts.get(TRUTH) or fault
    whole, some, lame = poisoned(T, N), poisoned(3, N), poisoned(T, N)
    middle_linear(x, weight, tile=tile, out=whole)
    middle_linear(x[1:4], weight, tile=tile, out=some)
    verdicts[ROWS] = different_bits(some, whole[1:4], AXES)
    hurt = x.clone()
    hurt[2, [0, K - 1]] = float("nan")
    middle_linear(hurt, weight, tile=tile, out=lame)
    other = torch.arange(T) != 2
    lost = None if lame[2].isnan().all() else "a NaN input did not reach its row"
    verdicts[NAN] = lost or different_bits(lame[other], whole[other], AXES)
    if isinstance(weight, Nvfp4Weight) and weight.spread:
        stored = middle_linear(x, as_stored(weight), tile=tile, out=poisoned(T, N))
        verdicts[ORDER] = different_bits(whole, stored, AXES)
    return verdicts


def prove_expansion(name: str, N: int, K: int) -> Verdicts:
    """Prove `expand`, bit for bit."""
    generator.manual_seed(0)
    weight = make(name, N, K)
    out = expansion.expand(weight, poisoned(N, K))
    fault = different_bits(out, dequantise(weight), ("N", "K")) or written_outside(out)
    return {BITS: fault}


def prove_rounding(name: str, N: int, K: int) -> Verdicts:
    """Prove `requantise`, bit for bit against plain torch, and how far a weight moves."""
    generator.manual_seed(0)
    weight = make(name, N, K)
    runs = weight.scale_runs.view(torch.uint8)
    runs[:, :-1] //= 2  # the largest scales stand last
    runs[0, 0, 0] = 0
    room = torch.full((N + 1, -(-K // 128) * 128), 0x55, dtype=torch.uint8)
    found = requantise(weight, room[:N].view(CODE))
    interpreter._state["installed"] = False
    plain = requantise(weight)
    interpreter._state["installed"] = True
    fault = different_bits(found.codes.view(torch.uint8), plain.codes.view(torch.uint8), "NK")
    exact = exact_values(weight)
    step = torch.maximum(exact.abs() / 21, 2.0**-10 * found.row_scales[:, None].double())
    off = ((exact_values(found) - exact).abs() > 1.0001 * step).any()
    return {
        BITS: fault
        or different_bits(found.row_scales, plain.row_scales, "N")
        or (None if (room[N] == 0x55).all() else "wrote beside its rows"),
        MOVED: "a weight moves beyond it" if off else None,
    }


def prove_prefill(name: str, T: int, N: int, K: int, tile: PrefillTile) -> Verdicts:
    """Prove `fp8_prefill_linear` on the operands that it rounded, T at least 4."""
    generator.manual_seed(0)
    weight, x = make(name, N, K), rows_of(T, K)
    seen = rounded_rows(x, weight)
    exact = exact_values(requantise(weight) if isinstance(weight, Nvfp4Weight) else weight)
    buffer = torch.full((N * -(-K // 128) * 64 + 3,), float("nan"), dtype=torch.bfloat16)
    out = fp8_prefill_linear(x, weight, tile=tile, buffer=buffer, out=poisoned(T, N))
    bound = bound_of(seen, exact, steps_scaled=True)
    hurt = x.clone()
    hurt[2, K - 1] = float("nan")
    lame = fp8_prefill_linear(hurt, weight, tile=tile, out=poisoned(T, N))
    other = torch.arange(T) != 2
    lost = None if lame[2].isnan().all() else "a NaN input did not reach its row"
    some = fp8_prefill_linear(x[1:4], weight, tile=tile, out=poisoned(3, N))
    return {
        TRUTH: outside(out, seen @ exact.t(), bound) or written_outside(out),
        ROWS: different_bits(some, out[1:4], AXES),
        NAN: lost or different_bits(lame[other], out[other], AXES),
    }


def prove_expanded(name: str, N: int, K: int) -> Verdicts:
    """Prove `expanded_linear` with a buffer, bit for bit."""
    generator.manual_seed(0)
    weight, x = make(name, N, K), rows_of(5, K)
    buffer = torch.full((N * K + 5,), float("nan"), dtype=torch.bfloat16)
    by_hand = torch.nn.functional.linear(x, dequantise(weight))
    through = expansion.expanded_linear(x, weight, buffer=buffer, out=poisoned(5, N))
    return {BITS: different_bits(through, by_hand, AXES)}
