"""One weight from its files into memory: as stored, or as the BF16 that it stands for."""

import torch

from engine.errors import CheckpointError
from engine.model.layouts import StoredWeight
from engine.model.matrix import E4m3Row, Fp8Block, Nvfp4, Stored
from engine.model.safetensors_header import StoredTensor
from engine.model.staging import PIECE_BYTES
from engine.model.streaming import WeightStream
from engine.model.tensors import keeps_fp32
from kernels.linear.formats import FP8_BLOCK

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32,
    "F8_E4M3": torch.float8_e4m3fn, "U8": torch.uint8,
}  # fmt: skip

CPU = torch.device("cpu")


def read_stored(stream: WeightStream, name: str, one: StoredWeight) -> Stored:
    """Read a weight and hold codes and scales as they are stored.

    Args:
        stream: of the checkpoint's files, to the device where it is held.
        name: canonical.
        one: where it lies.

    Returns:
        Codes with the file's bytes; scales widened as `Fp8Block`, `E4m3Row` and `Nvfp4` say. A
        plain weight is BF16, or F32 where `keeps_fp32` says so.

    Raises:
        CheckpointError: on the CPU, a code is NaN.
    """
    if one.format == "bf16":
        return _read_plain(stream, name, one)
    codes = _read_tensor(stream, one.weight, DTYPES[one.weight.dtype], stream.device)
    if stream.device.type == "cpu":  # what packs for a GPU looks itself
        _expect_numbers(one, codes, 0)
    return _joined(codes, *_read_scales(stream, one))


def read_expanded(stream: WeightStream, name: str, one: StoredWeight) -> torch.Tensor:
    """Read a weight and hold its values; arguments as in `read_stored`.

    Returns:
        bf16 [N, K], codes times scales rounded once; a plain weight as `read_stored` has it. Only
        some rows of codes are in memory at a time.

    Raises:
        CheckpointError: a code is NaN.
    """
    if one.format == "bf16":
        return _read_plain(stream, name, one)
    scales, tensor_scale = _read_scales(stream, one)
    source, (num_rows, width) = DTYPES[one.weight.dtype], one.weight.shape
    out = torch.empty(one.spec.shape, dtype=torch.bfloat16, device=stream.device)
    per_piece = max(1, PIECE_BYTES // (FP8_BLOCK * width)) * FP8_BLOCK
    for start in range(0, num_rows, per_piece):
        size = (min(per_piece, num_rows - start), width)
        codes = _staged(stream, one.weight, start * width, size[0] * width, source)
        _expect_numbers(one, codes, start * width)
        codes = codes.view(size).to(stream.device)
        # block by block, so that what widening takes stays small
        for row in range(0, size[0], FP8_BLOCK):
            first = start + row
            part = _rows_of(scales, first, num_rows)
            block = _joined(codes[row : row + FP8_BLOCK], part, tensor_scale)
            out[first : first + FP8_BLOCK] = block.expand()
    return out


def _joined(
    codes: torch.Tensor, scales: torch.Tensor, tensor_scale: torch.Tensor | None
) -> Fp8Block | E4m3Row | Nvfp4:
    """Codes and scales as the matrix that they are; the tensors tell the format."""
    if tensor_scale is not None:
        return Nvfp4(codes, scales, tensor_scale)
    return E4m3Row(codes, scales) if scales.dim() == 1 else Fp8Block(codes, scales)


def _expect_numbers(one: StoredWeight, codes: torch.Tensor, start: int) -> None:
    """Refuse e4m3 codes that are NaN; 4-bit codes are numbers all.

    Args:
        one: of the matrix.
        codes: on the CPU, any shape.
        start: elements of the matrix before them.

    Raises:
        CheckpointError: one is NaN; the sentence names its place.
    """
    if codes.dtype != torch.float8_e4m3fn:
        return
    raw = codes.view(torch.uint8)
    # 0xff is the greatest byte and 0x7f the greatest signed one: two maxima find both NaNs
    if raw.max() < 0xFF and raw.view(torch.int8).max() < 0x7F:
        return
    place = start + int((raw & 0x7F).flatten().eq(0x7F).nonzero()[0])
    raise CheckpointError(
        f"{one.weight.path}: element {place} of '{one.weight.name[:200]}' is not a number.",
        "Download the checkpoint again.",
    )


def _rows_of(scales: torch.Tensor, first: int, num_rows: int) -> torch.Tensor:
    """The scales of 128 rows from ``first``, which starts a block."""
    if scales.shape[0] == num_rows:
        return scales[first : first + FP8_BLOCK]
    return scales[first // FP8_BLOCK : first // FP8_BLOCK + 1]


def _read_scales(
    stream: WeightStream, one: StoredWeight
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scales as the format has them, and the multiplier fp32 [] of an NVFP4 tensor."""
    assert one.scales is not None
    num_rows, device = one.spec.shape[0], stream.device
    if one.format == "e4m3_row":
        scales = _read_tensor(stream, one.scales, torch.float32, device).flatten()
        # one multiplier of the whole is every row's
        return scales.expand(num_rows).contiguous(), None
    scales = _read_tensor(stream, one.scales, DTYPES[one.scales.dtype], device)
    if one.tensor_scale is None:
        return scales, None
    multiplier = _read_tensor(stream, one.tensor_scale, torch.float32, CPU).reshape(())
    # on the CPU, whose division rounds correctly
    multiplier = 1.0 / multiplier if one.layout.divides else multiplier
    return scales, multiplier.to(device)


def _read_plain(stream: WeightStream, name: str, one: StoredWeight) -> torch.Tensor:
    keeps = keeps_fp32(name, one.spec.shape, one.weight.dtype)
    dtype = torch.float32 if keeps else torch.bfloat16
    return _read_tensor(stream, one.weight, dtype, stream.device)


def _read_tensor(
    stream: WeightStream, stored: StoredTensor, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Read a tensor into its final place; through a staging piece only where it must change."""
    source = DTYPES[stored.dtype]
    out = torch.empty(stored.shape, dtype=dtype, device=device)
    flat = out.view(-1)
    if dtype == source and device.type == "cpu":
        raw = flat.view(torch.uint8)
        for start in range(0, stored.num_bytes, PIECE_BYTES):
            stream.read(stored, start, raw[start : start + PIECE_BYTES])
        return out
    per_piece = PIECE_BYTES // source.itemsize
    for start in range(0, flat.numel(), per_piece):
        piece = flat[start : start + per_piece]
        staged = _staged(stream, stored, start * source.itemsize, piece.numel(), source)
        stream.staging.copy(staged, piece)
    return out


def _staged(
    stream: WeightStream,
    stored: StoredTensor,
    start: int,
    num_elements: int,
    source: torch.dtype,
) -> torch.Tensor:
    """Read elements into the staging memory, where the piece after the next overwrites them."""
    piece = stream.staging.next_piece(num_elements * source.itemsize)
    stream.read(stored, start, piece)
    return piece.view(source)
