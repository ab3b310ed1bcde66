"""What a profile needs in memory, from configs and headers alone: nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path

from engine.compute_path import HELD_FORMATS, choose_compute_path
from engine.errors import CheckpointError
from engine.locate import weights_of
from engine.machine.device import choose_device
from engine.model import footprint
from engine.model.checkpoint import match_checkpoint
from engine.model.config import SHAPE_27B, SHAPE_DEMO, ModelConfig
from engine.model.config_file import read_config
from engine.model.memory import LEAST_SNAPSHOTS
from engine.model.serving_memory import kept_bytes, passing_bytes, snapshot_bytes
from engine.model.staging import STAGING_BYTES
from engine.profile import Formats, Profile, kv_format_of
from engine.settings.environment import hugging_face_cache
from engine.settings.load import load_settings
from engine.types import KvFormat


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that one profile needs, and where its files lie (None when they are missing).

    ``problem`` is why files that are here do not open, as far as their headers tell. ``config`` is
    that of the files, else of the model that the profile is made for.
    ``stored_bytes`` are the weights as the profile stores them, ``held_bytes`` the same weights as
    this engine holds them on this machine; ``round_bytes`` counts the stored form.
    ``conversation_bytes`` stay beside them while the engine is open, ``working_bytes`` come and go
    in a turn or are points to come back to; ``workspace_bytes`` are taken while weights are packed.
    """

    profile: str
    path: Path | None
    problem: CheckpointError | None
    config: ModelConfig
    context_tokens: int
    stored_bytes: int
    held_bytes: int
    conversation_bytes: int
    working_bytes: int
    round_bytes: int
    workspace_bytes: int = 0
    kv_format: KvFormat = "bf16"

    @property
    def total_bytes(self) -> int:
        """Everything at once with a full context: what the loader will ask for."""
        loading = STAGING_BYTES + self.workspace_bytes
        serving = self.conversation_bytes + self.working_bytes
        return max(self.stored_bytes, self.held_bytes) + max(loading, serving)


def need_of(
    profile: Profile,
    context_tokens: int,
    *,
    packed: bool | None = None,
    kv: KvFormat | None = None,
) -> Need:
    """What ``profile`` needs for a conversation of ``context_tokens``.

    Sizes are those of the checkpoint when it is here, else of the model the profile is made for.

    Args:
        profile: its formats count.
        context_tokens: positions of the conversation.
        packed: weights are packed for a GPU's kernels; None looks at this machine and its settings.
        kv: format of keys and values; None takes what the profile and the settings say.
    """
    kv = kv or kv_format_of(profile, load_settings(profile=profile.settings)[0])
    packed = packs_weights() if packed is None else packed
    path = weights_of(profile, hugging_face_cache())
    config, problem = _config(profile, path)
    held = held_formats(profile, packed=packed)
    tokens = min(context_tokens, config.max_position_embeddings)
    a_round = footprint.round_bytes(config, profile.formats, tokens, kv=kv)
    with_mtp = bool(config.num_mtp_layers)
    kept = kept_bytes(config, tokens, packed=packed, with_mtp=with_mtp, kv=kv)
    passing = passing_bytes(config, tokens, packed=packed, kv=kv, graphs=profile.graphs)
    points = LEAST_SNAPSHOTS * snapshot_bytes(config, packed=packed)
    return Need(
        profile=profile.name,
        path=path,
        problem=problem,
        config=config,
        context_tokens=tokens,
        stored_bytes=sum(footprint.weight_bytes(config, profile.formats).values()),
        held_bytes=sum(footprint.weight_bytes(config, held, packed=packed).values()),
        conversation_bytes=sum(kept.values()),
        working_bytes=sum(passing.values()) + points,
        round_bytes=sum(a_round.values()),
        workspace_bytes=footprint.workspace_bytes(config) if packed else 0,
        kv_format=kv,
    )


def packs_weights() -> bool:
    """Whether this machine, with its settings, packs weights for a GPU's kernels."""
    settings, _ = load_settings()
    return choose_compute_path(settings, choose_device(settings.model.device)).is_packed


def held_formats(profile: Profile, *, packed: bool) -> Formats:
    """The formats in which this machine holds the profile's weights.

    Args:
        profile: its settings count as well.
        packed: for a GPU's kernels, which read weights as they are stored.

    Raises:
        SettingsError: a setting of the profile is unknown or does not read.
    """
    settings, _ = load_settings(profile=profile.settings)
    return profile.formats if packed or settings.model.hold == "stored" else HELD_FORMATS


def widened_bytes(config: ModelConfig, held: Formats, *, packed: bool) -> int:
    """Bytes a round that the reference writes and reads beside weights it holds as stored."""
    if packed or held == HELD_FORMATS:
        return 0
    wide = footprint.weight_bytes(config, HELD_FORMATS)
    return 2 * (wide["weights"] + (wide["head"] if held.head != HELD_FORMATS.head else 0))


def _config(profile: Profile, path: Path | None) -> tuple[ModelConfig, CheckpointError | None]:
    config = SHAPE_DEMO if profile.embedded else SHAPE_27B
    if path is None:
        return config, None
    try:
        config = read_config(path)
        match_checkpoint(path, config)
    except CheckpointError as error:
        return config, error
    return config, None
