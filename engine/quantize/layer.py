"""Quantise one layer on the rows that reach it, and send them on through what became of it.

Rows are those that the finished model will see: each matrix is judged on what the quantised ones
before it made, since that is what it will multiply; on rows of the original model it would be
judged on inputs that never come.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch

from engine.model.config import LayerKind, ModelConfig
from engine.model.matrix import Nvfp4
from engine.model.rope import RopeTable
from engine.quantize.halves import Half, Layer, halves_of
from engine.quantize.methods import Loss, Quantiser, needs_inputs, widened
from engine.quantize.moments import Moments

Rows = list[torch.Tensor]
"""The residual stream of every calibration sequence: bf16 [T, D] each, on the device."""

Quantised = dict[str, tuple[Nvfp4, Loss]]
"""Matrices by canonical name, each with what it lost."""


@torch.inference_mode()
def quantise_layer(
    config: ModelConfig,
    prefix: str,
    kind: LayerKind,
    tensors: dict[str, torch.Tensor],
    rows: Rows,
    *,
    method: str,
    rope: RopeTable,
) -> Quantised:
    """Quantise the large matrices of a layer.

    Args:
        config: the model's numbers.
        prefix: of the layer's names, with the dot at its end.
        kind: of its mixer.
        tensors: the layer's by canonical name, on the device; a quantised matrix takes the place
            of each that was.
        rows: what reaches the layer, replaced by what leaves it; none where the method needs none.
        method: one of ``methods.METHODS``.
        rope: angles of all positions.

    Returns:
        The matrices on the device.
    """
    layer = Layer(config, prefix, kind, tensors, rope)
    found: Quantised = {}

    def quantise(names: Iterable[str], given: Callable[[torch.Tensor], torch.Tensor]) -> None:
        moments = _moments(rows, given) if needs_inputs(method) else None
        quantiser = Quantiser(method, moments)
        for name in (prefix + one for one in names):
            weight = tensors[name]
            matrix = quantiser.quantise(weight)
            tensors[name] = widened(matrix)
            found[name] = (matrix, quantiser.loss(weight, tensors[name]))

    for half in halves_of(kind):
        quantise(half.inputs, partial(layer.normed, half))
        quantise([half.output], partial(layer.before_output, half))
        _send_on(layer, half, rows)
    return found


@torch.inference_mode()
def pass_layer(
    config: ModelConfig,
    prefix: str,
    kind: LayerKind,
    tensors: dict[str, torch.Tensor],
    rows: Rows,
    rope: RopeTable,
) -> None:
    """Send rows through a layer as it is; arguments as in `quantise_layer`."""
    layer = Layer(config, prefix, kind, tensors, rope)
    for half in halves_of(kind):
        _send_on(layer, half, rows)


def _send_on(layer: Layer, half: Half, rows: Rows) -> None:
    for index, one in enumerate(rows):
        rows[index] = layer.add(half, one)


def _moments(rows: Rows, given: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Second moments of what a matrix is given, fp32 [K, K]."""
    moments: Moments | None = None
    for one in rows:
        inputs = given(one)
        moments = moments or Moments(inputs.shape[1], inputs.device)
        moments.add(inputs)
    assert moments is not None
    return moments.mean()
