"""Which profile fits a folder's files: formats are told by headers alone, nothing is loaded."""

from pathlib import Path

from engine.errors import CheckpointError
from engine.model.checkpoint import Checkpoint, match_checkpoint
from engine.model.config_file import MAX_CONFIG_BYTES, read_config
from engine.model.plain_file import read_bounded
from engine.model.tensors import format_of
from engine.profile import FORMAT_BITS, Formats, Profile, Profiles, get_profile


def fitting_profile(folder: Path, profiles: Profiles, overlay: Path | None = None) -> Profile:
    """The profile whose formats are nearest to those that a folder's files have.

    Each matrix counts with its parameters: first the bits that codes differ by, then whether the
    formats differ. Files that are refused, as opening them will say, go by their config. Part files
    of ``overlay`` count in the place of what they replace.

    Raises:
        ProfileError: neither 'fp8' nor 'bf16' is among the profiles, where the config decides.
    """
    try:
        checkpoint = match_checkpoint(folder, read_config(folder), overlay)
    except CheckpointError:
        return get_profile("fp8" if _is_quantised(folder) else "bf16", profiles)
    named = [one for one in profiles.values() if not one.embedded]
    return min(named, key=lambda one: _distance(checkpoint, one.formats))


def _distance(checkpoint: Checkpoint, formats: Formats) -> tuple[int, int]:
    bits = differing = 0
    for one in checkpoint.weights.values():
        expected = format_of(one.spec, formats)
        bits += one.spec.num_elements * abs(FORMAT_BITS[one.format] - FORMAT_BITS[expected])
        differing += one.spec.num_elements * (one.format != expected)
    return bits, differing


def _is_quantised(folder: Path) -> bool:
    try:
        return b'"quantization_config"' in read_bounded(folder / "config.json", MAX_CONFIG_BYTES)
    except (OSError, CheckpointError):
        return False
