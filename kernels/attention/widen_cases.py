"""Make the problems of widening a store for a prefill."""

import torch

from kernels.attention.kv_cases import coded, scale_specs, scales_of, stand_for
from kernels.attention.kv_codes import E4M3, widened
from kernels.attention.widen import attention_widen
from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.common.family import Op

TOLERANCE = Tolerance(0.0, 0.0, "a code times a power of two is a number of bf16")


def widen_case(
    positions: int,
    slots: int,
    groups: int = 4,
    *,
    width: int = 256,
    values: Domain = domain.NORMAL,
    interpreted: bool = True,
) -> Case:
    """Make a case of attention_widen: the first positions of a store of slots.

    Slots beyond the positions keep what they hold, so the outputs are those before alone.
    """
    store, axes = coded(values), ("G", "S", "D")
    held = Domain("positions", lambda _shape, _generator: torch.tensor([0, positions]))
    out = ("G", "held", "D")
    return Case(
        "attention_widen",
        {"G": groups, "S": slots, "D": width, "held": positions, "two/": 2},
        (
            TensorSpec("keys", axes, E4M3, store),
            TensorSpec("values", axes, E4M3, store),
            *scale_specs(values),
            TensorSpec("positions", ("two/",), torch.int32, held),
        ),
        (
            TensorSpec("wide_keys", out, torch.bfloat16),
            TensorSpec("wide_values", out, torch.bfloat16),
        ),
        TOLERANCE,
        interpreted,
    )


def run_widen(inputs: Tensors, outputs: Tensors) -> None:
    """Call attention_widen and hand out what it wrote, or NaN where it wrote beyond."""
    keys, scales = inputs["keys"], scales_of(inputs)
    assert scales is not None
    out = torch.full((2, *keys.shape), torch.nan, dtype=torch.bfloat16, device=keys.device)
    attention_widen(keys, inputs["values"], scales, inputs["positions"], out)
    held = outputs["wide_keys"].shape[1]
    untouched = out[:, :, held:].isnan().all()  # stays on the device, for captures
    for name, wide in zip(("wide_keys", "wide_values"), out, strict=True):
        outputs[name].copy_(torch.where(untouched, wide[:, :held], torch.nan))


def truth_of_widen(inputs: Tensors) -> Tensors:
    """Multiply codes by scales in fp64."""
    held = int(inputs["positions"][1])
    return {f"wide_{name}": stand_for(inputs, name)[:, :held] for name in ("keys", "values")}


def model_of_widen(inputs: Tensors) -> Tensors:
    """Predict the kernel's bits."""
    held = int(inputs["positions"][1])
    both = widened(inputs["keys"], inputs["values"], scales_of(inputs))
    return dict(zip(("wide_keys", "wide_values"), (one[:, :held] for one in both), strict=True))


OPS = {"attention_widen": Op(run_widen, truth_of_widen, model_of_widen)}
CASES = (
    *(widen_case(held, 70, 2) for held in (1, 31, 32, 33, 70)),
    *(widen_case(20, 40, 1, values=hostile) for hostile in domain.HOSTILE),
    widen_case(5, 40, 2, width=64),
    widen_case(5000, 5003, interpreted=False),
)
