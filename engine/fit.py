"""What a profile needs in memory, from configs alone: nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path

from engine.errors import CheckpointError
from engine.linear_path import choose_linear_path
from engine.locate import weights_of
from engine.model import footprint
from engine.model.config import SHAPE_27B, SHAPE_DEMO, ModelConfig
from engine.model.config_file import read_config
from engine.model.streaming import STAGING_BYTES
from engine.open import HELD_FORMATS, choose_device
from engine.profile import Profile
from engine.settings.declared import load_settings
from engine.settings.environment import hugging_face_cache


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that one profile needs, and where its files lie (None when they are missing).

    ``config`` is that of the files, else of the model that the profile is made for.
    ``stored_bytes`` are the weights as the profile stores them, ``held_bytes`` the same weights as
    this engine holds them on this machine; ``round_bytes`` counts the stored form.
    ``workspace_bytes`` come on top of the weights where they are packed for kernels.
    """

    profile: str
    path: Path | None
    problem: str
    config: ModelConfig
    context_tokens: int
    stored_bytes: int
    held_bytes: int
    conversation_bytes: int
    round_bytes: int
    workspace_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Everything at once with a full context: what the loader will ask for."""
        weights = max(self.stored_bytes, self.held_bytes) + self.workspace_bytes
        return weights + self.conversation_bytes + STAGING_BYTES


def need_of(profile: Profile, context_tokens: int, *, packed: bool | None = None) -> Need:
    """What ``profile`` needs for a conversation of ``context_tokens``.

    Sizes are those of the checkpoint when it is here, else of the model the profile is made for.

    Args:
        profile: its formats count.
        context_tokens: positions of the conversation.
        packed: weights are packed for a GPU's kernels; None looks at this machine and its settings.
    """
    packed = packs_weights() if packed is None else packed
    path = weights_of(profile, hugging_face_cache())
    config, problem = _config(profile, path)
    held_formats = profile.formats if packed else HELD_FORMATS
    tokens = min(context_tokens, config.max_position_embeddings)
    a_round = footprint.round_bytes(config, profile.formats, tokens)
    a_token = footprint.kv_bytes_per_token(config) + footprint.mtp_kv_bytes_per_token(config)
    states = footprint.state_bytes(config) + footprint.tail_bytes(config)
    return Need(
        profile=profile.name,
        path=path,
        problem=problem,
        config=config,
        context_tokens=tokens,
        stored_bytes=sum(footprint.weight_bytes(config, profile.formats).values()),
        held_bytes=sum(footprint.weight_bytes(config, held_formats, packed=packed).values()),
        conversation_bytes=a_token * tokens + states,
        round_bytes=sum(a_round.values()),
        workspace_bytes=footprint.workspace_bytes(config) if packed else 0,
    )


def packs_weights() -> bool:
    """Whether this machine, with its settings, packs weights for a GPU's kernels."""
    settings, _ = load_settings()
    return choose_linear_path(settings, choose_device(settings.model.device)).is_packed


def _config(profile: Profile, path: Path | None) -> tuple[ModelConfig, str]:
    usual = SHAPE_DEMO if profile.embedded else SHAPE_27B
    if path is None:
        return usual, ""
    try:
        return read_config(path), ""
    except CheckpointError as error:
        return usual, str(error)
