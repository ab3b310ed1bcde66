"""What a conversation leaves behind on a GPU: a state whose newest rows wait for the next round.

A verify computes rows of which some are taken back, so nothing of it may enter the recurrent state
at once. It leaves a record of every row instead; the accepted ones are *pending*, and the next
verify folds them in while it loads the state, so that accepting moves no bytes of its own. Records
and tails have two halves: a round writes one and reads what the round before wrote in the other.
"""

from collections.abc import Sequence

import torch

from engine.model.config import ModelConfig
from engine.model.state import Snapshot, State
from kernels.attention.compact import attention_compact
from kernels.attention.kv_codes import KvScales
from kernels.common.staged import StagedTable
from kernels.common.tree import MAX_NODES, TreePlan, TreeTables
from kernels.conv.op import conv_fold
from kernels.delta.fold import delta_fold
from kernels.delta.record import DeltaRecord


class RoundInputs:
    """The numbers of one round in device memory, at fixed addresses: one copy brings them all.

    Attributes:
        row_ids: int32 [32], the token of each row.
        start: int32 [1], positions held before the round.
        parity: int32 [1], the half that the round writes.
        num_pending: int32 [1].
        pending_rows: int32 [32], rows of the round before that were accepted, in order.
        tree: how rows follow each other.
    """

    def __init__(self, device: torch.device) -> None:
        self._table = StagedTable(2 * MAX_NODES + 3, device)
        values = self._table.values
        self.row_ids = values[:MAX_NODES]
        self.pending_rows = values[MAX_NODES : 2 * MAX_NODES]
        scalars = values[2 * MAX_NODES :]
        self.start, self.parity, self.num_pending = scalars[:1], scalars[1:2], scalars[2:3]
        self.tree = TreeTables(device)

    def load(
        self,
        row_ids: Sequence[int],
        plan: TreePlan,
        start: int,
        parity: int,
        pending: Sequence[int],
    ) -> None:
        """Bring a round's numbers to the device, in the order of the current stream."""
        no_ids = (0,) * (MAX_NODES - len(row_ids))
        no_rows = (0,) * (MAX_NODES - len(pending))
        self._table.load((*row_ids, *no_ids, *pending, *no_rows, start, parity, len(pending)))
        self.tree.load(plan)


class RoundState(State):
    """A state for rounds of up to 32 rows.

    ``tails`` is bf16 [delta layers, 2, W - 1, C]; after `settle` both halves are alike.
    ``record`` is of all delta layers. ``wide`` is where a chunk of prefill finds what the codes of
    the layer at hand stand for, bf16 [2, G, max_tokens, D]; None where keys and values are BF16.
    """

    def __init__(
        self,
        config: ModelConfig,
        max_tokens: int,
        device: torch.device,
        scales: KvScales | None = None,
    ) -> None:
        super().__init__(config, max_tokens, device, scales)
        self.wide: torch.Tensor | None = None
        if scales is not None:
            shape = (2, config.num_kv_heads, max_tokens, config.head_dim)
            self.wide = torch.empty(shape, dtype=torch.bfloat16, device=device)
        self.tails = self.tails.unsqueeze(1).repeat(1, 2, 1, 1)
        self.record = DeltaRecord.allocate(
            config.num_delta_layers,
            channels=config.conv_dim,
            key_heads=config.num_key_heads,
            value_heads=config.num_value_heads,
            key_dim=config.key_head_dim,
            value_dim=config.value_head_dim,
            device=device,
        )
        self.inputs = RoundInputs(device)
        self.pending: tuple[int, ...] = ()
        self.parity = 0

    @property
    def num_bytes(self) -> int:
        """Bytes reserved."""
        record = self.record
        wide = () if self.wide is None else (self.wide,)
        tensors = (record.raw, record.k, record.u, record.decay, *wide)
        return super().num_bytes + sum(one.nbytes for one in tensors)

    @property
    def addresses(self) -> tuple[int, ...]:
        """What captured rounds hold.

        Keys may lie where those of another state that is gone did: all of it tells them apart.
        """
        record, wide = self.record, () if self.wide is None else (self.wide,)
        held = (self.recurrent, self.tails, record.raw, record.k, record.u, record.decay,
                self.inputs.row_ids, self.inputs.tree.parents, *wide)  # fmt: skip
        return *(one.data_ptr() for one in held), *self.kv.addresses

    def begin(self, row_ids: Sequence[int], plan: TreePlan) -> None:
        """Bring a round's rows to the device; the round writes the other half than the last one."""
        self.inputs.load(row_ids, plan, self.length, self.parity, self.pending)

    def accept(self, rows: Sequence[int]) -> None:
        """Take in rows of the round that has run: a path from row 0."""
        self.pending = tuple(rows)
        self.length += len(rows)
        self.parity = 1 - self.parity
        if self.pending != tuple(range(len(rows))):
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Move keys and values of accepted rows, which lie in the slots of their rows, together."""
        inputs = self.inputs
        inputs.load((), inputs.tree.plan, self.length, self.parity, self.pending)
        attention_compact(
            self.kv.keys, self.kv.values, inputs.start, inputs.num_pending, inputs.pending_rows,
            advanced=True,
        )  # fmt: skip

    def settle(self) -> None:
        """Fold the pending rows into states and tails, so that those stand for all tokens read."""
        if not self.pending:
            return
        inputs = self.inputs
        inputs.load((), inputs.tree.plan, self.length, self.parity, self.pending)
        delta_fold(
            self.recurrent, self.record, inputs.parity, inputs.num_pending, inputs.pending_rows
        )
        conv_fold(
            self.tails, self.record.raw, inputs.parity, inputs.num_pending, inputs.pending_rows
        )
        self.pending = ()

    def snapshot(self) -> Snapshot:
        """Remember this point: states and tails are settled and copied, keys and values kept."""
        self.settle()
        return super().snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Come back to a point; what is pending belongs to the text that is given up."""
        super().restore(snapshot)
        self.pending = ()

    def clear(self) -> None:
        """Begin an empty conversation at the same addresses, which captured graphs hold."""
        super().clear()
        self.pending = ()
