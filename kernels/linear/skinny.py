"""Offer the skinny product: 1 to 32 rows against a weight that is read once."""

from functools import cache

import torch
from torch.nn import functional

from kernels.common import gpu, nvrtc
from kernels.common.expect import Axes
from kernels.common.operands import APART, ORDERS, Operands, new_operands
from kernels.common.round import MAX_ROWS
from kernels.linear.formats import CHUNK_INPUTS, STEP, TILE_ROWS
from kernels.linear.reference import dequantise, linear_rows_reference, logits_reference
from kernels.linear.skinny_launch import has_converter, launch
from kernels.linear.tile import SkinnyTile, SkinnyTiles
from kernels.linear.tile_choice import defaults
from kernels.linear.weight import (
    Nvfp4Weight,
    Weight,
    format_name,
    num_outputs,
    padded_inputs,
)

OUT = (torch.bfloat16, torch.float32)


def skinny_linear(
    x: torch.Tensor,
    weight: Weight,
    *,
    tiles: SkinnyTiles | None = None,
    residual: torch.Tensor | None = None,
    paired: bool = False,
    overlap: bool = False,
    operands: Operands | None = None,
    ready: Operands | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply 1 to 32 rows by a weight; a row's bits are the same in any company.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride. A copy is made where a row does not start
            at a multiple of 16 bytes or K is not a multiple of 128.
        weight: N rows of K inputs in any format; NVFP4 `spread` as `wants_spread` says.
        tiles: launch choices; None for the default of the shape. They change no bit.
        residual: bf16 [T, N] to add, rows contiguous.
        paired: the weight is gate over up, each [N/2, K] with N/2 a multiple of 16; the result is
            silu(gate) * up.
        overlap: start before the previous kernel of the stream has ended, and let the next one
            start early (programmatic dependent launch). Changes no bit. The weight is read before
            that kernel ends, so it must not be what writes the weight.
        operands: x as `Operands`, in the `order_of` weight and tile, by who wrote x: nothing
            is left to convert. They are not read by launches that leave activations in global
            memory; change no bit.
        ready: places for a pair's results as `Operands`, in the order of the product behind;
            written with them.
        out: bf16 or fp32 [T, N] to write into, or bf16 [T, N/2] of a pair. None allocates bf16.

    Returns:
        `out`.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, T is above 32, the weight is ordered for
            another kind of GPU, or the tiles do not fit.

    Numerics:
        fp32 sums in the order that skinny.cu describes. Codes and their e4m3 scales are multiplied
        exactly in fp16. Activations are rounded to fp16: off by at most 2^-25 where the largest
        of their row and slice of K lies in [2^-6, 65504], else a power of two brings it to 2^14
        first, and they are off by at most 2^-39 of it. BF16 weights take bf16 activations as they
        are. An fp32 multiplier of a 128-wide block or of a row meets the fp32 sum. Rounded to bf16
        once; then the residual is added and the sum rounded, or gate, up, SiLU and their product
        are rounded one by one.

    Side effects:
        One launch on the current stream, two where `tiles` serves 16 rows at most; safe in capture
        after a first call has compiled and loaded the kernel.
    """
    name = "skinny_linear"
    axes = Axes(name)
    axes.tensor("x", x, ("T", "K"), (torch.bfloat16,), "pass hidden states as bf16 rows")
    num_rows, N = x.shape[0], num_outputs(weight) // (2 if paired else 1)
    out = x.new_empty((num_rows, N)) if out is None else out
    axes.tensor("out", out, ("T", "N"), OUT, "allocate it as bf16 [T, N]")
    if residual is not None:
        axes.tensor("residual", residual, ("T", "N"), (torch.bfloat16,), "pass rows like out")
    axes.same_device(
        x=x, weight=weight.codes, out=out, residual=out if residual is None else residual
    )
    _expect_product(name, x, weight, out, N)
    if residual is not None and out.dtype == torch.float32:
        raise ValueError(f"{name}: got a residual for fp32 results, which add none; write bf16")
    if paired and residual is not None:
        raise ValueError(f"{name}: got a residual for a pair, which adds none; add it afterwards")
    if tiles is None and x.is_cuda:
        tiles = default_for(x.get_device(), weight, paired=paired)
    _expect_operands(name, x, weight, operands, tiles)
    if paired and (num_outputs(weight) % (2 * TILE_ROWS) or out.dtype != torch.bfloat16):
        raise ValueError(
            f"{name}: a pair has N = {num_outputs(weight)} and {out.dtype} results, expected a "
            f"multiple of {2 * TILE_ROWS} and bf16; multiply gate and up apart"
        )
    _expect_ready(name, out, ready, paired=paired)
    if not x.is_cuda:
        _on_cpu(x, weight, residual, paired, out)
        if ready is not None:
            ready.fill(out)
        return out
    assert tiles is not None
    x = _readable(x, padded_inputs(weight))
    start = 0
    for count, tile in tiles.launches(num_rows) if num_rows else ():
        rows = slice(start, start + count)
        launch(
            x[rows],
            weight,
            out[rows],
            tile,
            residual=None if residual is None else residual[rows],
            paired=paired,
            overlap=overlap,
            operands=operands,
            ready=ready,
            first_row=start,
        )
        start += count
    return out


def wants_spread(capability: tuple[int, int]) -> bool:
    """Say whether a GPU reads 4-bit codes in the order of `spread.py`: it has no converter."""
    return not has_converter(nvrtc.architecture(capability))


def is_spread_on(device: str | torch.device) -> bool:
    """Say whether the 4-bit weights of a device are spread; on a CPU they are as stored."""
    on_gpu = torch.device(device).type == "cuda"
    return on_gpu and wants_spread(gpu.chip(device))


@cache
def _device_wants_spread(device: int) -> bool:
    return wants_spread(gpu.chip(device))


def default_for(device: int, weight: Weight, *, paired: bool = False) -> SkinnyTiles:
    """Return the launch choices of a weight that no table holds, on a device."""
    N, Kp = num_outputs(weight), padded_inputs(weight)
    return defaults(N, Kp, format_name(weight), gpu.choices(device), paired=paired)


def _expect_product(name: str, x: torch.Tensor, weight: Weight, out: torch.Tensor, N: int) -> None:
    if x.shape[1] != weight.K or out.shape[1] != N:
        raise ValueError(
            f"{name}: x {list(x.shape)} and out {list(out.shape)} do not fit a weight of "
            f"[N, K] = [{N}, {weight.K}]; pass the rows that feed this projection"
        )
    if x.shape[0] > MAX_ROWS:
        raise ValueError(
            f"{name}: got T = {x.shape[0]} rows, expected at most {MAX_ROWS}; "
            "call middle_linear for more"
        )
    if x.is_cuda and isinstance(weight, Nvfp4Weight):
        wanted = _device_wants_spread(x.get_device())
        if weight.spread != wanted:
            raise ValueError(
                f"{name}: the weight was packed with spread={weight.spread}, this GPU reads "
                f"spread={wanted}; pack it again for this device"
            )


def order_of(weight: Weight, tile: SkinnyTile | None = None) -> int | None:
    """Return the order of operands (`kernels.common.operands`) that a weight's product takes.

    Args:
        weight: the rows' product is with.
        tile: of the launch; None is one past which activations do not stream.

    Returns:
        One of `ORDERS`; None where the product takes rows alone: BF16 weights, and inputs that are
        no whole steps.
    """
    order = operand_order(format_name(weight), weight.K)
    if order is None or tile is None or not tile.is_streamed:
        return order
    return order + APART


def operand_order(name: str, num_inputs: int) -> int | None:
    """Return the order that weights of a format and size take, as `order_of` says."""
    order = CHUNK_INPUTS[name]
    return order if order in ORDERS and num_inputs % STEP == 0 else None


def operands_for(weight: Weight, tiles: SkinnyTiles, num_rows: int) -> Operands | None:
    """Make places for rows as operands, which whoever writes the rows fills.

    Args:
        weight: the rows' product is with.
        tiles: its launch choices.
        num_rows: of the product.

    Returns:
        Places on the weight's device; None where the product would not read or not gain by them.
    """
    order = order_of(weight, tiles.serving(num_rows))
    if order is None or not takes_operands(weight, tiles, num_rows):
        return None
    return new_operands(num_rows, weight.K, order, weight.codes.device)


def takes_operands(weight: Weight, tiles: SkinnyTiles, num_rows: int) -> bool:
    """Say whether the product of so many rows reads operands, where it is given any."""
    if order_of(weight) is None or num_rows > MAX_ROWS:
        return False
    return all(tile.source != "global" for _, tile in tiles.launches(num_rows))


def _expect_ready(name: str, out: torch.Tensor, ready: Operands | None, *, paired: bool) -> None:
    if ready is None:
        return
    if not paired:
        raise ValueError(
            f"{name}: got places for operands of the results, which only a pair writes; "
            "pass paired=True, or none"
        )
    ready.expect(name, out)


def _expect_operands(
    name: str, x: torch.Tensor, weight: Weight, operands: Operands | None, tiles: SkinnyTiles | None
) -> None:
    if operands is None:
        return
    operands.expect(name, x)
    order = order_of(weight, None if tiles is None else tiles.serving(x.shape[0]))
    if operands.order != order:
        raise ValueError(
            f"{name}: got operands in order {operands.order}, expected {order} for a "
            f"weight in {format_name(weight)} of {weight.K} inputs; make them in `order_of` it"
        )


def _readable(x: torch.Tensor, width: int) -> torch.Tensor:
    """The rows where 16-byte loads can read them, padded to whole steps."""
    if x.shape[1] == width and x.data_ptr() % 16 == 0 and x.stride(0) % 8 == 0:
        return x
    padded = x.new_zeros((x.shape[0], width))
    padded[:, : x.shape[1]] = x
    return padded


def _on_cpu(
    x: torch.Tensor,
    weight: Weight,
    residual: torch.Tensor | None,
    paired: bool,
    out: torch.Tensor,
) -> torch.Tensor:
    """Compute with torch: each row in a product of its own, rounded where the kernel rounds."""
    if out.dtype == torch.float32:
        return out.copy_(logits_reference(x, dequantise(weight)))
    product = linear_rows_reference(x, dequantise(weight))
    if paired:
        gate, up = product.chunk(2, dim=1)
        return out.copy_(functional.silu(gate) * up)
    return out.copy_(product if residual is None else product + residual)
