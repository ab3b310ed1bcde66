"""State the laws of the chunked delta rule: where a call may be cut, and how exact it is."""

from collections.abc import Sequence
from itertools import pairwise

import torch

from kernels.common.case import Case, Tensors
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.delta.prefill import SLAB_CHUNKS, delta_prefill
from kernels.delta.prefill_launch import launch_prefill, tile_of
from kernels.delta.prefill_model import model_prefill
from kernels.delta.prefill_problems import (
    ALIKE,
    NO_DECAY,
    REPEATED,
    STEEP,
    WHOLE,
    advance,
    prefill_case,
    run_prefill,
)
from kernels.delta.prefill_tile import BY_ONE_WARP, PrefillTile
from kernels.delta.prefill_truth import truth_prefill
from kernels.delta.reference import CHUNK

OUT_ERROR = 2.0**-8
"""Relative length of a head's output error, at most: a rounding to bf16 alone has 0.0017."""

STATE_ERROR = 2.0**-15
"""Relative length of a head's state error, at most: 2^-17 for each of the products that a state
goes through in a chunk (read, system, write), as independent errors; fp32 single steps have 1e-6,
products with an operand of 11 bits (tf32) 3e-4, of 8 bits (bf16) 2e-3."""

OUT_FROM_MODEL, STATE_FROM_MODEL = 2.0**-11, 2.0**-17
"""Relative length of a head's distance from the model of the kernels' splits, at most."""


def _cut_changes_bits(device: str) -> str | None:
    """Compare calls cut at multiples of 64 with the whole call."""
    cuts = [(150, (64,)), (150, (128,)), (257, (64, 192, 256))]
    if device != "cpu":
        edge = SLAB_CHUNKS * CHUNK
        cuts += [(edge + 70, (edge,)), (edge + 70, (64, edge - 64)), (2 * edge, (edge + 64,))]
    for num_rows, places in cuts:
        heads = (1, 2) if device == "cpu" else (2, 6)
        inputs = prefill_case(num_rows, *heads, gates=STEEP).draw(1, device)
        whole, parts = inputs["state"].clone(), inputs["state"].clone()
        out = advance(inputs, whole, slice(0, num_rows))
        edges = (0, *places, num_rows)
        pieces = [advance(inputs, parts, slice(*ends)) for ends in pairwise(edges)]
        fault = different_bits(torch.cat(pieces), out, ("T", "H", "E"))
        fault = fault or different_bits(parts, whole, ("H", "D", "E"))
        if fault:
            return f"{num_rows} rows cut at {places}: {fault}"
    return None


def _strays(device: str) -> str | None:
    """Measure each head's error against fp64 where keys are unlike, alike and repeated."""
    num_rows, heads = (130, (1, 1)) if device == "cpu" else (1000, (2, 6))
    for case in (
        prefill_case(num_rows, *heads),
        prefill_case(num_rows, *heads, keys=ALIKE, betas=WHOLE),
        prefill_case(num_rows, *heads, keys=ALIKE, gates=NO_DECAY, betas=WHOLE),
        prefill_case(num_rows, *heads, keys=REPEATED, gates=NO_DECAY, betas=WHOLE),
        prefill_case(num_rows, *heads, keys=REPEATED),
    ):
        out, state = errors(case, device)
        if not (out <= OUT_ERROR and state <= STATE_ERROR):
            return (
                f"{case.label}: out strays by {out:.2e} (at most {OUT_ERROR:.2e}), the state by "
                f"{state:.2e} (at most {STATE_ERROR:.2e})"
            )
    return None


def errors(case: Case, device: str) -> tuple[float, float]:
    """Return the largest relative length of a head's error: of out and of the state."""
    inputs, outputs = case.draw(2, device), case.poisoned_outputs(device).tensors
    run_prefill(inputs, outputs)
    truth = truth_prefill(inputs)
    out = relative_length(outputs["out"], truth["out"], (0, 2))
    return out, relative_length(outputs["state_out"], truth["state_out"], (1, 2))


def relative_length(got: torch.Tensor, truth: torch.Tensor, axes: Sequence[int]) -> float:
    """Return |got - truth| / |truth| over some axes, the largest over the others."""
    lengths = [torch.linalg.vector_norm(x, dim=axes) for x in (got.double() - truth, truth)]
    return (lengths[0] / lengths[1]).max().item()


def _strides_change_bits(device: str) -> str | None:
    """Compare parts of wider rows, as the convolution writes them, with contiguous copies."""
    inputs = prefill_case(70, 2, 2).draw(3, device)
    fused = torch.cat([inputs[name].flatten(1) for name in ("q", "k", "v")], 1)
    q, k, v = (part.unflatten(1, (2, 128)) for part in fused.split(256, 1))
    beta = torch.cat((inputs["beta"], inputs["beta"]), 1)[:, 2:]
    apart, strided = inputs["state"].clone(), inputs["state"].clone()
    out = advance(inputs, apart, slice(None))
    wide = torch.full((70, 4, 128), torch.nan, dtype=out.dtype, device=device)
    delta_prefill(q, k, v, inputs["g"], beta, strided, out=wide[:, 1:3])
    fault = different_bits(wide[:, 1:3], out, ("T", "H", "E"))
    if fault is None and not bool(wide[:, ::3].isnan().all()):
        fault = "wrote outside of out"
    return fault or different_bits(strided, apart, ("H", "D", "E"))


def _far_from_model(device: str) -> str | None:
    """Measure the distance from the model, whose sums alone have another order, of every walk."""
    own = tile_of(torch.cuda.current_device())
    for case in (
        prefill_case(200, 1, 3),
        prefill_case(70, 2, 2, keys=ALIKE, gates=NO_DECAY, betas=WHOLE),
        prefill_case(150, 1, 1, gates=STEEP),
    ):
        inputs = case.draw(2, device)
        model = model_prefill({name: tensor.cpu() for name, tensor in inputs.items()})
        for tile in {own, BY_ONE_WARP}:
            out, state = _walked(inputs, tile)
            of_out = relative_length(out.cpu(), model["out"], (0, 2))
            of_state = relative_length(state.cpu(), model["state_out"], (1, 2))
            if not (of_out <= OUT_FROM_MODEL and of_state <= STATE_FROM_MODEL):
                return (
                    f"{case.label}, {tile}: out is {of_out:.2e} from the model (at most "
                    f"{OUT_FROM_MODEL:.2e}), the state {of_state:.2e} (at most "
                    f"{STATE_FROM_MODEL:.2e})"
                )
    return None


def _walked(inputs: Tensors, tile: PrefillTile) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch a walk on a case's tensors: out and state."""
    state, out = inputs["state"].clone(), torch.empty_like(inputs["v"])
    q, k, v, g, beta = (inputs[name] for name in ("q", "k", "v", "g", "beta"))
    launch_prefill(q, k, v, g, beta, state, out, tile=tile)
    return out, state


LAWS = (
    Law("a prefill cut at multiples of 64 tokens has the bits of the whole", _cut_changes_bits),
    Law("a prefill's heads stray by 2^-8 and their states by 2^-15 at most", _strays),
    Law("a prefill's strides change no bit", _strides_change_bits),
    Law("a prefill is near the model of its splits", _far_from_model, cuda_only=True),
)
