"""Compares prompts read by FP8 operands with prompts read in BF16.

Both sides hold the same packed weights. A CPU computes in plain torch what a GPU's kernels compute.
Without a model the demo is taken, rounded to NVFP4, and exchanges that no training saw; for a whole
model on a GPU there is `qwen38 quality --candidate-set kernels.prefill=fp8`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from calibration import exchanges

from engine.model.config_file import read_config
from engine.model.decoder import Model
from engine.model.loading import load_model
from engine.model.packing import Launching, Packer
from engine.profile import profile_folder
from engine.quality.forced import (
    Comparison,
    Expectation,
    Reading,
    compare_text,
    expect_text,
    windows_of,
)
from engine.quality.texts import Text, read_text
from engine.quality.verdict import TextFigures, figures_of
from engine.quantize.prepare import Options, prepare
from engine.quantize.run import quantize
from engine.text.tokenizer import Tokenizer

DEMO = profile_folder() / "demo"
HOPPER = (9, 0)
"""Whose crossovers say on a CPU how many rows are worth FP8 operands."""


def opened(folder: Path, device: str, *, fp8: bool) -> Model:
    """Returns a model whose layers run by the kernels, on a CPU by their torch builds."""
    capability = HOPPER if device == "cpu" else torch.cuda.get_device_capability()
    launching = Launching(capability, graphs=False, fp8_prefill=fp8)
    return load_model(folder, device=device, packer=Packer(launching))


def compared(folder: Path, text: Text, device: str, window: int, num_tokens: int) -> TextFigures:
    """Returns what FP8 operands change of a text, read in windows from empty states."""
    tokenizer = Tokenizer.load(folder, read_config(folder).vocab_size)
    ids = tokenizer.encode(text.body, control=True)[:num_tokens]
    reading = Reading(windows_of(ids, window), tokenizer.num_ids)

    def expected() -> Expectation:
        model = opened(folder, device, fp8=False)
        return expect_text(model, model.new_state(window), reading, lambda _: None)

    def found() -> Comparison:
        model = opened(folder, device, fp8=True)
        return compare_text(model, model.new_state(window), reading, before, lambda _: None)

    before = expected()
    return figures_of(text, before, found())


def told(one: TextFigures) -> str:
    """Returns the figures in a line."""
    half = one.difference.half
    return (
        f"{one.num_tokens:,} tokens of {one.name}: loss {one.reference_loss:.4f}, "
        f"{one.difference.mean:+.4f} +- {half:.4f} nats; KL {one.divergence:.5f}, 99 % "
        f"{one.worst_divergence:.4f}; same first choice {one.agreement:.2%}, where sure "
        f"{one.confident_agreement:.2%} of {one.num_confident:,}"
    )


def main() -> None:
    """Prints the figures of one model and text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of a checkpoint; else the demo in NVFP4")
    parser.add_argument("--text", type=Path, help="else exchanges that no training saw")
    parser.add_argument("--window", type=int, default=512, help="tokens read from an empty state")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    text = read_text(given.text) if given.text else Text("exchanges", exchanges(held_out=True))
    with tempfile.TemporaryDirectory() as place:
        folder = given.model
        if folder is None:
            folder = Path(place) / "nvfp4"
            quantize(prepare(DEMO, folder, Options("nearest", None, 0, 32)), lambda _: None)
        began_s = time.monotonic()
        figures = compared(folder, text, given.device, given.window, given.tokens)
        print(f"{told(figures)}; {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
