"""The calibration's rows where they enter: at the first layer, and at the MTP head's."""

import torch
from torch.nn import functional

from engine.model.config import ModelConfig
from engine.model.mtp import joined
from engine.model.norms import rms_norm
from engine.model.weights import mtp_weights
from engine.quantize.calibration import Calibration
from engine.quantize.layer import Rows


def embedded(calibration: Calibration, embedding: torch.Tensor, device: torch.device) -> Rows:
    """What the first layer reads.

    Args:
        calibration: sequences of token ids.
        embedding: bf16 [V, D] on the CPU.
        device: of the rows.
    """
    return [
        functional.embedding(torch.tensor(ids), embedding).to(device)
        for ids in calibration.sequences
    ]


@torch.inference_mode()
def joined_for_mtp(
    calibration: Calibration,
    config: ModelConfig,
    outside: dict[str, torch.Tensor],
    mtp: dict[str, torch.Tensor],
    rows: Rows,
) -> Rows:
    """What the MTP head's layer reads: each hidden state of the trunk with the token after it.

    Args:
        calibration: sequences of token ids.
        config: the model's numbers.
        outside: embedding and final norm by canonical name, on the CPU.
        mtp: the head's tensors by canonical name, on the device.
        rows: what left the last layer of the trunk.
    """
    eps, weights = config.rms_norm_eps, mtp_weights(mtp)
    found: Rows = []
    for one, ids in zip(rows, calibration.sequences, strict=True):
        norm = outside["norm.weight"].to(one.device)
        hidden = rms_norm(one[:-1].contiguous(), norm, eps)
        following = functional.embedding(torch.tensor(ids[1:]), outside["embed_tokens.weight"])
        places = torch.arange(len(ids) - 1, device=one.device)
        found.append(joined(hidden, places, following.to(one.device), weights, eps))
    return found
