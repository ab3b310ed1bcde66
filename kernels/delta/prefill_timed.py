"""List the chunked delta rules of a model as problems to time, with bytes, bar and peer."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch

from kernels.common.case import Tensors
from kernels.common.peers import Peer
from kernels.common.problem import Bar, ModelSizes, Problem, case_calls
from kernels.common.round import MAX_ROWS
from kernels.delta.prefill_problems import prefill_case, run_prefill

FLA = "fla chunk"
BAR = Bar(min_speed_up={FLA: 1.2}, gpu="H200")
"""At least 1.2 times faster than the chunk kernel of flash-linear-attention, both in a graph."""


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the prefill of a model's delta layer for more tokens than a verify has."""
    if rows <= MAX_ROWS:
        return ()
    heads = (sizes.num_key_heads, sizes.num_value_heads)
    case = prefill_case(rows, *heads, cuda_only=True)
    num_bytes = case.read_bytes + case.written_bytes
    make = partial(_fla_calls, rows, *heads)
    return (
        Problem(
            name="prefill",
            op="delta_prefill",
            rows=rows,
            sizes=case.sizes,
            num_bytes=num_bytes,
            make_calls=partial(case_calls, case, _run),
            case=case,
            bar=BAR if sizes.hidden_size == 5120 else None,
            peers=(Peer(FLA, num_bytes, make, "flash-linear-attention", "0.6.0"),),
        ),
    )


def _run(inputs: Tensors, outputs: Tensors, _tile: None) -> None:
    """Run what a case runs; there is no tile to choose."""
    run_prefill(inputs, outputs)


def _fla_calls(
    rows: int, key_heads: int, heads: int, num_copies: int, device: str
) -> list[Callable[[], object]]:
    chunk = import_module("fla.ops.gated_delta_rule").chunk_gated_delta_rule
    case = prefill_case(rows, key_heads, heads, cuda_only=True)
    drawn = case.draw(0, device)
    calls: list[Callable[[], object]] = []
    for _ in range(num_copies):
        copy = {name: tensor.clone()[None] for name, tensor in drawn.items()}
        calls.append(partial(_call_fla, chunk, copy))
    return calls


def _call_fla(chunk: Any, inputs: dict[str, torch.Tensor]) -> object:  # noqa: ANN401  foreign
    with torch.no_grad():
        return chunk(
            **{name: inputs[name] for name in ("q", "k", "v", "g", "beta")},
            initial_state=inputs["state"],
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
