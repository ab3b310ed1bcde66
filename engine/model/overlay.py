"""Part files that are laid over a release: some of its matrices in another format, nothing else.

Such files have no config, no tokenizer and no index: embedding, norms and all small tensors come
from the release beneath (TandemLLM's NVFP4 parts over the FP8 release). A part names its matrix by
the canonical name or, within a layer, by the matrix's own name alone where that is unique.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from engine.errors import CheckpointError, nearest
from engine.model.layouts import belongs_to_weight
from engine.model.safetensors_header import StoredTensor, read_header
from engine.model.tensors import TRUNK_PREFIXES, TensorSpec

INPUT_SCALES = ("input_scale", "input_global_scale")
"""Calibrated scales of a matrix's inputs (modelopt, compressed-tensors). Weights are multiplied
with inputs in BF16 here, so that nothing reads them."""

HEAD_NAMES = ("lm_head", "head")
"""What part files call the head's module."""

_LAYERED = re.compile(r"(?P<layer>(mtp\.)?layers\.\d+)\.[^.]+\.(?P<own>[^.]+)\.weight")
"""``layers.0.mlp.up_proj.weight``."""

MEND = "Give part files of this very model, such as NVFP4 parts of its projections."


def read_overlay(
    folder: Path, expected: Mapping[str, TensorSpec]
) -> dict[str, dict[str, StoredTensor]]:
    """Read the headers of all part files of a folder.

    Args:
        folder: all of its ``*.safetensors`` are read.
        expected: what the release beneath holds.

    Returns:
        By the canonical name of each matrix that is replaced, as ``layers.0.mlp.up_proj.weight``:
        its tensors by their names within the module. Whether they are a layout is not looked at.

    Raises:
        CheckpointError: a header is refused, nothing is there, a tensor stores no matrix of the
            model, fits two of them, or a matrix is in two files.
    """
    matrices = {name for name, spec in expected.items() if spec.matrix}
    short = _own_names(matrices)
    found: dict[str, dict[str, StoredTensor]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in read_header(path).items():
            module, _, leaf = name.rpartition(".")
            if not (belongs_to_weight(leaf) or leaf in INPUT_SCALES):
                raise _foreign(tensor, matrices)
            matrix = _matrix_of(module, matrices, short)
            if matrix is None:
                raise _foreign(tensor, matrices)
            pieces = found.setdefault(matrix, {})
            first = next(iter(pieces.values()), tensor)
            if leaf in pieces or first.path != tensor.path:
                raise CheckpointError(
                    f"{path} holds '{name[:200]}', but '{first.name[:200]}' of {first.path} is a "
                    "part of the same matrix.",
                    "Keep one of the two.",
                )
            pieces[leaf] = tensor
    if not found:
        raise CheckpointError(f"{folder} holds no part files.", MEND)
    return found


def _own_names(matrices: set[str]) -> dict[str, str]:
    """``layers.0.up_proj`` and the like: the matrix that is meant where only one can be."""
    meant: dict[str, list[str]] = {}
    for name in matrices:
        if found := _LAYERED.fullmatch(name):
            meant.setdefault(f"{found['layer']}.{found['own']}", []).append(name)
    return {short: names[0] for short, names in meant.items() if len(names) == 1}


def _matrix_of(module: str, matrices: set[str], short: Mapping[str, str]) -> str | None:
    prefix = next((one for one in TRUNK_PREFIXES if module.startswith(one)), "")
    module = module[len(prefix) :]
    if module in HEAD_NAMES:
        module = HEAD_NAMES[0]
    if f"{module}.weight" in matrices:
        return f"{module}.weight"
    return short.get(module)


def _foreign(tensor: StoredTensor, matrices: set[str]) -> CheckpointError:
    return CheckpointError(
        f"{tensor.path} holds '{tensor.name[:200]}', which stores no matrix of this model; only "
        "matrices are laid over a release.",
        nearest(tensor.name[:200], matrices) if len(matrices) < 4096 else MEND,
    )
