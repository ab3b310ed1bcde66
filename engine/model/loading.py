"""From a folder to a model: check everything, plan the memory, then stream the weights in."""

import threading
from collections.abc import Callable
from pathlib import Path

import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import AGAIN, Checkpoint, StoredWeight, open_checkpoint
from engine.model.config_file import read_config
from engine.model.decoder import Model
from engine.model.generation import Generation, read_generation
from engine.model.kernel_model import KernelModel
from engine.model.matrix import Fp8Block, Matrix, Stored
from engine.model.memory import plan_memory
from engine.model.packing import Packer
from engine.model.safetensors_header import StoredTensor
from engine.model.streaming import STAGING_BYTES, WeightStream
from engine.model.tensors import keeps_fp32
from engine.model.weights import assemble
from engine.types import LoadProgressed
from kernels.linear.formats import FP8_BLOCK
from kernels.linear.reference import fp8_block_dequantise

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32,
    "F8_E4M3": torch.float8_e4m3fn,
}  # fmt: skip


def load_model(
    folder: Path,
    *,
    device: str = "cpu",
    on_progress: Callable[[LoadProgressed], None] | None = None,
    cancel: threading.Event | None = None,
    expand: bool = True,
    packer: Packer | None = None,
    context_tokens: int = 0,
) -> Model:
    """Open a folder and load its weights; arguments and errors as in `load_weights`.

    Args:
        folder: holds config.json and the weights.
        device: "cpu" or "cuda".
        on_progress: called as bytes arrive.
        cancel: stops the load.
        expand: hold 8-bit matrices as the BF16 they stand for.
        packer: holds matrices as its GPU's kernels read them.
        context_tokens: context that the memory plan leaves room for.

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
        context_tokens=context_tokens,
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
    context_tokens: int = 0,
) -> Model:
    """Load the weights of a checkpoint that was opened.

    Args:
        checkpoint: its headers and scales were read and accepted.
        generation: stop ids and sampling defaults that came with it.
        device: "cpu" or "cuda".
        on_progress: called as bytes arrive, at most twenty times a second.
        cancel: looked at before every piece.
        expand: hold 8-bit matrices as the BF16 they stand for; False keeps codes and scales.
        packer: a fresh one; packs every matrix as it is stored, whatever ``expand`` says.
        context_tokens: context that the memory plan leaves room for.

    Raises:
        CheckpointError: a file changed or does not read, or a matrix to be packed holds NaN.
        MemoryPlanError: the model does not fit; nothing was allocated.
        CancelledError: ``cancel`` was set.

    Numerics:
        Matrices are held in BF16: F16 and F32 ones are rounded, 8-bit ones expanded as
        bf16(float(code) * float(scale)). F32 vectors (norms, A_log, dt_bias) stay F32. Packed
        8-bit matrices keep codes and scales, exactly.
    """
    config = checkpoint.config
    plan = plan_memory(
        checkpoint,
        device,
        expand=expand,
        packed=packer is not None,
        context_tokens=context_tokens,
    )
    plan.expect_fit()
    with WeightStream(checkpoint.num_bytes, on_progress, cancel) as stream:
        tensors = _load_tensors(
            checkpoint, stream, torch.device(device), expand=expand, packer=packer
        )
    weights = assemble(config, tensors)
    if packer is None:
        return Model(config, weights, generation)
    return KernelModel(config, weights, generation, packer.launching)


def _load_tensors(
    checkpoint: Checkpoint,
    stream: WeightStream,
    device: torch.device,
    *,
    expand: bool,
    packer: Packer | None,
) -> dict[str, Matrix]:
    tensors: dict[str, Matrix] = {}
    for name, one in checkpoint.weights.items():
        loaded = _load(name, one, stream, device, expand=expand and packer is None)
        if packer is None or not one.spec.matrix:
            tensors[name] = loaded
        else:
            _pack(packer, name, one, loaded)
    if packer is not None:
        embedding = tensors["embed_tokens.weight"]
        assert isinstance(embedding, torch.Tensor)
        tensors |= packer.finish(embedding, tied=checkpoint.config.tie_word_embeddings)
    return tensors


def _load(
    name: str, one: StoredWeight, stream: WeightStream, device: torch.device, *, expand: bool
) -> Stored:
    """Read one tensor with its scales."""
    if one.scales is None:
        keeps = keeps_fp32(name, one.spec.shape, one.weight.dtype)
        return _load_plain(stream, one.weight, torch.float32 if keeps else torch.bfloat16, device)
    scales = _load_plain(stream, one.scales, torch.bfloat16, device)
    if expand:
        return _load_expanded(stream, one.weight, scales)
    return Fp8Block(_load_plain(stream, one.weight, torch.float8_e4m3fn, device), scales)


def _pack(packer: Packer, name: str, one: StoredWeight, matrix: Stored) -> None:
    try:
        packer.add(name, matrix)
    except ValueError as problem:
        raise CheckpointError(
            f"{one.weight.path}: '{one.weight.name[:200]}' cannot be served: {problem}.", AGAIN
        ) from None


def _load_plain(
    stream: WeightStream, stored: StoredTensor, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Read a tensor into its final place; through a staging piece only where it must change."""
    source = DTYPES[stored.dtype]
    out = torch.empty(stored.shape, dtype=dtype, device=device)
    flat = out.view(-1)
    if dtype == source and device.type == "cpu":
        raw = flat.view(torch.uint8)
        for start in range(0, stored.num_bytes, STAGING_BYTES):
            stream.read(stored, start, raw[start : start + STAGING_BYTES])
        return out
    per_piece = STAGING_BYTES // source.itemsize
    for start in range(0, flat.numel(), per_piece):
        piece = flat[start : start + per_piece]
        staged = _staged(stream, stored, start * source.itemsize, piece.numel(), source, device)
        piece.copy_(staged)
    return out


def _load_expanded(
    stream: WeightStream, stored: StoredTensor, scales: torch.Tensor
) -> torch.Tensor:
    """Read 8-bit codes some rows of blocks at a time and write the BF16 they stand for."""
    width = stored.shape[1]
    out = torch.empty(stored.shape, dtype=torch.bfloat16, device=scales.device)
    num_blocks = max(1, STAGING_BYTES // (FP8_BLOCK * width))
    for block in range(0, scales.shape[0], num_blocks):
        first = block * FP8_BLOCK
        rows = out[first : first + num_blocks * FP8_BLOCK]
        source = torch.float8_e4m3fn
        codes = _staged(stream, stored, first * width, rows.numel(), source, scales.device)
        codes = codes.view(rows.shape).to(scales.device)
        fp8_block_dequantise(codes, scales[block : block + num_blocks], out=rows)
    return out


def _staged(
    stream: WeightStream,
    stored: StoredTensor,
    start: int,
    num_elements: int,
    source: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Read elements into the staging buffer, which the next piece overwrites."""
    num_bytes = num_elements * source.itemsize
    piece = stream.staging(num_bytes, pinned=device.type == "cuda")
    stream.read(stored, start, piece)
    return piece.view(source)
