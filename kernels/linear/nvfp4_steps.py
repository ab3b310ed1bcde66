"""Hold the device code that loads 16 rows x some steps of a 4-bit weight: codes, and scales.

A step is 128 inputs. What a kernel makes of both is its own; where they lie is said here.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def load_codes(
    codes_ptr, tile, first_step, num_outputs, num_steps, STEPS: constexpr, SPREAD: constexpr
) -> tl.tensor:  # fmt: skip
    """Load codes as `middle_operand.e2m1_pairs` takes them; zeros outside of the weight.

    Args:
        codes_ptr: uint8 [N, Kp / 2] or, SPREAD, words of eight codes int32 [N, Kp / 8].
        tile: which 16 rows.
        first_step: of the STEPS that are loaded.
        num_outputs: N.
        num_steps: Kp / 128.
        STEPS: constexpr.
        SPREAD: the codes are in the order of `spread.py`.

    Returns:
        uint8 [16, 64 STEPS] or uint32 [16, 16 STEPS].
    """
    held: constexpr = 16 if SPREAD else 64
    rows = tile * 16 + tl.arange(0, 16)
    at = tl.arange(0, STEPS * held)
    codes_at = codes_ptr + rows.to(tl.int64)[:, None] * (num_steps * held) + first_step * held
    valid = (rows < num_outputs)[:, None] & (first_step * held + at < num_steps * held)[None, :]
    codes = tl.load(codes_at + at[None, :], mask=valid, other=0)
    return codes.to(tl.uint32, bitcast=True) if SPREAD else codes


@triton.jit
def load_scales(runs_ptr, tile, first_step, num_steps, STEPS: constexpr) -> tl.tensor:
    """Load the scales of groups of 16 inputs, in the order of rows and groups: fp32 [16, 8 STEPS].

    Args:
        runs_ptr: bytes of `Nvfp4Weight.scale_runs`: tile, step, g, t, half, pair.
        tile: which 16 rows: row 8 half + g.
        first_step: of the STEPS that are loaded.
        num_steps: Kp / 128; zeros behind.
        STEPS: constexpr.
    """
    lane, groups = tl.arange(0, 16), tl.arange(0, STEPS * 8)
    runs_at = runs_ptr + (tile.to(tl.int64) * num_steps + first_step) * 128
    lane_at = lane % 8 * 16 + lane // 8 * 2
    group_at = groups // 8 * 128 + groups % 8 // 2 * 4 + groups % 2
    known = (first_step + groups // 8 < num_steps)[None, :]
    scales = tl.load(runs_at + lane_at[:, None] + group_at[None, :], mask=known, other=0)
    return scales.to(tl.float8e4nv, bitcast=True).to(tl.float32)
