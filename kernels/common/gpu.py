"""The GPU that is here, and the one that launches are chosen for: another, where it is rehearsed.

What a chip executes follows from `chip`: targets of compilers, converters, how codes are packed.
What is chosen among builds that later chips run too (tiles, crossovers, teams, how many
multiprocessors share the work, overlap) follows from `choices`. Nothing else asks torch for either,
so that a rehearsal misses no choice (tests/house/test_gpu.py).
"""

from dataclasses import dataclass
from typing import Any, cast

import torch

from kernels.common.chips import Capability
from kernels.common.shared_memory import MAX_SHARED_BYTES

Device = torch.device | str | int | None
"""None is torch's current one."""


@dataclass(frozen=True)
class Rehearsed:
    """A GPU whose launches another one makes; every choice of it runs from sm_90 on.

    Attributes:
        name: of its tile tables.
        capability: whose choices are made.
        num_sms: multiprocessors that share the work.
        shared_bytes: shared memory that a block may have.
    """

    name: str
    capability: Capability
    num_sms: int
    shared_bytes: int


GB10 = Rehearsed("sm_121", (12, 1), 48, MAX_SHARED_BYTES[121])


@dataclass
class _Choices:
    """What this process chooses launches for; `asked` once anything was chosen."""

    rehearsed: Rehearsed | None = None
    asked: bool = False


_choices = _Choices()


def rehearse(one: Rehearsed) -> None:
    """Choose launches as another GPU does, until the process ends.

    Raises:
        ValueError: launches were chosen for another GPU before; both would be mixed.
    """
    if _choices.asked and _choices.rehearsed != one:
        raise ValueError(f"launches were chosen before {one.name} was rehearsed")
    _choices.rehearsed = one


def rehearsed() -> Rehearsed | None:
    """Return the GPU that is rehearsed; None where launches are those of the GPU that is here."""
    return _choices.rehearsed


def chip(device: Device = None) -> Capability:
    """Return the compute capability of a GPU: what it executes."""
    return torch.cuda.get_device_capability(device)


def choices(device: Device = None) -> Capability:
    """Return the compute capability whose launch choices a GPU makes."""
    _choices.asked = True
    return _choices.rehearsed.capability if _choices.rehearsed else chip(device)


def num_sms(device: Device = None) -> int:
    """Return the multiprocessors that launches are shared out for."""
    one = _choices.rehearsed
    return one.num_sms if one else int(_properties(device).multi_processor_count)


def shared_bytes(device: Device = None) -> int:
    """Return the shared memory that a block may have."""
    one = _choices.rehearsed
    return one.shared_bytes if one else int(_properties(device).shared_memory_per_block_optin)


def _properties(device: Device) -> Any:  # noqa: ANN401  torch gives them no type
    return cast("Any", torch.cuda).get_device_properties(device)
