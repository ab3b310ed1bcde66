"""Choose the tokens of a round's rows on the device, as `TokenChooser` does on the host."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from engine.model.round_state import RoundInputs, StopIds
from engine.turn.choice import TokenChooser, bias_of
from engine.turn.verify import Course
from kernels.common.round import MAX_ROWS
from kernels.common.staged import StagedTable
from kernels.sample.accept import COMMITTED, RESULT_SIZE
from kernels.sample.mark import mark_rows
from kernels.sample.op import sample_rows
from kernels.sample.params import Method, SampleParams
from kernels.sample.rows import SampleScratch, TreeRows


class Way(NamedTuple):
    """What decides the launches that choose: the kernels' method, and whether a bias is added."""

    method: Method
    biased: bool = False


class DeviceChoice:
    """A turn's sampling in device memory, at addresses that captured rounds hold.

    Attributes:
        stops: end the turn.

    Args:
        vocab_size: logits of a row.
        device: where rounds run.
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._params = SampleParams(device)
        self._scratch = SampleScratch(vocab_size, device)
        self._seen, self._generated = (
            torch.zeros(vocab_size, dtype=torch.uint8, device=device) for _ in range(2)
        )
        self._new = StagedTable(RESULT_SIZE, device)  # marked as what a round leaves is
        self._bias = torch.zeros(vocab_size, device=device)
        self.stops = StopIds(device)
        self._chooser: TokenChooser | None = None
        self._way = Way(Method("greedy"))
        self._num_marked = 0

    def follow(self, course: Course) -> Way:
        """Bring to the device what changed in a turn's sampling since the last round."""
        chooser = course.chooser
        if chooser is not self._chooser:
            self.stops.load(course.stop_ids)
            self._begin(chooser)
        if self._way.method.penalised:
            self._mark_generated(chooser.generated)
        return self._way

    def mark(self, result: torch.Tensor, way: Way) -> None:
        """Count what a round that is still on its way commits.

        Args:
            result: int32 [80], of that round.
            way: from `follow`.
        """
        if way.method.penalised:
            mark_rows(result, self._seen, self._generated)

    def launch(
        self, logits: torch.Tensor, inputs: RoundInputs, way: Way, ids: torch.Tensor
    ) -> None:
        """Choose for each row.

        Args:
            logits: fp32 [T, V].
            inputs: of the round.
            way: from `follow`.
            ids: int32 [T], written; -1 where a row holds a NaN or no finite largest logit.
        """
        tree = inputs.tree
        rows = TreeRows(
            inputs.start, tree.depths, tree.paths, inputs.row_ids, self._seen, self._generated
        )
        if way.biased:
            logits = logits + self._bias  # another tensor: those that were computed are kept
        sample_rows(logits, self._params, rows, method=way.method, ids=ids, scratch=self._scratch)

    def _mark_generated(self, generated: Sequence[int]) -> None:
        """Mark what was generated since the last round; of that round without waiting for it."""
        new = generated[self._num_marked :]
        self._num_marked += len(new)
        if len(new) > MAX_ROWS:  # behind rounds that ran ahead, which marked most of it themselves
            _mark(self._seen, new)
            _mark(self._generated, new)
        elif new:
            self._new.load((len(new), *(0,) * (COMMITTED.start - 1), *new))
            mark_rows(self._new.values, self._seen, self._generated)

    def _begin(self, chooser: TokenChooser) -> None:
        sampling = chooser.sampling
        method = self._params.write(
            chooser.filters,
            sampling.seed,
            chooser.num_ids,
            sampling.presence_penalty,
            sampling.repetition_penalty,
        )
        self._way = Way(method, biased=bool(sampling.logit_bias))
        if self._way.biased:
            self._bias.copy_(bias_of(sampling, len(self._bias), self._bias.device))
        self._chooser, self._num_marked = chooser, 0
        if method.penalised:
            self._seen.zero_()
            self._generated.zero_()
            _mark(self._seen, sorted(chooser.prompt_ids))


def _mark(marks: torch.Tensor, ids: Sequence[int]) -> None:
    if ids:
        marks[torch.tensor(ids, device=marks.device)] = 1
