"""``qwen38 quantize``: NVFP4 weights and an 8-bit head from a BF16 or FP8 release."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands import options
from app.own_command import own_command
from app.paragraph import paragraph
from app.report import OK, say
from app.streams import write_data
from engine.errors import RequestError
from engine.settings.load import load_settings
from engine.sizes import counted, size_text

if TYPE_CHECKING:  # all of them load torch
    from engine.quantize.manifest import Manifest
    from engine.quantize.prepare import Prepared
    from engine.quantize.run import PartEnded

HELP = """Make NVFP4 weights from a BF16 or FP8 release.

SRC is the folder of the release, or OWNER/NAME of one in the Hugging Face cache. OUT is a new
folder that 'qwen38 run --model OUT' opens afterwards.

\b
--method says how each weight is rounded to 4 bits:
  nearest  to the nearest value; needs no text and little time
  clip     with the scale of each 16 weights that loses least, as a text's inputs weigh it
  gptq     the same, and each weight makes good what rounding those before it lost

A text is read through the layers while they are quantised: one that ships, or your own with
--calibration. The head becomes 8-bit with a scale a row; embedding, norms, convolutions and other
small tensors stay as they are.

Stopped at any moment, it goes on where it was when you give the same command again. Finished layers
are files in OUT; quantize.json there says what they were made of and what each matrix lost."""


def quantize(
    source: Annotated[Path, typer.Argument(help="Folder of the release.", metavar="SRC")],
    out: Annotated[Path, typer.Argument(help="Folder of the result.", metavar="OUT")],
    method: Annotated[str, typer.Option(help="nearest, clip or gptq.", metavar="NAME")] = "gptq",
    calibration: Annotated[
        Path | None,
        typer.Option(help="Text in UTF-8; the one that ships when left out.", metavar="FILE"),
    ] = None,
    tokens: Annotated[
        int, typer.Option(help="Most tokens of the text that are read.", metavar="N", min=256)
    ] = 1 << 18,
    sequence: Annotated[
        int, typer.Option(help="Tokens read from one empty state.", metavar="N", min=32)
    ] = 2048,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; write nothing.")
    ] = False,
    device: options.Device = None,
) -> int:
    """Make NVFP4 weights; `HELP` is what a person reads."""
    settings, _ = load_settings(options.as_settings({"model.device": device}, None))
    from engine.machine.device import choose_device
    from engine.quantize.methods import needs_inputs
    from engine.quantize.prepare import Options, prepare

    if calibration is not None and not needs_inputs(method):
        raise RequestError(
            f"--calibration is given and --method {method} reads no text.",
            "Leave one of them out: clip and gptq read it.",
        )
    chosen = choose_device(settings.model.device)
    given = Options(method, calibration, tokens, sequence, chosen)
    prepared = prepare(source, out, given)
    if prepared.calibration is not None:
        text = prepared.calibration
        num = len(text.sequences)
        say(f"{text.name}: {text.num_tokens:,} tokens in {counted(num, 'sequence')}.")
    say(prepared.plan.told(chosen))
    if dry_run:
        say("Nothing was written (--dry-run).")
        return OK
    manifest = _run(prepared)
    write_data("\n".join(_summary(manifest, source, out)) + "\n")
    return OK


def _run(prepared: "Prepared") -> "Manifest":
    """Quantise what was prepared, with a line for each part."""
    from engine.quantize.run import quantize as run

    say(f"First the source is hashed, {size_text(prepared.checkpoint.num_bytes)}.")
    peak_bytes = 0

    def show(part: "PartEnded") -> None:
        nonlocal peak_bytes
        peak_bytes = part.peak_bytes
        say(_line(part))

    try:
        manifest = run(prepared, show)
    except KeyboardInterrupt:
        say("Finished layers are kept: give the same command again to go on.")
        raise
    if peak_bytes:
        say(f"The GPU held {size_text(peak_bytes)} at most.")
    return manifest


def _line(part: "PartEnded") -> str:
    """A part in one line: how far, what was lost, and how long it will go on."""
    said = f"{part.num_done:>3} of {part.num_parts}  {part.name:<12}"
    if part.was_there:
        return f"{said}was there"
    said += f"{part.seconds:7.1f} s"
    if part.losses:
        lost = part.losses.values()
        worst = max(one.weight if one.output is None else one.output for one in lost)
        said += f"  worst matrix loses {worst:.2%}"
    return said if part.seconds_left is None else f"{said}  about {_span(part.seconds_left)} left"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _summary(manifest: "Manifest", source: Path, out: Path) -> Iterator[str]:
    losses = [one for part in manifest.parts.values() for one in part.matrices.items()]
    yield f"{'matrices':<22}{'number':>8}{'weights lost':>14}{'outputs lost':>14}"
    kinds = dict.fromkeys(name.split(".")[-2] for name, _ in losses)
    for kind in kinds:
        of_kind = [loss for name, loss in losses if name.split(".")[-2] == kind]
        weight = sum(one.weight for one in of_kind) / len(of_kind)
        outputs = [one.output for one in of_kind if one.output is not None]
        output = f"{sum(outputs) / len(outputs):.3%}" if outputs else "-"
        yield f"{kind:<22}{len(of_kind):>8}{weight:>14.3%}{output:>14}"
    seconds = sum(part.seconds for part in manifest.parts.values())
    size = sum(part.num_bytes for part in manifest.parts.values())
    yield ""
    yield from paragraph(
        "Shares of squared sums: what the layers' weights, and their outputs on the text, lost."
    )
    how = f"from {source} by {manifest.recipe.method}"
    yield f"{out}: {size_text(size)} in {_span(seconds)}, {how}."
    command, source_there, there = own_command(), quote(str(source)), quote(str(out))
    yield f'Try it with:   {command} run --model {there} "hello"'
    yield f"Judge it with: {command} quality --model {source_there} --candidate {there}"
