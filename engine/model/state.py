"""What a conversation leaves behind in the model: recurrent states, conv tails, keys and values."""

from dataclasses import dataclass
from typing import Protocol
from weakref import WeakSet

import torch

from engine.errors import RequestError
from engine.model.config import ModelConfig
from kernels.attention.kv_codes import E4M3, KvScales


class KeySizes(Protocol):
    """What decides how large keys and values are."""

    @property
    def num_kv_heads(self) -> int:
        """Heads of keys and of values."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        ...


@dataclass(frozen=True, slots=True)
class LayerStore:
    """What one layer keeps of a conversation.

    Attributes:
        keys: bf16 or e4m3 codes [G, capacity, D].
        values: likewise.
        scales: of the codes; None for BF16.
    """

    keys: torch.Tensor
    values: torch.Tensor
    scales: KvScales | None = None


class KeyValueStore:
    """Keys and values of some attention layers, reserved once for the longest conversation.

    ``keys`` and ``values`` are bf16 [layers, G, max_tokens, D], or e4m3 codes with ``scales`` of
    all layers; rows from the owner's length on are free to overwrite. They never move: growing
    would hold both sizes at once, which a memory plan has no room for, and would leave captured
    graphs behind.
    """

    def __init__(
        self,
        num_layers: int,
        config: KeySizes,
        max_tokens: int,
        device: torch.device,
        scales: KvScales | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        self.scales = scales
        shape = (num_layers, config.num_kv_heads, max_tokens, config.head_dim)
        dtype = torch.bfloat16 if scales is None else E4M3
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)

    def layer(self, index: int) -> LayerStore:
        """What one layer keeps; views of this store."""
        scales = None if self.scales is None else self.scales.layer(index)
        return LayerStore(self.keys[index], self.values[index], scales)

    @property
    def addresses(self) -> tuple[int, ...]:
        """What captured launches hold; a store of another format may lie where this one did."""
        scales = () if self.scales is None else (self.scales.keys, self.scales.values)
        held = (self.keys, self.values, *scales)
        return *(one.data_ptr() for one in held), self.keys.itemsize, self.max_tokens

    @property
    def num_bytes(self) -> int:
        """Bytes reserved."""
        return self.keys.nbytes + self.values.nbytes

    def expect_room(self, num_tokens: int) -> None:
        """Refuse positions beyond the last one.

        Raises:
            RequestError: more positions are asked for than the state was made for.
        """
        if num_tokens > self.max_tokens:
            raise RequestError(
                f"The conversation needs {num_tokens} tokens of context and {self.max_tokens} "
                "were reserved.",
                "Begin a new conversation, or raise model.context_tokens.",
            )


@dataclass(slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """A point of a conversation to come back to; keys and values stay in the state itself.

    ``is_stale`` once the state went back beyond the point: what follows may be another text.
    """

    length: int
    recurrent: torch.Tensor
    tails: torch.Tensor
    is_stale: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.recurrent.nbytes + self.tails.nbytes


class State:
    """Everything the model remembers of the first ``length`` tokens.

    ``recurrent`` is fp32 [delta layers, H, D, E] (keys by values), ``tails`` bf16
    [delta layers, W - 1, C]: raw rows before the convolution, oldest first. ``scales`` of all
    attention layers make keys and values codes.
    """

    def __init__(
        self,
        config: ModelConfig,
        max_tokens: int,
        device: torch.device,
        scales: KvScales | None = None,
    ) -> None:
        layers, heads = config.num_delta_layers, config.num_value_heads
        self.length: int = 0
        self.recurrent = torch.zeros(
            (layers, heads, config.key_head_dim, config.value_head_dim), device=device
        )
        self.tails = torch.zeros(
            (layers, config.conv_width - 1, config.conv_dim), dtype=torch.bfloat16, device=device
        )
        self.kv = KeyValueStore(config.num_attention_layers, config, max_tokens, device, scales)
        self._snapshots: WeakSet[Snapshot] = WeakSet()

    @property
    def max_tokens(self) -> int:
        """The longest conversation this state holds."""
        return self.kv.max_tokens

    @property
    def num_bytes(self) -> int:
        """Bytes reserved."""
        return self.recurrent.nbytes + self.tails.nbytes + self.kv.num_bytes

    def snapshot(self) -> Snapshot:
        """Remember this point: recurrent states and tails are copied, keys and values kept."""
        snapshot = Snapshot(self.length, self.recurrent.clone(), self.tails.clone())
        self._snapshots.add(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Come back to a point.

        Raises:
            ValueError: an earlier point was restored since the snapshot was taken, so keys and
                values between the two may be those of another text.
        """
        if snapshot.is_stale:
            raise ValueError(
                f"restore: the snapshot of {snapshot.length} tokens is stale: the state went back "
                "beyond it since"
            )
        self.recurrent.copy_(snapshot.recurrent)
        self.tails.copy_(snapshot.tails)
        self._go_back(snapshot.length)

    def clear(self) -> None:
        """Begin an empty conversation in the same memory."""
        self.recurrent.zero_()
        self.tails.zero_()
        self._go_back(0)

    def _go_back(self, length: int) -> None:
        self.length = length
        for one in self._snapshots:
            one.is_stale |= one.length > length
