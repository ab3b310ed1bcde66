"""Quantises the demo by every method and compares them on exchanges that no calibration saw.

Output error: for each layer, given the rows of the original model, the squared error of what it
adds over what it adds; summed over the layers. Loss: nats a token, with the interval of 95 % of the
difference over the texts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from calibration import exchanges

from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.decoder import Model
from engine.model.loading import load_model
from engine.model.rope import RopeTable
from engine.profile import profile_folder
from engine.quantize.calibration import Calibration
from engine.quantize.layer import Rows, pass_layer
from engine.quantize.methods import METHODS
from engine.quantize.prepare import Options, prepare
from engine.quantize.rows import embedded
from engine.quantize.run import quantize
from engine.quantize.source import EMBEDDING, read_part
from engine.text.tokenizer import Tokenizer

DEMO = profile_folder() / "demo"
SEQUENCE = 384
CPU = torch.device("cpu")


def texts(*, held_out: bool) -> list[tuple[int, ...]]:
    """Returns whole token sequences of exchanges."""
    tokenizer = Tokenizer.load(DEMO, read_config(DEMO).vocab_size)
    ids = tokenizer.encode(exchanges(held_out=held_out), control=True)
    return [tuple(ids[at : at + SEQUENCE]) for at in range(0, len(ids) - SEQUENCE, SEQUENCE)]


def distance(some: Rows, others: Rows) -> float:
    """Returns the sum of squared differences."""
    pairs = zip(some, others, strict=True)
    return sum(float((a.float() - b.float()).square().sum()) for a, b in pairs)


def output_error(folder: Path, rows: Rows) -> float:
    """Returns the layers' output errors on rows of the original, summed."""
    config = read_config(DEMO)
    original, changed = (open_checkpoint(one, config) for one in (DEMO, folder))
    rope, total = RopeTable(config, CPU), 0.0
    for index, kind in enumerate(config.layer_kinds):
        right, wrong, part = list(rows), list(rows), f"layers-{index}"
        place = (config, f"layers.{index}.", kind)
        pass_layer(*place, read_part(original, part, CPU), right, rope)
        pass_layer(*place, read_part(changed, part, CPU), wrong, rope)
        total += distance(right, wrong) / distance(right, rows)
        rows = right
    return total


def losses(model: Model, held_out: list[tuple[int, ...]]) -> torch.Tensor:
    """Returns the mean loss a token of each text."""
    found = []
    for ids in held_out:
        hidden = model.prefill(ids, model.new_state(len(ids)))
        scores = torch.cat([model.logits(hidden[at : at + 64]) for at in range(0, len(ids), 64)])
        chosen = scores.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])
        found.append(-chosen.double().mean())
    return torch.stack(found)


def main() -> None:
    """Prints a row for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=16_384, help="of the calibration")
    given = parser.parse_args()
    held_out = texts(held_out=True)
    before = losses(load_model(DEMO), held_out)
    print(f"{len(held_out)} texts of {SEQUENCE} tokens, loss {float(before.mean()):.4f}")
    embedding = read_part(open_checkpoint(DEMO, read_config(DEMO)), EMBEDDING, CPU)
    rows = embedded(Calibration("", "", tuple(held_out)), embedding["embed_tokens.weight"], CPU)
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "exchanges.txt"
        text.write_text(exchanges(held_out=False), "utf-8")
        for method in METHODS:
            out = Path(place) / method
            options = Options(method, text, given.tokens, SEQUENCE)
            manifest = quantize(prepare(DEMO, out, options), lambda _: None)
            more = losses(load_model(out), held_out) - before
            interval = 1.96 * float(more.std()) / len(more) ** 0.5
            seconds = sum(one.seconds for one in manifest.parts.values())
            print(
                f"{method:8} output error {output_error(out, list(rows)):.4f}"
                f"  loss {float(more.mean()):+.4f} +- {interval:.4f} nats  {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
