"""The logits of a turn as a file."""

# safetensors types a path only in part.
# pyright: reportUnknownVariableType=false

import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from engine.errors import OutputError, RequestError
from engine.records import TurnRecord


def write_logits(record: TurnRecord, path: Path) -> None:
    """Write ``logits`` [num_tokens, vocab] in fp32 and ``token_ids`` [num_tokens] as safetensors.

    Raises:
        RequestError: the turn kept no logits.
        OutputError: the file cannot be written.
    """
    rows = record.logits
    if rows is None or len(rows) == 0:
        raise RequestError("The turn has no logits to write.", "It generated no token.")
    logits = rows if isinstance(rows, torch.Tensor) else torch.stack(list(rows))
    tensors = {
        "logits": logits.to("cpu", torch.float32).contiguous(),
        "token_ids": torch.tensor(record.token_ids, dtype=torch.int64),
    }
    try:
        save_file(tensors, path)
    except (OSError, SafetensorError) as problem:
        raise OutputError(
            f"{path} cannot be written: {_reason(problem)}.", "Make room, or give another place."
        ) from None


def _reason(problem: Exception) -> str:
    """The system's words for a failure; the library gives a number and its own file's name."""
    number = getattr(problem, "errno", None)
    if found := re.search(r"os error (\d+)", str(problem)):
        number = int(found[1])
    return os.strerror(number) if number else "the disk refused"
