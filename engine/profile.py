"""Weight profiles: what a person picks from the menu, read from TOML data.

A profile names the storage format of every part of the model, the drafters and their limits, the
KV format, what is captured as graphs while it opens, and the sampling defaults. It knows no tensor:
the checkpoint decides per tensor what is really there, and the loader reports where the two differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

from engine.errors import ProfileError, SettingsError, did_you_mean, nearest
from engine.graph_classes import CHUNK_ROWS, CONTEXTS, GraphClasses
from engine.settings.declared import KNOWN, Settings
from engine.settings.environment import expanded
from engine.settings.registry import resolve
from engine.settings.toml_file import MEND, read_toml
from engine.types import DRAFTERS, KV_FORMATS, KvFormat
from kernels.common.round import MAX_ROWS

WeightFormat = Literal["bf16", "fp8_block", "nvfp4", "e4m3_row"]
WEIGHT_FORMATS: tuple[str, ...] = ("bf16", "fp8_block", "nvfp4", "e4m3_row")
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


def load_profiles(user_folder: Path | None = None) -> dict[str, Profile]:
    """Read every profile, the program's own first, then those in ``user_folder``/profiles.

    Raises:
        ProfileError: a file does not read, a key or a value is unknown, or a name stands twice.
    """
    found: dict[str, Profile] = {}
    folders = [profile_folder()]
    if user_folder is not None:
        folders.append(user_folder / "profiles")
    for folder in folders:
        # hidden files are what editors and copies leave behind, such as locks that link to nothing
        for path in sorted(folder.glob("[!.]*.toml")):
            profile = read_profile(path)
            if profile.name in found:
                raise ProfileError(
                    f"The profile '{profile.name}' stands in {found[profile.name].path} "
                    f"and in {path}.",
                    "Rename one of them.",
                )
            found[profile.name] = profile
    return found


def kv_format_of(profile: Profile, settings: Settings) -> KvFormat:
    """How keys and values are kept: as the settings say, else as the profile says."""
    return kv_format_set(settings) or profile.kv_format


def kv_format_set(settings: Settings) -> KvFormat | None:
    """What the settings say of it; None leaves it to profiles."""
    return cast("KvFormat | None", settings.model.kv)


def get_profile(name: str, profiles: Mapping[str, Profile]) -> Profile:
    """The profile called ``name``.

    Raises:
        ProfileError: there is none; the nearest name is given.
    """
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
    reader = _Reader(path)
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


def _read_formats(reader: "_Reader", table: dict[str, Any]) -> Formats:
    names = [one.name for one in fields(Formats)]
    reader.only(table, set(names), "formats.")
    read = {name: reader.word(table, name, WEIGHT_FORMATS, "formats.") for name in names}
    return Formats(**cast("dict[str, Any]", read))


def _read_drafting(reader: "_Reader", table: dict[str, Any]) -> Drafting:
    reader.only(table, {"drafter", "max_tokens"}, "drafting.")
    most = table.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most < MAX_ROWS:
        raise reader.error("drafting.max_tokens", most, f"a whole number from 0 to {MAX_ROWS - 1}")
    return Drafting(reader.word(table, "drafter", DRAFTERS, "drafting."), most)


def _read_graphs(reader: "_Reader", table: dict[str, Any]) -> GraphClasses:
    allowed = {
        "rows": range(1, MAX_ROWS + 1), "context_tokens": CONTEXTS, "chunk_rows": CHUNK_ROWS,
    }  # fmt: skip
    reader.only(table, set(allowed), "graphs.")
    read = {name: reader.rising(table, name, allowed[name], "graphs.") for name in table}
    return GraphClasses(**read)


def _read_embedded(reader: "_Reader", weights: dict[str, Any]) -> str:
    """The folder beside the profile files, which may not lead elsewhere; empty for none."""
    if "embedded" not in weights:
        return ""
    name = reader.text(weights, "embedded", "weights.")
    if Path(name).name != name or name == ".." or not (profile_folder() / name).is_dir():
        raise reader.error("weights.embedded", name, "the name of a folder beside the profiles")
    return name


def _read_folder(reader: "_Reader", weights: dict[str, Any]) -> str:
    """Where the files lie; ~ is the person's home, a relative path counts from the profile."""
    if "folder" not in weights:
        return ""
    named = expanded(reader.text(weights, "folder", "weights."))
    return str(reader.path.parent.absolute() / named)


def _read_settings(reader: "_Reader", table: dict[str, Any]) -> dict[str, object]:
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """Typed access to one TOML file; every refusal names the file and the key."""

    path: Path

    def error(self, key: str, value: object, wanted: str, hint: str = "") -> ProfileError:
        given = "missing" if value is None else repr(value)
        return ProfileError(f"{self.path}: '{key}' is {given}, expected {wanted}.", hint)

    def only(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        for key in table:
            if key not in known:
                raise ProfileError(
                    f"{self.path}: there is no key '{where}{key}'.", nearest(key, known)
                )

    def table(
        self, data: Mapping[str, Any], key: str, *, optional: bool = False, where: str = ""
    ) -> dict[str, Any]:
        value = data.get(key, {} if optional else None)
        if not isinstance(value, dict):
            raise self.error(where + key, value, f"a table [{where}{key}]")
        return cast("dict[str, Any]", value)

    def text(self, data: Mapping[str, Any], key: str, where: str = "") -> str:
        value = data.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(where + key, value, "text")
        return value

    def texts(self, data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        value = data.get(key, [])
        items = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(one, str) for one in items):
            raise self.error(where + key, data.get(key), "a list of texts")
        return tuple(str(one) for one in items)

    def rising(
        self, data: Mapping[str, Any], key: str, allowed: Sequence[int], where: str
    ) -> tuple[int, ...]:
        """Whole numbers among some, each once and rising."""
        value: object = data[key]
        if not isinstance(value, list):
            raise self.error(where + key, value, "a list of rising numbers")
        items = cast("list[object]", value)
        for one in items:
            if type(one) is not int or one not in allowed:
                few = f"{', '.join(map(str, allowed[:2]))} ... {allowed[-1]}"
                near = min(allowed, key=lambda it: abs(it - one)) if type(one) is int else None
                hint = "" if near is None else f"Did you mean {near}?"
                raise self.error(where + key, items, f"a list of numbers among {few}", hint)
        numbers = cast("list[int]", items)
        if any(one >= other for one, other in pairwise(numbers)):
            raise self.error(where + key, numbers, "a list of rising numbers")
        return tuple(numbers)

    def word(self, data: Mapping[str, Any], key: str, allowed: tuple[str, ...], where: str) -> str:
        value = data.get(key)
        if value not in allowed:
            wanted = f"one of {', '.join(allowed)}"
            raise self.error(where + key, value, wanted, did_you_mean(str(value), allowed))
        return str(value)
