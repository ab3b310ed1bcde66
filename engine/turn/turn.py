"""One turn from its prompt's ids to its record."""

import threading
import time
from collections.abc import Iterator

import torch

from engine.draft.choose import DraftSources, make_drafter
from engine.draft.draft import Draft
from engine.draft.scripted import Truth, replayed
from engine.errors import EngineError
from engine.records import FinishReason, RoundRecord, TurnRecord
from engine.text.stream import Piece, TextStream
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock
from engine.turn.machine import Machine, Reading
from engine.turn.memory import Memory
from engine.turn.prefill import read_prompt
from engine.turn.thinking_budget import ThinkingBudget
from engine.turn.verify import Verified
from engine.types import Event, NoticeRaised, Request, RoundEnded, TextArrived, TurnEnded

MID_TURN_FAILURES = (EngineError, RuntimeError, ValueError, ArithmeticError, MemoryError, OSError)
"""What a device, a kernel or the model may raise; an out-of-memory is a RuntimeError in torch."""


class Turn:
    """Reads a prompt and generates until there is a reason to end.

    Args:
        machine: what outlives the turn.
        memory: aligned with the prompt.
        reading: the prompt, and how it is read.
        request: what is asked.
        drafter: name, resolved.
        num_draft_tokens: most proposals a round.
        began_s: ``time.perf_counter`` when the request came.
    """

    def __init__(
        self,
        machine: Machine,
        memory: Memory,
        reading: Reading,
        request: Request,
        drafter: str,
        num_draft_tokens: int,
        began_s: float,
    ) -> None:
        self._began_s = began_s
        self._machine = machine
        self._memory = memory
        self._reading = reading
        self._ids = ids = reading.ids
        self._request = request
        self._num_draft_tokens = num_draft_tokens
        tokenizer = machine.tokenizer
        num_ids, is_thinking = tokenizer.num_ids, tokenizer.starts_thinking(ids)
        budget = None
        if request.thinking_budget is not None:
            budget = ThinkingBudget.of(tokenizer, request.thinking_budget, is_thinking=is_thinking)
        self._chooser = TokenChooser(request.sampling, num_ids, ids, budget)
        begun = request.unfinished
        at_start = begun and not (begun.reasoning if is_thinking else begun.content)
        self._stream = TextStream(
            tokenizer, thinking=is_thinking, at_start=at_start, stops=request.stop
        )
        self._num_reused = len(memory.ids)
        self._pieces: list[Piece] = []
        self._notices: list[str] = []
        self._logits: list[torch.Tensor] = []
        self._rounds: list[RoundRecord] = []
        self._prefill_tok_s = self._first_s = self._last_s = 0.0
        self._finish: FinishReason | None = None
        self._error = ""
        self.token_ids: list[int] = []
        self._token_chars: list[int] = []
        sources = DraftSources(
            memory.mtp, memory.ngrams, ids, self.token_ids, self._truth(), num_ids,
            memory.calibration, machine.routing, memory.dflash,
        )  # fmt: skip
        # what a scripted drafter takes is no price
        self._routing = machine.routing if drafter == "auto" else None
        self._drafter = make_drafter(drafter, request.draft_shape, sources)

    @property
    def stream(self) -> TextStream:
        """The answer's text so far."""
        return self._stream

    def events(self, stop: threading.Event) -> Iterator[Event]:
        """Run the turn; the last event is ``TurnEnded``, whatever happens on the way."""
        try:
            yield from self._read_prompt(stop)
            while self._finish is None:
                if stop.is_set():
                    self._finish = "cancelled"
                    break
                num_told = len(self._token_chars) if self._rounds else 0
                record = self._round()
                yield from self._arrived()
                yield RoundEnded(record, tuple(self._token_chars[num_told:]))
                yield from self._raised()
        except MID_TURN_FAILURES as problem:
            self._finish = "error"
            self._error = _sentence(problem)
            self._memory.spoil()
        self._take_pieces(self._stream.finish())
        yield from self._arrived()
        if self._finish == "context_full":
            self._notices.append(self._context_is_full())
        if captured := self._machine.model.take_captured():
            self._notices.append(captured)
        yield from self._raised()
        yield TurnEnded(self._record())

    def _read_prompt(self, stop: threading.Event) -> Iterator[Event]:
        """Prefill, and choose the first token."""
        memory, model = self._memory, self._machine.model
        memory.mark()  # where an edit of the last message begins
        for progress in read_prompt(model, memory, self._ids, stop, self._reading.recorded):
            self._prefill_tok_s = progress.tok_s
            yield progress
        if len(memory.ids) < len(self._ids) or memory.last_hidden is None:
            self._finish = "cancelled"
            return
        logits = model.logits(memory.last_hidden)[0]
        self._commit(self._chooser.choose(logits, len(self._ids)), logits)
        yield from self._arrived()
        memory.mark()  # behind the first token, which does not wait for the copy

    def _round(self) -> RoundRecord:
        """One round: draft, verify, accept, host."""
        memory, clock = self._memory, PhaseClock(self._machine.model.device)
        context_tokens = len(memory.ids)
        draft = self._propose()
        verified = self._machine.verifier.verify(
            self.token_ids[-1], draft, memory.state, self._chooser, self._commit, clock
        )
        clock.enter("host")
        memory.read(verified.read_ids, verified.hidden, "decode")
        self._notices += [verified.notice] if verified.notice else []
        record = self._round_record(context_tokens, draft, verified, clock)
        self._rounds.append(record)
        if self._routing is not None:
            prices = self._routing.prices
            prices.observe(record.rows, context_tokens, draft.num_steps, record.ms)
        return record

    def _propose(self) -> Draft:
        """What the drafter proposes, no more than the turn has room for."""
        num_generated = len(self.token_ids)
        room = self._request.max_tokens - num_generated
        room = min(room, self._machine.max_context_tokens - len(self._ids) - num_generated)
        num_tokens = min(self._num_draft_tokens, room - 1)
        if num_tokens < 1:
            return Draft.chain(())
        draft = self._drafter.propose(self.token_ids[-1], num_generated, num_tokens)
        if len(draft.token_ids) > num_tokens:
            raise ValueError(
                f"the drafter '{self._drafter.name}' proposes {len(draft.token_ids)} tokens and "
                f"the round has room for {num_tokens}"
            )
        return draft

    def _commit(self, token_id: int, logits: torch.Tensor) -> bool:
        """Take the next token into the answer; whether the turn goes on behind it."""
        if self._request.keep_logits:
            # on a CPU too a copy: the verifier writes its next rows to the same place
            self._logits.append(logits.to("cpu", copy=True))
        self._chooser.note(token_id)
        self.token_ids.append(token_id)
        self._token_chars.append(0)
        self._take_pieces(self._stream.push(token_id))
        self._last_s = time.perf_counter()
        self._first_s = self._first_s or self._last_s
        self._finish = self._reason_to_end(token_id)
        return self._finish is None

    def _reason_to_end(self, token_id: int) -> FinishReason | None:
        num_generated = len(self.token_ids)
        if token_id in self._machine.stop_ids and not self._request.ignore_stop_ids:
            return "stop"
        if self._stream.stopped:
            return "stop_string"
        if num_generated >= self._request.max_tokens:
            return "length"
        if len(self._ids) + num_generated >= self._machine.max_context_tokens:
            return "context_full"
        return None

    def _context_is_full(self) -> str:
        """What a person can do about it."""
        held, most = self._machine.max_context_tokens, self._machine.model.config
        more = most.max_position_embeddings
        longer = f", or start again with model.context_tokens above {held} (up to {more})"
        return (
            f"The context of {held} tokens is full, and the answer ends here. Begin a new "
            "conversation (/new), go back to an earlier message and edit it"
            f"{longer if more > held else ''}."
        )

    def _truth(self) -> Truth:
        """What the target will choose, for the scripted drafters: recorded, or computed ahead."""
        if self._request.replay_ids:
            return replayed(self._request.replay_ids)
        return self._look_ahead

    def _look_ahead(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Decode ahead and take the state back: a truth as dear as plain decode."""
        model, state, chooser = self._machine.model, self._memory.state, self._chooser.fork()
        snapshot = state.snapshot()
        ahead: list[int] = []
        for offset in range(num_tokens):
            logits = model.logits(model.step(token_id, state))[0]
            token_id = chooser.choose(logits, len(self._ids) + num_generated + offset)
            chooser.note(token_id)
            ahead.append(token_id)
        state.restore(snapshot)
        return ahead

    def _raised(self) -> Iterator[NoticeRaised]:
        """Hand out what a person should know of the last round."""
        notices, self._notices = self._notices, []
        yield from map(NoticeRaised, notices)

    def _take_pieces(self, pieces: list[Piece]) -> None:
        """Take the text that became certain with the newest token."""
        self._pieces += pieces
        if pieces:
            self._token_chars[-1] += sum(len(text) for _, text in pieces)

    def _arrived(self) -> Iterator[TextArrived]:
        """Hand out the text that became certain."""
        pieces, self._pieces = self._pieces, []
        for channel, text in pieces:
            yield TextArrived(text, channel)

    def _round_record(
        self, context_tokens: int, draft: Draft, verified: Verified, clock: PhaseClock
    ) -> RoundRecord:
        num_rows, num_read = draft.plan.num_nodes, len(verified.read_ids)
        moved = self._machine.traffic(context_tokens, num_rows, num_read, draft.num_steps)
        return RoundRecord(
            index=len(self._rounds),
            drafter=draft.drafter or self._drafter.name,
            shape=draft.shape,
            rows=num_rows,
            tested=verified.tested,
            accepted=verified.accepted,
            token_ids=tuple(verified.chosen),
            context_tokens=context_tokens,
            start_s=clock.began_s - self._began_s,
            num_bytes={**moved, "drafter": moved["drafter"] + draft.num_bytes},
            draft_ids=draft.token_ids,
            draft_parents=() if draft.plan.is_chain else tuple(draft.plan.parents[1:]),
            ms=clock.stop(),
        )

    def _record(self) -> TurnRecord:
        num_tokens = len(self.token_ids)
        decode_s = self._last_s - self._first_s
        return TurnRecord(
            text=self._stream.answer,
            reasoning=self._stream.reasoning,
            token_ids=tuple(self.token_ids),
            finish_reason=self._finish or "error",
            prompt_tokens=len(self._ids),
            reused_tokens=self._num_reused,
            ttft_s=max(self._first_s - self._began_s, 0.0),
            total_s=time.perf_counter() - self._began_s,
            prefill_tok_s=self._prefill_tok_s,
            decode_tok_s=(num_tokens - 1) / decode_s if num_tokens > 1 and decode_s > 0 else 0.0,
            rounds=tuple(self._rounds),
            ranges=tuple(self._memory.ranges),
            seed=self._request.sampling.seed,
            error=self._error,
            prompt_ids=self._ids,
            reread_tokens=self._reading.num_reread,
            token_chars=tuple(self._token_chars),
            logits=torch.stack(self._logits) if self._logits else None,
        )


def _sentence(problem: Exception) -> str:
    """What went wrong, for a person; libraries' messages are cut at their first line."""
    if isinstance(problem, EngineError):
        return str(problem)
    first_line = (str(problem).splitlines() or [""])[0]
    return f"The engine failed: {first_line or type(problem).__name__}"
