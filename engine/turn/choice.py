"""Choose each token of a turn from its logits: what the sampling needs to remember."""

from collections.abc import Iterable

import torch

from engine.types import Sampling
from kernels.sample.reference import Filters, penalise_reference, sample_reference


class TokenChooser:
    """The sampling of one turn.

    Args:
        sampling: of the request.
        num_ids: ids in use; rows of the head from here on are padding and never chosen.
        prompt_ids: what the repetition penalty counts beside the answer.
    """

    def __init__(self, sampling: Sampling, num_ids: int, prompt_ids: Iterable[int]) -> None:
        self._sampling = sampling
        self._num_ids = num_ids
        self._filters = Filters(
            sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p
        )
        self._penalises = sampling.presence_penalty != 0 or sampling.repetition_penalty != 1
        self._prompt_ids = frozenset(prompt_ids) if self._penalises else frozenset[int]()
        self._generated: set[int] = set()

    def choose(self, logits: torch.Tensor, position: int) -> int:
        """The token of ``position``, given everything noted before it.

        Args:
            logits: fp32 [V].
            position: its index in the conversation.

        Raises:
            ValueError: the logits hold a NaN or nothing finite.
        """
        row = logits[: self._num_ids]
        if self._penalises:
            row = penalise_reference(
                row,
                self._marked(row, self._prompt_ids | self._generated),
                self._marked(row, self._generated),
                self._sampling.presence_penalty,
                self._sampling.repetition_penalty,
            )
        where = torch.tensor([position])
        return int(sample_reference(row[None], where, self._filters, self._sampling.seed))

    def note(self, token_id: int) -> None:
        """Count a generated token for the penalties."""
        if self._penalises:
            self._generated.add(token_id)

    def fork(self) -> "TokenChooser":
        """A chooser with the same past, whose future does not touch this one's."""
        other = TokenChooser(self._sampling, self._num_ids, self._prompt_ids)
        other._generated = set(self._generated)
        return other

    @staticmethod
    def _marked(row: torch.Tensor, ids: Iterable[int]) -> torch.Tensor:
        """Mark ``ids``: bool [V]."""
        mask = torch.zeros(len(row), dtype=torch.bool, device=row.device)
        mask[torch.tensor(sorted(ids), dtype=torch.int64, device=row.device)] = True
        return mask
