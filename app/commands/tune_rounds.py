"""``qwen38 tune --family rounds``: what rounds cost on this machine, for the router of drafts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from app.commands.bench_figures import heading, parse_numbers
from app.known_profiles import known_profiles
from app.report import say
from app.streams import write_lines
from engine.locate import choose
from engine.model.config import ModelConfig, config_of_shape
from engine.model.config_file import read_config
from engine.profile import Profile, kv_format_of
from engine.settings.declared import Settings
from engine.sizes import counted

if TYPE_CHECKING:  # both load torch
    from engine.draft.price_table import PriceTable
    from engine.tune.rounds import Asked, Measured

FAMILY = "rounds"
"""What ``--family`` calls the prices of rounds, which are no family of kernels."""

USUAL_PROFILE = "fp8"
"""Whose formats a shape is drawn in where no profile is set."""


def what_to_price(
    settings: Settings, shape: str | None, rows: str | None, context: str | None
) -> "Asked":
    """Which rounds shall be measured; refused here, before anything is.

    Args:
        settings: which model, on which device.
        shape: random weights of this shape, in the profile's formats; None is the model that a chat
            would open, whose sizes and formats are drawn.
        rows: numbers between commas; None are the usual ones.
        context: the same of positions before the rounds.

    Raises:
        RequestError: the shape, a number of rows or a context is not to be had.
    """
    from engine.compute_path import choose_compute_path
    from engine.machine.device import choose_device
    from engine.tune.rounds import USUAL, WALKED, Asked, contexts_of, expect_sound

    name, config, profile = _model(settings, shape)
    device = choose_device(settings.model.device)
    path = choose_compute_path(settings, device)
    usual = USUAL if path.is_packed else WALKED
    contexts = tuple(parse_numbers("--context", context)) if context else ()
    asked = Asked(
        name, config, profile, device,
        contexts or contexts_of(config, settings.model.context_tokens, usual),
        tuple(parse_numbers("--rows", rows)) if rows else usual.rows,
        _command(shape, profile.name),
        kv_format_of(profile, settings),
        settings.model.threads,
    )  # fmt: skip
    expect_sound(asked)
    return asked


def tune_rounds(settings: Settings, asked: "Asked", *, dry_run: bool) -> None:
    """Measure, print and write what rounds cost.

    Args:
        settings: where tables lie, and which kernels run.
        asked: which rounds, from `what_to_price`.
        dry_run: write nothing.
    """
    from engine.compute_path import choose_compute_path
    from engine.tune.rounds import measure_rounds

    path = choose_compute_path(settings, asked.device)
    found = measure_rounds(asked, path, settings.data_dir, dry_run=dry_run, progress=say)
    for notice in found.facts["notices"]:
        say(notice)
    write_lines(_lines(found))


def _model(settings: Settings, shape: str | None) -> tuple[str, ModelConfig, Profile]:
    if shape is not None:
        name = settings.model.profile or USUAL_PROFILE
        return shape, config_of_shape(shape), known_profiles(settings, name)[name]
    choice = choose(settings, known_profiles(settings, settings.model.profile))
    return str(choice.named), read_config(choice.path), choice.profile


def _command(shape: str | None, profile: str) -> str:
    drawn = f" --shape {shape}" if shape else ""
    return f"qwen38 tune --family {FAMILY}{drawn} --profile {profile}"


def _lines(found: "Measured") -> Iterator[str]:
    from engine.tune.rounds import NUM_PASSES, ROUNDS_A_PASS

    facts: dict[str, Any] = found.facts
    what = f"random weights; medians of {NUM_PASSES * ROUNDS_A_PASS} rounds of each kind"
    yield from heading(facts, what)
    yield from _staircase(found.table)
    if found.table.steps:
        pairs = zip(found.table.steps, found.table.draft_ms, strict=True)
        drafts = (f"{counted(steps, 'step')} {ms:.3f} ms" for steps, ms in pairs)
        yield f"drafts of the MTP head: {', '.join(drafts)}"
    yield ""
    if found.path is None:
        yield "Nothing was written (--dry-run)."
        return
    yield f"Written to {found.path}; it serves from the next start on."
    if found.backup is not None:
        yield f"The table before is {found.backup}."


def _staircase(table: "PriceTable") -> Iterator[str]:
    """Milliseconds of a verify: a column for each context, a line for each kind of round."""
    yield f"{'verify ms, behind':<20}" + "".join(f"{one:>10,}" for one in table.context_tokens)
    for shape, ladders in (("chain", table.chain_ms), ("tree", table.tree_ms)):
        for at, rows in enumerate(table.rows):
            if shape == "chain" or rows > 2:  # two rows are always a chain
                figures = "".join(f"{ladder[at]:>10.3f}" for ladder in ladders)
                yield f"{shape:<6}{counted(rows, 'row', '>3'):<17}{figures}"
