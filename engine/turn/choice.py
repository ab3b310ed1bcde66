"""Choose each token of a turn from its logits: what the sampling needs to remember."""

from collections.abc import Iterable
from copy import copy

import torch

from engine.turn.failures import LogitsError
from engine.turn.thinking_budget import ThinkingBudget
from engine.types import Sampling
from kernels.sample.reference import Filters, penalise_reference, sample_reference


class TokenChooser:
    """The sampling of one turn.

    Attributes:
        sampling: of the request.
        num_ids: ids in use; rows of the head from here on are padding and never chosen.
        filters: what narrows the distribution.
        penalises: whether tokens that were there become less likely.
        prompt_ids: what the repetition penalty counts beside the answer; empty without penalties.
        generated: the answer so far; empty without penalties.

    Args:
        sampling: of the request.
        num_ids: ids in use.
        prompt_ids: the whole prompt.
        budget: of the answer's thinking; None does not limit it.
    """

    def __init__(
        self,
        sampling: Sampling,
        num_ids: int,
        prompt_ids: Iterable[int],
        budget: ThinkingBudget | None = None,
    ) -> None:
        self.sampling = sampling
        self.num_ids = num_ids
        self.filters = Filters(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
        self.penalises = sampling.presence_penalty != 0 or sampling.repetition_penalty != 1
        self.prompt_ids = frozenset(prompt_ids) if self.penalises else frozenset[int]()
        self.generated: list[int] = []
        self._budget = budget

    @property
    def may_force(self) -> bool:
        """Whether a token may have to come that the logits do not choose."""
        return self._budget is not None

    @property
    def counts(self) -> bool:
        """Whether `note` does anything."""
        return self.penalises or self._budget is not None

    @property
    def forced(self) -> int | None:
        """The token that must come next, whatever the logits say; None leaves it to them."""
        return self._budget.forced if self._budget is not None else None

    def choose(self, logits: torch.Tensor, position: int) -> int:
        """The token of ``position``, given everything noted before it.

        Args:
            logits: fp32 [V].
            position: its index in the conversation.

        Raises:
            LogitsError: they hold a NaN or nothing finite.
        """
        if self.forced is not None:
            return self.forced
        row = logits[: self.num_ids]
        if self.sampling.logit_bias:
            row = row + bias_of(self.sampling, len(row), row.device)
        if self.penalises:
            row = penalise_reference(
                row,
                self._marked(row, self.prompt_ids.union(self.generated)),
                self._marked(row, frozenset(self.generated)),
                self.sampling.presence_penalty,
                self.sampling.repetition_penalty,
            )
        where = torch.tensor([position])
        try:
            return int(sample_reference(row[None], where, self.filters, self.sampling.seed))
        except ValueError as problem:
            raise LogitsError(str(problem)) from None

    def note(self, token_id: int) -> None:
        """Count a generated token for the penalties and the budget of thinking."""
        if self.penalises:
            self.generated.append(token_id)
        if self._budget is not None:
            self._budget.note(token_id)

    def fork(self) -> "TokenChooser":
        """A chooser with the same past, whose future does not touch this one's."""
        budget = copy(self._budget)
        other = TokenChooser(self.sampling, self.num_ids, self.prompt_ids, budget)
        other.generated = list(self.generated)
        return other

    @staticmethod
    def _marked(row: torch.Tensor, ids: Iterable[int]) -> torch.Tensor:
        """Mark ``ids``, those of padding left out: bool [V]."""
        known = sorted(one for one in ids if one < len(row))
        mask = torch.zeros(len(row), dtype=torch.bool, device=row.device)
        mask[torch.tensor(known, dtype=torch.int64, device=row.device)] = True
        return mask


def bias_of(sampling: Sampling, num_logits: int, device: torch.device) -> torch.Tensor:
    """What a sampling adds to each logit before penalties: fp32 [V]."""
    bias = torch.zeros(num_logits, device=device)
    ids, values = zip(*sampling.logit_bias, strict=True)
    bias[torch.tensor(ids, device=device)] = torch.tensor(values, device=device)
    return bias
