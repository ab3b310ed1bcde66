"""The weights of a DFlash2 drafter as its forward pass names them, and how they are loaded."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import torch

from engine.dflash.checkpoint import AGAIN, DflashCheckpoint
from engine.dflash.config import DflashConfig
from engine.errors import CheckpointError
from engine.model.groups import DRAFTER_PREFIX
from engine.model.layouts import StoredWeight
from engine.model.matrix import Matrix, bytes_of
from engine.model.numbers import NumberCheck
from engine.model.packing import Packer
from engine.model.reading import read_stored
from engine.model.streaming import WeightStream
from engine.model.weights import MlpWeights
from engine.profile import WeightFormat
from engine.quantize.methods import Quantiser
from engine.types import LoadProgressed
from kernels.linear.formats import NVFP4_GROUP


@dataclass(frozen=True, slots=True)
class ConvWeights:
    """A convolution whose kernel each row makes for itself.

    ``base`` is bf16 [2, taps, D]: before the sublayer, then behind it; ``projection``
    [2 * taps * groups, D] gives what a row adds to it, sides, then taps, then groups.
    """

    base: torch.Tensor
    projection: Matrix


@dataclass(frozen=True, slots=True)
class BlockLayerWeights:
    """One layer of a drafter. Norms are fp32 and hold w - 1: the norms of `engine.model` add 1."""

    input_norm: torch.Tensor
    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    attention_conv: ConvWeights
    post_norm: torch.Tensor
    mlp: MlpWeights
    mlp_conv: ConvWeights


@dataclass(frozen=True, slots=True)
class DflashWeights:
    """All weights of a drafter; norms as in `BlockLayerWeights`.

    ``fc`` [D, taps * D] joins the target's layers; ``predecessors`` and ``successors`` are bf16
    [V, rank], ``projection`` [rank, D].
    """

    fc: Matrix
    hidden_norm: torch.Tensor
    layers: tuple[BlockLayerWeights, ...]
    norm: torch.Tensor
    projection: Matrix
    predecessors: torch.Tensor
    successors: torch.Tensor
    num_bytes: int


def load_dflash(
    checkpoint: DflashCheckpoint,
    *,
    device: str,
    on_progress: Callable[[LoadProgressed], None] | None = None,
    cancel: threading.Event | None = None,
    packer: Packer | None = None,
    stored: WeightFormat = "bf16",
) -> DflashWeights:
    """Load the weights of a drafter that was opened and planned for.

    Args:
        checkpoint: its headers were accepted.
        device: "cpu" or "cuda".
        on_progress: called as bytes arrive.
        cancel: looked at before every piece.
        packer: a fresh one; packs every matrix for its GPU's kernels. None holds BF16.
        stored: "nvfp4" rounds the packed projections to it, each weight to the nearest; others
            leave them in BF16. Both change what is proposed, never text.

    Raises:
        CheckpointError: a file changed or does not read, or a weight is no finite number.
        CancelledError: ``cancel`` was set.

    Numerics:
        Matrices are BF16 (F16 and F32 ones are rounded). w - 1 of a norm is rounded to fp32, by at
        most 2^-25 where |w| < 2.
    """
    tensors: dict[str, Matrix] = {}
    check = NumberCheck()
    with (
        WeightStream(checkpoint.num_bytes, torch.device(device), on_progress, cancel) as stream,
        closing(stream.ahead(_read_all(checkpoint, stream))) as arriving,
    ):
        for name, one, matrix in arriving:
            check.look(one, matrix)
            if packer is None or not one.spec.matrix:
                tensors[name] = matrix
                continue
            rounds = holds_nvfp4(one.spec.part, one.spec.shape, stored)
            try:
                rounded = Quantiser("nearest", None).quantise(matrix) if rounds else matrix
                packer.add(DRAFTER_PREFIX + name, rounded)
            except ValueError as problem:
                raise CheckpointError(
                    f"{one.weight.path}: '{name}' cannot be served: {problem}.", AGAIN
                ) from None
    if packer is not None:
        tensors |= packed_tensors(packer)
    check.expect_numbers()
    return assemble(checkpoint.config, tensors)


def _read_all(
    checkpoint: DflashCheckpoint, stream: WeightStream
) -> Iterator[tuple[str, StoredWeight, torch.Tensor]]:
    for name, one in checkpoint.weights.items():
        matrix = read_stored(stream, name, one)
        assert isinstance(matrix, torch.Tensor)
        yield name, one, matrix


def packed_tensors(packer: Packer) -> dict[str, Matrix]:
    """What a packer was given of a drafter, packed, by the names of `dflash_tensors`."""
    packed = packer.packed().items()
    return {name.removeprefix(DRAFTER_PREFIX): one for name, one in packed}


def holds_nvfp4(part: str, shape: tuple[int, ...], stored: WeightFormat) -> bool:
    """Whether a packed matrix is rounded to NVFP4: a projection whose inputs divide into groups."""
    return stored == "nvfp4" and part == "mtp" and shape[1] % NVFP4_GROUP == 0


def assemble(config: DflashConfig, tensors: Mapping[str, Matrix]) -> DflashWeights:
    """Give every tensor its place.

    Args:
        config: the drafter's numbers.
        tensors: all of `dflash_tensors(config)` by name.
    """
    tensors = {
        name: _one_less(matrix) if name.endswith("norm.weight") else matrix
        for name, matrix in tensors.items()
    }
    layers = tuple(_layer(tensors, f"layers.{index}.") for index in range(config.num_layers))
    selector = "candidate_selector."
    return DflashWeights(
        fc=tensors["fc.weight"],
        hidden_norm=_plain(tensors, "hidden_norm.weight"),
        layers=layers,
        norm=_plain(tensors, "norm.weight"),
        projection=tensors[selector + "hidden_projection.weight"],
        predecessors=_plain(tensors, selector + "predecessor_codebook"),
        successors=_plain(tensors, selector + "successor_codebook"),
        num_bytes=bytes_of(tensors.values()),
    )


def _layer(tensors: Mapping[str, Matrix], prefix: str) -> BlockLayerWeights:
    attention, mlp = prefix + "self_attn.", prefix + "mlp."
    return BlockLayerWeights(
        input_norm=_plain(tensors, prefix + "input_layernorm.weight"),
        q=tensors[attention + "q_proj.weight"],
        k=tensors[attention + "k_proj.weight"],
        v=tensors[attention + "v_proj.weight"],
        o=tensors[attention + "o_proj.weight"],
        q_norm=_plain(tensors, attention + "q_norm.weight"),
        k_norm=_plain(tensors, attention + "k_norm.weight"),
        attention_conv=_conv(tensors, prefix + "attention_conv."),
        post_norm=_plain(tensors, prefix + "post_attention_layernorm.weight"),
        mlp=MlpWeights(
            gate=tensors[mlp + "gate_proj.weight"],
            up=tensors[mlp + "up_proj.weight"],
            down=tensors[mlp + "down_proj.weight"],
        ),
        mlp_conv=_conv(tensors, prefix + "mlp_conv."),
    )


def _conv(tensors: Mapping[str, Matrix], prefix: str) -> ConvWeights:
    return ConvWeights(
        base=_plain(tensors, prefix + "base_kernel"),
        projection=tensors[prefix + "kernel_projection.weight"],
    )


def _one_less(norm: Matrix) -> torch.Tensor:
    assert isinstance(norm, torch.Tensor)
    return norm.float() - 1.0


def _plain(tensors: Mapping[str, Matrix], name: str) -> torch.Tensor:
    tensor = tensors[name]
    assert isinstance(tensor, torch.Tensor), name
    return tensor
