"""What a conversation leaves behind on a GPU: a state whose newest rows wait for the next round.

A verify computes rows of which some are taken back, so nothing of it may enter the recurrent state
at once. It leaves a record of every row instead; the accepted ones are *pending*, and the next
verify folds them in while it loads the state, so that accepting moves no bytes of its own. Records
and tails have two halves: a round writes one and reads what the round before wrote in the other.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

import torch

from engine.model.config import ModelConfig
from engine.model.state import Snapshot, State
from kernels.attention.compact import attention_compact
from kernels.attention.kv_codes import KvScales
from kernels.common.round import MAX_ROWS
from kernels.common.staged import StagedTable, pinned
from kernels.common.tree import TREE_SIZE, TreePlan, TreeTables, plan_chain
from kernels.conv.op import conv_fold
from kernels.delta.fold import delta_fold
from kernels.delta.record import DeltaRecord
from kernels.sample.accept import MAX_STOP_IDS, AcceptBuffers

_NUMBERS = Struct(f"={2 * MAX_ROWS + 4}i")
"""A round beside its tree: tokens, pending rows, start, parity, number of pending rows, budget."""

_PAGE_SIZE = TREE_SIZE + _NUMBERS.size // 4
_ZEROS = (0,) * MAX_ROWS
_ONE_ROW = plan_chain(1)


class StopIds:
    """Ids that end a turn, in device memory at one address.

    Attributes:
        ids: int32 [16], the lowest of them; whoever commits a token looks for the others.
        number: int32 [1], how many count.
    """

    def __init__(self, device: torch.device) -> None:
        self._table = StagedTable(MAX_STOP_IDS + 1, device)
        self.ids, self.number = self._table.values[:MAX_STOP_IDS], self._table.values[MAX_STOP_IDS:]

    def load(self, ids: Iterable[int]) -> None:
        """Bring ids to the device, in the order of the current stream."""
        known = sorted(ids)[:MAX_STOP_IDS]
        self._table.load((*known, *(0,) * (MAX_STOP_IDS - len(known)), len(known)))


class RoundPage:
    """The numbers of a round on the host, ready to be sent."""

    def __init__(self, device: torch.device) -> None:
        self._page, numbers = pinned(_PAGE_SIZE, device)
        self._bytes = memoryview(numbers).cast("B")
        self._has_left = torch.cuda.Event() if device.type == "cuda" else None
        self._is_marked = False
        self.may_be_leaving = False

    def write(
        self,
        row_ids: Sequence[int],
        plan: TreePlan,
        start: int,
        parity: int,
        pending: Sequence[int],
        budget: int,
    ) -> None:
        """Write a round's numbers, when those before have left; see `RoundInputs`."""
        self.mark()
        if self.may_be_leaving and self._has_left is not None:
            self._has_left.synchronize()
        self._bytes[: len(plan.tables)] = plan.tables
        _NUMBERS.pack_into(
            self._bytes, 4 * TREE_SIZE,
            *row_ids, *_ZEROS[len(row_ids) :], *pending, *_ZEROS[len(pending) :],
            start, parity, len(pending), budget,
        )  # fmt: skip

    def send(self, values: torch.Tensor) -> None:
        """Copy to the device, in the order of the current stream."""
        values.copy_(self._page, non_blocking=True)
        self.may_be_leaving, self._is_marked = True, False

    def mark(self) -> None:
        """Let `write` wait for no more than what was asked of the device before now."""
        if self.may_be_leaving and not self._is_marked and self._has_left is not None:
            self._has_left.record()
            self._is_marked = True


class RoundInputs:
    """The numbers of one round in device memory, at fixed addresses: one copy brings them all.

    They leave from two pages in turn, so that those of a round can be written while another runs.

    Attributes:
        row_ids: int32 [32], the token of each row.
        start: int32 [1], positions held before the round.
        parity: int32 [1], the half that the round writes.
        num_pending: int32 [1].
        pending_rows: int32 [32], rows of the round before that were accepted, in order.
        budget: int32 [1], tokens that may still be committed.
        tree: how rows follow each other.
    """

    def __init__(self, device: torch.device) -> None:
        self._values = torch.zeros(_PAGE_SIZE, dtype=torch.int32, device=device)
        self._pages = [RoundPage(device), RoundPage(device)]
        self.tree = TreeTables(self._values)
        values = self._values[TREE_SIZE:]
        self.row_ids = values[:MAX_ROWS]
        self.pending_rows = values[MAX_ROWS : 2 * MAX_ROWS]
        scalars = values[2 * MAX_ROWS :]
        self.start, self.parity, self.num_pending = scalars[:1], scalars[1:2], scalars[2:3]
        self.budget = scalars[3:]

    def write(
        self,
        row_ids: Sequence[int],
        plan: TreePlan,
        start: int,
        parity: int,
        pending: Sequence[int],
        budget: int = MAX_ROWS,
    ) -> None:
        """Write a round's numbers to the page that `send` sends."""
        self._pages[1].mark()
        self._pages[0].write(row_ids, plan, start, parity, pending, budget)

    def send(self) -> None:
        """Bring what was written to the device, in the order of the current stream."""
        self._pages[0].send(self._values)
        self._pages.reverse()

    def have_left(self) -> None:
        """The device has done all that was asked of it before now."""
        for one in self._pages:
            one.may_be_leaving = False

    def ends(self, stops: StopIds, result: torch.Tensor) -> AcceptBuffers:
        """What a round's end reads, and writes for a plain round behind it.

        Args:
            stops: end the turn.
            result: int32 [80], for the host.
        """
        return AcceptBuffers(
            self.row_ids, stops.ids, stops.number, self.start, self.parity, self.budget,
            self.num_pending, self.pending_rows, result,
        )  # fmt: skip


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

    def begin(self, row_ids: Sequence[int], plan: TreePlan, budget: int = MAX_ROWS) -> None:
        """Bring a round's rows to the device; the round writes the other half than the last one.

        Args:
            row_ids: tokens of its rows.
            plan: how they follow each other.
            budget: tokens that the round may commit.
        """
        self.inputs.write(row_ids, plan, self.length, self.parity, self.pending, budget)
        self.inputs.send()

    def close_gaps(self) -> None:
        """Move keys and values of the rows that a round accepts together; for a tree's rounds.

        They lie in the slots of their rows. To be asked of the device behind the round's end, which
        leaves there which rows those are. The host may take in fewer of them: they come first.
        """
        inputs = self.inputs
        attention_compact(
            self.kv.keys, self.kv.values, inputs.start, inputs.num_pending, inputs.pending_rows,
            advanced=True,
        )  # fmt: skip

    def accept(self, rows: Sequence[int]) -> None:
        """Take in rows of the round that has run: a path from row 0, its gaps closed."""
        self.pending = tuple(rows)
        self.length += len(rows)
        self.parity = 1 - self.parity

    def drop(self) -> None:
        """Take in no row of the round that has run; what it folded stays folded."""
        self.accept(())
        self._load_scalars()
        conv_fold(  # both halves hold what the round wrote into one
            self.tails, self.record.raw, self.inputs.parity, self.inputs.num_pending,
            self.inputs.pending_rows,
        )  # fmt: skip

    def _load_scalars(self) -> None:
        self.inputs.write((), _ONE_ROW, self.length, self.parity, self.pending)
        self.inputs.send()

    def settle(self) -> None:
        """Fold the pending rows into states and tails, so that those stand for all tokens read."""
        if not self.pending:
            return
        inputs = self.inputs
        self._load_scalars()
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
