"""The layers of a model, one after another: norm, mixer, norm, feed-forward, each onto the stream.

Plain torch, chunks of prefill and rounds of rows walk them alike; they differ in their mixers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch

from engine.model.matrix import Matrix, operands_for
from engine.model.mlp import feed_forward
from engine.model.norms import add_rms_norm, rms_norm
from engine.model.taps import Taps
from engine.model.weights import AttentionWeights, DeltaWeights, ModelWeights
from kernels.common.operands import Operands


@dataclass(frozen=True, slots=True)
class Mixers:
    """How the mixers of a way through the layers compute: bf16 [T, D] -> bf16 [T, D].

    Both take normed rows, the same as operands where the first product reads them, the layer's
    weights, and its place among the layers of its kind.
    """

    attend: Callable[[torch.Tensor, Operands | None, AttentionWeights, int], torch.Tensor]
    advance: Callable[[torch.Tensor, Operands | None, DeltaWeights, int], torch.Tensor]


def run_layers(
    weights: ModelWeights,
    stream: torch.Tensor,
    eps: float,
    mixers: Mixers,
    *,
    taps: Taps | None = None,
    overlap: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Run all layers over rows of the embedding.

    Args:
        weights: of the model.
        stream: bf16 [T, D].
        eps: of the norms.
        mixers: run in every layer, by its kind.
        taps: written to, where some layers are tapped.
        overlap: kernels start before their predecessors end.
        out: bf16 [T, D] to write; None allocates.

    Returns:
        The rows after the final norm, ``out`` if it was given.
    """
    num_rows, layers = stream.shape[0], weights.layers
    places = {AttentionWeights: count(), DeltaWeights: count()}
    ready = operands_for(_first_matrix(layers[0].mixer), num_rows)
    normed = rms_norm(stream, layers[0].input_norm, eps, overlap=overlap, operands=ready)
    for index, layer in enumerate(layers):
        place = next(places[type(layer.mixer)])
        if isinstance(layer.mixer, AttentionWeights):
            mixed = mixers.attend(normed, ready, layer.mixer, place)
        else:
            mixed = mixers.advance(normed, ready, layer.mixer, place)
        ready = operands_for(layer.mlp.gate, num_rows)
        normed, stream = add_rms_norm(
            mixed, stream, layer.post_norm, eps, overlap=overlap, operands=ready
        )
        fed = feed_forward(normed, layer.mlp, overlap=overlap, operands=ready)
        if index + 1 < len(layers):
            following = layers[index + 1]
            ready = operands_for(_first_matrix(following.mixer), num_rows)
            normed, stream = add_rms_norm(
                fed, stream, following.input_norm, eps, overlap=overlap, operands=ready
            )
        else:
            normed, stream = add_rms_norm(fed, stream, weights.norm, eps, overlap=overlap, out=out)
        if taps is not None:
            taps.write(index, stream)
    return normed


def _first_matrix(mixer: AttentionWeights | DeltaWeights) -> Matrix:
    """The matrix that reads a layer's normed rows first."""
    return mixer.q if isinstance(mixer, AttentionWeights) else mixer.qkv
