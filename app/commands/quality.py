"""``qwen38 quality``: whether a candidate's weights may take the place of a reference's."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands import options
from app.commands.bench_figures import write_figures
from app.interrupt import StopOnSignal
from app.opening import Plan, plan
from app.output_file import check_output
from app.report import FAILED, OK, say
from app.streams import LoadLine, write_data
from engine.errors import RequestError
from engine.settings.environment import expanded

if TYPE_CHECKING:
    from engine.quality.gate import Judged
    from engine.quality.texts import Sample

STDOUT = Path("-")
"""Where ``--json`` writes when it names no file."""


def quality(
    model: options.Model = None,
    candidate: Annotated[
        str | None,
        typer.Option(help="Folder of the candidate; without it the reference's.", metavar="DIR"),
    ] = None,
    profile: options.Profile = None,
    candidate_profile: Annotated[
        str | None, typer.Option(help="Weight profile of the candidate.", metavar="NAME")
    ] = None,
    candidate_sets: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate-set",
            help="A setting of the candidate alone, such as model.kv=fp8 or kernels.prefill=fp8.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    *,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="Your own text, UTF-8; may be repeated. Without it two that ship.", metavar="FILE"
        ),
    ] = None,
    talks: Annotated[
        list[Path] | None,
        typer.Option(help="Your own exchanges, lines 'Q: ' and 'A: '.", metavar="FILE"),
    ] = None,
    answer_tokens: Annotated[
        int, typer.Option(help="Longest free answer; 0 writes none.", metavar="N", min=0)
    ] = 900,
    window: Annotated[
        int,
        typer.Option(
            help="Tokens of a text that are read from an empty state.", metavar="N", min=1
        ),
    ] = 1024,
    count_casts: Annotated[
        bool, typer.Option("--count-casts", help="Count e4m3 saturations while reading (slow).")
    ] = False,
    device: options.Device = None,
    file: Annotated[
        Path | None,
        typer.Option("--json", help="Write JSON to FILE; bare, to stdout.", metavar="[FILE]"),
    ] = None,
    sets: options.Sets = None,
) -> int:
    """Compare other weights, or other settings, with a model's.

    Held-out loss on prose and code (of the demo: on simple exchanges), how often both choose the
    same token, and repetition in free answers. The report is Markdown on stdout. Exit code 0 when
    every text shows that the loss rises by no more than 0.05 nats, with its whole interval of 95 %,
    and the candidate does not go round in circles alone; else 1: failed, or not decided.
    """
    if candidate is None and candidate_profile is None and not candidate_sets:
        raise RequestError(
            "There is no candidate.",
            "Give its folder with --candidate, or --candidate-profile, or --candidate-set.",
        )
    if file is not None and file != STDOUT:
        check_output("--json", file)
    first = _plan(model, profile, device, sets)
    has_own_weights = candidate is not None
    if candidate is None:
        candidate, candidate_profile = model, candidate_profile or profile
    names = list(options.as_settings({}, candidate_sets, "--candidate-set"))
    own_sets = [*(sets or ()), *(candidate_sets or ())]
    second = _plan(candidate, candidate_profile, device, own_sets)
    from engine.quality.comparable import expect_another, expect_computing

    expect_computing(names)
    if not has_own_weights and first.choice.profile == second.choice.profile:
        expect_another(names, (first.choice, first.settings), (second.choice, second.settings))
    from engine.quality.gate import judge
    from engine.quality.side import Source

    loading = LoadLine()
    with StopOnSignal() as interrupt:
        try:
            judged = judge(
                Source(first.choice, first.settings),
                Source(second.choice, second.settings),
                _texts(text, talks, is_demo=first.choice.is_demo),
                answer_tokens=answer_tokens,
                window_tokens=window,
                progress=say,
                stop=interrupt.stop,
                on_load=loading,
                count_casts=count_casts,
            )
        finally:
            loading.clear()
    _report(judged, file)
    return OK if judged.verdict.passed else FAILED


def _texts(
    text: list[Path] | None, talks: list[Path] | None, *, is_demo: bool
) -> "tuple[Sample, ...]":
    """The person's own texts, else those that ship."""
    from engine.quality.texts import read_talks, read_text, texts_for

    own = [read_text(expanded(one)) for one in text or ()]
    own_talks = [read_talks(expanded(one)) for one in talks or ()]
    return (*own, *own_talks) or texts_for(is_demo=is_demo)


def _report(judged: "Judged", file: Path | None) -> None:
    """Markdown on stdout, or JSON where ``file`` says so."""
    from engine.quality.report import as_json, as_markdown

    if file == STDOUT:
        write_data(json.dumps(as_json(judged)) + "\n")
        return
    write_data(as_markdown(judged))
    if file is not None:
        write_figures(file, as_json(judged))


def _plan(
    model: str | None, profile: str | None, device: str | None, sets: list[str] | None
) -> Plan:
    given: dict[str, object] = {
        "model.dir": model,
        "model.profile": profile,
        "model.device": device,
    }
    return plan(options.as_settings(given, sets))
