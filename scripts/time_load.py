"""Time a load at the 27B's widths: writes a checkpoint in the layout of the FP8 release, loads it.

Prints bytes a second and what the process holds beside page cache and device: `RssAnon` of
/proc/self/status, sampled every 5 ms. A second copy of the weights in RAM would show there.

    python scripts/time_load.py --gb 8 --device cuda
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.compute_path import ComputePath, choose_compute_path
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.config import SHAPE_27B, ModelConfig, hybrid_layers
from engine.model.config_file import read_config
from engine.model.generation import Generation
from engine.model.loading import load_weights
from engine.model.tensors import TensorSpec, expected_tensors
from engine.settings.load import load_settings
from engine.types import Sampling
from tests.engine.model.checkpoints import config_fields

VOCABULARY = 32_768
"""Rows of embedding and head: the 27B's own would be 5 of the 8 GB."""


def sized(gigabytes: float) -> ModelConfig:
    """The 27B with as many layers, in whole groups of four, as make so many gigabytes."""
    four = replace(SHAPE_27B, layer_kinds=hybrid_layers(4), vocab_size=VOCABULARY, eos_ids=(1,))
    none = replace(four, layer_kinds=())
    per_four = stored_bytes(four) - stored_bytes(none)
    groups = max(1, round((gigabytes * 1e9 - stored_bytes(none)) / per_four))
    return replace(four, layer_kinds=hybrid_layers(4 * groups))


def stored_bytes(config: ModelConfig) -> int:
    """Bytes of the layout, scales aside."""
    return sum(
        (1 if is_8_bit(spec) else 2) * spec.num_elements
        for spec in expected_tensors(config).values()
    )


def is_8_bit(spec: TensorSpec) -> bool:
    """Whether the FP8 release stores a tensor in blocks."""
    return spec.matrix and spec.part not in ("small", "embedding", "head")


def write(folder: Path, config: ModelConfig, device: str) -> None:
    """Write config, index and one file a layer; layers of a kind have the same numbers."""
    drawn: dict[tuple[tuple[int, ...], bool], dict[str, torch.Tensor]] = {}
    files: dict[str, dict[str, torch.Tensor]] = {}
    for short, spec in expected_tensors(config).items():
        name = short if short.startswith(("mtp.", "lm_head.")) else f"model.language_model.{short}"
        first, index, *_ = short.split(".")
        file = f"layers-{index}" if first == "layers" else "mtp" if first == "mtp" else "outside"
        key = (spec.shape, is_8_bit(spec))
        if key not in drawn:
            drawn[key] = draw(spec, device)
        for suffix, tensor in drawn[key].items():
            files.setdefault(f"{file}.safetensors", {})[name + suffix] = tensor
    placed: dict[str, str] = {}
    for file, tensors in files.items():
        # equal tensors may not share memory in one file
        save_file({name: one.clone() for name, one in tensors.items()}, folder / file)
        placed |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text(json.dumps(config_fields(config)))


def draw(spec: TensorSpec, device: str) -> dict[str, torch.Tensor]:
    """Random numbers of a tensor as the release stores it, by the ends of its names."""
    if not is_8_bit(spec):
        return {"": (torch.randn(spec.shape, device=device) * 0.02).bfloat16().cpu()}
    # up to the largest code, no NaN
    codes = torch.randint(0, 0x7F, spec.shape, dtype=torch.uint8, device=device).cpu()
    blocks = [-(-size // 128) for size in spec.shape]
    scales = torch.full(blocks, 1e-4).bfloat16()
    return {"": codes.view(torch.float8_e4m3fn), "_scale_inv": scales}


def warm(folder: Path) -> None:
    """Bring every file into the page cache."""
    buffer = bytearray(64 << 20)
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Peak:
    """The most anonymous memory while the block runs."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.num_bytes = max(self.num_bytes, anonymous_bytes())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def load(checkpoint: Checkpoint, path: ComputePath, device: str) -> None:
    """Load once and say how fast and in how much memory."""
    before, began = anonymous_bytes(), time.perf_counter()
    with Peak() as peak:
        model = load_weights(
            checkpoint,
            Generation((1,), Sampling()),
            device=device,
            expand=False,
            packer=path.new_packer(),
        )
        if device == "cuda":
            torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    after, rate = anonymous_bytes(), checkpoint.num_bytes / seconds / 1e9
    print(f"load    {checkpoint.num_bytes / 1e9:.2f} GB in {seconds:.2f} s: {rate:.2f} GB/s")
    told = " ".join(f"{one / 1e9:.2f}" for one in (before, peak.num_bytes, after))
    held = f"{model.weight_bytes / 1e9:.2f}"
    print(f"RssAnon {told} GB before, at most, after; weights held {held}", flush=True)


def main() -> None:
    """Write, then load as often as asked."""
    parser = argparse.ArgumentParser(description="Time a load.")
    parser.add_argument("--gb", type=float, default=1.0, help="size of the checkpoint")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--folder", type=Path, help="where it is written, else a temporary place")
    parser.add_argument("--times", type=int, default=2, help="loads")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        began = time.perf_counter()
        write(folder, sized(args.gb), args.device)
        print(f"written in {time.perf_counter() - began:.1f} s", flush=True)
        if args.device == "cuda":
            torch.zeros(1, device="cuda")  # the context's own memory comes first
        path = choose_compute_path(load_settings()[0], args.device)
        for _ in range(args.times):
            began = time.perf_counter()
            warm(folder)
            print(f"page cache warmed at {time.perf_counter() - began:.2f} s")
            began = time.perf_counter()
            checkpoint = open_checkpoint(folder, read_config(folder))
            print(f"headers and scales looked at in {time.perf_counter() - began:.2f} s")
            load(checkpoint, path, args.device)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
