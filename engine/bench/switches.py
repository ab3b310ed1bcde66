"""Switches that flip while a model stays loaded, and the model as launched with one flipped."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import cast

from engine.errors import RequestError, nearest
from engine.model.decoder import Model
from engine.model.generation import Generation
from engine.model.kernel_model import KernelModel
from engine.model.packed import Member, Packed
from engine.model.packing import Launching
from engine.model.weights import ModelWeights
from engine.settings.declared import KNOWN, Settings
from engine.settings.registry import parse


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that flips while a model stays loaded.

    Attributes:
        name: full name of the setting.
        keeps_bits: logits must be equal bit for bit, not the tokens alone.
        apply: how kernels are launched with a value of it.
    """

    name: str
    keeps_bits: bool
    apply: Callable[[Launching, bool], Launching]


def _with_graphs(launching: Launching, value: bool) -> Launching:
    return replace(launching, graphs=value)


def _with_overlap(launching: Launching, value: bool) -> Launching:
    return replace(launching, overlap=value)


def _with_commit(launching: Launching, value: bool) -> Launching:
    return replace(launching, commit_in_verify=value)


SWITCHES = {
    one.name: one
    for one in (
        Switch("kernels.graphs", keeps_bits=True, apply=_with_graphs),
        Switch("kernels.overlap", keeps_bits=True, apply=_with_overlap),
        Switch("kernels.commit_in_verify", keeps_bits=True, apply=_with_commit),
    )
}
"""What can be flipped, by name."""

_WHY_NOT = {
    "kernels": "weights are packed for it while they load",
    "kernels.launches": "those of two GPUs are not mixed in a process",
    "kernels.prefill": "no round depends on it",
    "model": "it decides what is loaded",
    "sampling": "replayed rounds are greedy",
    "draft": "replayed rounds are not drafted",
}
"""Why the other settings cannot be, by name or section."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A switch with the value of each side."""

    switch: Switch
    base: bool
    candidate: bool


def parse_switch(text: str, settings: Settings) -> Flip:
    """Read ``NAME=VALUE``: the candidate's value against the one that is set, else the other.

    Raises:
        RequestError: there is no such setting, it does not flip inside a process, or it already
            has the value.
        SettingsError: the value does not read.
    """
    name, sign, raw = (one.strip() for one in text.partition("="))
    if not sign:
        raise RequestError(f"--switch is '{text}', expected NAME=VALUE.", nearest(name, SWITCHES))
    if name not in KNOWN:
        raise RequestError(f"There is no setting '{name}'.", nearest(name, SWITCHES))
    if name not in SWITCHES:
        section = name.partition(".")[0]
        why = _WHY_NOT.get(name) or _WHY_NOT.get(section, "no round depends on it")
        raise RequestError(
            f"'{name}' does not flip inside a process: {why}.", nearest(name, SWITCHES)
        )
    candidate = bool(parse(KNOWN[name], raw, "--switch"))
    section, leaf = name.split(".")
    own = getattr(getattr(settings, section), leaf)
    base = (not candidate) if own is None else bool(own)
    if base == candidate:
        raise RequestError(
            f"'{name}' is {word(base)} already, so that there is nothing to compare.",
            f"Write --switch {name}={word(not base)}.",
        )
    return Flip(SWITCHES[name], base, candidate)


def relaunched(model: Model, launching: Launching) -> KernelModel:
    """The same weights in the same memory, launched in another way; without the MTP head."""
    held: dict[int, Packed] = {}

    def whole(one: Packed) -> Packed:
        return held.setdefault(id(one), replace(one, overlap=launching.overlap))

    def renewed(part: object) -> object:
        if isinstance(part, Packed):
            return whole(part)
        if isinstance(part, Member):
            return replace(part, whole=whole(part.whole))
        if isinstance(part, tuple):
            return tuple(renewed(one) for one in cast("tuple[object, ...]", part))
        if is_dataclass(part) and not isinstance(part, type):
            values = {one.name: renewed(getattr(part, one.name)) for one in fields(part)}
            return replace(part, **values)
        return part

    trunk = replace(model.weights, mtp=None)
    weights = cast("ModelWeights", renewed(trunk))
    generation = Generation(model.stop_ids, model.default_sampling)
    return KernelModel(model.config, weights, generation, launching)


def word(value: bool) -> str:
    """A switch's value as settings write it."""
    return "on" if value else "off"
