"""What a conversation leaves behind in the model: recurrent states, conv tails, keys and values."""

from dataclasses import dataclass

import torch

from engine.errors import RequestError
from engine.model.config import ModelConfig

KV_BLOCK_TOKENS = 256
"""Keys and values are reserved in multiples of this many positions."""


class KeyValueStore:
    """Keys and values of some attention layers, reserved in blocks up to a limit.

    ``keys`` and ``values`` are bf16 [layers, G, capacity, D]; rows at or beyond the owner's length
    are free to overwrite.
    """

    def __init__(
        self, num_layers: int, config: ModelConfig, max_tokens: int, device: torch.device
    ) -> None:
        self.max_tokens = max_tokens
        shape = (num_layers, config.num_kv_heads, 0, config.head_dim)
        self.keys = torch.empty(shape, dtype=torch.bfloat16, device=device)
        self.values = torch.empty(shape, dtype=torch.bfloat16, device=device)

    @property
    def capacity(self) -> int:
        """Positions that have memory."""
        return self.keys.shape[2]

    @property
    def num_bytes(self) -> int:
        """Bytes reserved."""
        return self.keys.nbytes + self.values.nbytes

    def reserve(self, num_tokens: int, length: int) -> None:
        """Make room for positions [0, num_tokens), keeping the first ``length``.

        Capacity doubles, so that a long conversation is copied a constant number of times.

        Raises:
            RequestError: more positions are asked for than the state was made for.
        """
        if num_tokens <= self.capacity:
            return
        if num_tokens > self.max_tokens:
            raise RequestError(
                f"The conversation needs {num_tokens} tokens of context and {self.max_tokens} "
                "were reserved.",
                "Begin a new conversation, or reserve more.",
            )
        blocks = -(-max(num_tokens, 2 * self.capacity) // KV_BLOCK_TOKENS)
        capacity = min(blocks * KV_BLOCK_TOKENS, self.max_tokens)
        self.keys = _grown(self.keys, capacity, length)
        self.values = _grown(self.values, capacity, length)


def _grown(old: torch.Tensor, capacity: int, length: int) -> torch.Tensor:
    layers, heads, _, width = old.shape
    new = torch.empty((layers, heads, capacity, width), dtype=old.dtype, device=old.device)
    new[:, :, :length] = old[:, :, :length]
    return new


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A point of a conversation to come back to; keys and values stay in the state itself."""

    length: int
    recurrent: torch.Tensor
    tails: torch.Tensor
    num_restores: int

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.recurrent.nbytes + self.tails.nbytes


class State:
    """Everything the model remembers of the first ``length`` tokens.

    ``recurrent`` is fp32 [delta layers, H, D, E] (keys by values), ``tails`` bf16
    [delta layers, W - 1, C]: raw rows before the convolution, oldest first.
    """

    def __init__(self, config: ModelConfig, max_tokens: int, device: torch.device) -> None:
        layers, heads = config.num_delta_layers, config.num_value_heads
        self.length: int = 0
        self.recurrent = torch.zeros(
            (layers, heads, config.key_head_dim, config.value_head_dim), device=device
        )
        self.tails = torch.zeros(
            (layers, config.conv_width - 1, config.conv_dim), dtype=torch.bfloat16, device=device
        )
        self.kv = KeyValueStore(config.num_attention_layers, config, max_tokens, device)
        self._restored_to: list[int] = []

    @property
    def max_tokens(self) -> int:
        """The longest conversation this state holds."""
        return self.kv.max_tokens

    @property
    def num_bytes(self) -> int:
        """Bytes reserved so far."""
        return self.recurrent.nbytes + self.tails.nbytes + self.kv.num_bytes

    def snapshot(self) -> Snapshot:
        """Remember this point: recurrent states and tails are copied, keys and values kept."""
        return Snapshot(
            self.length, self.recurrent.clone(), self.tails.clone(), len(self._restored_to)
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Come back to a point.

        Raises:
            ValueError: an earlier point was restored since the snapshot was taken, so keys and
                values between the two may be those of another text.
        """
        if not self.holds(snapshot):
            raise ValueError(
                f"restore: the snapshot of {snapshot.length} tokens is stale: the state went back "
                f"to {min(self._restored_to[snapshot.num_restores :])} tokens since"
            )
        self.recurrent.copy_(snapshot.recurrent)
        self.tails.copy_(snapshot.tails)
        self.length = snapshot.length
        self._restored_to.append(snapshot.length)

    def clear(self) -> None:
        """Begin an empty conversation in the same memory."""
        self.recurrent.zero_()
        self.tails.zero_()
        self.length = 0
        self._restored_to.append(0)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether the keys and values of ``snapshot`` are still those of its text."""
        since = self._restored_to[snapshot.num_restores :]
        return min(since, default=snapshot.length) >= snapshot.length
