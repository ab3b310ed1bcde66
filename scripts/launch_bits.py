#!/usr/bin/env python3
"""Prove that a round's bits are those of the GPU, not of its launch choices.

`scripts/launch_bits.py --profile nvfp4` draws the 27B twice, in two processes at one time: one
launches as this GPU does, one rehearses a GB10. Both decode from an empty state, token by token,
then in rounds of several rows, chains and trees. Logits must be equal, bit for bit. Prompts are not
read: how they are added up is each GPU's own (kernels/delta/README.md). Exit status 1 when any
differs.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial

import torch

from engine.bench.model import draw_model
from engine.bench.replay import Replay, Replayed
from engine.compute_path import choose_compute_path
from engine.model.config import config_of_shape
from engine.model.decoder import Model
from engine.model.state import State
from engine.profile import get_profile, load_profiles
from engine.settings.declared import KernelSettings, Settings
from engine.warm_up import compile_rounds
from kernels.attention.kv_codes import KvScales
from kernels.common import gpu

ROUNDS = 3
"""Rounds of each kind."""

SCALE = 2.0**-4
"""Of keys and values in 8 bits: calibration reads prompts."""


def main() -> int:
    """Run both processes and compare, or be one of them."""
    arguments = _arguments()
    if arguments.launches:
        print(json.dumps(_digests(arguments)))
        return 0
    own, other = (json.loads(out) for out in _both())
    faults = [name for name in own if own[name] != other[name]]
    for name, digest in own.items():
        print(f"{name:<16}{digest[:16]}  {'OTHER BITS' if name in faults else 'equal'}")
    print(f"{len(own)} kinds of rounds, {len(faults)} that differ")
    return 1 if faults or len(own) != len(other) else 0


def _both() -> list[str]:
    """What this script prints with this GPU's launches and with a GB10's."""
    command = [sys.executable, __file__, *sys.argv[1:], "--launches"]
    ways = [
        subprocess.Popen([*command, one], stdout=subprocess.PIPE, text=True)
        for one in ("auto", gpu.GB10.name)
    ]
    found = [one.communicate()[0] for one in ways]
    if any(one.returncode for one in ways):
        sys.exit("One of the two processes failed.")
    return found


def _digests(arguments: argparse.Namespace) -> dict[str, str]:
    """The logits of each kind of round, hashed, by its name."""
    settings = Settings(kernels=KernelSettings(launches=arguments.launches))
    path = choose_compute_path(settings, "cuda")
    profile = get_profile(arguments.profile, load_profiles())
    num_rows = [int(one) for one in arguments.rows.split(",")]
    num_tokens = arguments.context + ROUNDS * max(num_rows) + 1
    say = partial(print, f"{arguments.launches}:", file=sys.stderr, flush=True)
    model = draw_model(
        arguments.shape, config_of_shape(arguments.shape), profile, path, device="cuda",
        num_tokens=num_tokens, smaller="a shorter --context", progress=say,
    ).model  # fmt: skip
    if arguments.kv == "fp8":
        config = model.config
        shape = (2, config.num_attention_layers, config.num_kv_heads)
        model.kv_scales = KvScales(*torch.full(shape, SCALE, device=model.device))
    model.prefill = partial(_decoded, model)
    say("compiling products")
    compile_rounds(model, num_rows)
    say("decoding")
    verifier = path.new_verifier(model)
    replay = Replay(model, arguments.context, num_tokens)
    replay.decode(verifier)
    found = {"tokens": _hashed([torch.tensor(replay.truth)])}
    for rows in num_rows:
        rounds = replay.rounds(verifier, rows, ROUNDS, keeps_logits=True)
        found[f"{rows} rows"] = _hashed(map(_logits, rounds))
        say(f"rounds of {rows} rows")
        if rows > 2:
            trees = replay.tree_rounds(verifier, rows, ROUNDS)
            found[f"{rows} rows, trees"] = _hashed(map(_hidden, trees))
    return found


def _decoded(
    model: Model, ids: Sequence[int], state: State, *, chunk_tokens: int | None = None
) -> torch.Tensor:
    """Read a context by single steps, in the place of chunks."""
    del chunk_tokens
    return torch.cat([model.step(one, state) for one in ids])


def _logits(one: Replayed) -> torch.Tensor:
    logits = one.proven("A round").verified.logits
    assert logits is not None
    return logits


def _hidden(one: Replayed) -> torch.Tensor:
    return one.proven("A tree").verified.hidden


def _hashed(tensors: Iterable[torch.Tensor]) -> str:
    """One digest of tensors that come, each as it comes: the next round may take its place."""
    joined = hashlib.sha256()
    for one in tensors:
        joined.update(one.contiguous().cpu().view(torch.uint8).numpy().data)
    return joined.hexdigest()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="27b")
    parser.add_argument("--profile", default="nvfp4", help="formats of the weights")
    parser.add_argument("--kv", choices=("bf16", "fp8"), default="bf16")
    parser.add_argument("--context", type=int, default=300, help="tokens before the rounds")
    parser.add_argument("--rows", default="1,2,4,8,16,24,32")
    parser.add_argument("--launches", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
