"""Round a 4-bit weight to e4m3 codes with one fp32 multiplier a row, for the FP8 tensor cores.

An e2m1 code times its group's scale has up to six significant bits and e4m3 four. CUDA tensors go
to the Triton kernels, CPU tensors to plain torch with the same bits.
"""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.linear.formats import E2M1_VALUES, NVFP4_GROUP, STEP, TILE_ROWS
from kernels.linear.pack import E4M3, stored_codes, unpack_scales
from kernels.linear.weight import E4m3RowWeight, Nvfp4Weight, num_outputs, padded_inputs

SMALLEST_SCALE = 2.0**-9
"""Smallest positive e4m3 number: a row of zeros is treated as one of these."""

FACTOR_STEPS = 16
"""Steps of scales that a program reads at once while it looks for its rows' largest."""

FACTOR_OPTIONS = {"num_warps": 4}
STEPS = 8
"""Steps of 128 inputs x 16 rows that one program rounds."""

OPTIONS = {"num_warps": 4}


def requantise(weight: Nvfp4Weight, codes: torch.Tensor | None = None) -> E4m3RowWeight:
    """Round a 4-bit weight to 8-bit codes and a multiplier a row.

    Args:
        weight: N rows of K inputs, codes in either order.
        codes: e4m3 [N, Kp] to write into, contiguous. None allocates.

    Returns:
        The rounded weight; it holds `codes` where they were given.

    Raises:
        TypeError: codes are not e4m3.
        ValueError: the codes' shape, strides or device disagree with the weight.

    Numerics:
        A row is moved by the power of two that brings its largest group scale into [32, 64): exact,
        and no product leaves e4m3. Then code x scale is rounded once, to nearest even: a weight
        moves by at most 1/21 of itself or 2^-10 of the row's new multiplier, which is below 2^-17
        of the largest weight that the row's scales allow, whichever is more. Codes of 0, 1/2, 1, 2
        and 4 are exact unless their group's scale is 2^10 or more below the row's largest. The bits
        are the same on every device.

    Side effects:
        Two launches on the current stream; safe in graph capture when `codes` are given.
    """
    N, Kp = num_outputs(weight), padded_inputs(weight)
    if codes is None:
        codes = torch.empty((N, Kp), dtype=E4M3, device=weight.codes.device)
    axes = Axes("requantise")
    axes.tensor("codes", codes, ("N", "Kp"), (E4M3,), "allocate them for this weight")
    if codes.shape != (N, Kp) or not codes.is_contiguous():
        raise ValueError(
            f"requantise: codes must be [N, Kp] = [{N}, {Kp}] and contiguous, got "
            f"{list(codes.shape)}; allocate them for this weight"
        )
    axes.same_device(weight=weight.codes, codes=codes)
    if not interpreter.on_kernels(weight.codes):
        return _requantise_reference(weight, codes)
    return _launch(weight, codes)


def _requantise_reference(weight: Nvfp4Weight, codes: torch.Tensor) -> E4m3RowWeight:
    """Round in plain torch."""
    scales = unpack_scales(weight).float()
    largest = scales.amax(1).clamp(min=SMALLEST_SCALE)
    # frexp gives a fraction in [1/2, 1): its exponent is one above that of the leading bit
    shifts = 6 - torch.frexp(largest).exponent
    scales = torch.ldexp(scales, shifts[:, None]).repeat_interleave(NVFP4_GROUP, 1)
    packed = stored_codes(weight)
    nibbles = torch.stack((packed & 15, packed >> 4), -1).flatten(1)
    values = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)], device=packed.device)
    codes.copy_((values[nibbles.long()] * scales).to(E4M3))
    return E4m3RowWeight(codes, torch.ldexp(weight.row_scales, -shifts), weight.K)


def _launch(weight: Nvfp4Weight, codes: torch.Tensor) -> E4m3RowWeight:
    from kernels.linear.requantise_kernel import requantise_kernel, row_factors_kernel

    N, num_steps = codes.shape[0], codes.shape[1] // STEP
    runs = weight.scale_runs.view(torch.uint8)
    factors, scales = torch.empty_like(weight.row_scales), torch.empty_like(weight.row_scales)
    tiles = -(-N // TILE_ROWS)
    row_factors_kernel[(tiles,)](
        runs, weight.row_scales, factors, scales, N, num_steps,
        STEPS=FACTOR_STEPS, **FACTOR_OPTIONS,
    )  # fmt: skip
    stored = weight.codes.view(torch.int32) if weight.spread else weight.codes
    requantise_kernel[(-(-num_steps // STEPS), tiles)](
        stored, runs, factors, codes.view(torch.uint16), N, num_steps,
        STEPS=STEPS, SPREAD=weight.spread, NATIVE=weight.codes.is_cuda, **OPTIONS,
    )  # fmt: skip
    return E4m3RowWeight(codes, scales, weight.K)
