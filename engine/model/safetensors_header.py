"""The header of one safetensors file, checked in full before any of its data is touched."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError
from engine.model.plain_file import AGAIN, mend_of, open_plain
from engine.model.strict_json import parse_object

MAX_HEADER_BYTES = 16 << 20
"""A shard of the largest release needs 200 kB; a longer header is damage or an attack."""

MAX_AXES = 8
"""No weight has more than five axes."""

MAX_COUNT = 1 << 63
"""Sizes and offsets are below this; a longer number could not even be printed in a refusal."""

DTYPE_BYTES = {
    "BF16": 2, "F16": 2, "F32": 4, "F64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U8": 1, "I8": 1, "BOOL": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8,
}  # fmt: skip
"""Bytes an element by the format's dtype names. Names that are not here are refused."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor lies: ``num_bytes`` from ``offset`` of ``path``, row-major."""

    name: str
    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Read and check the header of a safetensors file.

    Args:
        path: the file: 8 bytes of header length, little endian; the header, JSON; the data.

    Returns:
        Every tensor by its name in the file.

    Raises:
        CheckpointError: the file is missing, no plain file, or shorter than its header says, the
            header is too long, no JSON, names a tensor twice, or a tensor has an unknown dtype, a
            nonsense shape, or bytes that do not fit its shape, leave the file or overlap another's.
    """
    try:
        with open_plain(path) as file:
            file_bytes = os.fstat(file.fileno()).st_size
            header = file.read(8)
            num_bytes = int.from_bytes(header, "little")
            if file_bytes < 8 or num_bytes > file_bytes - 8:
                raise CheckpointError(
                    f"{path} is truncated: it has {file_bytes:,} bytes and its header alone "
                    f"needs {num_bytes + 8:,}.",
                    AGAIN,
                )
            if num_bytes > MAX_HEADER_BYTES:
                raise CheckpointError(
                    f"{path} declares a header of {num_bytes:,} bytes; no checkpoint needs more "
                    f"than {MAX_HEADER_BYTES:,}.",
                    AGAIN,
                )
            raw = file.read(num_bytes)
    except OSError as problem:
        raise CheckpointError(
            f"{path} does not read: {problem.strerror}.", mend_of(problem)
        ) from None
    entries = parse_object(path, raw)
    entries.pop("__metadata__", None)
    tensors = {name: _tensor(path, name, entry, 8 + num_bytes) for name, entry in entries.items()}
    _expect_tiling(path, tensors, 8 + num_bytes, file_bytes)
    return tensors


def _tensor(path: Path, name: str, entry: object, data_start: int) -> StoredTensor:
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    dtype, shape, span = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    where = f"{path}: '{name[:200]}'"
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{where} has the unknown dtype {str(dtype)[:40]!r}.", AGAIN)
    sizes = _counts(shape)
    if sizes is None or len(sizes) > MAX_AXES:
        raise CheckpointError(f"{where} has the impossible shape {str(shape)[:80]}.", AGAIN)
    offsets = _counts(span)
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(f"{where} has the impossible offsets {str(span)[:80]}.", AGAIN)
    needed = DTYPE_BYTES[dtype]
    for size in sizes:
        needed *= size
    start, end = offsets
    if end - start != needed:
        raise CheckpointError(
            f"{where} is {dtype} {list(sizes)}, which takes {needed:,} bytes, but the header gives "
            f"it {end - start:,}.",
            AGAIN,
        )
    return StoredTensor(name, path, dtype, tuple(sizes), data_start + start, needed)


def _counts(value: object) -> list[int] | None:
    """The value as a list of whole numbers below `MAX_COUNT`, or None when it is something else."""
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    for one in items:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < MAX_COUNT:
            return None
    return cast("list[int]", items)


def _expect_tiling(
    path: Path, tensors: dict[str, StoredTensor], data_start: int, file_bytes: int
) -> None:
    """Refuse tensors that overlap, leave a gap, or do not end where the file ends."""
    position, before = data_start, ""
    for one in sorted(tensors.values(), key=lambda one: (one.offset, one.num_bytes)):
        if one.offset + one.num_bytes > file_bytes:
            raise CheckpointError(
                f"{path} is truncated: it has {file_bytes:,} bytes and '{one.name[:200]}' ends at "
                f"{one.offset + one.num_bytes:,}.",
                AGAIN,
            )
        if one.offset < position:
            raise CheckpointError(
                f"{path}: '{one.name[:200]}' overlaps '{before[:200]}' in the file.", AGAIN
            )
        if one.offset > position:
            raise CheckpointError(
                f"{path}: {one.offset - position:,} bytes before '{one.name[:200]}' belong to no "
                "tensor.",
                AGAIN,
            )
        position, before = one.offset + one.num_bytes, one.name
    if position != file_bytes:
        raise CheckpointError(
            f"{path}: the last {file_bytes - position:,} bytes belong to no tensor.", AGAIN
        )
