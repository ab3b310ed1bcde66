"""The files of a checkpoint: its index, its shards, and every tensor's place among them."""

from pathlib import Path
from typing import cast

from engine.errors import CheckpointError
from engine.model.safetensors_header import StoredTensor, read_header
from engine.model.strict_json import read_object

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
MTP_NAME = "model_mtp.safetensors"
"""Some quantised releases keep the draft head in this file, beside the rest and in no index."""

MAX_INDEX_BYTES = 16 << 20
"""The index of the largest release has 250 kB."""

MAX_FILE_NAME = 255
"""Bytes; no file system takes more."""

AGAIN = "Download the checkpoint again."


def read_shards(folder: Path) -> dict[str, StoredTensor]:
    """Read the headers of all files that the index names, or of the single file without an index.

    A draft head in a file of its own is read with them.

    Returns:
        Every tensor by its name on disk.

    Raises:
        CheckpointError: no weights are there, the index is broken or names a file outside the
            folder or one that is missing, index and headers disagree, or a header is refused.
    """
    index_path = folder / INDEX_NAME
    is_single = not index_path.exists()
    found = read_header(_single_file(folder)) if is_single else _read_indexed(folder, index_path)
    return found | _draft_head_beside(folder, found)


def _read_indexed(folder: Path, index_path: Path) -> dict[str, StoredTensor]:
    placed = _read_index(index_path)
    found: dict[str, StoredTensor] = {}
    for file_name in dict.fromkeys(placed.values()):
        path = folder / file_name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing, though {INDEX_NAME} names it.", AGAIN)
        for name, tensor in read_header(path).items():
            if placed.get(name) != file_name:
                where = placed.get(name)
                says = f"places it in {where}" if where else "does not know it"
                raise CheckpointError(
                    f"{path} holds '{name[:200]}', but {INDEX_NAME} {says}.", AGAIN
                )
            found[name] = tensor
    for name, file_name in placed.items():
        if name not in found:
            raise CheckpointError(
                f"'{name[:200]}' is missing from {folder / file_name}, though {INDEX_NAME} "
                "places it there.",
                AGAIN,
            )
    return found


def _draft_head_beside(folder: Path, found: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """What the draft head's own file holds, where the other files hold no draft head."""
    path = folder / MTP_NAME
    if any(name.startswith("mtp.") for name in found) or not path.is_file():
        return {}
    beside = read_header(path)
    for name in beside:
        if name in found:
            raise CheckpointError(
                f"{path} holds '{name[:200]}', which {found[name].path} holds too.", AGAIN
            )
    return beside


def _single_file(folder: Path) -> Path:
    path = folder / SINGLE_NAME
    if path.is_file():
        return path
    files = sorted(one for one in folder.glob("*.safetensors") if one.name != MTP_NAME)
    if len(files) == 1:
        return files[0]
    what = f"{len(files)} *.safetensors files but no {INDEX_NAME}" if files else "no weights"
    raise CheckpointError(
        f"{folder} holds {what}.", f"A checkpoint has {SINGLE_NAME}, or shards with an index."
    )


def _read_index(path: Path) -> dict[str, str]:
    placed = read_object(path, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{path} holds no 'weight_map' of tensor names and files.", AGAIN)
    for name, file_name in cast("dict[str, object]", placed).items():
        if not _is_plain_name(file_name):
            raise CheckpointError(
                f"{path} places '{name[:200]}' in {str(file_name)[:200]!r}, which is not a "
                "safetensors file of this folder.",
                "Do not use this checkpoint: its index points elsewhere.",
            )
    return cast("dict[str, str]", placed)


def _is_plain_name(value: object) -> bool:
    """Whether a value is the name of a safetensors file of the same folder."""
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        return False
    is_bare = Path(value).name == value and len(value.encode()) <= MAX_FILE_NAME
    return is_bare and value.endswith(".safetensors")
