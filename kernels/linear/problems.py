"""Make the problems of the products: cases of raw checkpoint tensors, and the calls that run them.

A case's inputs are a weight as a checkpoint stores it; the call packs it for the device it is on,
so that packing is part of what is proven. Weights do not vary with the rows of a case.
"""

import threading
import weakref
from dataclasses import replace

import torch

from kernels.common import domain, gpu
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.chips import measured_like
from kernels.common.compare import BF16_ROUNDING, Tolerance
from kernels.common.domain import Domain
from kernels.linear import middle_tile
from kernels.linear.expand import expand
from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP, STEP
from kernels.linear.middle import middle_linear
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.pack import E4M3, pack_bf16, pack_e4m3_row, pack_fp8_block, pack_nvfp4
from kernels.linear.prefill_fp8 import fp8_prefill_linear
from kernels.linear.silu_mul import silu_mul
from kernels.linear.skinny import is_spread_on, skinny_linear
from kernels.linear.stored import NAN_BYTE
from kernels.linear.tile import SkinnyTiles
from kernels.linear.weight import Weight, format_name, num_outputs, padded_inputs

SILU_MUL_TOLERANCE = Tolerance(
    2.02 * 2.0**-8,
    1e-35,
    "SiLU and the product are rounded to bf16 once each; below -88.7 fp32 SiLU is -0 where the "
    "truth is down to -3e-37",
)

FORMATS_OF_8_BITS_AT_MOST = ("nvfp4", "fp8_block", "e4m3_row")
FORMATS = (*FORMATS_OF_8_BITS_AT_MOST, "bf16")

PERIOD = 262_147
"""Values drawn of a weight, a prime: rows of any width start at different ones."""

WEIGHT_PARTS = ("values", "codes", "scales", "tensor_scale")
"""Names of the inputs that make a weight, in the order that packing takes them."""


def _bytes(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw all 256 bytes."""
    return torch.randint(0, 256, shape, generator=generator).float()


def _e4m3_numbers(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw all e4m3 numbers; the two NaN become minus zero."""
    raw = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    raw[(raw & NAN_BYTE) == NAN_BYTE] = 0x80
    return raw.view(E4M3).float()


def _e4m3_scales(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw all finite e4m3 numbers without a sign, zero and subnormal ones among them."""
    raw = torch.randint(0, NAN_BYTE, shape, generator=generator, dtype=torch.uint8)
    return raw.view(E4M3).float()


def _multipliers(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw positive numbers around 2^-9, most within a factor of 16."""
    return torch.exp2(2.0 * torch.randn(shape, generator=generator) - 9.0)


def _short_multipliers(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw `_multipliers` of 8 significant bits: times an e4m3 scale they are exact in fp32."""
    return _multipliers(shape, generator).bfloat16().float()


CODES_4BIT = Domain("e2m1", _bytes, PERIOD)
CODES_8BIT = Domain("e4m3", _e4m3_numbers, PERIOD)
GROUP_SCALES = Domain("e4m3-scales", _e4m3_scales, PERIOD)
MULTIPLIERS = Domain("multipliers", _multipliers, PERIOD)
SHORT_MULTIPLIERS = Domain("short-multipliers", _short_multipliers)
BF16_VALUES = replace(domain.normal("weight", 0.02), period=PERIOD)

SUM_REASON = (
    "slack: fp32 sums in any order of additions that truncate, and activations in fp16 "
    "(kernels/linear/truth.py derives both); then roundings to bf16: "
)
PRODUCT_TOLERANCE = Tolerance(1.001 * BF16_ROUNDING, 2.0**-134, SUM_REASON + "one")
LOGITS_TOLERANCE = Tolerance(2.0**-23, 2.0**-149, SUM_REASON + "none, two of fp32")
EXPAND_TOLERANCE = Tolerance(
    1.001 * BF16_ROUNDING, 2.0**-134, "one rounding to bf16 after at most two in fp32"
)


def weight_specs(name: str, *, full_scale: bool = False) -> tuple[TensorSpec, ...]:
    """Return the specs of a weight's checkpoint tensors.

    Args:
        name: one of `FORMATS`.
        full_scale: give an NVFP4 tensor scale all 24 bits, so that decoding rounds twice.
    """
    codes = TensorSpec("codes", ("N", "K"), E4M3, CODES_8BIT)
    if name == "bf16":
        return (TensorSpec("values", ("N", "K"), torch.bfloat16, BF16_VALUES),)
    if name == "fp8_block":
        blocks = ("N/128", "K/128")
        return codes, TensorSpec("scales", blocks, torch.bfloat16, MULTIPLIERS)
    if name == "e4m3_row":
        return codes, TensorSpec("scales", ("N",), torch.float32, MULTIPLIERS)
    one = MULTIPLIERS if full_scale else SHORT_MULTIPLIERS
    return (
        TensorSpec("codes", ("N", "K/2"), torch.uint8, CODES_4BIT),
        TensorSpec("scales", ("N", "K/16"), E4M3, GROUP_SCALES),
        TensorSpec("tensor_scale", (), torch.float32, one),
    )


def sizes_of(num_outputs: int, num_inputs: int) -> dict[str, int]:
    """Return the axes of a weight and what follows from them, rounded up."""
    N, K = num_outputs, num_inputs
    return {
        "N": N, "K": K, "N/2": N // 2, "N/128": -(-N // FP8_BLOCK), "K/2": K // 2,
        "K/16": -(-K // NVFP4_GROUP), "K/128": -(-K // FP8_BLOCK),
    }  # fmt: skip


def product_case(
    op: str,
    name: str,
    rows: int,
    num_outputs: int,
    num_inputs: int,
    values: Domain = domain.NORMAL,
    *,
    interpreted: bool = False,
    cuda_only: bool = True,
) -> Case:
    """Make a case of any product.

    Args:
        op: key of the family's ops. "skinny_residual" draws a residual, "skinny_pair" has half
            the outputs, "skinny_logits" writes fp32.
        name: the weight's format.
        rows: T.
        num_outputs: N, gate and up counted both.
        num_inputs: K before padding.
        values: domain of the activations, and of a residual.
        interpreted: small enough for the interpreter, and Triton at all.
        cuda_only: too large for a CPU.
    """
    residual = TensorSpec("residual", ("T", "N"), torch.bfloat16, values)
    logits, outputs = op == "skinny_logits", "N/2" if op == "skinny_pair" else "N"
    return Case(
        op=op,
        sizes={"T": rows, **sizes_of(num_outputs, num_inputs)},
        inputs=(
            TensorSpec("x", ("T", "K"), torch.bfloat16, values),
            *weight_specs(name),
            *((residual,) if op == "skinny_residual" else ()),
        ),
        outputs=(TensorSpec("out", ("T", outputs), torch.float32 if logits else torch.bfloat16),),
        tolerance=LOGITS_TOLERANCE if logits else PRODUCT_TOLERANCE,
        interpreted=interpreted,
        cuda_only=cuda_only,
        note=name,
    )


def silu_mul_case(rows: int, width: int, values: Domain = domain.NORMAL) -> Case:
    """Make a case of silu_mul."""
    return Case(
        "silu_mul",
        {"T": rows, "N": width},
        (
            TensorSpec("gate", ("T", "N"), torch.bfloat16, values),
            TensorSpec("up", ("T", "N"), torch.bfloat16, domain.NORMAL),
        ),
        (TensorSpec("out", ("T", "N"), torch.bfloat16),),
        SILU_MUL_TOLERANCE,
        interpreted=rows * width < 20_000,
        cuda_only=rows * width > 1_000_000,
    )


def expand_case(name: str, num_outputs: int, num_inputs: int, *, interpreted: bool = False) -> Case:
    """Make a case of expand, which has no rows."""
    return Case(
        op="expand",
        sizes=sizes_of(num_outputs, num_inputs),
        inputs=weight_specs(name, full_scale=True),
        outputs=(TensorSpec("out", ("N", "K"), torch.bfloat16),),
        tolerance=EXPAND_TOLERANCE,
        interpreted=interpreted,
        note=name,
    )


class _Packed(threading.local):
    """The weight that a thread packed last, for as long as the tensors that it was of live."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._parts: tuple[weakref.ref[torch.Tensor], ...] = ()
        self._spread = False
        self._weight: Weight | None = None

    def get(self, parts: tuple[torch.Tensor, ...], *, spread: bool) -> Weight:
        """Return the weight of some tensors, packed anew unless they are those of the last call."""
        held = tuple(part() for part in self._parts)
        same = len(held) == len(parts) and all(a is b for a, b in zip(held, parts, strict=True))
        if self._weight is None or not same or spread != self._spread:
            self._weight = None
            self._weight = pack(parts, spread=spread)
            self._parts = tuple(weakref.ref(part) for part in parts)
            self._spread = spread
        return self._weight


_last = _Packed()


def pack(parts: tuple[torch.Tensor, ...], *, spread: bool = False) -> Weight:
    """Pack checkpoint tensors, whose number and shapes tell the format.

    Args:
        parts: the tensors of `weight_specs`, in its order.
        spread: order 4-bit codes for a GPU without a converter.
    """
    if len(parts) == 1:
        return pack_bf16(parts[0])
    if len(parts) == 3:
        return pack_nvfp4(*parts, spread=spread)
    return pack_e4m3_row(*parts) if parts[1].dim() == 1 else pack_fp8_block(*parts)


def weight_parts(inputs: Tensors) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a case that make its weight."""
    return tuple(inputs[name] for name in WEIGHT_PARTS if name in inputs)


def weight_of(inputs: Tensors) -> Weight:
    """Pack a case's weight as the device's engine would; a proof packs once."""
    parts = weight_parts(inputs)
    return _last.get(parts, spread=is_spread_on(parts[0].device))


def run_skinny(inputs: Tensors, outputs: Tensors, tiles: SkinnyTiles | None = None) -> None:
    """Call skinny_linear on a case's tensors, with a residual where there is one."""
    x, weight = inputs["x"], weight_of(inputs)
    skinny_linear(x, weight, tiles=tiles, residual=inputs.get("residual"), out=outputs["out"])


def run_pair(inputs: Tensors, outputs: Tensors, tiles: SkinnyTiles | None = None) -> None:
    """Call skinny_linear on gate over up."""
    skinny_linear(inputs["x"], weight_of(inputs), tiles=tiles, paired=True, out=outputs["out"])


def run_middle(inputs: Tensors, outputs: Tensors, tile: MiddleTile | None = None) -> None:
    """Call middle_linear on a case's tensors.

    Without a tile: K in one piece, whatever T is. The default tile of a row count may cut K, which
    is another order of sums; the law of the default tiles looks at those.
    """
    weight = weight_of(inputs)
    tile = _uncut_tile(weight) if tile is None else tile
    middle_linear(inputs["x"], weight, tile=tile, out=outputs["out"])


def _uncut_tile(weight: Weight) -> MiddleTile:
    """Return a tile that does not cut K: on a GPU its own for 128 rows, else a small one."""
    if not weight.codes.is_cuda:
        return MiddleTile(64, 16, 4, 2)
    capability = measured_like(gpu.choices(weight.codes.device))
    steps = padded_inputs(weight) // STEP
    tile = middle_tile.default(format_name(weight), num_outputs(weight), steps, 128, capability)
    return replace(tile, splits=1, whole=0)


def run_prefill(inputs: Tensors, outputs: Tensors) -> None:
    """Call fp8_prefill_linear on a case's tensors."""
    fp8_prefill_linear(inputs["x"], weight_of(inputs), out=outputs["out"])


def run_prefill_kernel(inputs: Tensors, outputs: Tensors) -> None:
    """Call fp8_prefill_linear on a case's tensors, by its kernel wherever it runs."""
    fp8_prefill_linear(inputs["x"], weight_of(inputs), by_library=False, out=outputs["out"])


def run_expand(inputs: Tensors, outputs: Tensors) -> None:
    """Call expand on a case's tensors."""
    expand(weight_of(inputs), outputs["out"])


def run_silu_mul(inputs: Tensors, outputs: Tensors) -> None:
    """Call silu_mul on a case's tensors."""
    silu_mul(inputs["gate"], inputs["up"], out=outputs["out"])
