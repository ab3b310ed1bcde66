"""From a folder to a model: check everything, plan the memory, then stream the weights in."""

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import AGAIN, Checkpoint, open_checkpoint
from engine.model.config_file import read_config
from engine.model.decoder import Model
from engine.model.generation import Generation, read_generation
from engine.model.kernel_model import KernelModel
from engine.model.layouts import StoredWeight
from engine.model.matrix import Matrix, Stored
from engine.model.memory import plan_memory
from engine.model.numbers import NumberCheck
from engine.model.packing import Packer
from engine.model.reading import read_expanded, read_stored
from engine.model.streaming import WeightStream
from engine.model.weights import assemble
from engine.types import LoadProgressed


def load_model(
    folder: Path,
    *,
    device: str = "cpu",
    on_progress: Callable[[LoadProgressed], None] | None = None,
    cancel: threading.Event | None = None,
    expand: bool = True,
    packer: Packer | None = None,
) -> Model:
    """Open a folder and load its weights; arguments and errors as in `load_weights`.

    Args:
        folder: holds config.json and the weights.
        device: "cpu" or "cuda".
        on_progress: called as bytes arrive.
        cancel: stops the load.
        expand: hold 8-bit and 4-bit matrices as the BF16 they stand for.
        packer: holds matrices as its GPU's kernels read them.

    Raises:
        CheckpointError: config or files are refused; nothing was allocated.
    """
    config = read_config(folder)
    generation = read_generation(folder, config)
    return load_weights(
        open_checkpoint(folder, config),
        generation,
        device=device,
        on_progress=on_progress,
        cancel=cancel,
        expand=expand,
        packer=packer,
    )


def load_weights(
    checkpoint: Checkpoint,
    generation: Generation,
    *,
    device: str,
    on_progress: Callable[[LoadProgressed], None] | None = None,
    cancel: threading.Event | None = None,
    expand: bool = True,
    packer: Packer | None = None,
) -> Model:
    """Load the weights of a checkpoint that was opened.

    Args:
        checkpoint: its headers and scales were read and accepted.
        generation: stop ids and sampling defaults that came with it.
        device: "cpu" or "cuda".
        on_progress: called as bytes arrive, at most twenty times a second.
        cancel: looked at before every piece.
        expand: hold 8-bit and 4-bit matrices as the BF16 they stand for; False keeps codes and
            scales.
        packer: a fresh one; packs every matrix as it is stored, whatever ``expand`` says.

    Raises:
        CheckpointError: a file changed or does not read, or a weight is no finite number.
        MemoryPlanError: the model does not fit; nothing was allocated.
        CancelledError: ``cancel`` was set.

    Numerics:
        Matrices are held in BF16: F16 and F32 ones are rounded, others expanded as
        bf16(float(code) * scale), of NVFP4 bf16(e2m1 * (scale * tensor_scale)). F32 vectors
        (norms, A_log, dt_bias) stay F32. Packed matrices keep codes and scales, exactly; one
        multiplier of a whole e4m3 matrix is repeated a row. A global scale that divides is held
        as fp32(1 / scale), which moves each weight by at most 2^-24 of itself.
    """
    config = checkpoint.config
    plan_memory(checkpoint, device, expand=expand, packed=packer is not None).expect_fit()
    with WeightStream(checkpoint.num_bytes, torch.device(device), on_progress, cancel) as stream:
        tensors = _load_tensors(checkpoint, stream, expand=expand, packer=packer)
    weights = assemble(config, tensors)
    if packer is None:
        return Model(config, weights, generation)
    return KernelModel(config, weights, generation, packer.launching)


def _load_tensors(
    checkpoint: Checkpoint, stream: WeightStream, *, expand: bool, packer: Packer | None
) -> dict[str, Matrix]:
    """Read all weights; those of a packer are packed while the next one is read."""
    tensors: dict[str, Matrix] = {}
    check = NumberCheck()
    read = read_expanded if expand and packer is None else read_stored
    every = ((name, one, read(stream, name, one)) for name, one in checkpoint.weights.items())
    with closing(stream.ahead(every)) as arriving:
        for name, one, matrix in arriving:
            if one.format == "bf16" and isinstance(matrix, torch.Tensor):
                check.look(one, matrix)
            if packer is not None and one.spec.matrix:
                _pack(packer, name, one, matrix)
            else:
                tensors[name] = matrix
    if packer is not None:
        embedding = tensors["embed_tokens.weight"]
        assert isinstance(embedding, torch.Tensor)
        tensors |= packer.finish(embedding, tied=checkpoint.config.tie_word_embeddings)
    check.expect_numbers()
    return tensors


def _pack(packer: Packer, name: str, one: StoredWeight, matrix: Stored) -> None:
    try:
        packer.add(name, matrix)
    except ValueError as problem:
        raise CheckpointError(
            f"{one.weight.path}: '{one.weight.name[:200]}' cannot be served: {problem}.", AGAIN
        ) from None
