"""Say what the head's choices must be, by numpy's sorts in fp64: no step of kernel or reference."""

import numpy as np
import torch

from kernels.common.case import Tensors


def truth_of_choice(inputs: Tensors) -> dict[str, torch.Tensor]:
    """Find the first largest logit of each row, and the logarithm of its share of the sum."""
    logits = inputs["logits"].cpu().numpy().astype(np.float64)
    ids = logits.argmax(1)  # the first among equals
    best = logits.max(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        logprobs = -np.log(np.exp(logits - best).sum(1))
    ids = np.where(np.isfinite(best[:, 0]), ids, np.nan)
    return {"ids": _tensor(ids, inputs), "logprobs": _tensor(logprobs, inputs)}


def truth_of_top(k: int, inputs: Tensors) -> dict[str, torch.Tensor]:
    """Sort each row by falling logit and rising id, and cut it."""
    logits = inputs["logits"].cpu().numpy().astype(np.float64)
    order = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(logits, order, 1)
    missing = np.isneginf(values)
    return {
        "ids": _tensor(np.where(missing, np.nan, order), inputs),
        "values": _tensor(values, inputs),
    }


def _tensor(values: np.ndarray, inputs: Tensors) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float64)).to(inputs["logits"].device)
