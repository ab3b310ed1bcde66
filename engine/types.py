"""The values that cross between the engine and whoever drives it. No tensor is among them.

``ChatEngine`` is the one face the app knows; a scripted engine in the tests has the same face.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from engine.records import RoundRecord, TurnRecord

Progress = Callable[[str], object]
"""Takes a line about how far a long work is."""

Role = Literal["system", "user", "assistant"]
Channel = Literal["thinking", "answer"]
DRAFTERS = ("auto", "off", "mtp", "lookup", "dflash2", "wrong", "half", "replay")
"""Drafters that can be asked for: ``auto`` chooses anew in every round where the engine routes
them, and is the profile's choice elsewhere; ``off`` is plain decode, ``mtp`` the checkpoint's head,
``lookup`` copies from the conversation, ``dflash2`` is a drafter with weights of its own; the last
three are scripted (never right, right every other round, always right) and serve tests and benches.
"""

DRAFT_SHAPES = ("auto", "chain", "tree")
"""Shapes of drafts that can be asked for; ``auto`` is what the drafter does best."""

KvFormat = Literal["bf16", "fp8"]
KV_FORMATS: tuple[KvFormat, ...] = get_args(KvFormat)
"""How keys and values are kept: as they are computed, or as e4m3 codes with calibrated scales."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, as the chat template reads it."""

    role: Role
    content: str
    reasoning: str = ""
    record: TurnRecord | None = field(default=None, repr=False, compare=False)
    """Of an answer: how it was computed, so that an exact resume can repeat it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen from its logits; ``temperature`` 0 is greedy whatever the rest says.

    ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 switch the filters off. Draws are keyed by
    (seed, position), so a token's draw depends on nothing else. ``logit_bias`` holds pairs of a
    token id and what is added to its logit before penalties.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to generate.

    An answer as the last of ``messages`` is unfinished: what is generated goes on behind it.
    ``prompt_ids`` given means the ids are fed as they are and ``messages`` is ignored.
    ``num_draft_tokens`` None leaves it to the drafter. ``replay_ids`` is what the ``replay``
    drafter proposes. ``keep_logits`` collects the fp32 logits [vocab] of every generated position,
    for ``--logits``. ``thinking_budget`` is the most tokens of thinking, after which its end is
    forced; an unfinished answer has spent some of it already. ``exact_resume`` reads a
    conversation of an earlier process as its records say it was computed, to the same bits;
    without it history is prefilled, which is faster.
    ``ignore_stop_ids`` goes on behind tokens that end an answer, to measure and to compare.
    """

    messages: tuple[Message, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    thinking: bool = True
    thinking_budget: int | None = None
    effort: str | None = None
    exact_resume: bool = True
    drafter: str = "auto"
    draft_shape: str = "auto"
    num_draft_tokens: int | None = None
    replay_ids: tuple[int, ...] = ()
    keep_logits: bool = False
    ignore_stop_ids: bool = False

    @property
    def unfinished(self) -> Message | None:
        """The answer that is to go on, if there is one."""
        last = self.messages[-1] if self.messages and self.prompt_ids is None else None
        return last if last is not None and last.role == "assistant" else None


@dataclass(frozen=True, slots=True)
class LoadProgressed:
    """Weights are arriving: bytes so far and the rate since the load began."""

    file: str
    num_bytes: int
    total_bytes: int
    gb_s: float

    @property
    def share(self) -> float:
        """Part of all bytes that is there, 0 to 1."""
        return self.num_bytes / max(self.total_bytes, 1)

    @property
    def is_all_read(self) -> bool:
        """Whether all bytes are there; ``file`` says then what is done with them."""
        return self.num_bytes >= self.total_bytes


@dataclass(frozen=True, slots=True)
class PromptProgressed:
    """A prefill chunk ended, or is to begin: ``tok_s`` is 0 then.

    ``num_reused`` tokens were still held from earlier turns.
    """

    num_tokens: int
    num_total: int
    num_reused: int
    tok_s: float


@dataclass(frozen=True, slots=True)
class TextArrived:
    """Text that is complete in UTF-8 and free of control tokens."""

    text: str
    channel: Channel


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """One decode round ended.

    ``token_chars`` are the characters, of either channel, that each token since the last round
    brought: of the round's own, and before them of the prefill's in the first one. Empty where they
    are not known.
    """

    record: RoundRecord
    token_chars: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NoticeRaised:
    """Something a person should see: a slower path, a re-read prompt, a truncated context."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over; the record is complete."""

    record: TurnRecord


Event = PromptProgressed | TextArrived | RoundEnded | NoticeRaised | TurnEnded


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What is loaded, for the header, the sessions and the traces. Sizes in bytes."""

    model: str
    path: str
    profile: str
    device: str
    num_parameters: int
    weight_bytes: int
    state_bytes: int
    kv_bytes_per_token: int
    max_context_tokens: int
    is_demo: bool
    default_sampling: Sampling
    supports_thinking: bool
    has_mtp: bool
    arithmetic: str
    read_gb_s: float
    """The machine's measured read bandwidth, GB/s: the ceiling that shares are shown against."""
    read_measured_at: str = ""
    """When that was measured: date, time and offset of UTC."""
    notices: tuple[str, ...] = ()
    """What a person should know of how it is served; whoever opens it says so."""

    @property
    def computes_as(self) -> str:
        """The name of all that decides the bits of logits: the arithmetic, and whose weights."""
        return f"{self.arithmetic}; {self.model}, {self.profile}"


class ChatEngine(Protocol):
    """A loaded model that answers one request at a time."""

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        ...

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer ``request``; blocks while computing and releases the interpreter lock in waits.

        The last event is always ``TurnEnded``, also when ``stop`` was set (within one round) or
        the context ran full. Raises ``EngineError`` only before the first event.
        """
        ...

    def read_ahead(
        self, request: Request, stop: threading.Event
    ) -> "Iterator[PromptProgressed | NoticeRaised]":
        """Read a conversation that ends with an answer, before its next message is there.

        ``request`` is as for ``generate``, without that message. Memory then holds what every next
        prompt begins with, so that an answer waits for what is new alone. Ends within a chunk once
        ``stop`` is set; what was read stays read, and the next prompt goes on behind it. Raises
        ``EngineError``; the next request then reads what is missing, or says what is wrong.
        """
        ...

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Number of prompt tokens that ``messages`` render to."""
        ...

    def text_tokens(self, text: str) -> int:
        """Number of tokens that a text is by itself; may be called from any thread."""
        ...

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """What each id spells by itself, control tokens too; may be called from any thread.

        Bytes that are no UTF-8 become U+FFFD. Empty strings where there is no tokenizer.
        """
        ...

    def measure_again(self) -> None:
        """Measure the read bandwidth once more, in a pause: ``info`` has the highest so far.

        Takes a fraction of a second; called by the thread that asks.
        """
        ...

    def close(self) -> None:
        """Free the weights and the state."""
        ...
