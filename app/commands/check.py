"""``qwen38 check``: every kernel against its reference on this machine."""

import sys
from typing import Annotated

import typer

from app.report import FAILED, OK, say
from app.streams import is_terminal, write_lines
from app.visible import visible_line
from engine.errors import RequestError, did_you_mean
from engine.settings.load import load_settings

DEVICES = ("auto", "cpu", "cuda")


def check(
    family: Annotated[
        list[str] | None,
        typer.Option(help="Only this family, such as linear; may be repeated.", metavar="NAME"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.", metavar="NAME")] = "auto",
) -> int:
    """Check every kernel against its reference.

    Exit code 1 when one is red.
    """
    if device not in DEVICES:
        raise RequestError(
            f"--device is '{device}', expected one of {', '.join(DEVICES)}.",
            did_you_mean(device, DEVICES),
        )
    settings, _ = load_settings()
    from engine.check import run as checks
    from engine.check.families import choose_families
    from engine.compute_path import ready_kernels
    from engine.doctor import has_cuda

    if device == "cuda" and not has_cuda():
        raise RequestError("There is no CUDA device here.", "Use --device cpu.")
    chosen = "cuda" if device == "cuda" or (device == "auto" and has_cuda()) else "cpu"
    if said := ready_kernels(settings.kernels, chosen):
        say(said)
    names = [one.name for one in choose_families(family)] if family else None
    counter = _Counter()
    try:
        report = checks.run_checks(
            names, chosen, lambda found: counter.step(found.family), counter.show
        )
    finally:
        counter.clear()
    write_lines(checks.render(report).split("\n"))
    return OK if report.ok and report.findings else FAILED


class _Counter:
    """How many proofs are done, on one line of stderr that rewrites itself."""

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)
        self._num = 0

    def step(self, family: str) -> None:
        self._num += 1
        self.show(family)

    def show(self, family: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r{self._num} proofs, {visible_line(family, 20)}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
