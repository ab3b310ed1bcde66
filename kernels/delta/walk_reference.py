"""Walk a tree of rows, and fold the pending ones, in plain torch: the delta walk on a CPU."""

import torch

from kernels.delta.gate import OutputGate, gate_reference
from kernels.delta.record import DeltaRecord


def delta_walk_reference(
    q: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    record: DeltaRecord,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
    saves: torch.Tensor,
    restores: torch.Tensor,
    *,
    out: torch.Tensor,
    gate: OutputGate | None = None,
) -> torch.Tensor:
    """Do what `walk.delta_walk` says, row by row with the operations of `delta_step_reference`.

    Numerics:
        fp32 throughout, products and sums rounded apart, sums in torch's order; one rounding of the
        output. A row's operations do not depend on the rows beside it, so chain, tree and single
        steps agree bit for bit.
    """
    delta_fold_reference(state, record, parity, num_pending, pending_rows)
    half = int(parity)
    walked = state.clone()
    kept: dict[int, torch.Tensor] = {}
    for row in range(q.shape[0]):
        if (slot := int(restores[row])) >= 0:
            walked = kept[slot].clone()
        k = _by_value_head(record.k[half, row], state)
        walked *= record.decay[half, row][:, None, None]
        seen = (walked * k).sum(-2)
        change = (v[row].float() - seen) * beta[row][:, None]
        walked += k * change[:, None, :]
        out[row] = (walked * _by_value_head(q[row], state)).sum(-2)
        record.u[half, row] = change
        if (slot := int(saves[row])) >= 0:
            kept[slot] = walked.clone()
    return out if gate is None else out.copy_(gate_reference(out, gate))


def delta_fold_reference(
    state: torch.Tensor,
    record: DeltaRecord,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
) -> None:
    """Add the pending rows of one layer to its state, with the operations of a walk's update."""
    half = 1 - int(parity)
    for row in pending_rows[: int(num_pending)].tolist():
        state *= record.decay[half, row][:, None, None]
        state += _by_value_head(record.k[half, row], state) * record.u[half, row][:, None, :]


def _by_value_head(keys: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Give each value head its key, as a column: [G, D] -> [H, D, 1]."""
    return keys.repeat_interleave(state.shape[0] // keys.shape[0], 0)[:, :, None]
