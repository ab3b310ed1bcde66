"""The model's own numbers, for any dense Qwen3.5, 3.6 or 3.8 text model."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import RequestError, nearest

LayerKind = Literal["linear_attention", "full_attention"]
LAYER_KINDS: tuple[LayerKind, ...] = ("linear_attention", "full_attention")
CHUNK_TOKENS = 64
"""Tokens of one chunk of the delta rule: prefill may be cut at its multiples without a trace."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and constants of one model. Heads and widths count elements, not bytes.

    ``quantization`` is the config's own note on how weights are stored, for information only: the
    loader decides per tensor from what lies on disk.
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    layer_kinds: tuple[LayerKind, ...]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_width: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    rotary_dim: int = 64
    max_position_embeddings: int = 262144
    tie_word_embeddings: bool = False
    num_mtp_layers: int = 0
    eos_ids: tuple[int, ...] = ()
    quantization: str = ""

    @property
    def num_layers(self) -> int:
        """Layers of the trunk."""
        return len(self.layer_kinds)

    @property
    def num_delta_layers(self) -> int:
        """Layers with a recurrent state."""
        return self.layer_kinds.count("linear_attention")

    @property
    def num_attention_layers(self) -> int:
        """Layers with keys and values, without the MTP layer."""
        return self.layer_kinds.count("full_attention")

    @property
    def key_dim(self) -> int:
        """Width of q and of k in a delta layer."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of v and of z in a delta layer."""
        return self.num_value_heads * self.value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the causal convolution: q, k and v side by side."""
        return 2 * self.key_dim + self.value_dim

    @property
    def query_dim(self) -> int:
        """Width of the queries of a full-attention layer, without the gate."""
        return self.num_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        """Width of the keys of a full-attention layer."""
        return self.num_kv_heads * self.head_dim


def hybrid_layers(num_layers: int, interval: int = 4) -> tuple[LayerKind, ...]:
    """Layer kinds where every ``interval``-th layer is full attention and the others are delta."""
    return tuple(
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(num_layers)
    )


SHAPE_27B = ModelConfig(
    hidden_size=5120, intermediate_size=17408, vocab_size=248320, layer_kinds=hybrid_layers(64),
    num_heads=24, num_kv_heads=4, head_dim=256, num_key_heads=16, num_value_heads=48,
    key_head_dim=128, value_head_dim=128, num_mtp_layers=1, eos_ids=(248046, 248044),
)  # fmt: skip
"""Qwen3.8-27B (and 3.5-27B, 3.6-27B, which have the same sizes)."""

SHAPE_DEMO = ModelConfig(
    hidden_size=256, intermediate_size=768, vocab_size=6144, layer_kinds=hybrid_layers(12),
    num_heads=6, num_kv_heads=1, head_dim=256, num_key_heads=1, num_value_heads=3,
    key_head_dim=128, value_head_dim=128, max_position_embeddings=4096, num_mtp_layers=1,
)  # fmt: skip
"""The demo model: the head sizes and ratios of the 27B on a narrow stream."""

SHAPES: dict[str, ModelConfig] = {"27b": SHAPE_27B, "demo": SHAPE_DEMO}
"""What ``--shape`` accepts."""


def config_of_shape(shape: str) -> ModelConfig:
    """The sizes of a shape.

    Raises:
        RequestError: there is no such shape.
    """
    if shape not in SHAPES:
        raise RequestError(f"There is no shape '{shape}'.", nearest(shape, SHAPES))
    return SHAPES[shape]
