"""Refuse a candidate that cannot differ from the reference, before anything is read."""

from collections.abc import Mapping
from typing import Any

from engine.errors import RequestError
from engine.locate import Choice
from engine.machine.device import choose_device
from engine.profile import kv_format_of
from engine.settings.declared import KNOWN, Settings

WEIGHTS = "Other weights are --candidate DIR, another profile of the same --candidate-profile NAME."


def expect_computing(names: list[str]) -> None:
    """Refuse settings that say nothing of what a model computes.

    Args:
        names: of settings that the candidate alone has, by full name.

    Raises:
        RequestError: one of them cannot be compared; those that can be are named.
    """
    for name in names:
        if name in KNOWN and not KNOWN[name].computes:
            can = ", ".join(one.name for one in KNOWN.values() if one.computes)
            raise RequestError(
                f"'{name}' changes nothing that a model computes, so that there is nothing to "
                "compare.",
                f"Settings that can be compared: {can}. {WEIGHTS}",
            )


def expect_another(
    names: list[str], reference: tuple[Choice, Settings], candidate: tuple[Choice, Settings]
) -> None:
    """Refuse settings that leave the candidate what the reference is.

    Args:
        names: of settings that the candidate alone has; none where its profile is named.
        reference: what is opened, and how.
        candidate: the same files under the same profile.

    Raises:
        RequestError: both would compute the same.
        SettingsError: a device is not there.
    """
    both = _computation(*candidate)
    if _computation(*reference) != both:
        return
    if names and both["model.device"] == "cpu" and all(one.startswith("kernels.") for one in names):
        raise RequestError(
            "On a CPU no kernel runs, whatever the settings of 'kernels' say: there is nothing to "
            "compare.",
            "Run it on a GPU.",
        )
    told = " and ".join(f"'{one}' is '{both[one]}'" for one in names)
    told = told or f"The profile is '{candidate[0].profile.name}'"
    raise RequestError(
        f"{told} on both sides, so that there is nothing to compare.", "Give another value."
    )


def _computation(choice: Choice, settings: Settings) -> Mapping[str, Any]:
    """All that decides what is computed, by setting; of kernels nothing where none runs."""
    device = choose_device(settings.model.device)
    found = {
        name: getattr(getattr(settings, section), leaf)
        for name, one in KNOWN.items()
        for section, _, leaf in [name.partition(".")]
        if one.computes
    }
    if device == "cpu":
        found |= dict.fromkeys((name for name in found if name.startswith("kernels.")), "unused")
    return found | {
        "model.dir": choice.path,
        "model.base": choice.overlay,
        "model.profile": choice.profile.name,
        "model.device": device,
        "model.kv": kv_format_of(choice.profile, settings),
    }
