"""From a drafter's name to a drafter for one turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.draft.calibration import Calibration
from engine.draft.decision import Weighing
from engine.draft.dflash import DflashDrafter, DflashRows
from engine.draft.drafter import Drafter, NoDrafter
from engine.draft.lookup import LookupDrafter
from engine.draft.mtp import MAX_MTP_TOKENS, MtpDrafter, MtpRows
from engine.draft.ngrams import NgramIndex
from engine.draft.routed import RoutedDrafter, Routing
from engine.draft.router import Router
from engine.draft.scripted import SHIFTS, ScriptedDrafter, Truth
from engine.errors import RequestError, nearest
from engine.types import DRAFTERS
from kernels.common.round import MAX_ROWS

USUAL_TOKENS = {"lookup": 15, "dflash2": 15, "auto": MAX_ROWS - 1}
"""Proposals a round where nobody says how many: a copy is long, a block costs the same whatever is
taken of it, and 16 rows cost little more than one. The router weighs them itself."""

USUAL_TOKENS_ELSE = 3


@dataclass(frozen=True, slots=True)
class DraftSources:
    """What the drafters of a turn may draw on.

    Attributes:
        mtp: rows of the checkpoint's head, where it has one.
        ngrams: index of the conversation; may still hold another text.
        prompt_ids: the whole prompt.
        answer_ids: what the turn has committed, as it grows.
        truth: what the target will choose, for the scripted ones.
        num_ids: ids in use.
        calibration: of the conversation, for the router.
        routing: what routes rounds; None where nothing does.
        dflash: rows of the DFlash2 drafter, where one is loaded.
        is_recorded: the truth is known beforehand, and not computed when it is asked for.
    """

    mtp: MtpRows | None
    ngrams: NgramIndex
    prompt_ids: Sequence[int]
    answer_ids: Sequence[int]
    truth: Truth
    num_ids: int
    calibration: Calibration | None = None
    routing: Routing | None = None
    dflash: DflashRows | None = None
    is_recorded: bool = False


def resolve_drafter(
    name: str,
    profile_choice: str,
    *,
    has_mtp: bool,
    has_dflash: bool = False,
    routes: bool = False,
) -> str:
    """The drafter that ``name`` means.

    ``auto`` stays ``auto`` where rounds are routed, unless the profile says ``off``; else it is the
    profile's, if the checkpoint can serve it.

    Args:
        name: one of ``DRAFTERS``.
        profile_choice: what the profile takes ``auto`` for.
        has_mtp: whether the checkpoint has a head.
        has_dflash: whether a DFlash2 drafter is loaded.
        routes: whether the router runs.

    Raises:
        RequestError: the name is unknown, the checkpoint has no head for it, or no drafter is
            loaded.
    """
    if name not in DRAFTERS:
        raise RequestError(f"There is no drafter '{name}'.", nearest(name, DRAFTERS))
    if name == "auto" and routes and profile_choice != "off":
        return name
    if name == "auto":
        lacks = {"auto": True, "mtp": not has_mtp, "dflash2": not has_dflash}
        return "off" if lacks.get(profile_choice, False) else profile_choice
    if name == "mtp" and not has_mtp:
        raise RequestError(
            "The drafter 'mtp' needs the checkpoint's MTP head, and this checkpoint has none.",
            "Take the drafter 'lookup', or 'off'.",
        )
    if name == "dflash2" and not has_dflash:
        raise RequestError(
            "The drafter 'dflash2' has weights of its own, and they are not loaded.",
            "Set draft.dflash_dir to their folder, or draft.drafter to 'dflash2' if they are in "
            "the Hugging Face cache, and start again.",
        )
    return name


def num_proposals(name: str, asked: int | None, profile_limit: int) -> int:
    """Most tokens that a round may propose.

    Args:
        name: of the drafter, resolved.
        asked: by the person; None leaves it to the drafter.
        profile_limit: what the profile allows the MTP head.
    """
    number = USUAL_TOKENS.get(name, USUAL_TOKENS_ELSE) if asked is None else asked
    if name == "mtp":
        number = min(number, MAX_MTP_TOKENS, profile_limit)
    return min(number, MAX_ROWS - 1)


def shape_notice(name: str, shape: str) -> str:
    """What a person who asks for a shape should know; empty when there is nothing to say."""
    if shape == "tree" and name == "mtp":
        return "The MTP head proposes chains: draft.shape 'tree' changes nothing for it."
    return ""


def make_drafter(name: str, shape: str, sources: DraftSources) -> Drafter:
    """Make the drafter of a turn.

    Args:
        name: resolved by ``resolve_drafter``.
        shape: one of ``engine.types.DRAFT_SHAPES``; ``auto`` is a tree where lookup has found
            several continuations, and a chain elsewhere.
        sources: of the turn.

    Raises:
        ValueError: no drafter is made by this name, it has no rows, or ``auto`` no routing.
    """
    if name == "mtp" and sources.mtp is not None:
        return MtpDrafter(sources.mtp)
    if name == "dflash2" and sources.dflash is not None:
        return DflashDrafter(sources.dflash, branches=shape == "tree")
    if name == "lookup":
        return _lookup(shape, sources)
    if name == "auto" and sources.routing is not None and sources.calibration is not None:
        return _routed(shape, sources, sources.routing, sources.calibration)
    if name in SHIFTS:
        return ScriptedDrafter(
            name, sources.truth, sources.num_ids, siblings=shape == "tree",
            foresees=sources.is_recorded,
        )  # fmt: skip
    if name == "off":
        return NoDrafter()
    raise ValueError(f"make_drafter: there is no '{name}' for this turn")


def _lookup(shape: str, sources: DraftSources) -> LookupDrafter:
    return LookupDrafter(
        sources.ngrams, sources.prompt_ids, sources.answer_ids, branches=shape != "chain"
    )


def _routed(
    shape: str, sources: DraftSources, routing: Routing, calibration: Calibration
) -> RoutedDrafter:
    max_steps = min(routing.max_steps, MAX_MTP_TOKENS) if sources.mtp is not None else 0
    max_places = 0
    if sources.dflash is not None and routing.prices.table.block_ms is not None:
        max_places = sources.dflash.num_proposals
    weighing = Weighing(
        prices=routing.prices, calibration=calibration, max_steps=max_steps, max_places=max_places,
        branches=shape != "chain",
    )  # fmt: skip
    return RoutedDrafter(
        Router(weighing), _lookup(shape, sources), sources.mtp, sources.dflash,
        len(sources.prompt_ids), sources.answer_ids,
    )  # fmt: skip
