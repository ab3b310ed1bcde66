"""List the problems that the convolution's kernels are checked on.

Heads are the 27B's (16 and 48 of 128), those of its siblings and of the demo model, narrow ones,
and every hostile domain; trees, chains, and any number of pending rows.
"""

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors
from kernels.common.family import Family, Op
from kernels.conv import laws, prefill_laws
from kernels.conv.arguments import GateInputs
from kernels.conv.gates_reference import (
    KERNEL,
    convolve_reference,
    gates_product_reference,
    gates_reference,
    places_of,
    tail_behind_pending_reference,
    unit_length,
)
from kernels.conv.problems import (
    CHAIN,
    STEEP_GATES,
    fold_case,
    gates_case,
    gates_of,
    prefill_case,
    run_fold,
    run_gates,
    run_prefill,
)
from kernels.conv.timed import timed
from kernels.conv.truth import truth_of_fold, truth_of_gates, truth_of_prefill

DEMO, NARROW = (1, 3), (2, 4)
LARGE = ((16, 48), (16, 32), (16, 16))
"""Key and value heads of the 27B and its siblings."""


def _cases() -> tuple[Case, ...]:
    """Build all cases; those above about 100 programs are left to a GPU."""
    cases = [
        gates_case(1, DEMO, num_pending=0),
        gates_case(1, DEMO, num_pending=1, parity=1),
        gates_case(5, DEMO, shape=CHAIN, num_pending=2, gates=STEEP_GATES),
        gates_case(9, DEMO, num_pending=3, parity=1),
        gates_case(5, NARROW, width=16, num_pending=32),
        gates_case(13, NARROW, width=16, num_pending=7, parity=1),
        gates_case(1, DEMO, num_inputs=256),
        gates_case(13, DEMO, num_pending=3, parity=1, num_inputs=770),
        gates_case(6, NARROW, width=16, num_pending=1, num_inputs=1024),
        gates_case(3, NARROW, width=16, num_inputs=1500),
        prefill_case(1, DEMO),
        prefill_case(2, NARROW, width=16),
        prefill_case(17, DEMO, gates=STEEP_GATES),
        prefill_case(100, NARROW, width=16),
        prefill_case(1500, (16, 48), interpreted=False),
        fold_case(2, 640, 0, 0),
        fold_case(3, 640, 2, 1),
        fold_case(1, 700, 32, 0),
        fold_case(48, 10240, 5, 1),
    ]
    for heads in LARGE:
        cases.extend(
            gates_case(rows, heads, num_pending=rows // 2, interpreted=False)
            for rows in (1, 16, 32)
        )
        cases.extend(
            gates_case(rows, heads, num_pending=rows // 2, num_inputs=5120, interpreted=False)
            for rows in (1, 4, 5, 16, 31, 32)
        )
        cases.append(prefill_case(63, heads, interpreted=False))
    for hostile in domain.HOSTILE:
        cases.append(gates_case(6, DEMO, hostile))
        cases.append(gates_case(2, NARROW, hostile, width=16, num_inputs=256))
        cases.append(gates_case(13, DEMO, hostile, num_inputs=256, interpreted=False))
        cases.append(prefill_case(6, DEMO, hostile))
    return tuple(cases)


def _heads(inputs: Tensors, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values = inputs["decay_rate"].shape[0]
    heads = y.unflatten(1, (-1, int(inputs["width"])))
    keys = (heads.shape[1] - values) // 2
    return heads.split((keys, keys, values), dim=1)


def _model_gates(inputs: Tensors) -> Tensors:
    tail = tail_behind_pending_reference(
        inputs["tail"], inputs["raw"], int(inputs["num_pending"]), inputs["pending_rows"]
    )
    x, width = inputs["x"], int(inputs["width"])
    places = places_of(inputs["parents"][: len(x)])
    q, k, v = _heads(inputs, convolve_reference(x, inputs["weight"], tail, places, KERNEL))
    ab = gates_of(inputs)
    if isinstance(ab, GateInputs):
        ab = gates_product_reference(ab.rows, ab.weight, KERNEL)
    g, beta = gates_reference(ab, inputs["decay_rate"], inputs["dt_bias"], KERNEL)
    return {
        "q": unit_length(q.float(), KERNEL) * width**-0.5,
        "k": unit_length(k.float(), KERNEL),
        "v": v,
        "beta": beta.float(),
        "decay": KERNEL.exp(g),
        "raw_written": x,
        "tail_written": tail,
    }


def _model_prefill(inputs: Tensors) -> Tensors:
    x, tail = inputs["x"], inputs["tail"]
    places = torch.arange(len(x))[:, None] + torch.arange(-3, 1)
    q, k, v = _heads(inputs, convolve_reference(x, inputs["weight"], tail, places, KERNEL))
    g, beta = gates_reference(inputs["ab"], inputs["decay_rate"], inputs["dt_bias"], KERNEL)
    last = torch.cat((tail, x))[-3:]
    return {"q": q, "k": k, "v": v, "g": g, "beta": beta, "tail_written": last}


def _model_fold(inputs: Tensors) -> Tensors:
    return {"tails_written": truth_of_fold(inputs)["tails_written"].bfloat16()}


FAMILY = Family(
    name="conv",
    ops={
        "conv_gates": Op(run_gates, truth_of_gates, _model_gates),
        "conv_prefill": Op(run_prefill, truth_of_prefill, _model_prefill),
        "conv_fold": Op(run_fold, truth_of_fold, _model_fold),
    },
    cases=_cases(),
    laws=(*laws.LAWS, *prefill_laws.LAWS),
    timed=timed,
)
