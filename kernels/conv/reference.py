"""State the causal convolution in plain torch with the model's rounding points."""

import torch
from torch.nn import functional


def conv_reference(x: torch.Tensor, tail: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Convolve each channel with its own taps, looking back only, then apply SiLU.

    y[t, c] = silu(sum over j of weight[c, j] * rows[t + j, c]), where rows are tail and then x:
    the last tap multiplies the current token.

    Args:
        x: bf16 [T, C], raw rows.
        tail: bf16 [W - 1, C], the raw rows before x, oldest first; zeros at the start of a text.
        weight: bf16 [C, W].

    Returns:
        bf16 [T, C].

    Numerics:
        fp32 sum from the oldest tap on; -> bf16; SiLU in fp32; -> bf16. Element-wise over rows, so
        a row's bits depend on its own W rows alone. Bit-equal on a CPU to the convolution that
        transformers 5.24 computes (`causal_conv1d_fn` and `causal_conv1d_update`).
    """
    num_rows = x.shape[0]
    rows = torch.cat((tail, x)).float()
    taps = weight.float()
    total = rows[:num_rows] * taps[:, 0]
    for tap in range(1, taps.shape[1]):
        total += rows[tap : tap + num_rows] * taps[:, tap]
    return functional.silu(total.to(x.dtype))


def next_tail_reference(x: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the raw rows that the next call needs.

    Args:
        x: bf16 [T, C].
        tail: bf16 [W - 1, C].

    Returns:
        bf16 [W - 1, C]: the last rows of tail and x together.
    """
    keep = tail.shape[0]
    return x[-keep:] if x.shape[0] >= keep else torch.cat((tail, x))[-keep:]
