"""State rotation, attention and its output gate in plain torch with the model's rounding points.

Bit-equal on a CPU to the eager attention of transformers 5.24 (`Qwen3_5Attention`).
"""

import torch
from torch.nn import functional


def rotate_reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first R dimensions of every head by its token's angles; the others pass.

    Dimension i is paired with i + R / 2.

    Args:
        x: bf16 [T, H, D].
        cos: bf16 [T, R], both halves alike.
        sin: bf16 [T, R].

    Returns:
        bf16 [T, H, D], contiguous.

    Numerics:
        Both products and their sum are each rounded to bf16.
    """
    width = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    turned = x[..., :width]
    one, two = turned.chunk(2, -1)
    turned = turned * cos + torch.cat((-two, one), -1) * sin
    return torch.cat((turned, x[..., width:]), -1)


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend from the last T of S positions to all positions up to their own.

    Query head h reads key/value head h // (H / G). The H / G heads of a group go through one
    product as its rows, so keys and values are read once and never repeated in memory.

    Args:
        q: bf16 [T, H, D], normed and rotated.
        k: bf16 [G, S, D], normed and rotated, S >= T.
        v: bf16 [G, S, D].

    Returns:
        bf16 [T, H, D].

    Numerics:
        Scores -> bf16, times D^-0.5 -> bf16; softmax in fp32 -> bf16; values' sum -> bf16.
    """
    num_rows, heads, width = q.shape
    groups, positions = k.shape[:2]
    share = heads // groups
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    later = None
    if num_rows > 1:
        later = torch.ones(num_rows, positions, dtype=torch.bool, device=q.device)
        later = later.triu(positions - num_rows + 1)
    for group in range(groups):
        heads_of = slice(group * share, (group + 1) * share)
        rows = q[:, heads_of].transpose(0, 1).reshape(-1, width)  # [H / G * T, D]
        scores = (rows @ k[group].t()) * width**-0.5
        if later is not None:
            scores.view(share, num_rows, positions).masked_fill_(later, float("-inf"))
        weights = functional.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        mixed = (weights @ v[group]).view(share, num_rows, width)
        out[:, heads_of] = mixed.transpose(0, 1)
    return out


def gate_reference(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Scale the attention's output by the sigmoid of its gate.

    Args:
        x: bf16 [T, H * D].
        gate: bf16 [T, H * D], before its sigmoid.

    Returns:
        bf16 [T, H * D]; sigmoid and product are each rounded to bf16.
    """
    return x * gate.sigmoid()
