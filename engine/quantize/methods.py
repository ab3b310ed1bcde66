"""One matrix into NVFP4 by a method, and what it lost."""

from dataclasses import dataclass

import torch

from engine.errors import RequestError, did_you_mean
from engine.model.matrix import Nvfp4
from engine.quantize.clip import OFFSETS, ROOM, search
from engine.quantize.gptq import Feedback, feedback_of, round_with_feedback
from engine.quantize.grid import encode, pack, places
from engine.quantize.scales import E4M3, multipliers, nearest_scales, tensor_scale
from kernels.linear.formats import NVFP4_GROUP

METHODS = ("nearest", "clip", "gptq")

ELEMENTS_PER_BLOCK = 1 << 22
"""Weights in fp32 at a time, each with its candidates: some hundreds of megabytes."""


def needs_inputs(method: str) -> bool:
    """Whether a method looks at the inputs of a matrix.

    Raises:
        RequestError: there is no such method.
    """
    if method not in METHODS:
        raise RequestError(
            f"--method is '{method}', expected one of {', '.join(METHODS)}.",
            did_you_mean(method, METHODS),
        )
    return method != "nearest"


@dataclass(frozen=True, slots=True)
class Loss:
    """What quantising lost, as shares of squared sums.

    Attributes:
        weight: of the weights.
        output: of the outputs on the calibration's rows; None where no inputs were looked at.
    """

    weight: float
    output: float | None


class Quantiser:
    """Quantises the matrices that read the same rows.

    Args:
        method: one of `METHODS`.
        moments: fp32 [K, K], second moments of the rows; None where they are not known, which
            only ``nearest`` does without.
    """

    def __init__(self, method: str, moments: torch.Tensor | None) -> None:
        self._moments = moments
        self._weighting: torch.Tensor | None = None
        if method == "clip":
            assert moments is not None
            self._weighting = moments.diagonal()
        self._feedback: Feedback | None = None
        if method == "gptq":
            assert moments is not None
            self._feedback = feedback_of(moments)

    def quantise(self, weight: torch.Tensor) -> Nvfp4:
        """Quantise a matrix: bf16 [N, K], K a multiple of 16."""
        if self._feedback is not None:
            whole = tensor_scale(weight, ROOM)
            codes, scales = round_with_feedback(weight, self._feedback, whole)
            return Nvfp4(pack(codes), scales.view(E4M3), whole)
        whole = tensor_scale(weight, 1.0 if self._weighting is None else ROOM)
        packed, scales = _round_each(weight, self._weighting, whole)
        return Nvfp4(packed, scales.view(E4M3), whole)

    def loss(self, weight: torch.Tensor, values: torch.Tensor) -> Loss:
        """Compare values, bf16 [N, K], with the weight that they stand for."""
        sums = torch.zeros(4, dtype=torch.float64)
        for rows in _blocks(weight, ELEMENTS_PER_BLOCK):
            wide = weight[rows].float()
            error = wide - values[rows]
            parts = [error.square().sum(), wide.square().sum()]
            if self._moments is not None:
                parts += [_energy(error, self._moments), _energy(wide, self._moments)]
            sums[: len(parts)] += torch.stack(parts).cpu()
        lost, held, lost_output, output = (float(one) for one in sums)
        share = None if self._moments is None else lost_output / max(output, 1e-30)
        return Loss(lost / max(held, 1e-30), share)


def widened(matrix: Nvfp4) -> torch.Tensor:
    """The values of a matrix, bf16 [N, K]; only some rows are decoded at a time."""
    num_rows, half = matrix.codes.shape
    out = torch.empty((num_rows, 2 * half), dtype=torch.bfloat16, device=matrix.codes.device)
    for rows in _blocks(out, ELEMENTS_PER_BLOCK):
        out[rows] = Nvfp4(matrix.codes[rows], matrix.scales[rows], matrix.tensor_scale).expand()
    return out


def _round_each(
    weight: torch.Tensor, weighting: torch.Tensor | None, whole: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Round every weight for itself: packed codes uint8 [N, K/2], scale bytes [N, K/16]."""
    num_rows, width = weight.shape
    packed = torch.empty((num_rows, width // 2), dtype=torch.uint8, device=weight.device)
    scales = packed.new_empty((num_rows, width // NVFP4_GROUP))
    size = ELEMENTS_PER_BLOCK if weighting is None else ELEMENTS_PER_BLOCK // len(OFFSETS)
    for rows in _blocks(weight, size):
        groups = weight[rows].float().view(-1, width // NVFP4_GROUP, NVFP4_GROUP)
        if weighting is None:
            chosen = nearest_scales(groups, whole)
        else:
            chosen = search(groups, weighting.view(-1, NVFP4_GROUP), whole)
        found = places(groups / multipliers(chosen, whole)[..., None])
        packed[rows], scales[rows] = pack(encode(found).flatten(1)), chosen
    return packed, scales


def _energy(rows: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """Sum of squares of the outputs that rows [N, K] have on inputs of these second moments."""
    return (rows @ moments).mul_(rows).sum()


def _blocks(matrix: torch.Tensor, num_elements: int) -> list[slice]:
    num_rows, width = matrix.shape
    size = max(1, num_elements // width)
    return [slice(start, min(num_rows, start + size)) for start in range(0, num_rows, size)]
