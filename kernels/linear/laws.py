"""State the laws between products that hold on any device: groups, epilogues, zeros, views."""

from dataclasses import fields, replace
from itertools import product

import torch
from torch.nn import functional

from kernels.common import domain, exact_torch
from kernels.common.case import Tensors
from kernels.common.compare import Tolerance, beyond_tolerance, different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands
from kernels.linear import model
from kernels.linear.drawn import drawn
from kernels.linear.expand import expand
from kernels.linear.middle import middle_linear
from kernels.linear.pack import E4M3, fuse, unpack_scales
from kernels.linear.prefill_fp8 import fp8_prefill_linear
from kernels.linear.problems import (
    FORMATS,
    FORMATS_OF_8_BITS_AT_MOST,
    pack,
    silu_mul_case,
    weight_parts,
)
from kernels.linear.quantise import quantise_rows, quantise_steps
from kernels.linear.reference import dequantise, exact_values
from kernels.linear.requantise import requantise
from kernels.linear.silu_mul import silu_mul
from kernels.linear.skinny import is_spread_on, skinny_linear
from kernels.linear.stored import NAN_BYTE
from kernels.linear.truth import half_steps, products, sums_in_any_order
from kernels.linear.weight import Fp8BlockWeight, Nvfp4Weight, Weight, num_outputs

ROWS = ("T", "N")


def _group_differs(device: str) -> str | None:
    """Compare a fused group with its members: products on a GPU, values on a CPU.

    There torch may add in another order for another number of outputs.
    """
    for name in FORMATS:
        parts = [drawn(name, 5, n, 640, device, seed=n) for n in (256, 128, 48)]
        x, weights = parts[0][0]["x"], [weight for _, weight in parts]
        group = fuse(weights)
        if device == "cuda":
            together = skinny_linear(x, group)
            apart = torch.cat([skinny_linear(x, one) for one in weights], 1)
        else:
            together, apart = dequantise(group), torch.cat([dequantise(one) for one in weights])
        if fault := different_bits(together, apart, ROWS):
            return f"{name}: {fault}"
    return None


def _residual_differs(device: str) -> str | None:
    """Compare the residual's epilogue with a product, then an addition in bf16."""
    for name in FORMATS:
        inputs, weight = drawn(name, 5, 200, 640, device, domain.OUTLIERS)
        product = skinny_linear(inputs["x"], weight)
        residual = product.flip(0).roll(1, 1)
        fused = skinny_linear(inputs["x"], weight, residual=residual)
        if fault := different_bits(fused, product + residual, ROWS):
            return f"{name}: {fault}"
    return None


def _pair_differs(device: str) -> str | None:
    """Compare a pair with silu(gate) * up of its products, gate, up and SiLU rounded to bf16."""
    for name in FORMATS:
        kinds = (domain.NORMAL, domain.OUTLIERS, domain.ZERO_ROWS)
        for values, (rows, num_inputs) in product(kinds, ((9, 640), (27, 1280))):
            inputs, weight = drawn(name, rows, 480, num_inputs, device, values)
            gate, up = skinny_linear(inputs["x"], weight).cpu().chunk(2, dim=1)
            exact = exact_torch.silu(gate.float()).bfloat16()
            silu = exact if device == "cuda" else functional.silu(gate)
            fused = skinny_linear(inputs["x"], weight, paired=True)
            if fault := different_bits(fused.cpu(), silu * up, ROWS):
                return f"{name} {values.name} {rows} rows: {fault}"
    return None


def _pair_operands_differ(device: str) -> str | None:
    """Compare the operands that a pair writes with those of the results beside them."""
    for name, num_rows in product(FORMATS, (1, 5, 9, 16, 20, 29)):
        for values in (domain.NORMAL, domain.HUGE):
            inputs, weight = drawn(name, num_rows, 768, 1280, device, values)

            def write(
                ready: Operands, x: torch.Tensor = inputs["x"], weight: Weight = weight
            ) -> torch.Tensor:
                return skinny_linear(x, weight, paired=True, ready=ready)

            if fault := wrong_operands(write, num_rows, 384, device):
                return f"{name} {values.name} {num_rows} rows: {fault}"
    return None


def _zero_weight_shows(device: str) -> str | None:
    """Multiply hostile rows by codes of zero, and by scales of zero."""
    for name in FORMATS:
        for values in (domain.NORMAL, domain.HUGE, domain.WIDE_EXPONENTS):
            inputs, _ = drawn(name, 3, 100, 640, device, values)
            for index, part in enumerate(weight_parts(inputs)):
                parts = list(weight_parts(inputs))
                parts[index] = torch.zeros_like(part)
                zero = pack(tuple(parts), spread=is_spread_on(device))
                out = skinny_linear(inputs["x"], zero)
                if bool((out != 0).any()):
                    return f"{name} {values.name}: zero times a row is {out[out != 0][0].item()}"
    return None


def _views_differ(device: str) -> str | None:
    """Compare rows that lie apart, start anywhere and are written apart with contiguous ones."""
    for name in FORMATS:
        inputs, weight = drawn(name, 7, 112, 640, device)
        x = inputs["x"]
        straight = skinny_linear(x, weight)
        for before, after in ((0, 8), (8, 128), (3, 5)):
            apart = functional.pad(x, (before, after))[:, before : before + x.shape[1]]
            out = torch.full((7, 120), torch.nan, dtype=x.dtype, device=device)
            skinny_linear(apart, weight, out=out[:, 5:117])
            fault = different_bits(out[:, 5:117], straight, ROWS)
            if fault or not bool(out[:, :5].isnan().all() and out[:, 117:].isnan().all()):
                return f"{name} {before}: {fault or 'wrote beside its outputs'}"
    return None


def _gated_operands_differ(device: str) -> str | None:
    """Compare silu_mul's operands with those of the rows that it writes beside them."""
    for rows, width in ((1, 1152), (11, 640)):
        gate, up = silu_mul_case(rows, width, domain.OUTLIERS).draw(3, device).values()
        gate[0, 3], up = torch.nan, up * 1e4  # beyond fp16 in places

        def write(
            operands: Operands, gate: torch.Tensor = gate, up: torch.Tensor = up
        ) -> torch.Tensor:
            return silu_mul(gate, up, operands=operands)

        if fault := wrong_operands(write, rows, width, device):
            return f"{rows} x {width}: {fault}"
    return None


def _spread_differs(device: str) -> str | None:
    """Compare a weight of spread codes with that of stored ones, expanded and multiplied."""
    inputs, _ = drawn("nvfp4", 20, 100, 272, device)
    parts = weight_parts(inputs)
    stored, spread = (pack(parts, spread=one) for one in (False, True))
    fault = different_bits(expand(stored), expand(spread), ("N", "K"))
    products = [middle_linear(inputs["x"], one) for one in (stored, spread)]
    return fault or different_bits(products[0], products[1], ROWS)


def _expanded_differs(device: str) -> str | None:
    """Compare expand with the definition of the formats, whole matrices of the model on a GPU."""
    sizes = [(75, 304), (130, 256)]
    if device == "cuda":
        sizes += [(34816, 5120), (5120, 17408)]
    for name in FORMATS:
        for num_rows, num_inputs in sizes:
            _, weight = drawn(name, 1, num_rows, num_inputs, device)
            if fault := different_bits(expand(weight), dequantise(weight), ("N", "K")):
                return f"{name} {num_rows}x{num_inputs}: {fault}"
    return None


def _prefill_is_loose(device: str) -> str | None:
    """Compare the FP8 option with a product of the very operands that it rounded to e4m3.

    By kernel and, where there is one, by the library's product: it needs outputs in sixteens.
    """
    for name, N in product(FORMATS_OF_8_BITS_AT_MOST, (140, 144)):
        inputs, weight = drawn(name, 21, N, 304, device, domain.OUTLIERS)
        rounded = rounded_rows(inputs["x"], weight)
        values = exact_values(requantise(weight) if isinstance(weight, Nvfp4Weight) else weight)
        total = rounded.abs() @ values.abs().t()
        slack = (132 * 2.0**-13 + sums_in_any_order(weight.K)) * total
        out = fp8_prefill_linear(inputs["x"], weight)
        bound = Tolerance(2.0**-7, 2.0**-133, "")
        if fault := beyond_tolerance(out, rounded @ values.t(), bound, ROWS, slack):
            return f"{name} {N}: {fault}"
    return None


def rounded_rows(x: torch.Tensor, weight: Weight) -> torch.Tensor:
    """Round rows as the FP8 option does for a weight: fp64 [T, K]."""
    if isinstance(weight, Fp8BlockWeight):
        codes, scales = quantise_steps(x)
        wide = codes.double().unflatten(1, (-1, 128)) * scales.t().double()[:, :, None]
        return wide.flatten(1)[:, : weight.K]
    codes, scales = quantise_rows(x)
    return (codes.double() * scales.double()[:, None])[:, : weight.K]


def _requantised_differs(device: str) -> str | None:
    """Compare codes of a rounded 4-bit weight with the nearest e4m3 numbers, found by search."""
    sizes = [(75, 336), (1, 16), (33, 2576)]
    if device == "cuda":
        sizes += [(1000, 5120), (100, 17408)]
    for size in sizes:
        _, weight = drawn("nvfp4", 1, *size, device)
        assert isinstance(weight, Nvfp4Weight)
        found = requantise(weight)
        wanted = exact_values(weight) / found.row_scales.double()[:, None]
        codes = found.codes[:, : weight.K].float()
        if fault := different_bits(codes, _nearest_e4m3(wanted).float(), ("N", "K")):
            return f"{size}: {fault}"
        largest = unpack_scales(weight).float().amax(1) * weight.row_scales / found.row_scales
        if bool(((largest != 0) & ((largest < 32) | (largest >= 64))).any()):
            return f"{size}: a row's largest scale does not lie in [32, 64)"
    return None


def _nearest_e4m3(values: torch.Tensor) -> torch.Tensor:
    """Round fp64 numbers to the nearest e4m3 ones, ties to the even code, zeros with their sign."""
    numbers = torch.arange(NAN_BYTE, dtype=torch.uint8, device=values.device).view(E4M3).double()
    sizes = values.abs()
    above = torch.searchsorted(numbers, sizes).clamp(1, NAN_BYTE - 1)
    below = above - 1
    middle = (numbers[below] + numbers[above]) / 2
    code = torch.where((sizes > middle) | ((sizes == middle) & (above % 2 == 0)), above, below)
    return numbers[code].copysign(values)


def _model_disagrees(device: str) -> str | None:
    """Compare the model of the kernel's order: with the kernel on a GPU, else with fp64."""
    shapes = (
        ((40, 5120), (24, 6144), (16, 17408), (16, 640))
        if device == "cuda"
        else ((24, 1280), (16, 5120))
    )
    for name in FORMATS:
        for shape in shapes:
            for values in (domain.NORMAL, domain.WIDE_EXPONENTS, domain.TINY):
                inputs, weight = drawn(name, 3, *shape, device, values, as_stored=device == "cpu")
                against = _kernel_against_model if device == "cuda" else _model_against_fp64
                if fault := against(inputs, weight):
                    return f"{name} {shape} {values.name}: {fault}"
    return None


def _kernel_against_model(inputs: Tensors, weight: Weight) -> str | None:
    """Allow `model.UNITS` of every addition, and what fp32 cannot hold."""
    out = torch.empty((3, num_outputs(weight)), device=weight.codes.device)
    skinny_linear(inputs["x"], weight, out=out)
    sums = model.skinny_sums(inputs["x"].cpu(), _on_cpu(weight))
    slack = model.UNITS * model.UNIT * sums.size
    return beyond_tolerance(out.cpu(), sums.value, Tolerance(0.0, 2.0**-140, ""), ROWS, slack)


def _on_cpu(weight: Weight) -> Weight:
    held = {one.name: getattr(weight, one.name) for one in fields(weight)}
    moved = {name: one.cpu() for name, one in held.items() if isinstance(one, torch.Tensor)}
    return replace(weight, **moved)


def _model_against_fp64(inputs: Tensors, weight: Weight) -> str | None:
    """Allow half a unit of every addition, activations in fp16, and what fp32 cannot hold."""
    product, _, moved = products(inputs, half_steps(inputs), rounded=False)
    sums = model.skinny_sums(inputs["x"], weight)
    slack = 1.01 * (model.UNIT / 2 * sums.size + moved)
    return beyond_tolerance(sums.value, product, Tolerance(0.0, 2.0**-140, ""), ROWS, slack)


LAWS = (
    Law("a fused group equals its members", _group_differs),
    Law("a residual is a product, then an addition", _residual_differs),
    Law("a pair is silu(gate) * up of its products", _pair_differs),
    Law("a pair's operands are those of its results", _pair_operands_differ),
    Law("a weight of zeros gives zeros", _zero_weight_shows),
    Law("rows that lie apart have the bits of contiguous ones", _views_differ),
    Law("silu_mul's operands are those of its rows", _gated_operands_differ),
    Law("spread codes mean what stored ones do", _spread_differs),
    Law("expand equals dequantise", _expanded_differs),
    Law("the FP8 option multiplies what it rounded", _prefill_is_loose),
    Law("a rounded 4-bit weight holds the nearest e4m3 numbers", _requantised_differs),
    Law("the model of the order agrees", _model_disagrees),
)
"""Laws that are tried on every device."""
