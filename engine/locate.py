"""Finding checkpoints: a named folder, the Hugging Face cache, or the embedded demo."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import CheckpointError
from engine.model.plain_file import READABLE
from engine.profile import FORMAT_BITS, Profile, Profiles, get_profile, profile_folder
from engine.settings.declared import ModelSettings, Settings
from engine.settings.environment import hugging_face_cache

HOW_TO_GIVE_RELEASE = (
    "Give a checkpoint with --model DIR, with the setting model.dir, or download {repository} with "
    "the Hugging Face tools: its cache folder is found by itself."
)
HOW_TO_GIVE = HOW_TO_GIVE_RELEASE.format(repository="Qwen/Qwen3.8-27B-FP8")
"""Said where nobody asked for a profile."""

HOW_TO_GIVE_FOLDER = (
    "Give the folder of such a checkpoint with --model DIR or with the setting model.dir; "
    "'qwen38 quantize' makes 4-bit ones from a release, and 'qwen38 bench round --profile NAME' "
    "builds weights to measure."
)

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class Choice:
    """What will be opened: a folder, the profile that reads it, and whether it is the demo.

    ``overlay`` is a folder of part files whose matrices take the place of the folder's;
    ``notices`` say which profiles were left out, or passed over, when this was chosen.
    """

    path: Path
    profile: Profile
    is_demo: bool
    overlay: Path | None = None
    notices: tuple[str, ...] = ()

    @property
    def named(self) -> Path:
        """The folder that a person would call the model."""
        return self.overlay or self.path


def cached_snapshot(repository: str, cache: Path) -> Path | None:
    """The newest snapshot of ``repository`` with a config.json in a Hugging Face hub cache, if any.

    Nothing of it is read.
    """
    every = _snapshots(_cached_folder(repository, cache))
    return next((one for one in every if (one / "config.json").is_file()), None)


def _cached_folder(repository: str, cache: Path) -> Path:
    """Where a Hugging Face hub cache keeps ``repository``."""
    return cache / f"models--{repository.replace('/', '--')}"


def _snapshots(folder: Path) -> list[Path]:
    """What a repository's folder in the cache holds, the newest first."""
    try:
        found = [one for one in (folder / "snapshots").iterdir() if one.is_dir()]
        return sorted(found, key=lambda one: one.stat().st_mtime, reverse=True)
    except OSError:
        return []


def meant_folder(named: Path) -> Path:
    """The folder of weights that a person means, who may name a repository of the cache.

    Args:
        named: a folder, the folder of a repository in the Hugging Face cache, or, where there is no
            such folder, a repository as ``owner/name``.

    Returns:
        The newest snapshot of the repository that holds weights of ours; else ``named``.

    Raises:
        CheckpointError: the cache holds no repository of this name.
    """
    is_repository = bool(_REPOSITORY.fullmatch(str(named))) and not named.exists()
    cache = hugging_face_cache()
    every = _snapshots(_cached_folder(str(named), cache) if is_repository else named)
    found = next((one for one in every if (one / "config.json").is_file() or is_overlay(one)), None)
    if is_repository and found is None:
        raise CheckpointError(
            f"The model folder {named} does not exist, and the Hugging Face cache in {cache} "
            "holds no such model.",
            f"Download it with 'hf download {named}', or name another folder.",
        )
    return found or named


def weights_of(profile: Profile, cache: Path) -> Path | None:
    """Where the weights of ``profile`` lie on this machine, or None when they are missing."""
    if profile.folder or profile.embedded:
        folder = Path(profile.folder or profile_folder() / profile.embedded)
        return folder if (folder / "config.json").is_file() else None
    for repository in profile.repositories:
        if found := cached_snapshot(repository, cache):
            return found
    return None


def how_to_give(profile: Profile) -> str:
    """How the files of a profile get here: a release that is found by itself, or any folder."""
    if profile.folder:
        return f"{profile.folder} holds no config.json: {profile.path} names it."
    if profile.repositories:
        return HOW_TO_GIVE_RELEASE.format(repository=profile.repositories[0])
    return HOW_TO_GIVE if profile.embedded else HOW_TO_GIVE_FOLDER


def choose(settings: Settings, profiles: Profiles) -> Choice:
    """Decide what to open: the named folder and profile, else what the cache holds, else the demo.

    What nobody named is passed over where its config or headers are refused, which is a notice.

    Raises:
        CheckpointError: the named folder is none, or the named profile's files are missing.
        ProfileError: the named profile does not exist, or its file does not read.
    """
    choice = _choose(settings, profiles)
    return replace(choice, notices=(*profiles.notices, *choice.notices))


def _choose(settings: Settings, profiles: Profiles) -> Choice:
    cache = hugging_face_cache()
    wanted = get_profile(settings.model.profile, profiles) if settings.model.profile else None
    if settings.model.dir is not None:
        folder = meant_folder(settings.model.dir)
        return _named_folder(settings.model, folder, wanted, profiles)
    if wanted is not None:
        path = weights_of(wanted, cache)
        if path is None and wanted.folder:
            raise CheckpointError(
                f"{wanted.folder} holds no config.json, so it is no checkpoint.",
                f"Mend 'weights.folder' in {wanted.path}.",
            )
        if path is None:
            raise CheckpointError(
                f"The files of the profile '{wanted.name}' are not on this machine.",
                how_to_give(wanted),
            )
        return Choice(path, wanted, bool(wanted.embedded))
    refused: list[str] = []
    for profile in sorted(profiles.values(), key=_smallest_real_first):
        path = weights_of(profile, cache)
        if path is None:
            continue
        problem = None if profile.embedded else _refusal_of(path)
        if problem is None:
            notices = tuple(f"'{profile.name}' opens in the place of {one}" for one in refused)
            return Choice(path, profile, bool(profile.embedded), notices=notices)
        refused.append(f"'{profile.name}': {problem}")
    raise CheckpointError("No model is on this machine and the demo model is missing.", HOW_TO_GIVE)


def _smallest_real_first(profile: Profile) -> tuple[bool, int, str]:
    # decode reads every weight once a round, so the fewest bytes are the fastest
    return bool(profile.embedded), FORMAT_BITS[profile.formats.mlp], profile.name


def _named_folder(
    model: ModelSettings, folder: Path, wanted: Profile | None, profiles: Profiles
) -> Choice:
    if folder.is_file():
        raise CheckpointError(
            f"{folder} is a file, expected the folder of a checkpoint.",
            "Give the folder that holds config.json.",
        )
    if not folder.is_dir():
        raise CheckpointError(f"The model folder {folder} does not exist.", HOW_TO_GIVE)
    if not os.access(folder, os.R_OK | os.X_OK):
        raise CheckpointError(f"{folder} does not open: permission denied.", READABLE)
    if is_overlay(folder):
        _expect_finished(folder)
        base = _base_of(folder, model.base, profiles)
        return Choice(
            base, wanted or _fitting_profile(base, profiles, folder), is_demo=False, overlay=folder
        )
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{folder} holds no config.json, so it is no checkpoint.", HOW_TO_GIVE
        )
    if folder.resolve() == (profile_folder() / "demo").resolve():
        return Choice(folder, wanted or get_profile("demo", profiles), is_demo=True)
    return Choice(folder, wanted or _fitting_profile(folder, profiles), is_demo=False)


def is_overlay(folder: Path) -> bool:
    """Whether a folder holds weights but no config, so that they can only be parts of a model."""
    return not (folder / "config.json").exists() and any(folder.glob("*.safetensors"))


def _expect_finished(folder: Path) -> None:
    """Refuse what a stopped quantisation left: its config comes last, and it is no overlay."""
    # imported only where part files are opened, so that other commands start at once
    from engine.quantize.manifest import MANIFEST_NAME

    if (folder / MANIFEST_NAME).exists():
        raise CheckpointError(
            f"{folder} holds a quantisation that is not finished: config.json is missing.",
            "Give its 'qwen38 quantize' command again; it goes on where it was stopped.",
        )


def _base_of(folder: Path, named: Path | None, profiles: Profiles) -> Path:
    """The release beneath part files."""
    if named is not None:
        named = meant_folder(named)
        if not (named / "config.json").is_file():
            raise CheckpointError(
                f"'model.base' is {named}, which holds no config.json.",
                "Give the folder of a release, such as Qwen/Qwen3.8-27B-FP8.",
            )
        return named
    release = profiles.get("fp8")
    if release is not None and (found := weights_of(release, hugging_face_cache())):
        return found
    raise CheckpointError(
        f"{folder} holds no config.json: such part files are laid over a release, and none is on "
        "this machine.",
        "Give its folder with the setting model.base, or download Qwen/Qwen3.8-27B-FP8 with the "
        "Hugging Face tools.",
    )


def _refusal_of(folder: Path) -> CheckpointError | None:
    from engine.model.checkpoint import refusal_of  # as below

    return refusal_of(folder)


def _fitting_profile(folder: Path, profiles: Profiles, overlay: Path | None = None) -> Profile:
    # reads headers: imported only where a folder is opened, so that other commands start at once
    from engine.fitting_profile import fitting_profile

    return fitting_profile(folder, profiles, overlay)
