"""The answer of a turn as it grows: its ids, their text, and why it ends."""

import time
from collections.abc import Iterator

import torch

from engine.records import FinishReason
from engine.text.stream import Piece, TextStream
from engine.text.tokenizer import Tokenizer
from engine.turn.choice import TokenChooser
from engine.turn.thinking_budget import ThinkingBudget
from engine.types import Request, TextArrived


class Answer:
    """What was committed, and whether the turn goes on behind it.

    Committing is quick, since a device may wait for it: text is made when it is asked for, unless
    it may end the answer.

    Attributes:
        token_ids: committed so far.
        finish: why the turn ends; None while it goes on.
        chooser: of its tokens.
        stream: their text.
        token_chars: characters that each token added, as far as there is text of them.
        first_s: ``time.perf_counter`` of the first token; 0 before.
        last_s: of the newest.

    Args:
        request: what is asked.
        tokenizer: of the checkpoint.
        prompt_ids: the whole prompt.
        stop_ids: end the turn.
        max_context_tokens: positions that a conversation may have.
    """

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        prompt_ids: tuple[int, ...],
        stop_ids: frozenset[int],
        max_context_tokens: int,
    ) -> None:
        self._stops_at_text = bool(request.stop)
        self._max_tokens = request.max_tokens
        self._most = min(self._max_tokens, max_context_tokens - len(prompt_ids))
        self.stop_ids = frozenset[int]() if request.ignore_stop_ids else stop_ids
        is_thinking, budget = tokenizer.starts_thinking(prompt_ids), None
        begun = request.unfinished
        if request.thinking_budget is not None:
            thought = begun.reasoning if begun and is_thinking else ""
            spent = len(tokenizer.encode(thought, control=False))
            left = max(request.thinking_budget - spent, 0)
            budget = ThinkingBudget.of(tokenizer, left, is_thinking=is_thinking)
        self.chooser = TokenChooser(request.sampling, tokenizer.num_ids, prompt_ids, budget)
        self._counts = self.chooser.counts
        at_start = begun and not (begun.reasoning if is_thinking else begun.content)
        self.stream = TextStream(
            tokenizer, thinking=is_thinking, at_start=at_start, stops=request.stop
        )
        self._pieces: list[Piece] = []
        self._logits: list[torch.Tensor] = []
        self.token_ids: list[int] = []
        self.token_chars: list[int] = []
        self.finish: FinishReason | None = None
        self.first_s = self.last_s = 0.0

    @property
    def room(self) -> int:
        """Tokens that may still be committed."""
        return self._most - len(self.token_ids)

    @property
    def logits(self) -> torch.Tensor | None:
        """What was kept: fp32 [tokens, V] on the CPU; NaN where a failure lost them."""
        if not self._logits:
            return None
        num_lost = len(self.token_ids) - sum(map(len, self._logits))
        lost = torch.full((num_lost, self._logits[0].shape[1]), torch.nan)
        return torch.cat([*self._logits, lost])

    def commit(self, token_id: int) -> bool:
        """Take the next token; whether the turn goes on behind it."""
        token_ids = self.token_ids
        token_ids.append(token_id)
        self.last_s = time.perf_counter()
        self.first_s = self.first_s or self.last_s
        if self._counts:
            self.chooser.note(token_id)
        if self._stops_at_text:
            self._spell()
        if token_id in self.stop_ids or self.stream.stopped or len(token_ids) >= self._most:
            self.finish = self._reason_to_end(token_id)
            return False
        return True

    def keep(self, logits: torch.Tensor) -> None:
        """Keep what tokens were chosen from: fp32 [n, V]."""
        # on a CPU too a copy: the next rows may be written to the same place
        self._logits.append(logits.to("cpu", copy=True))

    def arrived(self) -> Iterator[TextArrived]:
        """Hand out the text that became certain."""
        self._spell()
        pieces, self._pieces = self._pieces, []
        for channel, text in pieces:
            yield TextArrived(text, channel)

    def close(self) -> None:
        """Give out what was held back: no token comes any more."""
        self._spell()
        self._take(self.stream.finish())

    def _spell(self) -> None:
        """Make text of the tokens that have none yet."""
        for token_id in self.token_ids[len(self.token_chars) :]:
            self.token_chars.append(0)
            self._take(self.stream.push(token_id))

    def _take(self, pieces: list[Piece]) -> None:
        self._pieces += pieces
        if pieces:
            self.token_chars[-1] += sum(len(text) for _, text in pieces)

    def _reason_to_end(self, token_id: int) -> FinishReason:
        if token_id in self.stop_ids:
            return "stop"
        if self.stream.stopped:
            return "stop_string"
        return "length" if len(self.token_ids) >= self._max_tokens else "context_full"
