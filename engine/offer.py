"""What each profile would mean on this machine: files, memory, expected rate. Nothing is loaded."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import EngineError
from engine.fit import Need, need_of
from engine.locate import how_to_give
from engine.model.memory import available_bytes
from engine.open import choose_device
from engine.profile import Profile
from engine.settings.declared import Settings

SPARE_SHARE = 0.05
"""Share of the free memory that is left alone when two models are to stand side by side."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One profile as a menu shows it.

    Attributes:
        profile: what was read.
        need: bytes that it needs, and where its files lie.
        free_bytes: memory of the device that can be had now.
        read_gb_s: the device's measured read bandwidth; None before it was measured.
    """

    profile: Profile
    need: Need
    free_bytes: int
    read_gb_s: float | None

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine and read."""
        return self.need.path is not None and not self.need.problem

    @property
    def fits(self) -> bool:
        """Whether it fits into what is free now."""
        return self.need.total_bytes <= self.free_bytes

    @property
    def fits_beside(self) -> bool:
        """Whether it fits with something to spare, so that another model may stay meanwhile."""
        return self.need.total_bytes <= self.free_bytes * (1 - SPARE_SHARE)

    @property
    def expected_tok_s(self) -> float | None:
        """Tokens a second of plain decode were bandwidth all that counts; drafting adds to it."""
        if self.read_gb_s is None:
            return None
        return self.read_gb_s * 1e9 / self.need.moved_bytes

    @property
    def mend(self) -> str:
        """What to do about files that are missing or do not read; empty when they are here."""
        if self.need.problem:
            return self.need.problem
        if self.need.path is not None:
            return ""
        if self.profile.folder:
            return f"{self.profile.folder} holds no config.json: {self.profile.path} names it."
        return how_to_give(bool(self.profile.repositories))


def offers(
    profiles: Iterable[Profile],
    settings: Settings,
    read_gb_s: float | None,
    opened: dict[str, Path] | None = None,
) -> list[Offer]:
    """Look at every profile; a folder that was named for one counts as its own.

    Args:
        profiles: in the order of the menu.
        settings: device and context count.
        read_gb_s: measured before, or None.
        opened: folders by the name of the profile that read them.

    Raises:
        SettingsError: the device is not there.
    """
    free = available_bytes(choose_device(settings.model.device))
    found: list[Offer] = []
    for one in profiles:
        named = replace(one, folder=str((opened or {}).get(one.name, one.folder)))
        try:
            need = need_of(named, settings.model.context_tokens)
        except EngineError as error:  # its own settings do not read
            need = replace(need_of(replace(named, settings=None), 0), problem=str(error))
        found.append(Offer(named, need, free, read_gb_s))
    return found
