"""The model that is explained: its sizes, the format of each matrix, and which are read together.

Nothing is loaded: a shape, or the heads of a checkpoint's files, say what there is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import CheckpointError
from engine.formats_by_layer import Stored
from engine.locate import choose
from engine.model.checkpoint import open_checkpoint
from engine.model.config import ModelConfig, config_of_shape
from engine.model.config_file import read_config
from engine.model.groups import group_of
from engine.model.tensors import TensorSpec, expected_tensors, format_of
from engine.profile import Profile, WeightFormat, get_profile, kv_format_of, load_profiles
from engine.settings.declared import Settings
from engine.types import KvFormat
from kernels.linear.pack import MEMBER_ROWS
from kernels.linear.weight import NAMES

_MEMBER_ROWS = {NAMES[kind]: rows for kind, rows in MEMBER_ROWS.items()}


LAYERS, MTP = "layers.", "mtp."
"""What the names of a model's layers begin with, and those of its MTP head."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is explained: a name for a person, its sizes, the format of each matrix.

    ``kv`` is that of keys and values.
    """

    title: str
    config: ModelConfig
    stored: Stored
    kv: KvFormat = "bf16"


@dataclass(frozen=True, slots=True)
class Product:
    """Matrices that are read together: N outputs of K inputs, in so many layers."""

    label: str
    N: int
    K: int
    stored: WeightFormat
    times: int

    def title(self, *, packs: bool) -> str:
        """Name and size, with the format that it is held in: as stored where kernels pack it."""
        held = self.stored if packs else "bf16"
        return f"{self.label} ({held}), {self.N:,} x {self.K:,}"


def subject_meant(settings: Settings, shape: str | None = None) -> Subject:
    """What a person means: a shape in a profile's formats, or the model that chat would open.

    Args:
        settings: which model and profile.
        shape: key of ``SHAPES``; its profile is the setting's, else "fp8". None takes the model, or
            the 27B's shape for a profile whose files are not here.

    Raises:
        RequestError: there is no such shape.
        CheckpointError: the model does not read.
        ProfileError: there is no such profile.
    """
    profiles = load_profiles(settings.config_dir)
    name, folder = settings.model.profile, settings.model.dir
    if shape is not None:
        return subject_of_shape(shape, get_profile(name or "fp8", profiles), settings)
    try:
        choice = choose(settings, profiles)
    except CheckpointError:
        if name is None or folder is not None:
            raise
        return subject_of_shape("27b", get_profile(name, profiles), settings)
    kv = kv_format_of(choice.profile, settings)
    return replace(subject_of_checkpoint(choice.path, choice.overlay), kv=kv)


def subject_of_shape(shape: str, profile: Profile, settings: Settings | None = None) -> Subject:
    """A shape in a profile's formats, and what settings say of them; nothing need be here.

    Raises:
        RequestError: there is no such shape.
    """
    config = config_of_shape(shape)
    title = f"the shape {shape} in the formats of '{profile.name}'"
    kv = kv_format_of(profile, settings or Settings())
    return Subject(title, config, lambda _, spec: format_of(spec, profile.formats), kv)


def subject_of_checkpoint(path: Path, overlay: Path | None = None) -> Subject:
    """A checkpoint on this machine, in the formats of its files, those of an overlay first.

    Raises:
        CheckpointError: the files are refused.
    """
    config = read_config(path)
    weights = open_checkpoint(path, config, overlay).weights
    return Subject(str(overlay or path), config, lambda name, _: weights[name].format)


def formats_in(subject: Subject) -> tuple[WeightFormat, ...]:
    """The formats of its projections and of its MTP head's, small matrices aside."""
    found: dict[WeightFormat, None] = {}
    for name, spec in expected_tensors(subject.config).items():
        if spec.matrix and spec.part != "small" and name.startswith((LAYERS, MTP)):
            found[subject.stored(name, spec)] = None
    return tuple(found)


def matrices(subject: Subject, part: str = LAYERS, *, joined: bool) -> Iterator[Product]:
    """The matrices of a part by name, joined as `engine.model.packing` joins them.

    Args:
        subject: the model.
        part: what their names begin with, `LAYERS` or `MTP`.
        joined: those that are read together are one.
    """
    specs = {
        name: spec
        for name, spec in expected_tensors(subject.config).items()
        if spec.matrix and name.startswith(part)
    }
    found: dict[tuple[str, WeightFormat], Product] = {}
    for name, spec in specs.items():
        group = group_of(name)
        members = group if joined and joins(group, specs, subject.stored) else (name,)
        if name != members[0]:
            continue
        label, stored = " | ".join(map(_short, members)), subject.stored(name, spec)
        N = sum(specs[one].shape[0] for one in members)
        before = found.get((label, stored))
        times = before.times + 1 if before else 1
        found[label, stored] = Product(label, N, spec.shape[1], stored, times)
    yield from found.values()


def joins(group: Sequence[str], specs: Mapping[str, TensorSpec], stored: Stored) -> bool:
    """Whether `engine.model.packing.can_fuse` will join a group: one format, whole scales."""
    first, *others = (stored(one, specs[one]) for one in group)
    rows = _MEMBER_ROWS.get(first, 1)
    whole = all(specs[one].shape[0] % rows == 0 for one in group[:-1])
    return whole and all(one == first for one in others)


def _short(name: str) -> str:
    """A matrix without its layer: ``layers.3.mlp.gate_proj.weight`` is ``gate``."""
    last = name.removesuffix(".weight").rpartition(".")[2]
    return last.removeprefix("in_proj_").removesuffix("_proj")
