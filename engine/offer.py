"""Profiles as a menu offers them: what each would do here, and what to do where it would not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.compute_path import choose_compute_path
from engine.expected import Expected, expect
from engine.locate import how_to_give
from engine.machine.device import choose_device
from engine.machine.free_memory import available_bytes
from engine.profile import Profile, kv_format_set
from engine.settings.declared import Settings

SPARE_SHARE = 0.05
"""Share of the free memory that is left alone when two models are to stand side by side."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One profile of the menu."""

    profile: Profile
    expected: Expected

    @property
    def problem(self) -> str:
        """Why its files, which are here, do not open; empty for nothing."""
        return str(self.expected.need.problem or "")

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine and read."""
        return self.expected.need.path is not None and not self.problem

    @property
    def fits_beside(self) -> bool:
        """Whether it fits with something to spare, so that another model may stay meanwhile."""
        return self.expected.need.total_bytes <= self.expected.free_bytes * (1 - SPARE_SHARE)

    @property
    def mend(self) -> str:
        """What to do about files that are missing or do not read; empty when they are here."""
        if self.problem or self.is_here:
            return self.problem
        return how_to_give(self.profile)


def offers(
    profiles: Iterable[Profile],
    settings: Settings,
    read_gb_s: float,
    named: Mapping[str, Path] | None = None,
) -> list[Offer]:
    """Look at profiles; headers are read, nothing is loaded and nothing is measured.

    So that it may be asked while a model loads in another thread: reading memory would take of the
    load's time, give a figure that is too low for good, and spoil graphs that are captured.

    Args:
        profiles: in the order of the result.
        settings: device, kernels and context are read.
        read_gb_s: what was measured with the loaded model; 0 while none was.
        named: folders that were given for profiles, by their names.

    Raises:
        SettingsError: the device is not there, or does not run the kernels that are asked for.
    """
    device = choose_device(settings.model.device)
    path = choose_compute_path(settings, device)
    free_bytes = available_bytes(device)
    expect_it = partial(
        expect, context_tokens=settings.model.context_tokens, path=path, read_gb_s=read_gb_s,
        free_bytes=free_bytes, data_dir=settings.data_dir, kv=kv_format_set(settings),
    )  # fmt: skip
    given = (replace(one, folder=str((named or {}).get(one.name, one.folder))) for one in profiles)
    return [Offer(one, expect_it(one)) for one in given]
