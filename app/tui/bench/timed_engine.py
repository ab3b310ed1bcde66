"""An engine that computes nothing and keeps the time of one that does.

It waits for its device with the interpreter lock released, and has the next round enqueued while it
does. So a thread that is held back for less than a round costs no tokens a second; how late it took
each round is its ``host`` phase.
"""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.records import RoundRecord, TurnRecord
from engine.types import (
    EngineInfo,
    Event,
    Message,
    PromptProgressed,
    Request,
    RoundEnded,
    Sampling,
    TextArrived,
    TurnEnded,
)

_TOKEN = re.compile(r"\s*\S+|\s+$")

INFO = EngineInfo(
    model="timed", path="", profile="none", device="none", num_parameters=0, weight_bytes=0,
    state_bytes=0, kv_bytes_per_token=0, max_context_tokens=32768, is_demo=False,
    default_sampling=Sampling(), supports_thinking=False, has_mtp=False, arithmetic="none",
    read_gb_s=0.0,
)  # fmt: skip


def tokens_of(text: str) -> list[str]:
    """The text in pieces of about a token: words with what stands before them."""
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class Pace:
    """How the time goes: tokens of a round, and seconds that it waits."""

    tokens_a_round: int = 3
    round_s: float = 0.025

    @property
    def tok_s(self) -> float:
        """Tokens a second when nothing holds it back."""
        return self.tokens_a_round / self.round_s


class _Device:
    """Runs rounds one behind the other; one is enqueued while another runs."""

    def __init__(self, round_s: float) -> None:
        self._round_s = round_s
        now_s = time.perf_counter()
        self._ends_s = [now_s + round_s, now_s + 2 * round_s]

    def wait(self) -> tuple[float, float]:
        """Wait for the next round and enqueue one more; when it ended, and when that was seen."""
        end_s = self._ends_s.pop(0)
        time.sleep(max(end_s - time.perf_counter(), 0.0))
        seen_s = time.perf_counter()
        self._ends_s.append(max(self._ends_s[0], seen_s) + self._round_s)
        return end_s, seen_s


class TimedEngine:
    """Says ``text`` at a pace (``engine.types.ChatEngine``)."""

    def __init__(self, text: str, pace: Pace) -> None:
        self._tokens = tokens_of(text)
        self._pace = pace

    @property
    def info(self) -> EngineInfo:
        """Nothing is loaded."""
        return INFO

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Words of the messages."""
        return sum(len(tokens_of(one.content)) for one in messages)

    def text_tokens(self, text: str) -> int:
        """Words of the text."""
        return len(tokens_of(text))

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """The pieces of the text by their place in it."""
        return [self._tokens[one] for one in token_ids]

    def measure_again(self) -> None:
        """Nothing is measured."""

    def close(self) -> None:
        """Nothing to free."""

    def read_ahead(self, request: Request, stop: threading.Event) -> Iterator[PromptProgressed]:
        """Nothing is read."""
        del request, stop
        yield from ()

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Say the text."""
        num_prompt = self.count_tokens(request.messages)
        yield PromptProgressed(num_prompt, num_prompt, 0, 0.0)
        began_s = time.perf_counter()
        rounds: list[RoundRecord] = []
        step, device = self._pace.tokens_a_round, _Device(self._pace.round_s)
        for begin in range(0, len(self._tokens), step):
            if stop.is_set():
                break
            tokens = self._tokens[begin : begin + step]
            rounds.append(self._round(len(rounds), begin, len(tokens), num_prompt, began_s, device))
            for text in tokens:
                yield TextArrived(text, "answer")
            yield RoundEnded(rounds[-1])
        yield TurnEnded(self._record(tuple(rounds), num_prompt, began_s))

    def _round(
        self, index: int, begin: int, count: int, num_prompt: int, began_s: float, device: _Device
    ) -> RoundRecord:
        end_s, seen_s = device.wait()
        round_s = self._pace.round_s
        return RoundRecord(
            index=index, drafter="timed", shape="chain", rows=count, tested=count - 1,
            accepted=count - 1, token_ids=tuple(range(begin, begin + count)),
            context_tokens=num_prompt + begin, start_s=end_s - round_s - began_s,
            ms={"draft": 0.0, "verify": round_s * 1e3, "accept": 0.0,
                "host": (seen_s - end_s) * 1e3},
            num_bytes=dict.fromkeys(("weights", "head", "state", "kv", "drafter"), 0),
        )  # fmt: skip

    def _record(
        self, rounds: tuple[RoundRecord, ...], num_prompt: int, began_s: float
    ) -> TurnRecord:
        ids = tuple(one for each in rounds for one in each.token_ids)
        first_s = rounds[0].start_s + rounds[0].round_ms / 1e3 if rounds else 0.0
        total_s = time.perf_counter() - began_s
        decode_s = total_s - first_s
        num_later = len(ids) - len(rounds[0].token_ids) if rounds else 0
        return TurnRecord(
            text="".join(self._tokens[: len(ids)]), reasoning="", token_ids=ids,
            finish_reason="stop", prompt_tokens=num_prompt, reused_tokens=0, ttft_s=first_s,
            total_s=total_s, prefill_tok_s=0.0,
            decode_tok_s=num_later / decode_s if decode_s > 0 else 0.0, rounds=rounds, ranges=(),
            seed=0,
        )  # fmt: skip
