"""The rounds of a turn as they are told: one record each, and every committed token in one."""

import time
from collections.abc import Iterator

from engine.draft.draft import Draft
from engine.records import BYTE_PARTS, PHASES, RoundRecord
from engine.turn.answer import Answer
from engine.turn.rounds import Round
from engine.turn.traffic import Traffic
from engine.types import RoundEnded, TextArrived


class RoundLog:
    """Keeps the records of a turn's rounds, and hands each out once.

    Attributes:
        records: of all rounds so far.

    Args:
        answer: of the turn; its first token comes of the prompt and is told with the first round.
        drafter: that was asked.
        traffic: counts a round's bytes.
        began_s: ``time.perf_counter`` when the turn began.
    """

    def __init__(self, answer: Answer, drafter: str, traffic: Traffic, began_s: float) -> None:
        self.records: list[RoundRecord] = []
        self._answer = answer
        self._drafter = drafter
        self._traffic = traffic
        self._began_s = began_s
        self._start_s = 0.0
        self._awaited: tuple[Draft, int] | None = None
        self._num_committed = 1
        self._num_told_rounds = self._num_told_tokens = 0

    def begin(self) -> None:
        """The prompt is read: the first round begins."""
        self._start_s = time.perf_counter() - self._began_s

    def await_round(self, draft: Draft, context_tokens: int) -> None:
        """Note what is waited for, in case that it fails.

        Args:
            draft: that it verifies.
            context_tokens: positions held before it.
        """
        self._awaited = draft, context_tokens

    def add(self, one: Round, context_tokens: int) -> RoundRecord:
        """Note a round that was taken in.

        Args:
            one: the round.
            context_tokens: positions held before it.
        """
        draft, verified = one.draft, one.verified
        num_read = len(verified.chosen)
        moved = self._traffic(context_tokens, draft.plan.num_nodes, num_read, draft.num_steps)
        return self._append(
            draft, tuple(verified.chosen), (verified.tested, verified.accepted), context_tokens,
            one.clock.ms(), {**moved, "drafter": moved["drafter"] + draft.num_bytes},
        )  # fmt: skip

    def add_failed(self) -> None:
        """Note what the newest round committed before something failed; it has no figures."""
        chosen = tuple(self._answer.token_ids[self._num_committed :])
        if self._awaited is not None and chosen:
            draft, context_tokens = self._awaited
            no_ms: dict[str, float] = dict.fromkeys(PHASES, 0.0)
            no_bytes: dict[str, int] = dict.fromkeys(BYTE_PARTS, 0)
            agreed = draft.agreement(chosen)
            self._append(draft, chosen, agreed, context_tokens, no_ms, no_bytes)

    def told(self) -> Iterator[TextArrived | RoundEnded]:
        """Hand out the text that became certain, and the records that nobody has been told yet."""
        yield from self._answer.arrived()
        for record in self.records[self._num_told_rounds :]:
            first = self._num_told_tokens
            num_before = 0 if self._num_told_rounds else 1  # of the prompt's
            self._num_told_rounds += 1
            self._num_told_tokens += num_before + len(record.token_ids)
            yield RoundEnded(record, tuple(self._answer.token_chars[first : self._num_told_tokens]))

    def _append(
        self,
        draft: Draft,
        chosen: tuple[int, ...],
        agreed: tuple[int, int],
        context_tokens: int,
        ms: dict[str, float],
        num_bytes: dict[str, int],
    ) -> RoundRecord:
        tested, accepted = agreed
        record = RoundRecord(
            index=len(self.records),
            drafter=draft.drafter or self._drafter,
            shape=draft.shape,
            rows=draft.plan.num_nodes,
            tested=tested,
            accepted=accepted,
            token_ids=chosen,
            context_tokens=context_tokens,
            start_s=self._start_s,
            ms=ms,
            num_bytes=num_bytes,
            draft_ids=draft.token_ids,
            draft_parents=() if draft.plan.is_chain else tuple(draft.plan.parents[1:]),
        )
        self.records.append(record)
        self._num_committed += len(chosen)
        self._start_s += record.round_ms / 1e3
        return record
