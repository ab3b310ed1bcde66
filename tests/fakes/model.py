"""A model without weights: what follows a context is a function, so that a test says it all.

Also a small tokenizer and a chat template in Qwen's shape, written as a checkpoint's files.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import tokenizers
import torch

from engine.profile import Drafting
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.turn.local import LocalEngine
from engine.turn.machine import Machine
from engine.turn.verify import RowWalk
from engine.types import EngineInfo, Sampling

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
TEXT = "what is a glacier? a glacier is a large, slow river of ice. hello there! the end of the ice"

PLAIN_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

THINKING_TEMPLATE = """\
{%- if reasoning_effort is defined and reasoning_effort not in ['low', 'medium', 'xhigh'] %}
{{- raise_exception('Unknown effort ' + reasoning_effort) }}
{%- endif %}
{%- if reasoning_effort is defined and reasoning_effort == 'low' %}
{{- '<|im_start|>system\\nThink little.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{{- '<think>\\n' + (message.reasoning_content | default('', true) | trim) + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{{- '<think>\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""


def write_text_files(folder: Path, template: str = PLAIN_TEMPLATE) -> Path:
    """Write tokenizer.json and chat_template.jinja."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(one, normalized=False) for one in SPECIALS])
    tokenizer.add_tokens([tokenizers.AddedToken(one, normalized=False) for one in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    return folder


class FakeState:
    """The ids themselves."""

    num_bytes = 0

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.ids: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.ids)

    def snapshot(self):
        return SimpleNamespace(ids=self.ids, length=self.length)

    def restore(self, snapshot) -> None:
        self.ids = snapshot.ids

    def clear(self) -> None:
        self.ids = ()


class FakeMtp:
    """Guesses by a function of (the row's context, the newest token, tokens drafted so far)."""

    def __init__(self, model: "FakeModel", guess: Callable[[tuple[int, ...]], int]) -> None:
        self.model = model
        self.guess = guess

    def new_state(self, max_tokens: int):
        state = SimpleNamespace(length=0, rows=[])
        state.truncate = lambda length: (
            state.rows.__delitem__(slice(length, None)),
            setattr(state, "length", length),
        )
        return state

    def fill(self, hidden, next_ids, state) -> None:
        for row, token_id in zip(hidden, next_ids, strict=True):
            context = self.model.context_of(row)
            assert len(context) == state.length + 1
            state.rows.append((*context, token_id))
            state.length += 1

    def expect(self, rows) -> None:
        assert all(len(one) for one in rows)

    def draft(self, rows, next_ids, state, num_tokens) -> list[int]:
        hidden = torch.cat(list(rows))
        assert len(rows[-1]) == 1
        self.fill(hidden[:-1], next_ids[:-1], state)
        context = (*self.model.context_of(hidden[-1]), next_ids[-1])
        assert state.length == len(context) - 2, "rows of the head are missing"
        assert all(row == context[: len(row)] for row in state.rows)
        drafted: list[int] = []
        for _ in range(num_tokens):
            drafted.append(self.guess((*context, *drafted)))
        return drafted


class FakeModel:
    """Gives the logits that ``follow`` says: (context) -> next id, or fp32 logits [V].

    ``fails_at`` raises a RuntimeError when that many tokens would be read.
    """

    def __init__(
        self,
        follow: Callable[[tuple[int, ...]], "int | torch.Tensor"],
        *,
        vocab_size: int = 320,
        guess: Callable[[tuple[int, ...]], int] | None = None,
    ) -> None:
        self.follow = follow
        self.config = SimpleNamespace(vocab_size=vocab_size, max_position_embeddings=1 << 20)
        self.device = torch.device("cpu")
        self.chunk_tokens = 256
        self.mtp = FakeMtp(self, guess) if guess is not None else None
        self.fails_at: int | None = None
        self.num_steps = 0
        self.prefilled: list[tuple[int, int]] = []
        self._contexts: list[tuple[int, ...]] = []

    @property
    def has_mtp(self) -> bool:
        return self.mtp is not None

    def new_state(self, max_tokens: int) -> FakeState:
        return FakeState(max_tokens)

    def prefill(self, ids: Sequence[int], state: FakeState, **_) -> torch.Tensor:
        self.prefilled.append((state.length, state.length + len(ids)))
        return torch.cat([self._read(one, state) for one in ids])

    def reads_chunks_of(self, num_tokens: int) -> bool:
        return 0 < num_tokens <= self.chunk_tokens

    def step(self, token_id: int, state: FakeState) -> torch.Tensor:
        self.num_steps += 1
        return self._read(token_id, state)

    def decode(self, ids: Sequence[int], state: FakeState) -> torch.Tensor:
        return torch.cat([self.step(one, state) for one in ids])

    def take_captured(self) -> str:
        return ""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = [self.follow(self.context_of(row)) for row in hidden]
        return torch.stack([self._as_logits(one) for one in rows])

    def context_of(self, row: torch.Tensor) -> tuple[int, ...]:
        high, low = (int(one) for one in row)
        return self._contexts[high * 256 + low]

    def _read(self, token_id: int, state: FakeState) -> torch.Tensor:
        state.ids = (*state.ids, token_id)
        if self.fails_at is not None and state.length >= self.fails_at:
            raise RuntimeError("the device was lost")
        assert state.length <= state.max_tokens
        self._contexts.append(state.ids)
        digits = divmod(len(self._contexts) - 1, 256)
        return torch.tensor([digits], dtype=torch.bfloat16)

    def _as_logits(self, follows: "int | torch.Tensor") -> torch.Tensor:
        if isinstance(follows, torch.Tensor):
            return follows
        return torch.zeros(self.config.vocab_size).index_fill(0, torch.tensor([follows]), 9.0)


def no_traffic(
    context_tokens: int, num_rows: int, num_read: int, num_drafted: int
) -> dict[str, int]:
    parts = {"weights": 1000 * num_read, "head": 0, "state": 0, "kv": context_tokens}
    return {**parts, "drafter": 10 * num_drafted}


def info_of(max_context_tokens: int) -> EngineInfo:
    return EngineInfo(
        model="fake", path="/nowhere", profile="demo", device="cpu", num_parameters=1,
        weight_bytes=1, state_bytes=1, kv_bytes_per_token=1, max_context_tokens=max_context_tokens,
        is_demo=True, default_sampling=Sampling(), supports_thinking=False, has_mtp=True,
        arithmetic="fake", read_gb_s=1.0,
    )  # fmt: skip


def local_engine(
    model,
    folder: Path,
    *,
    max_context_tokens: int = 4096,
    traffic=no_traffic,
    stop_ids=None,
    routing=None,
    verifier=None,
    most_marks=3,
    dflash=None,
) -> LocalEngine:
    """The real engine around a model and the text files in ``folder``."""
    tokenizer = Tokenizer.load(folder, model.config.vocab_size)
    template = ChatTemplate.load(folder, tokenizer)
    if stop_ids is None:
        stop_ids = frozenset(tokenizer.control_ids[one] for one in ("<|im_end|>", "<|endoftext|>"))
    machine = Machine(
        model, tokenizer, verifier or RowWalk(model), traffic, stop_ids, max_context_tokens, 1,
        routing, dflash,
    )  # fmt: skip
    return LocalEngine(
        info_of(max_context_tokens), machine, template, Drafting("mtp", 7), most_marks=most_marks
    )


def run(engine, request, stop: threading.Event | None = None) -> list:
    return list(engine.generate(request, stop or threading.Event()))
