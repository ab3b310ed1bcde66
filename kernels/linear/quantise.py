"""Round rows of activations to e4m3, with one scale for each 128 inputs or for the whole row.

CUDA tensors go to the Triton kernels, CPU tensors to plain torch with the same bits.
"""

import torch
from torch.nn import functional

from kernels.common import interpreter
from kernels.common.e4m3 import E4M3_MAX
from kernels.linear.formats import STEP
from kernels.linear.pack import E4M3

STEP_ROWS = 16
"""Rows of one step of 128 inputs that one program rounds."""

STEP_OPTIONS = {"num_warps": 4}
ROW_WIDTH = 2048
"""Inputs of a row that its program rounds at a time."""

ROW_OPTIONS = {"num_warps": 8}
SMALLEST_LARGEST = E4M3_MAX * 2.0**-126
"""Largest magnitude of a group below which its scale stops at 2^-126."""


def quantise_steps(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round rows to e4m3 with one scale for each 128 inputs.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride; T at least 1.

    Returns:
        Codes, e4m3 [T, Kp] with zeros past K, and scales, fp32 [Kp/128, T].

    Numerics:
        scale = max(max |x|, 448 * 2^-126) / 448 and x / scale are IEEE divisions in fp32; codes
        round to nearest even. An element moves by at most 2^-4 of itself or 2^-10 of its scale,
        whichever is more. The bits are the same on every device.
    """
    if not interpreter.on_kernels(x):
        codes, scales = _rounded(_padded(x).unflatten(1, (-1, STEP)))
        return codes.flatten(1), scales.t().contiguous()
    from kernels.linear.quantise_kernel import quantise_steps_kernel

    (num_rows, K), num_steps = x.shape, -(-x.shape[1] // STEP)
    codes = torch.empty((num_rows, num_steps * STEP), dtype=E4M3, device=x.device)
    scales = torch.empty((num_steps, num_rows), dtype=torch.float32, device=x.device)
    quantise_steps_kernel[(num_steps, -(-num_rows // STEP_ROWS))](
        x, codes, scales, num_rows, K, num_steps, x.stride(0), ROWS=STEP_ROWS, **STEP_OPTIONS
    )
    return codes, scales


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round rows to e4m3 with one scale a row.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride; T at least 1.

    Returns:
        Codes, e4m3 [T, Kp] with zeros past K, and scales, fp32 [T].

    Numerics:
        As `quantise_steps`, the scale being that of the row's largest. e4m3 has exponents of its
        own: only what is 2^-14.8 of the row's largest or less moves by more than 2^-4 of itself.
    """
    if not interpreter.on_kernels(x):
        return _rounded(_padded(x))
    from kernels.linear.quantise_kernel import quantise_rows_kernel

    num_rows, K = x.shape
    padded = -(-K // STEP) * STEP
    codes = torch.empty((num_rows, padded), dtype=E4M3, device=x.device)
    scales = torch.empty(num_rows, dtype=torch.float32, device=x.device)
    quantise_rows_kernel[(num_rows,)](
        x, codes, scales, K, padded, x.stride(0), WIDTH=ROW_WIDTH, **ROW_OPTIONS
    )
    return codes, scales


def _padded(x: torch.Tensor) -> torch.Tensor:
    return functional.pad(x.float(), (0, -x.shape[1] % STEP))


def _rounded(groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round fp32 [..., n] with one scale for the last axis."""
    scales = groups.abs().amax(-1).clamp(min=SMALLEST_LARGEST) / E4M3_MAX
    codes = (groups / scales[..., None]).clamp(-E4M3_MAX, E4M3_MAX)
    return codes.to(E4M3), scales
