"""Which profiles can be opened while the chat runs, and what it takes to go to one.

Knows no screen: F3, F9 and the plain ``/profile`` look here.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.opening import Plan, plan
from engine.errors import CheckpointError
from engine.locate import Choice
from engine.profile import Profile, get_profile, load_profiles
from engine.sizes import size_text
from engine.types import ChatEngine, EngineInfo, LoadProgressed

if TYPE_CHECKING:
    from engine.offer import Offer


@dataclass(frozen=True, slots=True)
class Switch:
    """Another profile to open.

    ``beside`` says that it fits beside what is loaded, which then stays until it is there.
    """

    plan: Plan
    beside: bool

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.plan.choice.profile.name

    def open(
        self, on_progress: Callable[[LoadProgressed], None], cancel: threading.Event
    ) -> ChatEngine:
        """Load the model; raises `EngineError`."""
        return self.plan.open(on_progress, cancel)


@dataclass(frozen=True, slots=True)
class FaultyProfile:
    """A profile that cannot be offered, and why its file does not read."""

    name: str
    problem: str


class ProfileMenu:
    """The profiles of this start, with the folders that were named for some of them.

    Args:
        chosen: what was opened first.
    """

    def __init__(self, chosen: Plan) -> None:
        self._chosen = chosen
        is_named = chosen.settings.model.dir is not None
        self._given = {chosen.choice.profile.name: chosen.choice} if is_named else {}

    def offers(self, info: EngineInfo | None) -> "list[Offer]":
        """Every profile, those first whose files are here; reads headers, so call it in a thread.

        Args:
            info: what is loaded, whose measured bandwidth counts; without it no rate is told.

        Raises:
            SettingsError: the device is not there, or does not run the kernels that are asked for.
        """
        profiles = load_profiles(self._chosen.settings.config_dir).values()
        read_gb_s = info.read_gb_s if info is not None else 0.0
        return sorted(self._offers(profiles, read_gb_s), key=_here_and_small_first)

    def faulty(self) -> list[FaultyProfile]:
        """Those whose file does not read."""
        faulty = load_profiles(self._chosen.settings.config_dir).faulty
        return [FaultyProfile(name, str(error)) for name, error in faulty.items()]

    def switch(self, name: str, info: EngineInfo | None) -> Switch:
        """What opens the profile ``name``.

        Raises:
            EngineError: there is no such profile, it does not read, or its files are missing or do
                not read.
        """
        profile = get_profile(name, load_profiles(self._chosen.settings.config_dir))
        # memory and files count here, the rate does not
        (offer,) = self._offers([profile], 0.0)
        path = offer.expected.need.path
        if path is None or offer.problem:
            raise CheckpointError(f"The profile '{name}' cannot be opened.", offer.mend)
        given = self._given.get(name)
        overlay = given.overlay if given is not None else None
        choice = Choice(path, profile, bool(profile.embedded), overlay)
        is_loaded = info is not None
        return Switch(plan(_without_model(self._chosen), choice), is_loaded and offer.fits_beside)

    def _offers(self, profiles: Iterable[Profile], read_gb_s: float) -> "list[Offer]":
        """Look at profiles, at the one that was given a folder there."""
        from engine.offer import offers

        named = {name: one.path for name, one in self._given.items()}
        return offers(profiles, self._chosen.settings, read_gb_s, named)


def rate_text(one: "Offer") -> str:
    """Tokens a second of plain decode: timed on such a GPU, else the most that bandwidth allows.

    Files that do not open have none, and before a model was loaded no bandwidth was measured.
    """
    expected = one.expected
    rate = expected.timed_tok_s or expected.most_tok_s
    if one.problem or not rate:
        return "-"
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    return shown if expected.timed_tok_s else f"at most {shown}"


def files_word(one: "Offer", current: str) -> str:
    """How it is with a profile's files, in a word."""
    if one.profile.name == current:
        return "loaded"
    if one.is_here:
        return "here"
    return "refused" if one.problem else "missing"


def offer_line(one: "Offer", current: str) -> str:
    """A profile as one line of text."""
    name, need = one.profile.name, one.expected.need
    files = files_word(one, current)
    if files not in ("loaded", "here"):
        files = f"{files}. {one.mend}"
    return (
        f"{name}: {size_text(need.stored_bytes)} on disk, {size_text(need.total_bytes)} in "
        f"memory of {size_text(one.expected.free_bytes)} free, expected "
        f"{rate_text(one)} tok/s, files {files}"
    )


def _here_and_small_first(one: "Offer") -> tuple[bool, int]:
    return not one.is_here, one.expected.need.stored_bytes


def _without_model(chosen: Plan) -> dict[str, object]:
    """The command line without what it said about which model is opened."""
    about = ("model.dir", "model.profile")
    return {name: value for name, value in chosen.command_line.items() if name not in about}
