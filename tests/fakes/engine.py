"""A scripted engine with the face of the real one: timed tokens, rounds, and every way to fail."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.records import RangeRecord, RoundRecord, TurnRecord
from engine.types import (
    Channel,
    EngineInfo,
    Event,
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    Sampling,
    TextArrived,
    TurnEnded,
)

INFO = EngineInfo(
    model="scripted",
    path="/nowhere/scripted",
    profile="demo",
    device="cpu",
    num_parameters=14_000_000,
    weight_bytes=20_000_000,
    state_bytes=1_000_000,
    kv_bytes_per_token=2048,
    max_context_tokens=4096,
    is_demo=True,
    default_sampling=Sampling(),
    supports_thinking=True,
    has_mtp=True,
    arithmetic="scripted-1",
    read_gb_s=20.0,
)


@dataclass(frozen=True)
class Script:
    """One answer. A token is one word with the space before it.

    ``round_s`` is slept a round, ``prefill_s`` before the first token. ``fails_after`` ends the
    turn with finish reason ``error`` after so many rounds, ``crashes_after`` raises from inside
    the loop (which the real engine must never do), ``refuses`` is raised before the first event.
    """

    answer: str = "A volcano is a mountain that can erupt."
    thinking: str = ""
    tokens_per_round: int = 3
    round_s: float = 0.0
    prefill_s: float = 0.0
    notice: str = ""
    fails_after: int | None = None
    crashes_after: int | None = None
    refuses: Exception | None = None


@dataclass
class ScriptedEngine:
    """Answers request ``n`` with script ``n``, the last one for ever after.

    ``requests`` keeps what was asked, for the tests to look at, ``ahead`` what was read before the
    next message, in ``ahead_steps`` of ``ahead_step_s`` each. ``measured`` are the bandwidths
    that are measured in pauses, one after the other.
    """

    scripts: list[Script] = field(default_factory=lambda: [Script()])
    info: EngineInfo = INFO
    requests: list[Request] = field(default_factory=list)
    is_closed: bool = False
    ahead: list[Request] = field(default_factory=list)
    ahead_steps: int = 1
    ahead_step_s: float = 0.0
    ahead_fails: Exception | None = None
    measured: list[float] = field(default_factory=list)

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self.requests.append(request)
        if script.refuses is not None:
            raise script.refuses
        return _Turn(script, request, self.count_tokens(request.messages), stop).events()

    def read_ahead(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        self.ahead.append(request)
        num = self.count_tokens(request.messages)
        yield PromptProgressed(0, num, 0, 0.0)
        for step in range(1, self.ahead_steps + 1):
            end = time.monotonic() + self.ahead_step_s
            while not stop.is_set() and (left := end - time.monotonic()) > 0:
                time.sleep(min(left, 0.005))
            if stop.is_set():
                return
            yield PromptProgressed(num * step // self.ahead_steps, num, 0, 1000.0)
        if self.ahead_fails is not None:
            raise self.ahead_fails

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        return sum(len(one.content.split()) + 4 for one in messages)

    def text_tokens(self, text: str) -> int:
        return len(text.split())

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return [f" w{one}" for one in token_ids]

    def measure_again(self) -> None:
        if self.measured:
            self.info = replace(self.info, read_gb_s=self.measured.pop(0))

    def close(self) -> None:
        self.is_closed = True


class _Turn:
    def __init__(
        self, script: Script, request: Request, num_prompt: int, stop: threading.Event
    ) -> None:
        self.script = script
        self.request = request
        self.num_prompt = num_prompt
        self.stop = stop
        self.began = time.perf_counter()
        self.first_at = self.last_at = 0.0
        self.rounds: list[RoundRecord] = []
        self.texts: dict[Channel, str] = {"thinking": "", "answer": ""}
        self.chars: list[int] = []
        self.finish_reason = "stop"
        self.error = ""

    def events(self) -> Iterator[Event]:
        self._wait(self.script.prefill_s)
        num = self.num_prompt
        yield PromptProgressed(num, num, 0, 1000.0)
        if self.script.notice:
            yield NoticeRaised(self.script.notice)
        tokens = self._tokens()
        if len(tokens) > self.request.max_tokens:
            self.finish_reason = "length"
            tokens = tokens[: self.request.max_tokens]
        step = self.script.tokens_per_round
        for index, begin in enumerate(range(0, len(tokens), step)):
            if self._ends_at(index):
                break
            self._wait(self.script.round_s)
            yield from self._round(index, tokens[begin : begin + step])
        yield TurnEnded(self._record())

    def _ends_at(self, index: int) -> bool:
        if self.script.crashes_after == index:
            raise RuntimeError("the scripted engine crashed")
        if self.script.fails_after == index:
            self.finish_reason, self.error = "error", "The scripted device was lost."
            return True
        if self.stop.is_set():
            self.finish_reason = "cancelled"
            return True
        return False

    def _tokens(self) -> list[tuple[Channel, str]]:
        thinking = self.script.thinking if self.request.thinking else ""
        pieces: list[tuple[Channel, str]] = []
        for channel, text in (("thinking", thinking), ("answer", self.script.answer)):
            words = text.split(" ")
            spaced = [words[0], *(f" {word}" for word in words[1:])] if text else []
            pieces += [(channel, word) for word in spaced]
        return pieces

    def _round(self, index: int, tokens: list[tuple[Channel, str]]) -> Iterator[Event]:
        self.last_at = time.perf_counter()
        self.first_at = self.first_at or self.last_at
        for channel, text in tokens:
            self.chars.append(len(text))
            self.texts[channel] += text
            yield TextArrived(text, channel)
        begin = sum(len(one.token_ids) for one in self.rounds)
        record = RoundRecord(
            index=index,
            drafter="mtp",
            shape="chain",
            rows=4,
            tested=3,
            accepted=len(tokens) - 1,
            token_ids=tuple(range(begin, begin + len(tokens))),
            context_tokens=self.num_prompt + begin,
            start_s=self.last_at - self.began,
            ms={"draft": 1.0, "verify": 8.0, "accept": 0.5, "host": 0.5},
            num_bytes={"weights": 20_000_000, "head": 0, "state": 1000, "kv": 1000, "drafter": 0},
            draft_ids=(*range(begin, begin + len(tokens) - 1), *range(900, 904 - len(tokens)))[:3],
        )
        self.rounds.append(record)
        yield RoundEnded(record, tuple(self.chars[-len(tokens) :]))

    def _record(self) -> TurnRecord:
        ids = tuple(one for record in self.rounds for one in record.token_ids)
        decode_s = max(self.last_at - self.first_at, 1e-6)
        return TurnRecord(
            text=self.texts["answer"],
            reasoning=self.texts["thinking"],
            token_ids=ids,
            finish_reason=self.finish_reason,  # type: ignore[arg-type]
            prompt_tokens=self.num_prompt,
            reused_tokens=0,
            ttft_s=max(self.first_at - self.began, 0.0),
            total_s=time.perf_counter() - self.began,
            prefill_tok_s=1000.0,
            decode_tok_s=(len(ids) - 1) / decode_s if len(ids) > 1 else 0.0,
            rounds=tuple(self.rounds),
            ranges=(RangeRecord(0, self.num_prompt, "prefill", 64),),
            seed=self.request.sampling.seed,
            error=self.error,
            token_chars=tuple(self.chars),
        )

    def _wait(self, seconds: float) -> None:
        """Sleep until stopped, without `Event.wait`: a signal's handler may set the event in this
        very thread, and would then wait for the lock that the waiting thread holds."""
        end = time.monotonic() + seconds
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.005))


def real_checkpoint_engine(scripts: list[Script]) -> ScriptedEngine:
    """A scripted engine that does not call itself the demo."""
    return ScriptedEngine(scripts, replace(INFO, is_demo=False, model="Qwen3.8-27B"))
