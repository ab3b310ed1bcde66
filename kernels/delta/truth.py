"""Compute the walk in fp64 from its definition, and how far fp32 may stray from it.

Written apart from kernel and reference: the state behind every row is found from that of its
parent, by the matrix decay (I - beta k k'), the output from the state behind the row; nothing is
rounded.

The bound follows each column of the state by the length of its error. A step multiplies the error
by that matrix, which makes no vector longer for k of length one and beta in [0, 1], and adds what
the step itself rounds: errors add up over rows and do not multiply.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.common.case import Tensors
from kernels.common.compare import BF16_ROUNDING, FP32_ROUNDING
from kernels.delta.problems import gate_of

UNIT = 1.01 * FP32_ROUNDING
"""Largest relative error of one fp32 rounding, with 1 % for errors of second order."""

SUBNORMAL = 2.0**-133
"""Absolute error of a step whose results are subnormal: half a subnormal step of bf16, and far
more than the 2^9 roundings of 2^-150 in fp32."""


@dataclass(frozen=True)
class Behind:
    """The state behind a row in fp64, [H, D, E], and the length of each column's error, [H, E]."""

    state: torch.Tensor
    error: torch.Tensor

    @property
    def length(self) -> torch.Tensor:
        """Length of each column as computed, at most: [H, E]."""
        return self.state.norm(dim=1) + self.error


def truth_walk(inputs: Tensors) -> Tensors:
    """Return out, state_out and record_u_out in fp64, each with its slack."""
    half, rows = int(inputs["parity"]), len(inputs["q"])
    base = _folded(inputs, inputs["state"])
    record_u = inputs["record_u"].double()
    u_slack = torch.zeros_like(record_u)
    behind: dict[int, Behind] = {-1: base}
    outs: list[torch.Tensor] = []
    slacks: list[torch.Tensor] = []
    for row, parent in enumerate(_parents(inputs, rows)):
        behind[row], u, u_error, out, out_error = _step(inputs, half, row, behind[parent])
        record_u[half, row], u_slack[half, row] = u, u_error
        outs.append(out)
        slacks.append(out_error + BF16_ROUNDING * (out.abs() + out_error) + SUBNORMAL)
    out, out_slack = _gated(inputs, torch.stack(outs), torch.stack(slacks))
    return {
        "out": out,
        "out_slack": out_slack,
        "state_out": base.state,
        "state_out_slack": base.error[:, None, :].expand_as(base.state),
        "record_u_out": record_u,
        "record_u_out_slack": u_slack,
    }


def truth_fold(inputs: Tensors) -> Tensors:
    """Return state_out of all layers in fp64 with its slack."""
    names = ("record_k", "record_u", "record_decay")
    layers = [
        _folded({**inputs, **{name: inputs[name][layer] for name in names}}, state)
        for layer, state in enumerate(inputs["state"])
    ]
    slacks = [one.error[:, None, :].expand_as(one.state) for one in layers]
    return {
        "state_out": torch.stack([one.state for one in layers]),
        "state_out_slack": torch.stack(slacks),
    }


def _step(
    inputs: Tensors, half: int, row: int, before: Behind
) -> tuple[Behind, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Advance by one row: the state behind it, u and out, each with its error.

    Roundings: a sum over D passes each product through D / 16 in a chain, one where two chains meet
    and three across lanes; then u rounds a fused multiply-add and a product, the state a product
    and a fused multiply-add, and the output the same.
    """
    heads, keys = before.state.shape[:2]
    k = _by_value_head(inputs["record_k"][half, row], heads)
    q = _by_value_head(inputs["q"][row], heads)
    decay = inputs["record_decay"][half, row].double()[:, None]
    beta = inputs["beta"][row].double()[:, None]
    v = inputs["v"][row].double()
    of_sum = (keys // 16 + 4) * UNIT
    k_length, q_length = k.norm(dim=1)[:, None], q.norm(dim=1)[:, None]

    missing = v - decay * torch.einsum("hd,hde->he", k, before.state)
    u = beta * missing
    u_rounded = beta * decay * of_sum * before.length * k_length + 2 * UNIT * (
        u.abs() + beta * decay * k_length * before.error
    )
    u_error = beta * decay * k_length * before.error + u_rounded + SUBNORMAL

    eye = torch.eye(keys, dtype=torch.float64, device=k.device)
    move = decay[:, :, None] * (eye - beta[:, :, None] * k[:, :, None] * k[:, None, :])
    state = move @ before.state + (beta * v)[:, None, :] * k[:, :, None]
    stretch = decay * torch.maximum(torch.ones_like(beta), (1 - beta * k_length**2).abs())
    length = state.norm(dim=1)
    moved = stretch * before.error + k_length * (u_rounded + SUBNORMAL)
    error = moved + UNIT * (length + moved + decay * before.length) + SUBNORMAL

    out = torch.einsum("hd,hde->he", q, state)
    asked = decay * before.length * q_length
    met = k_length * q_length * (u.abs() + u_error)
    out_error = q_length * moved + (of_sum + 2 * UNIT) * (asked + met) + SUBNORMAL
    return Behind(state, error), u, u_error, out, out_error


def _gated(
    inputs: Tensors, out: torch.Tensor, slack: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm and gate outputs that are off by at most their slack: the result and its error.

    rms = sqrt(mean(o^2) + eps) is the length of a vector, so it moves by at most the length of what
    o moves by over sqrt(E), and never below sqrt(eps). Then come three roundings to bf16 (two
    where the weight is fp32) and at most 30 of fp32 steps.
    """
    gate = gate_of(inputs)
    if gate is None:
        return out, slack
    z, weight = gate.z.double(), gate.weight.double()
    rms = (out.square().mean(-1, keepdim=True) + gate.eps).sqrt()
    moved = slack.norm(dim=-1, keepdim=True) / out.shape[-1] ** 0.5
    least = (rms - moved).clamp(min=gate.eps**0.5)
    normed = out / rms
    error = slack / least + normed.abs() * moved / least
    factor = weight * z * torch.sigmoid(z)
    rounded = 1 - (1 - BF16_ROUNDING) ** 3 + 30 * UNIT
    size = (normed.abs() + error) * factor.abs()
    return normed * factor, error * factor.abs() + 1.02 * rounded * size + SUBNORMAL


def _folded(inputs: Tensors, state: torch.Tensor) -> Behind:
    """Add the pending rows in fp64; each rounds one product and one fused multiply-add."""
    heads, half = state.shape[0], 1 - int(inputs["parity"])
    whole = state.double()
    error = torch.zeros_like(whole[:, 0])
    for row in inputs["pending_rows"][: int(inputs["num_pending"])].tolist():
        k = _by_value_head(inputs["record_k"][half, row], heads)
        u = inputs["record_u"][half, row].double()
        decay = inputs["record_decay"][half, row].double()[:, None]
        before = decay * (whole.norm(dim=1) + error)
        whole = decay[:, :, None] * whole + torch.einsum("hd,he->hde", k, u)
        error = decay * error + UNIT * (before + whole.norm(dim=1) + error) + SUBNORMAL
    return Behind(whole, error)


def _parents(inputs: Tensors, rows: int) -> Sequence[int]:
    """Read each row's parent off the tables: the last that saved the slot it restores."""
    saved: dict[int, int] = {}
    parents: list[int] = []
    for row in range(rows):
        slot = int(inputs["restores"][row])
        parents.append(row - 1 if slot < 0 else saved[slot])
        if (slot := int(inputs["saves"][row])) >= 0:
            saved[slot] = row
    return parents


def _by_value_head(keys: torch.Tensor, heads: int) -> torch.Tensor:
    return keys.double().repeat_interleave(heads // keys.shape[0], 0)
