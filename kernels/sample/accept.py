"""Offer the round's end: which rows of a verified tree are accepted, and what that commits."""

from dataclasses import dataclass, fields

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.round import MAX_ROWS
from kernels.sample.accept_reference import accept_reference
from kernels.sample.launch import ACCEPT_OPTIONS

MAX_STOP_IDS = 16
"""Stop ids that the device looks for."""

RESULT_SIZE = 80
"""int32 that the host reads of a round: see `AcceptBuffers.result`."""

COMMITTED, PATH = slice(16, 48), slice(48, 80)
"""Where committed ids and the rows of the path lie in a result."""


@dataclass(frozen=True)
class AcceptBuffers:
    """What a round's end reads and writes, at one address for every graph.

    Attributes:
        row_ids: int32 [32]. Token of each row; entry 0 becomes the newest committed id.
        stop_ids: int32 [16]. Ids that end a turn, in front.
        num_stop_ids: int32 [1]. How many of them count.
        start: int32 [1]. Position of row 0; advances by the committed tokens.
        parity: int32 [1]. Becomes the other of 0 and 1.
        budget: int32 [1]. Tokens that may still be committed; falls by those committed.
        num_pending: int32 [1]. Becomes the number of accepted rows.
        pending_rows: int32 [32]. Becomes those rows in order, a path from row 0; 0 behind them.
        result: int32 [80], for the host: [0] committed tokens; [1] accepted drafts; [2] tested
            drafts: rows of the path that drafts follow; [3] finish code: 0 goes on, 1 a stop id,
            2 the budget, 3 a row without a sound logit; [4] the new start; [16:48] the committed
            ids, [48:80] the rows of the path, 0 behind them. The rest keeps what it holds.
    """

    row_ids: torch.Tensor
    stop_ids: torch.Tensor
    num_stop_ids: torch.Tensor
    start: torch.Tensor
    parity: torch.Tensor
    budget: torch.Tensor
    num_pending: torch.Tensor
    pending_rows: torch.Tensor
    result: torch.Tensor

    @classmethod
    def allocate(cls, device: torch.device | str) -> "AcceptBuffers":
        """Allocate all of it, zeroed."""

        def zeros(count: int) -> torch.Tensor:
            return torch.zeros(count, dtype=torch.int32, device=device)

        return cls(zeros(MAX_ROWS), zeros(MAX_STOP_IDS), zeros(1), zeros(1), zeros(1), zeros(1),
                   zeros(1), zeros(MAX_ROWS), zeros(RESULT_SIZE))  # fmt: skip

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the buffers by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


_SIZES = {"row_ids": MAX_ROWS, "stop_ids": MAX_STOP_IDS, "pending_rows": MAX_ROWS,
          "result": RESULT_SIZE}  # fmt: skip


def accept(chosen: torch.Tensor, parents: torch.Tensor, buffers: AcceptBuffers) -> None:
    """Walk a verified tree from row 0 and commit what the target chose on the way.

    At each row the chosen id is committed. Then the walk goes to the lowest row that follows this
    one and holds that id; it ends where there is none, behind a stop id, and when the budget is
    spent. A row whose choice is -1 commits nothing and ends the walk with code 3.

    Args:
        chosen: int32 [T], T at most 32: what the target chose behind each row; -1 for none.
        parents: int32 [32]. Row that each row follows; read for rows 1 to T - 1.
        buffers: what is read and written besides.

    Raises:
        TypeError: a dtype is not int32.
        ValueError: a shape or device disagrees.

    Side effects:
        One launch of one warp on the current stream; safe in graph capture.
    """
    axes = Axes("accept")
    axes.tensor("chosen", chosen, ("T",), (torch.int32,), "pass what sample_rows wrote")
    axes.tensor("parents", parents, ("32",), (torch.int32,), "pass TreeTables.parents")
    for name, tensor in buffers.tensors().items():
        size = str(_SIZES.get(name, 1))
        axes.tensor(name, tensor, (size,), (torch.int32,), "use AcceptBuffers.allocate")
    axes.same_device(chosen=chosen, parents=parents, **buffers.tensors())
    if not 1 <= axes["T"] <= MAX_ROWS:
        raise ValueError(
            f"accept: got {axes['T']} chosen ids, expected 1 to {MAX_ROWS}; "
            "pass what sample_rows wrote"
        )
    if not interpreter.on_kernels(chosen):
        accept_reference(chosen, parents, buffers.tensors())
        return
    from kernels.sample.accept_kernel import accept_kernel

    accept_kernel[(1,)](
        buffers.row_ids, chosen, parents, buffers.stop_ids, buffers.num_stop_ids, buffers.start,
        buffers.parity, buffers.budget, buffers.num_pending, buffers.pending_rows, buffers.result,
        axes["T"], **ACCEPT_OPTIONS,
    )  # fmt: skip
