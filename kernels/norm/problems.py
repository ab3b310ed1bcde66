"""Make the problems of the norm kernels: cases with their bounds, and the calls that run them."""

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import BF16_ROUNDING, Tolerance
from kernels.common.domain import Domain
from kernels.norm.op import add_rms_norm, gated_rms_norm, rms_norm
from kernels.norm.tile import NormTile

EPS = 1e-6
"""rms_norm_eps of every Qwen3.5 to 3.8 model."""

CENTRED_WEIGHT = domain.normal("weight", 0.3)
PLAIN_WEIGHT = domain.normal("weight", 0.1, mean=0.87)

RMS_TOLERANCE = Tolerance(
    1.001 * BF16_ROUNDING,
    2.0**-134,
    "one rounding to bf16; the fp32 steps before it (a tree of at most 13 additions, halved by "
    "the root, and six more roundings) add 13 x 2^-24, 0.02 % of it; half a subnormal step below",
)
ADD_TOLERANCE = Tolerance(
    3.03 * BF16_ROUNDING,
    2.0**-133,
    "the rounded sum moves an element and its row's rms by one bf16 rounding each, the result is "
    "rounded once more",
)
GATED_TOLERANCE = Tolerance(
    3.03 * BF16_ROUNDING,
    1e-34,
    "three roundings to bf16; below -88.7 fp32 SiLU is -0 where the truth is down to -3e-37, "
    "times at most sqrt(128) and a weight",
)


def rms_case(
    rows: int,
    width: int,
    values: Domain = domain.NORMAL,
    *,
    fp32_weight: bool = False,
    interpreted: bool = True,
) -> Case:
    """Make a case of rms_norm with a zero-centred weight."""
    dtype = torch.float32 if fp32_weight else torch.bfloat16
    return Case(
        "rms_norm",
        {"T": rows, "D": width},
        (
            TensorSpec("x", ("T", "D"), torch.bfloat16, values),
            TensorSpec("weight", ("D",), dtype, CENTRED_WEIGHT),
        ),
        (TensorSpec("out", ("T", "D"), torch.bfloat16),),
        RMS_TOLERANCE,
        interpreted,
    )


def add_case(
    rows: int, width: int, values: Domain = domain.NORMAL, *, interpreted: bool = True
) -> Case:
    """Make a case of add_rms_norm; x and residual are of one domain."""
    return Case(
        "add_rms_norm",
        {"T": rows, "D": width},
        (
            TensorSpec("x", ("T", "D"), torch.bfloat16, values),
            TensorSpec("residual", ("T", "D"), torch.bfloat16, values),
            TensorSpec("weight", ("D",), torch.bfloat16, CENTRED_WEIGHT),
        ),
        (
            TensorSpec("out", ("T", "D"), torch.bfloat16),
            TensorSpec("residual_out", ("T", "D"), torch.bfloat16),
        ),
        ADD_TOLERANCE,
        interpreted,
    )


def gated_case(
    rows: int,
    heads: int,
    values: Domain = domain.NORMAL,
    *,
    width: int = 128,
    fp32_weight: bool = False,
    interpreted: bool = True,
) -> Case:
    """Make a case of gated_rms_norm over heads of a width, with a plain weight."""
    dtype = torch.float32 if fp32_weight else torch.bfloat16
    return Case(
        "gated_rms_norm",
        {"T": rows, "H": heads, "D": width},
        (
            TensorSpec("x", ("T", "H", "D"), torch.bfloat16, values),
            TensorSpec("gate", ("T", "H", "D"), torch.bfloat16, domain.normal("gate", 4.0)),
            TensorSpec("weight", ("D",), dtype, PLAIN_WEIGHT),
        ),
        (TensorSpec("out", ("T", "H", "D"), torch.bfloat16),),
        GATED_TOLERANCE,
        interpreted,
    )


def run_rms(inputs: Tensors, outputs: Tensors, tile: NormTile | None = None) -> None:
    """Call rms_norm on a case's tensors."""
    rms_norm(inputs["x"], inputs["weight"], EPS, tile=tile, out=outputs["out"])


def run_add(inputs: Tensors, outputs: Tensors, tile: NormTile | None = None) -> None:
    """Call add_rms_norm on a case's tensors, on a GPU as a round does."""
    add_rms_norm(
        inputs["x"],
        inputs["residual"],
        inputs["weight"],
        EPS,
        tile=tile,
        overlap=inputs["x"].is_cuda,
        out=outputs["out"],
        residual_out=outputs["residual_out"],
    )


def run_gated(inputs: Tensors, outputs: Tensors, tile: NormTile | None = None) -> None:
    """Call gated_rms_norm on a case's tensors."""
    gated_rms_norm(
        inputs["x"], inputs["gate"], inputs["weight"], EPS, tile=tile, out=outputs["out"]
    )
