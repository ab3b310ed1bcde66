"""Times the quantisation of random layers of the 27B on a GPU and projects the whole model.

    scripts/time_quantize.py --tokens 65536 --methods clip,gptq

For each kind of layer: seconds on the device, and what lies outside of it (reading the release,
writing the result) left out. What depends on the calibration grows with its tokens, the rest is
fixed: of fewer tokens than a whole run has, a second run with a quarter of them tells the two
apart. The device's peak is compared with what `qwen38 quantize` states for the same run.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

import torch

from engine.model.config import SHAPES, LayerKind, ModelConfig
from engine.model.random import draw_tensor
from engine.model.rope import RopeTable
from engine.model.tensors import expected_tensors
from engine.quantize.head import quantise_rows
from engine.quantize.layer import Rows, quantise_layer
from engine.quantize.methods import needs_inputs
from engine.quantize.plan import plan_run

WHOLE_TOKENS = 1 << 18
"""What `qwen38 quantize` reads of a text at most, unless it is told otherwise."""

KINDS: tuple[LayerKind, ...] = ("linear_attention", "full_attention")


@dataclass(frozen=True, slots=True)
class Timing:
    """One layer: seconds, the device's peak, and the shares of outputs lost."""

    seconds: float
    peak_bytes: int
    lost: list[float]


def layer_tensors(config: ModelConfig, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Returns a layer's random tensors in BF16 by canonical name."""
    found = {}
    for name, spec in expected_tensors(config).items():
        if name.startswith("layers.0."):
            made = draw_tensor(name, spec, "bf16", config, generator)
            assert isinstance(made, torch.Tensor)
            found[name] = made
    return found


def random_rows(
    config: ModelConfig, sequences: int, tokens: int, generator: torch.Generator
) -> Rows:
    """Returns a residual stream whose channels differ in size, and are mixed, as a model's are."""
    device, width = generator.device, config.hidden_size
    sizes = torch.empty(width, device=device).log_normal_(0.0, 1.0, generator=generator)
    mixing = torch.randn((width // 8, width), device=device, generator=generator).bfloat16()
    rows = []
    for _ in range(sequences):
        hidden = torch.randn((tokens, width // 8), device=device, generator=generator).bfloat16()
        noise = torch.randn((tokens, width), device=device, generator=generator)
        rows.append((((hidden @ mixing).float() * (width // 8) ** -0.5 + noise) * sizes).bfloat16())
    return rows


def time_layer(
    config: ModelConfig, method: str, sequences: int, tokens: int, device: str
) -> Timing:
    """Quantises one random layer."""
    generator = torch.Generator(device=device)
    generator.manual_seed(0)
    tensors = layer_tensors(config, generator)
    rows = random_rows(config, sequences, tokens, generator) if needs_inputs(method) else []
    rope = RopeTable(config, torch.device(device))
    is_gpu = device == "cuda"
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    kind = config.layer_kinds[0]
    found = quantise_layer(config, "layers.0.", kind, tensors, rows, method=method, rope=rope)
    if is_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() if is_gpu else 0
    return Timing(seconds, peak, [loss.output or loss.weight for _, loss in found.values()])


def report(config: ModelConfig, method: str, sequences: int, tokens: int, device: str) -> None:
    """Prints what a method takes: a layer of each kind, and the whole model."""
    total_s = total_few_s = 0.0
    peak, given, few = 0, sequences * tokens, max(1, sequences // 4)
    grows = needs_inputs(method) and few * tokens < given < WHOLE_TOKENS
    for kind in KINDS:
        one = replace(config, layer_kinds=(kind,), num_mtp_layers=0)
        number = config.layer_kinds.count(kind)
        if grows:
            total_few_s += number * time_layer(one, method, few, tokens, device).seconds
        timing = time_layer(one, method, sequences, tokens, device)
        total_s += number * timing.seconds
        peak = max(peak, timing.peak_bytes)
        losses = " ".join(f"{share:.5f}" for share in timing.lost)
        print(
            f"{method:8} {kind:17} {given:>7} tokens {timing.seconds:6.2f} s, peak"
            f" {timing.peak_bytes / 1e9:.2f} GB, lost {losses}",
            flush=True,
        )
    told = f"{method:8} {config.num_layers} layers: {total_s / 60:.1f} min"
    if grows:
        per_token = (total_s - total_few_s) / (given - few * tokens)
        whole_s = total_s + per_token * (WHOLE_TOKENS - given)
        told += f"; with {WHOLE_TOKENS:,} tokens {whole_s / 60:.1f} min"
    stated = plan_run(config, method, given if needs_inputs(method) else 0, tokens).device
    verdict = "ok" if peak <= stated else "MORE THAN STATED"
    print(f"{told}; peak {peak / 1e9:.2f} GB, stated {stated / 1e9:.2f} GB {verdict}", flush=True)


def time_head(config: ModelConfig, device: str) -> None:
    """Prints what the head takes."""
    weight = torch.randn(
        (config.vocab_size, config.hidden_size), device=device, dtype=torch.bfloat16
    )
    start = time.perf_counter()
    _, lost = quantise_rows(weight)
    print(
        f"head     {time.perf_counter() - start:.2f} s, lost {lost:.6f} of its squared weights",
        flush=True,
    )


def main() -> None:
    """Times every method that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="27b")
    parser.add_argument("--methods", default="nearest,clip,gptq")
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    given = parser.parse_args()
    config = SHAPES[given.shape]
    sequences = max(1, given.tokens // given.sequence)
    start = time.perf_counter()
    for kind in KINDS:  # kernels compile and libraries start before anything is timed
        one = replace(SHAPES["demo"], layer_kinds=(kind,), num_mtp_layers=0)
        time_layer(one, "gptq", 1, 128, given.device)
    print(f"warm after {time.perf_counter() - start:.1f} s", flush=True)
    time_head(config, given.device)
    for method in given.methods.split(","):
        report(config, method, sequences, given.sequence, given.device)


if __name__ == "__main__":
    main()
