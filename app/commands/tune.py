"""``qwen38 tune``: the launch tiles that are fastest on this GPU, and what rounds cost on it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands import options
from app.commands.tune_rounds import FAMILY, tune_rounds, what_to_price
from app.known_profiles import known_profiles
from app.report import OK, say
from app.streams import write_lines
from engine.errors import EngineError, RequestError
from engine.locate import choose
from engine.model.config import SHAPES, ModelConfig
from engine.settings.declared import Settings
from engine.settings.load import load_settings

if TYPE_CHECKING:  # both load torch
    from engine.tune.entries import Outcome
    from engine.tune.run import Tuning

SECONDS = 600
"""How long tiles are swept where nobody says how long."""

MAX_DROPPED_SHOWN = 12
"""Refused tiles that are spelled out: a family may refuse many for one reason."""


def tune(
    family: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this family of kernels, or '{FAMILY}': what rounds cost. May be repeated.",
            metavar="NAME",
        ),
    ] = None,
    seconds: Annotated[
        int | None,
        typer.Option(help="Stop the sweep of tiles after this long; 600.", metavar="N", min=1),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    model: options.Model = None,
    profile: options.Profile = None,
    shape: Annotated[
        str | None,
        typer.Option(help=f"{FAMILY}: 27b or demo, in the profile's formats.", metavar="NAME"),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help=f"{FAMILY}: of a round, such as 1,4,16.", metavar="N,...")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help=f"{FAMILY}: tokens before them, such as 1024,8192.", metavar="N,..."),
    ] = None,
) -> int:
    """Find the fastest tiles for this GPU, or what rounds cost on it.

    Sweeps the shapes of the 27B and of your model. A tile is kept only when it changes no bit; the
    table is used from the next start on. With '--family rounds', rounds of your model's sizes are
    timed with random weights, and drafts are weighed by the prices that were measured.
    """
    names = [one for one in family or () if one != FAMILY]
    with_rounds = FAMILY in (family or ())
    if not with_rounds and (shape or rows or context):
        raise RequestError(
            "--shape, --rows and --context are of what rounds cost.",
            f"Write --family {FAMILY} beside them.",
        )
    with_tiles = bool(names) or not with_rounds
    if seconds is not None and not with_tiles:
        raise RequestError("--seconds is of the sweep of tiles.", "Leave it out: rounds end alone.")
    given: dict[str, object] = {"model.dir": model, "model.profile": profile}
    settings, _ = load_settings(options.as_settings(given, None))
    asked = what_to_price(settings, shape, rows, context) if with_rounds else None
    if with_tiles:
        _tune_tiles(settings, names, seconds or SECONDS, dry_run=dry_run)
    if asked is not None:
        tune_rounds(settings, asked, dry_run=dry_run)
    return OK


def _tune_tiles(settings: Settings, names: list[str], seconds: int, *, dry_run: bool) -> None:
    from engine.check.families import choose_families, sizes_of
    from engine.compute_path import ready_kernels
    from engine.doctor import has_cuda
    from engine.tune import run as tuning

    families = choose_families(names or None, [FAMILY])
    if not has_cuda():
        raise RequestError(
            "There is no CUDA device here, and tiles are measured on the GPU that they serve.",
            "Run it on the machine with the GPU.",
        )
    if said := ready_kernels(settings.kernels, "cuda"):
        say(said)
    found = tuning.tune(
        families,
        [sizes_of(*one) for one in _models(settings)],
        tuning.this_gpu(settings.data_dir),
        seconds=seconds,
        dry_run=dry_run,
        progress=say,
    )
    write_lines(_table(found, dry_run=dry_run))


def _models(settings: Settings) -> list[tuple[str, ModelConfig, Sequence[str]]]:
    """The model that a chat would open, in the formats of its files, and the 27B in 4 and 8 bits.

    The demo comes last where nobody asked for it.
    """
    from engine.check.families import USUAL_FORMATS
    from engine.explained_model import formats_in, subject_of_checkpoint

    models: list[tuple[str, ModelConfig, Sequence[str]]] = [("27b", SHAPES["27b"], USUAL_FORMATS)]
    try:
        choice = choose(settings, known_profiles(settings))
        own = subject_of_checkpoint(choice.path, choice.overlay)
        matters = not choice.is_demo or bool(settings.model.dir or settings.model.profile)
        place = 0 if matters else len(models)
        models.insert(place, (choice.profile.name, own.config, formats_in(own)))
    except EngineError as problem:
        if settings.model.dir or settings.model.profile:
            raise
        say(f"Only the shapes of the 27B are tuned: {problem.message}")
    return models


def _table(found: "Tuning", *, dry_run: bool) -> Iterator[str]:
    width = max((len(one.entry.label) for one in found.outcomes), default=0) + 2
    yield f"{'family':<10}{'entry':<{width}}{'timed':>6}{'before us':>24}{'after us':>24}  gain"
    for one in found.outcomes:
        before, after = _times(one.before_us), _times(one.us)
        change = f"{one.gain:.1%}  {one.tile}" if one.is_changed else "kept"
        name = f"{one.entry.family.name:<10}{one.entry.label:<{width}}"
        yield f"{name}{one.num_timed:>6}{before:>24}{after:>24}  {change}"
    yield ""
    yield from _refused(found.outcomes)
    if found.unreached:
        yield _unreached(found)
    yield from _written(found, dry_run=dry_run)


def _unreached(found: "Tuning") -> str:
    """Say how much is left, and what would come next."""
    left, total = len(found.unreached), len(found.unreached) + len(found.outcomes)
    return (
        f"The time did not reach {left} of {total} entries, the first of them "
        f"{found.unreached[0]}; give more --seconds."
    )


def _refused(outcomes: "list[Outcome]") -> Iterator[str]:
    refused = [(one, tile, why) for one in outcomes for tile, why in one.dropped]
    for one, tile, why in refused[:MAX_DROPPED_SHOWN]:
        first = why.split("\n")[0][:160]
        yield f"refused for {one.entry.label}: {tile}: {first}"
    if len(refused) > MAX_DROPPED_SHOWN:
        yield f"and {len(refused) - MAX_DROPPED_SHOWN} more were refused."


def _written(found: "Tuning", *, dry_run: bool) -> Iterator[str]:
    if not any(one.is_changed for one in found.outcomes):
        yield "Nothing is faster than the present tiles; no table was written."
    elif dry_run:
        yield "Nothing was written (--dry-run)."
    for path in found.written:
        yield f"Written to {path}; it serves from the next start on."
    for path in found.backups:
        yield f"The table before is {path}."


def _times(us: tuple[float, ...]) -> str:
    shown = [f"{one:.2f}" for one in us[:3]]
    return ", ".join(shown) + (", ..." if len(us) > 3 else "")
