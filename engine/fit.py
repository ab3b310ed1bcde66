"""What a profile needs in memory, from configs alone: nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path

from engine.errors import CheckpointError
from engine.locate import weights_of
from engine.model import footprint
from engine.model.config import SHAPE_27B, SHAPE_DEMO, ModelConfig
from engine.model.config_file import read_config
from engine.model.streaming import STAGING_BYTES
from engine.open import HELD_FORMATS
from engine.profile import Profile
from engine.settings.environment import hugging_face_cache


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that one profile needs, and where its files lie (None when they are missing).

    ``stored_bytes`` are the weights as the profile stores them, ``held_bytes`` the same weights as
    this engine holds them; ``round_bytes`` counts the stored form.
    """

    profile: str
    path: Path | None
    problem: str
    context_tokens: int
    stored_bytes: int
    held_bytes: int
    conversation_bytes: int
    round_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything at once with a full context: what the loader will ask for."""
        return max(self.stored_bytes, self.held_bytes) + self.conversation_bytes + STAGING_BYTES


def need_of(profile: Profile, context_tokens: int) -> Need:
    """What ``profile`` needs for a conversation of ``context_tokens``.

    Sizes are those of the checkpoint when it is here, else of the model the profile is made for.
    """
    path = weights_of(profile, hugging_face_cache())
    config, problem = _config(profile, path)
    tokens = min(context_tokens, config.max_position_embeddings)
    a_round = footprint.round_bytes(config, profile.formats, tokens)
    a_token = footprint.kv_bytes_per_token(config) + footprint.mtp_kv_bytes_per_token(config)
    states = footprint.state_bytes(config) + footprint.tail_bytes(config)
    return Need(
        profile=profile.name,
        path=path,
        problem=problem,
        context_tokens=tokens,
        stored_bytes=sum(footprint.weight_bytes(config, profile.formats).values()),
        held_bytes=sum(footprint.weight_bytes(config, HELD_FORMATS).values()),
        conversation_bytes=a_token * tokens + states,
        round_bytes=sum(a_round.values()),
    )


def _config(profile: Profile, path: Path | None) -> tuple[ModelConfig, str]:
    usual = SHAPE_DEMO if profile.embedded else SHAPE_27B
    if path is None:
        return usual, ""
    try:
        return read_config(path), ""
    except CheckpointError as error:
        return usual, str(error)
