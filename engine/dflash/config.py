"""The numbers of a DFlash2 drafter: read from its config.json, and held against the target's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError
from engine.model.config import ModelConfig
from engine.model.config_fields import ConfigFields
from engine.model.config_file import MAX_CONFIG_BYTES
from engine.model.strict_json import read_object
from kernels.common.logit_rows import MAX_TOP
from kernels.common.round import MAX_ROWS

ARCHITECTURE = "DFlash2DraftModel"

MEND = "Give the folder of a DFlash2 drafter, such as z-lab/Qwen3.8-27B-DFlash2."

MAX_LAYERS = 64
"""The released drafter has 5."""


@dataclass(frozen=True, slots=True)
class DflashConfig:
    """Sizes and constants of one drafter.

    Attributes:
        hidden_size: the target's too.
        intermediate_size: of the feed-forward layers.
        vocab_size: the target's too.
        num_layers: all of them attend within ``window``.
        num_heads: of queries.
        num_kv_heads: of keys and values.
        head_dim: all of it is rotated.
        rope_theta: base of the rotation.
        rms_norm_eps: of every norm.
        window: a row sees the positions that are fewer than so many away.
        block_size: rows of a proposal, the newest committed token's among them.
        mask_id: what the other rows read in place of a token.
        target_layers: of the target, whose outputs are the drafter's context.
        conv_taps: rows that a convolution looks at, its own among them.
        conv_group: channels that share a kernel's variable part.
        selector_rank: width of the codebooks.
        top_k: candidates of each place.
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    window: int
    block_size: int
    mask_id: int
    target_layers: tuple[int, ...]
    conv_taps: int
    conv_group: int
    selector_rank: int
    top_k: int

    @property
    def rotary_dim(self) -> int:
        """Dimensions of a head that are rotated."""
        return self.head_dim

    @property
    def num_proposals(self) -> int:
        """Tokens that a block proposes."""
        return self.block_size - 1

    @property
    def context_width(self) -> int:
        """Elements of a context row before it is joined: all tapped layers side by side."""
        return len(self.target_layers) * self.hidden_size

    @property
    def num_groups(self) -> int:
        """Groups of channels of a convolution."""
        return self.hidden_size // self.conv_group

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of BF16 keys and values that one token adds."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.head_dim


def read_dflash_config(folder: Path) -> DflashConfig:
    """Read ``config.json`` of a drafter's folder.

    Raises:
        CheckpointError: the file is missing or broken, it is another architecture, or a value is
            missing, impossible or one that is not computed; the sentence names file, field and
            value.
    """
    path = folder / "config.json"
    outer = ConfigFields(path, read_object(path, MAX_CONFIG_BYTES), MEND)
    named = outer.data.get("architectures")
    if named != [ARCHITECTURE]:
        raise outer.error("architectures", named, f"['{ARCHITECTURE}']")
    outer.only("hidden_act", ("silu",))
    outer.only("attention_bias", (False,))
    rope = outer.table("rope_parameters" if "rope_parameters" in outer.data else "rope_scaling")
    for name in ("rope_type", "type"):  # older configs write the second
        rope.only(name, ("default",))
    inner = outer.table("dflash_config")
    for one in (outer, inner):
        one.only("is_causal", (False,))
    config = _assemble(outer, inner, rope)
    _refuse_impossible(path, config)
    return config


def expect_fit(folder: Path, config: DflashConfig, target: ModelConfig) -> None:
    """Refuse a drafter that was made for another target.

    Raises:
        CheckpointError: widths, vocabularies or layers disagree; the sentence names both numbers.
    """
    last = config.target_layers[-1]
    sentence = ""
    if config.hidden_size != target.hidden_size:
        sentence = f"hidden states of {config.hidden_size}, and the model's have"
        sentence = f"{sentence} {target.hidden_size}"
    elif config.vocab_size != target.vocab_size:
        sentence = f"a vocabulary of {config.vocab_size}, and the model's has {target.vocab_size}"
    elif last >= target.num_layers:
        sentence = f"the output of layer {last}, and the model has {target.num_layers} layers"
    if sentence:
        raise CheckpointError(
            f"The drafter in {folder} does not fit this model: it reads {sentence}.",
            "Give the drafter that was made for it with draft.dflash_dir, or take another "
            "draft.drafter and leave draft.dflash_dir empty.",
        )


def _assemble(outer: ConfigFields, inner: ConfigFields, rope: ConfigFields) -> DflashConfig:
    theta = outer.real("rope_theta", 1e7, 1.0, 1e12)
    return DflashConfig(
        hidden_size=outer.count("hidden_size"),
        intermediate_size=outer.count("intermediate_size"),
        vocab_size=outer.count("vocab_size"),
        num_layers=_num_layers(outer),
        num_heads=outer.count("num_attention_heads"),
        num_kv_heads=outer.count("num_key_value_heads"),
        head_dim=outer.count("head_dim"),
        rope_theta=rope.real("rope_theta", theta, 1.0, 1e12),
        rms_norm_eps=outer.real("rms_norm_eps", 1e-6, 1e-12, 1.0),
        window=outer.count("sliding_window"),
        block_size=inner.count("block_size", least=2),
        mask_id=inner.count("mask_token_id", least=0),
        target_layers=_target_layers(inner),
        conv_taps=inner.count("conv_kernel_size"),
        conv_group=inner.count("conv_group_size"),
        selector_rank=inner.count("selector_rank"),
        top_k=inner.count("selector_top_k"),
    )


def _num_layers(outer: ConfigFields) -> int:
    num_layers = outer.count("num_hidden_layers")
    if num_layers > MAX_LAYERS:
        raise outer.error("num_hidden_layers", num_layers, f"at most {MAX_LAYERS} layers")
    kinds: object = outer.data.get("layer_types")
    if kinds != ["sliding_attention"] * num_layers:
        raise outer.error("layer_types", kinds, f"{num_layers} times 'sliding_attention'")
    return num_layers


def _target_layers(inner: ConfigFields) -> tuple[int, ...]:
    named = inner.data.get("target_layer_ids")
    wanted = "layers of the target, ascending"
    if not isinstance(named, list):
        raise inner.error("target_layer_ids", named, wanted)
    ids = cast("list[Any]", named)
    are_numbers = all(isinstance(one, int) and not isinstance(one, bool) for one in ids)
    if not ids or len(ids) > MAX_LAYERS or not are_numbers or ids != sorted(set(ids)) or ids[0] < 0:
        raise inner.error("target_layer_ids", ids, wanted)
    return tuple(ids)


def _refuse_impossible(path: Path, config: DflashConfig) -> None:
    """Refuse sizes that no block can have, each by its own rule."""
    heads, kv_heads = config.num_heads, config.num_kv_heads
    sentence = ""
    if heads % kv_heads:
        sentence = f"{heads} query heads do not divide among {kv_heads} KV heads"
    elif config.head_dim % 2:
        sentence = f"heads of {config.head_dim} dimensions cannot be rotated in pairs"
    elif config.hidden_size % config.conv_group:
        sentence = f"{config.hidden_size} channels do not divide into groups of {config.conv_group}"
    elif config.block_size > MAX_ROWS:
        sentence = f"blocks of {config.block_size} rows; a round has at most {MAX_ROWS}"
    elif config.conv_taps > config.block_size:
        sentence = f"convolutions over {config.conv_taps} rows of a block of {config.block_size}"
    elif config.block_size > config.window:
        sentence = f"a window of {config.window} does not hold a block of {config.block_size}"
    elif config.mask_id >= config.vocab_size:
        sentence = f"the mask id {config.mask_id} is outside the vocabulary {config.vocab_size}"
    elif config.top_k > min(MAX_TOP, config.vocab_size):
        sentence = f"{config.top_k} candidates a place; {MAX_TOP} are the most that are looked at"
    if sentence:
        raise CheckpointError(f"{path}: {sentence}.", "Download the drafter again.")
