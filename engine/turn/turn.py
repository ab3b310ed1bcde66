"""One turn from its prompt's ids to its record."""

import threading
import time
from collections.abc import Generator, Iterator

from engine.draft.choose import DraftSources, make_drafter
from engine.draft.draft import Draft
from engine.draft.scripted import Truth, replayed
from engine.records import TurnRecord
from engine.text.stream import TextStream
from engine.turn.answer import Answer
from engine.turn.failures import mid_turn_failures, sentence_of
from engine.turn.machine import Machine, Reading
from engine.turn.memory import Memory
from engine.turn.prefill import read_prompt
from engine.turn.round_log import RoundLog
from engine.turn.rounds import Round, Rounds
from engine.turn.verify import Course
from engine.types import Event, NoticeRaised, Request, TurnEnded


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
        self._answer = Answer(
            request, machine.tokenizer, ids, machine.stop_ids, machine.max_context_tokens
        )
        self._num_reused = len(memory.ids)
        self._notices: list[str] = []
        self._prefill_tok_s = 0.0
        self._error = ""
        sources = DraftSources(
            memory.mtp, memory.ngrams, ids, self.token_ids, self._truth(),
            machine.tokenizer.num_ids, memory.calibration, machine.routing, memory.dflash,
            is_recorded=bool(request.replay_ids),
        )  # fmt: skip
        # what a scripted drafter takes is no price
        self._routing = machine.routing if drafter == "auto" else None
        self._drafter = make_drafter(drafter, request.draft_shape, sources)
        self._log = RoundLog(self._answer, self._drafter.name, machine.traffic, began_s)

    @property
    def token_ids(self) -> list[int]:
        """The answer's tokens so far."""
        return self._answer.token_ids

    @property
    def stream(self) -> TextStream:
        """The answer's text so far."""
        return self._answer.stream

    def events(self, stop: threading.Event) -> Generator[Event]:
        """Run the turn; the last event is ``TurnEnded``, whatever happens on the way."""
        answer = self._answer
        try:
            yield from self._read_prompt(stop)
            yield from self._run_rounds(stop)
        except mid_turn_failures() as problem:
            answer.finish = "error"
            self._error = sentence_of(problem)
            self._memory.spoil()
            self._log.add_failed()
            yield from self._log.told()
        answer.close()
        yield from answer.arrived()
        if answer.finish == "context_full":
            self._notices.append(self._context_is_full())
        if captured := self._machine.model.take_captured():
            self._notices.append(captured)
        yield from self._raised()
        yield TurnEnded(self._record())

    def _read_prompt(self, stop: threading.Event) -> Iterator[Event]:
        """Prefill, and choose the first token."""
        memory, model, answer = self._memory, self._machine.model, self._answer
        memory.mark()  # where an edit of the last message begins
        for progress in read_prompt(model, memory, self._ids, stop, self._reading.recorded):
            self._prefill_tok_s = progress.tok_s
            yield progress
        if len(memory.ids) < len(self._ids) or memory.last_hidden is None:
            answer.finish = "cancelled"
            return
        logits = model.logits(memory.last_hidden)
        answer.commit(answer.chooser.choose(logits[0], len(self._ids)))
        if self._request.keep_logits:
            answer.keep(logits)
        yield from answer.arrived()
        memory.mark()  # behind the first token, which does not wait for the copy

    def _run_rounds(self, stop: threading.Event) -> Iterator[Event]:
        """Run rounds until the answer ends; the next is on its way before one is told.

        So a device works while text is made and shown. A round that nobody wants in the end is
        dropped, which leaves no trace of it.
        """
        answer, memory = self._answer, self._memory
        course = Course(
            memory.state, answer.chooser, answer.stop_ids, keeps_logits=self._request.keep_logits,
            ends_by_text=bool(self._request.stop),
        )  # fmt: skip
        rounds = Rounds(self._machine.verifier, course, self._machine.model.device)
        self._log.begin()
        try:
            while answer.finish is None:
                if stop.is_set():
                    answer.finish = "cancelled"
                    break
                yield from self._run_round(rounds)
        except GeneratorExit:  # nobody wants more; after any failure the state is given up anyway
            self._leave(rounds)
            raise
        rounds.drop()

    def _run_round(self, rounds: Rounds) -> Iterator[Event]:
        """Wait for a round, launch the next, tell what it brought."""
        drafter, memory = self._drafter, self._memory
        if not rounds.are_under_way:
            self._launch(rounds)
        if self._goes_on_plainly():
            rounds.launch_ahead()
        elif foreseen := drafter.prepare(len(self.token_ids), self._room_behind):
            rounds.foresee(foreseen)
        newest, num_before = self.token_ids[-1], len(memory.ids)
        one = self._take(rounds)
        try:  # a device waits from here on, unless the next round is on its way
            if drafter.reads_rows:
                self._read(newest, one)
            if self._answer.finish is None:
                self._go_on(rounds, one)
            if not drafter.reads_rows:
                self._read(newest, one)
        finally:
            yield from self._tell(one, num_before)

    def _go_on(self, rounds: Rounds, one: Round) -> None:
        """Launch a round behind one, unless one is on its way."""
        if one.went_as_foreseen:
            self._propose()  # what is on its way: the drafter goes on as ever
        elif not rounds.are_under_way:
            self._launch(rounds)

    def _launch(self, rounds: Rounds) -> None:
        try:
            hidden = rounds.launch(self.token_ids[-1], self._propose, self._answer.room)
            if hidden is not None and self._drafter.reads_rows:
                self._memory.expect(hidden)
        except BaseException:
            # at once: the round before is told first, and whoever hears of it may leave there
            self._memory.spoil()
            raise

    def _leave(self, rounds: Rounds) -> None:
        """Drop what is on its way; nobody is there to be told of a failure."""
        try:
            rounds.drop()
        except mid_turn_failures():
            self._memory.spoil()

    def _take(self, rounds: Rounds) -> Round:
        """Wait for a round."""
        self._log.await_round(rounds.oldest, len(self._memory.ids))
        return rounds.take(self._answer.commit)

    def _read(self, newest: int, one: Round) -> None:
        """Note what a round has read: the newest token before it, and all it committed but one."""
        try:
            read_ids = [newest, *one.verified.chosen[:-1]]
            self._memory.read(read_ids, one.verified.hidden, "decode")
        except BaseException:
            self._memory.spoil()  # as above
            raise

    def _tell(self, one: Round, context_tokens: int) -> Iterator[Event]:
        """Hand out what a round brought: text, its record, and what a person should know of it."""
        verified = one.verified
        if verified.logits is not None:
            self._answer.keep(verified.logits)
        record = self._log.add(one, context_tokens)
        # the first one pays for the prompt: to index it, and for its rows that wait for a head
        if self._routing is not None and record.index and not verified.was_captured:
            self._routing.prices.observe(
                record.rows, context_tokens, one.draft.num_steps, record.ms,
                branches=record.shape == "tree", with_block=one.draft.with_block,
                was_asked=bool(one.draft.drafter) and not one.was_ready,
            )  # fmt: skip
        self._notices += [verified.notice] if verified.notice else []
        yield from self._log.told()
        yield from self._raised()

    def _propose(self) -> Draft:
        """What the drafter proposes, no more than the turn has room for."""
        num_tokens = self._most_proposals(self._answer.room)
        if num_tokens < 1:
            return Draft.chain(())
        draft = self._drafter.propose(self.token_ids[-1], len(self.token_ids), num_tokens)
        if len(draft.token_ids) > num_tokens:
            raise ValueError(
                f"the drafter '{self._drafter.name}' proposes {len(draft.token_ids)} tokens and "
                f"the round has room for {num_tokens}"
            )
        return draft

    def _goes_on_plainly(self) -> bool:
        """Whether nothing is to be proposed behind a plain round that is on its way."""
        num_tokens = self._most_proposals(self._answer.room - 1)
        return num_tokens < 1 or self._drafter.goes_on_plainly(len(self.token_ids), num_tokens)

    def _room_behind(self, num_committed: int) -> int:
        """The most proposals behind a round that commits so many tokens."""
        return self._most_proposals(self._answer.room - num_committed)

    def _most_proposals(self, room: int) -> int:
        return min(self._num_draft_tokens, room - 1)

    def _context_is_full(self) -> str:
        """What a person can do about it."""
        held, most = self._machine.max_context_tokens, self._machine.model.config
        more = most.max_position_embeddings
        longer = f", or start again with model.context_tokens above {held} (up to {more})"
        return (
            f"The context of {held:,} tokens is full, and the answer ends here. Begin a new "
            "conversation, go back to an earlier message and edit it"
            f"{longer if more > held else ''}."
        )

    def _truth(self) -> Truth:
        """What the target will choose, for the scripted drafters: recorded, or computed ahead."""
        if self._request.replay_ids:
            return replayed(self._request.replay_ids)
        return self._look_ahead

    def _look_ahead(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Decode ahead and take the state back: a truth as dear as plain decode."""
        model, state, chooser = self._machine.model, self._memory.state, self._answer.chooser.fork()
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

    def _record(self) -> TurnRecord:
        answer, num_tokens = self._answer, len(self.token_ids)
        decode_s = answer.last_s - answer.first_s
        return TurnRecord(
            text=answer.stream.answer,
            reasoning=answer.stream.reasoning,
            token_ids=tuple(self.token_ids),
            finish_reason=answer.finish or "error",
            prompt_tokens=len(self._ids),
            reused_tokens=self._num_reused,
            ttft_s=max(answer.first_s - self._began_s, 0.0),
            total_s=time.perf_counter() - self._began_s,
            prefill_tok_s=self._prefill_tok_s,
            decode_tok_s=(num_tokens - 1) / decode_s if num_tokens > 1 and decode_s > 0 else 0.0,
            rounds=tuple(self._log.records),
            ranges=tuple(self._memory.ranges),
            seed=self._request.sampling.seed,
            error=self._error,
            prompt_ids=self._ids,
            reread_tokens=self._reading.num_reread,
            token_chars=tuple(answer.token_chars),
            logits=answer.logits,
        )
