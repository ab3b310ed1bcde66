"""Weight profiles: what a person picks from the menu, read from TOML data.

A profile names the storage format of every part of the model, the drafters and their limits, the
KV format, what is captured as graphs while it opens, and the sampling defaults. It knows no tensor:
the checkpoint decides per tensor what is really there, and the loader reports where the two differ.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast, get_args

from engine.errors import ProfileError, SettingsError, nearest
from engine.graph_classes import CHUNK_ROWS, CONTEXTS, GraphClasses
from engine.profile_reader import ProfileReader
from engine.settings.declared import KNOWN, Settings
from engine.settings.environment import expanded
from engine.settings.registry import resolve
from engine.settings.toml_file import MEND, read_toml
from engine.types import DRAFTERS, KV_FORMATS, KvFormat
from kernels.common.round import MAX_ROWS

WeightFormat = Literal["bf16", "fp8_block", "nvfp4", "e4m3_row"]
WEIGHT_FORMATS: tuple[str, ...] = get_args(WeightFormat)
FORMAT_BITS: dict[WeightFormat, int] = {"nvfp4": 4, "fp8_block": 8, "e4m3_row": 8, "bf16": 16}
"""Bits of a code, scales aside."""

CHOSEN_BEFORE = ("model.dir", "model.base", "model.profile", "paths.config")
"""Settings that decide which profile opens, so that what a profile says of them comes too late."""

KEYS = {"title", "about", "formats", "drafting", "kv", "weights", "graphs", "settings"}


@dataclass(frozen=True, slots=True)
class Formats:
    """Storage format of each part's matrices; everything else is BF16."""

    mlp: WeightFormat
    attention: WeightFormat
    delta: WeightFormat
    head: WeightFormat
    mtp: WeightFormat


@dataclass(frozen=True, slots=True)
class Drafting:
    """Which drafter ``auto`` means, and the most tokens that the MTP head may propose a round."""

    drafter: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One weight profile.

    ``repositories`` are Hugging Face names whose cached files serve it, ``folder`` is where a
    person keeps them; ``embedded`` is the folder beside the profile files when the weights ship
    with the program.
    """

    name: str
    title: str
    about: str
    formats: Formats
    drafting: Drafting
    kv_format: KvFormat
    repositories: tuple[str, ...] = ()
    embedded: str = ""
    folder: str = ""
    settings: Mapping[str, object] | None = None
    graphs: GraphClasses = field(default_factory=GraphClasses)
    path: str = ""


def profile_folder() -> Path:
    """The folder of the profiles that ship with the program."""
    return Path(str(resources.files("profiles")))


@dataclass(frozen=True, slots=True)
class Profiles(Mapping[str, Profile]):
    """Profiles by name, as they are offered.

    ``faulty`` holds, by name, why a file is left out; one of a shipped profile's name is.
    """

    read: Mapping[str, Profile]
    faulty: Mapping[str, ProfileError]

    def __getitem__(self, name: str) -> Profile:
        return self.read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read)

    def __len__(self) -> int:
        return len(self.read)

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence for each file that is left out."""
        return tuple(f"A profile is left out. {error}" for error in self.faulty.values())


def load_profiles(user_folder: Path | None = None) -> Profiles:
    """Read every profile, the program's own first, then those in ``user_folder``/profiles."""
    read: dict[str, Profile] = {}
    faulty: dict[str, ProfileError] = {}
    folders = [profile_folder()]
    if user_folder is not None:
        folders.append(user_folder / "profiles")
    for folder in folders:
        # hidden files are what editors and copies leave behind, such as locks that link to nothing
        for path in sorted(folder.glob("[!.]*.toml")):
            try:
                profile = read_profile(path)
                _expect_new(profile, read)
            except ProfileError as error:
                faulty[path.stem] = error
            else:
                read[profile.name] = profile
    return Profiles(read, faulty)


def _expect_new(profile: Profile, read: Mapping[str, Profile]) -> None:
    if profile.name in read:
        raise ProfileError(
            f"The profile '{profile.name}' stands in {read[profile.name].path} "
            f"and in {profile.path}.",
            "Rename one of them.",
        )


def kv_format_of(profile: Profile, settings: Settings) -> KvFormat:
    """How keys and values are kept: as the settings say, else as the profile says."""
    return kv_format_set(settings) or profile.kv_format


def kv_format_set(settings: Settings) -> KvFormat | None:
    """What the settings say of it; None leaves it to profiles."""
    return cast("KvFormat | None", settings.model.kv)


def get_profile(name: str, profiles: Profiles) -> Profile:
    """The profile called ``name``.

    Raises:
        ProfileError: its file does not read, or there is none; the nearest name is given.
    """
    if name in profiles.faulty:
        raise profiles.faulty[name]
    if name not in profiles:
        raise ProfileError(f"There is no profile '{name}'.", nearest(name, profiles))
    return profiles[name]


def read_profile(path: Path) -> Profile:
    """Read one profile file; its name is the file's stem.

    Raises:
        ProfileError: the file is not TOML, or a key or value is missing, unknown or of a wrong
            type; the sentence names file and key.
    """
    try:
        data = read_toml(path, ProfileError)
    except FileNotFoundError:
        raise ProfileError(f"The file {path} is missing.", MEND) from None
    reader = ProfileReader(path)
    reader.only(data, KEYS, "")
    weights = reader.table(data, "weights")
    reader.only(weights, {"repositories", "embedded", "folder"}, "weights.")
    kv = reader.table(data, "kv")
    reader.only(kv, {"format"}, "kv.")
    return Profile(
        name=path.stem,
        title=reader.text(data, "title"),
        about=reader.text(data, "about"),
        formats=_read_formats(reader, reader.table(data, "formats")),
        drafting=_read_drafting(reader, reader.table(data, "drafting")),
        kv_format=cast("KvFormat", reader.word(kv, "format", KV_FORMATS, "kv.")),
        repositories=reader.texts(weights, "repositories", "weights."),
        embedded=_read_embedded(reader, weights),
        folder=_read_folder(reader, weights),
        graphs=_read_graphs(reader, reader.table(data, "graphs", optional=True)),
        settings=_read_settings(reader, reader.table(data, "settings", optional=True)),
        path=str(path),
    )


def _read_formats(reader: ProfileReader, table: dict[str, Any]) -> Formats:
    names = [one.name for one in fields(Formats)]
    reader.only(table, set(names), "formats.")
    read = {name: reader.word(table, name, WEIGHT_FORMATS, "formats.") for name in names}
    return Formats(**cast("dict[str, Any]", read))


def _read_drafting(reader: ProfileReader, table: dict[str, Any]) -> Drafting:
    reader.only(table, {"drafter", "max_tokens"}, "drafting.")
    most = table.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most < MAX_ROWS:
        raise reader.error("drafting.max_tokens", most, f"a whole number from 0 to {MAX_ROWS - 1}")
    return Drafting(reader.word(table, "drafter", DRAFTERS, "drafting."), most)


def _read_graphs(reader: ProfileReader, table: dict[str, Any]) -> GraphClasses:
    allowed = {
        "rows": range(1, MAX_ROWS + 1), "context_tokens": CONTEXTS, "chunk_rows": CHUNK_ROWS,
    }  # fmt: skip
    reader.only(table, set(allowed), "graphs.")
    read = {name: reader.rising(table, name, allowed[name], "graphs.") for name in table}
    return GraphClasses(**read)


def _read_embedded(reader: ProfileReader, weights: dict[str, Any]) -> str:
    """The folder beside the profile files, which may not lead elsewhere; empty for none."""
    if "embedded" not in weights:
        return ""
    name = reader.text(weights, "embedded", "weights.")
    if Path(name).name != name or name == ".." or not (profile_folder() / name).is_dir():
        raise reader.error("weights.embedded", name, "the name of a folder beside the profiles")
    return name


def _read_folder(reader: ProfileReader, weights: dict[str, Any]) -> str:
    """Where the files lie; ~ is the person's home, a relative path counts from the profile."""
    if "folder" not in weights:
        return ""
    named = expanded(reader.text(weights, "folder", "weights."))
    return str(reader.path.parent.absolute() / named)


def _read_settings(reader: ProfileReader, table: dict[str, Any]) -> dict[str, object]:
    """Values by full setting name, each of a setting that exists and takes the value."""
    values: dict[str, object] = {
        f"{section}.{leaf}": value
        for section in table
        for leaf, value in reader.table(table, section, where="settings.").items()
    }
    for name in CHOSEN_BEFORE:
        if name in values:
            raise ProfileError(
                f"{reader.path}: '{name}' is {values[name]!r}, but a profile is read after it.",
                "Leave it out; 'weights.folder' names the folder of a profile's files.",
            )
    try:
        resolve(KNOWN, [(str(reader.path), values)])
    except SettingsError as problem:
        raise ProfileError(problem.message, problem.mend) from None
    return values
