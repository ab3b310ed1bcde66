"""From a drafter's name to a drafter for one turn."""

from engine.draft.drafter import Drafter, NoDrafter
from engine.draft.mtp import MtpDrafter, MtpRows
from engine.draft.scripted import HalfDrafter, ReplayDrafter, Truth, WrongDrafter
from engine.errors import RequestError, nearest
from engine.types import DRAFTERS


def resolve_drafter(name: str, profile_choice: str, *, has_mtp: bool) -> str:
    """The drafter that ``name`` means: ``auto`` is the profile's if there is a head, else off.

    Raises:
        RequestError: the name is unknown, or the checkpoint has no head for it.
    """
    if name not in DRAFTERS:
        raise RequestError(f"There is no drafter '{name}'.", nearest(name, DRAFTERS))
    if name == "auto":
        name = profile_choice if has_mtp and profile_choice != "auto" else "off"
    if name == "mtp" and not has_mtp:
        raise RequestError(
            "The drafter 'mtp' needs the checkpoint's MTP head, and this checkpoint has none.",
            "Take the drafter 'off'.",
        )
    return name


def make_drafter(name: str, rows: MtpRows | None, truth: Truth, num_ids: int) -> Drafter:
    """Make the drafter of a turn.

    Args:
        name: resolved by ``resolve_drafter``.
        rows: the MTP head's, where the checkpoint has one.
        truth: what the target will choose, for the scripted ones.
        num_ids: ids in use.

    Raises:
        ValueError: no drafter is made by this name, or ``mtp`` has no rows.
    """
    if name == "mtp" and rows is not None:
        return MtpDrafter(rows)
    if name == "replay":
        return ReplayDrafter(truth)
    if name == "wrong":
        return WrongDrafter(truth, num_ids)
    if name == "half":
        return HalfDrafter(truth, num_ids)
    if name == "off":
        return NoDrafter()
    raise ValueError(f"make_drafter: there is no '{name}' for this turn")
