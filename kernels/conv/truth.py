"""Compute what the convolution's kernels approximate in fp64, and how far rounding may take them.

Written apart from kernel and reference: windows are walked row by row, sums are matrix products,
lengths are vector norms. Nothing is rounded; each bound follows from the inputs.
"""

import torch

from kernels.common.case import Tensors
from kernels.common.compare import BF16_ROUNDING, FP32_ROUNDING

SILU_SLOPE = 1.1
"""Above the largest slope of SiLU, 1.0998."""


def _windows(x: torch.Tensor, before: torch.Tensor, parents: list[int]) -> torch.Tensor:
    """Gather each row's window in fp64, newest first: [R, 4, C]."""
    paths: list[list[torch.Tensor]] = []
    oldest_last = [row.double() for row in before.flip(0)]
    for row, parent in enumerate(parents):
        behind = oldest_last if parent < 0 else paths[parent]
        paths.append([x[row].double(), *behind])
    return torch.stack([torch.stack(path[:4]) for path in paths])


def _convolved(windows: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return SiLU of the sums and the error that each may have: fp64 [R, C] twice.

    The sum has at most seven fp32 roundings of the absolute sum and one to bf16, which SiLU
    stretches; the result is rounded to bf16 once more.
    """
    taps = weight.double().flip(1).t()
    total = torch.einsum("rjc,jc->rc", windows, taps)
    size = torch.einsum("rjc,jc->rc", windows.abs(), taps.abs())
    y = total * torch.sigmoid(total)
    error = SILU_SLOPE * (total.abs() * BF16_ROUNDING + 8 * FP32_ROUNDING * size)
    return y, error + BF16_ROUNDING * (y.abs() + error)


def _unit(y: torch.Tensor, error: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale heads to length one: fp64 [R, G, D] and the error that each may have.

    n = sqrt(|y|^2 + eps) changes at most by the length of the error, so with y' = y + e the result
    y'/n' is at most (|e_i| + |y_i / n| |e|) / (n - |e|) away.
    """
    norm = torch.linalg.vector_norm
    length = torch.hypot(norm(y, dim=-1, keepdim=True), torch.tensor(1e-3, dtype=torch.float64))
    moved = norm(error, dim=-1, keepdim=True)
    unit = y / length
    return unit, (error + unit.abs() * moved) / (length - moved).clamp(min=1e-30)


def _ab(inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a | b and the error that each may have: none where they are given.

    A product rounds each term, adds up to 16 of a lane in a chain and 512 lanes in a tree of nine
    levels, at most 26 roundings, and rounds to bf16.
    """
    if "ab" in inputs:
        return inputs["ab"].double(), torch.zeros_like(inputs["ab"], dtype=torch.float64)
    rows, weight = inputs["rows"].double(), inputs["ab_weight"].double()
    ab, size = rows @ weight.t(), rows.abs() @ weight.abs().t()
    return ab, BF16_ROUNDING * ab.abs() + 28 * FP32_ROUNDING * size


def _gates(inputs: Tensors) -> dict[str, torch.Tensor]:
    """Compute log decay, decay and write share, with the error that each may have.

    A softplus moves at most as far as its argument, a sigmoid a quarter of it.
    """
    ab, error = _ab(inputs)
    (a, b), (a_error, b_error) = ab.chunk(2, dim=-1), error.chunk(2, dim=-1)
    rate, x = inputs["decay_rate"].double(), a + inputs["dt_bias"].double()
    g = rate * torch.logaddexp(x, torch.zeros_like(x))
    # rounding a + bias moves the softplus as far at most; 14 roundings follow.
    g_slack = (
        rate.abs() * (FP32_ROUNDING * x.abs() + 1.001 * a_error) + 14 * FP32_ROUNDING * g.abs()
    )
    beta = torch.special.expit(b)
    return {
        "g": g,
        "g_slack": g_slack,
        "decay": g.exp(),
        "decay_slack": (g + g_slack).clamp(max=0.0).exp() - g.exp(),
        "beta": beta,
        "beta_slack": 1.001 * BF16_ROUNDING * beta + 1.01 * b_error / 4,
    }


def _heads(inputs: Tensors, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cut [R, C] into the heads of q, k and v."""
    value_heads = inputs["decay_rate"].shape[0]
    heads = y.unflatten(-1, (-1, int(inputs["width"])))
    key_heads = (heads.shape[1] - value_heads) // 2
    return heads.split((key_heads, key_heads, value_heads), dim=1)


def truth_of_gates(inputs: Tensors) -> Tensors:
    """Compute the outputs of conv_gates."""
    pending = inputs["pending_rows"][: int(inputs["num_pending"])].long()
    before = torch.cat((inputs["tail"], inputs["raw"][pending]))[-3:]
    parents = inputs["parents"].tolist()[: inputs["x"].shape[0]]
    y, error = _convolved(_windows(inputs["x"], before, parents), inputs["weight"])
    (q, k, v), (q_error, k_error, v_error) = (_heads(inputs, part) for part in (y, error))
    (q, q_slack), (k, k_slack) = _unit(q, q_error), _unit(k, k_error)
    width = int(inputs["width"])
    return _gates(inputs) | {
        "q": q * width**-0.5,
        "q_slack": q_slack * width**-0.5,
        "k": k,
        "k_slack": k_slack,
        "v": v,
        "v_slack": v_error,
        "raw_written": inputs["x"].double(),
        "tail_written": before.double(),
    }


def truth_of_prefill(inputs: Tensors) -> Tensors:
    """Compute the outputs of conv_prefill."""
    rows = torch.cat((inputs["tail"], inputs["x"])).double()
    windows = rows.unfold(0, 4, 1).transpose(1, 2).flip(1)
    y, error = _convolved(windows, inputs["weight"])
    (q, k, v), (q_error, k_error, v_error) = (_heads(inputs, part) for part in (y, error))
    return _gates(inputs) | {
        "q": q,
        "q_slack": q_error,
        "k": k,
        "k_slack": k_error,
        "v": v,
        "v_slack": v_error,
        "tail_written": rows[-3:],
    }


def truth_of_fold(inputs: Tensors) -> Tensors:
    """Compute the outputs of conv_fold."""
    last = 1 - int(inputs["parity"])
    pending = inputs["pending_rows"][: int(inputs["num_pending"])].long()
    accepted = inputs["raw"][:, last].index_select(1, pending)
    tail = torch.cat((inputs["tails"][:, last], accepted), dim=1)[:, -3:]
    return {"tails_written": torch.stack((tail, tail), dim=1).double()}
