"""The whole model, from token ids to hidden states and logits.

Two ways through, each with its own fixed rule. Decode takes one token and computes every product
with one row, so a token's logits depend on the tokens before it alone. Prefill takes chunks whose
cut points depend on the call's start position only.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from engine.errors import RequestError
from engine.model.attention import Angles, attend
from engine.model.config import CHUNK_TOKENS, ModelConfig
from engine.model.delta import advance
from engine.model.footprint import count_parameters, wide_head_bytes
from engine.model.generation import Generation
from engine.model.layers import Mixers, run_layers
from engine.model.matrix import Matrix, expanded, logits_of
from engine.model.mtp import Mtp
from engine.model.packed import Packed
from engine.model.rope import RopeTable
from engine.model.state import State
from engine.model.taps import Taps
from engine.model.weights import ModelWeights
from engine.types import KvFormat, Sampling
from kernels.attention.kv_codes import KvScales

PREFILL_CHUNK_TOKENS = 256
"""Tokens of a prefill chunk in plain torch: enough rows for library products, short enough to stop
in time."""


class Model:
    """A loaded model. It holds weights only; what a conversation leaves behind is a `State`.

    Attributes:
        chunk_tokens: that a chunk of prefill has at most.
        taps: rows for a drafter that reads the model's layers; None costs nothing.
        kv_scales: of all attention layers, for states whose keys and values are e4m3 codes; None
            for BF16. The MTP head's own are BF16 always.
    """

    def __init__(self, config: ModelConfig, weights: ModelWeights, generation: Generation) -> None:
        self.chunk_tokens = PREFILL_CHUNK_TOKENS
        self.config = config
        self.weights = weights
        self.stop_ids: tuple[int, ...] = generation.stop_ids
        self.default_sampling: Sampling = generation.sampling
        self.device = weights.embedding.device
        self._rope = RopeTable(config, self.device)
        self.taps: Taps | None = None
        self.kv_scales: KvScales | None = None
        self._head = _scored_with(weights.head, config)
        self.mtp: Mtp | None = None
        if weights.mtp is not None:
            self.mtp = Mtp(config, weights.mtp, weights.embedding, self._head, self._rope)

    @property
    def num_parameters(self) -> int:
        """Parameters of trunk, head and the MTP head where there is one."""
        return count_parameters(self.config, with_mtp=self.has_mtp)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights as they are held."""
        return self.weights.num_bytes

    @property
    def has_mtp(self) -> bool:
        """Whether the checkpoint brings a MTP head."""
        return self.mtp is not None

    @property
    def kv_format(self) -> KvFormat:
        """How states keep keys and values."""
        return "bf16" if self.kv_scales is None else "fp8"

    def tap(self, layers: tuple[int, ...]) -> Taps:
        """Hand out rows behind some layers from now on, of every token that is read."""
        self.taps = Taps(layers, self.config.hidden_size, self.chunk_tokens, self.device)
        return self.taps

    def take_captured(self) -> str:
        """Which launches were captured as graphs since the last call, in a sentence, or nothing."""
        return ""

    def new_state(self, max_tokens: int) -> State:
        """An empty state for a conversation of up to ``max_tokens``, its angles ready."""
        self._rope.angles(0, max_tokens)
        return State(self.config, max_tokens, self.device, self.kv_scales)

    def reads_chunks_of(self, num_tokens: int) -> bool:
        """Whether `prefill` may cut a prompt into chunks of so many tokens."""
        return 0 < num_tokens <= self.chunk_tokens and num_tokens % CHUNK_TOKENS == 0

    @torch.inference_mode()
    def prefill(
        self, ids: Sequence[int], state: State, *, chunk_tokens: int | None = None
    ) -> torch.Tensor:
        """Read many tokens, in chunks counted from the state's length at the call.

        Args:
            ids: T tokens.
            state: advanced chunk by chunk.
            chunk_tokens: a multiple of 64 up to ``self.chunk_tokens``, which None takes.

        Returns:
            bf16 [T, D] after the final norm.

        Raises:
            RequestError: a token is outside the vocabulary, or the state has no room.
            ValueError: ``chunk_tokens`` is no multiple of 64, or too many.

        Numerics:
            Products over a chunk's rows, the delta rule in chunks of 64.
        """
        chunk_tokens = self.chunk_tokens if chunk_tokens is None else chunk_tokens
        if not self.reads_chunks_of(chunk_tokens):
            raise ValueError(
                f"prefill: chunk_tokens is {chunk_tokens}, not a multiple of 64 up to "
                f"{self.chunk_tokens}"
            )
        self._expect_ids(ids)
        state.kv.expect_room(state.length + len(ids))
        hidden: list[torch.Tensor] = []
        for start in range(0, len(ids), chunk_tokens):
            chunk = ids[start : start + chunk_tokens]
            hidden.append(self._forward(chunk, state, decode=False))
        if not hidden:
            return self.weights.embedding.new_empty((0, self.config.hidden_size))
        return torch.cat(hidden)

    @torch.inference_mode()
    def step(self, token_id: int, state: State) -> torch.Tensor:
        """Decode one token.

        Args:
            token_id: the token of position ``state.length``.
            state: advanced by one token.

        Returns:
            bf16 [1, D] after the final norm.

        Raises:
            RequestError: the token is outside the vocabulary, or the state has no room.

        Numerics:
            Every product has one row; the delta rule advances by one token.
        """
        self._expect_ids((token_id,))
        state.kv.expect_room(state.length + 1)
        return self._forward((token_id,), state, decode=True)

    @torch.inference_mode()
    def decode(self, ids: Sequence[int], state: State) -> torch.Tensor:
        """Decode tokens that are known, as they were decoded once.

        Args:
            ids: T tokens of the positions from ``state.length`` on.
            state: advanced by T tokens.

        Returns:
            bf16 [T, D] after the final norm: the bits of ``step`` for each of them.

        Raises:
            RequestError: a token is outside the vocabulary, or the state has no room.
        """
        return torch.cat([self.step(one, state) for one in ids])

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Score the vocabulary for each row, each row computed alone.

        Args:
            hidden: bf16 [T, D] after the final norm.
            out: fp32 [T, V] to write into; None allocates.

        Returns:
            fp32 [T, V], not rounded to BF16. Ids beyond the tokenizer's last have scores too.
        """
        return logits_of(hidden, self._head, out)

    def _forward(self, ids: Sequence[int], state: State, *, decode: bool) -> torch.Tensor:
        """Run all layers over tokens that follow the state's; advances it."""
        config, eps = self.config, self.config.rms_norm_eps
        end = state.length + len(ids)
        angles = Angles(state.length, *self._rope.angles(state.length, end))
        stream = functional.embedding(torch.tensor(ids, device=self.device), self.weights.embedding)
        mixers = Mixers(
            attend=lambda x, _, layer, place: attend(
                x, layer, config, angles, state.kv.layer(place)
            ),
            advance=lambda x, _, layer, place: advance(
                x, layer, config, state.recurrent[place], state.tails[place], decode=decode
            ),
        )
        normed = run_layers(self.weights, stream, eps, mixers, taps=self.taps)
        if self.taps is not None:
            self.taps.keep(state.length, self.taps.copy(len(ids)))
        state.length = end
        return normed

    def _expect_ids(self, ids: Sequence[int]) -> None:
        for one in ids:
            if not 0 <= one < self.config.vocab_size:
                raise RequestError(
                    f"Token {one} is outside the model's vocabulary of {self.config.vocab_size}.",
                    "The tokenizer belongs to another model.",
                )


def _scored_with(head: Matrix, config: ModelConfig) -> Matrix:
    """The head as scores read it: a small one in fp32, whose widening costs more than its product.

    fp32 holds the same numbers, and `logits_reference` multiplies in fp32 whatever it is given.
    """
    if isinstance(head, Packed) or not wide_head_bytes(config):
        return head
    return expanded(head).float()
