"""Time a load at the 27B's widths, cause by cause: writes a checkpoint, loads it.

Prints bytes a second, where the time went, and what the process holds beside page cache and device:
`RssAnon` of /proc/self/status, sampled every 5 ms. A second copy of the weights in RAM would show
there. Work that goes on at the same time is counted for each thread, so that causes add up to more
than the whole.

    python scripts/time_load.py --gb 8 --device cuda
    python scripts/time_load.py --gb 8 --layout nvfp4 --folder DIR --device cuda --cold
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.compute_path import ComputePath, choose_compute_path
from engine.model import streaming
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.config import SHAPE_27B, ModelConfig, hybrid_layers
from engine.model.config_file import read_config
from engine.model.generation import Generation
from engine.model.loading import load_weights
from engine.model.packing import Packer
from engine.model.staging import Staging
from engine.model.tensors import TensorSpec, expected_tensors
from engine.settings.load import load_settings
from engine.types import Sampling
from tests.engine.model.checkpoints import config_fields

P = ParamSpec("P")
R = TypeVar("R")

VOCABULARY = 32_768
"""Rows of embedding and head: the 27B's own would be 5 of the 8 GB."""

BYTES = {"fp8": 1.0, "nvfp4": 9 / 16}
"""Of a quantised weight, by layout: that of the FP8 release, and modelopt's NVFP4."""


def sized(gigabytes: float, layout: str) -> ModelConfig:
    """The 27B with as many layers, in whole groups of four, as make so many gigabytes."""
    four = replace(SHAPE_27B, layer_kinds=hybrid_layers(4), vocab_size=VOCABULARY, eos_ids=(1,))
    none = replace(four, layer_kinds=())
    per_four = stored_bytes(four, layout) - stored_bytes(none, layout)
    groups = max(1, round((gigabytes * 1e9 - stored_bytes(none, layout)) / per_four))
    return replace(four, layer_kinds=hybrid_layers(4 * groups))


def stored_bytes(config: ModelConfig, layout: str) -> int:
    """Bytes of the layout, scales of 8-bit blocks aside."""
    return sum(
        int((BYTES[layout] if is_quantised(spec) else 2) * spec.num_elements)
        for spec in expected_tensors(config).values()
    )


def is_quantised(spec: TensorSpec) -> bool:
    """Whether a release stores a tensor in 8 or 4 bits; the head stays as it is here."""
    return spec.matrix and spec.part not in ("small", "embedding", "head")


def write(folder: Path, config: ModelConfig, layout: str, device: str) -> None:
    """Write config, index and one file a layer; layers of a kind have the same numbers."""
    drawn: dict[tuple[tuple[int, ...], bool], dict[str, torch.Tensor]] = {}
    files: dict[str, dict[str, torch.Tensor]] = {}
    for short, spec in expected_tensors(config).items():
        name = short if short.startswith(("mtp.", "lm_head.")) else f"model.language_model.{short}"
        first, index, *_ = short.split(".")
        file = f"layers-{index}" if first == "layers" else "mtp" if first == "mtp" else "outside"
        key = (spec.shape, is_quantised(spec))
        if key not in drawn:
            drawn[key] = draw(spec, layout, device)
        for suffix, tensor in drawn[key].items():
            files.setdefault(f"{file}.safetensors", {})[name + suffix] = tensor
    placed: dict[str, str] = {}
    for file, tensors in files.items():
        # equal tensors may not share memory in one file
        save_file({name: one.clone() for name, one in tensors.items()}, folder / file)
        placed |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text(json.dumps(config_fields(config)))


def draw(spec: TensorSpec, layout: str, device: str) -> dict[str, torch.Tensor]:
    """Random numbers of a tensor as a release stores it, by the ends of its names."""
    if not is_quantised(spec):
        return {"": (torch.randn(spec.shape, device=device) * 0.02).bfloat16().cpu()}
    num_rows, width = spec.shape
    if layout == "nvfp4":
        codes = torch.randint(0, 256, (num_rows, width // 2), dtype=torch.uint8, device=device)
        scales = torch.randint(0x20, 0x50, (num_rows, width // 16), dtype=torch.uint8)
        scales = scales.view(torch.float8_e4m3fn)
        return {"": codes.cpu(), "_scale": scales, "_scale_2": torch.tensor(1e-3)}
    # up to the largest code, no NaN
    codes = torch.randint(0, 0x7F, spec.shape, dtype=torch.uint8, device=device).cpu()
    blocks = [-(-size // 128) for size in spec.shape]
    scales = torch.full(blocks, 1e-4).bfloat16()
    return {"": codes.view(torch.float8_e4m3fn), "_scale_inv": scales}


def sync(folder: Path) -> None:
    """Have the files on the disk, as if they lay there for long: then loading drops their pages."""
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        os.utime(path, (0, 0))


def drop(folder: Path) -> None:
    """Leave nothing of the files in the page cache."""
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


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


class Clock:
    """Seconds that threads spend in functions, by a name for the cause, while the block runs."""

    def __init__(self, causes: dict[str, tuple[object, str]]) -> None:
        self.seconds = dict.fromkeys(causes, 0.0)
        self.calls = dict.fromkeys(causes, 0)
        self._causes = causes
        self._lock = threading.Lock()
        self._patches = ExitStack()

    def __enter__(self) -> Clock:
        for cause, (place, name) in self._causes.items():
            timed = self._timed(cause, getattr(place, name))
            self._patches.enter_context(patch.object(place, name, timed))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _timed(self, cause: str, function: Callable[P, R]) -> Callable[P, R]:
        def timed(*args: P.args, **options: P.kwargs) -> R:
            began = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                took = time.perf_counter() - began
                with self._lock:
                    self.seconds[cause] += took
                    self.calls[cause] += 1

        return timed


CAUSES: dict[str, tuple[object, str]] = {
    "pieces of files read (readers together)": (streaming.WeightStream, "read"),
    "reads of slices, by thread": (os, "preadv"),
    "page cache dropped (beside the reading)": (os, "posix_fadvise"),
    "memory asked for, device and pinned": (torch, "empty"),
    "copies to the device waited for": (Staging, "next_piece"),
    "copies to the device begun": (Staging, "copy"),
    "matrices packed (beside the reading)": (Packer, "add"),
}


def load(checkpoint: Checkpoint, path: ComputePath, device: str) -> None:
    """Load once and say how fast, in how much memory, and where the time went."""
    before, began = anonymous_bytes(), time.perf_counter()
    with Peak() as peak, Clock(CAUSES) as clock:
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
    print(f"RssAnon {told} GB before, at most, after; weights held {held}")
    for cause in CAUSES:
        print(f"    {clock.seconds[cause]:8.3f} s {clock.calls[cause]:6} calls: {cause}")
    if device == "cuda":
        asked = torch.cuda.memory_stats()["num_device_alloc"]
        print(f"    the driver was asked for memory {asked} times since the process began")
    sys.stdout.flush()


def main() -> None:
    """Write, then load as often as asked."""
    parser = argparse.ArgumentParser(description="Time a load.")
    parser.add_argument("--gb", type=float, default=1.0, help="size of the checkpoint")
    parser.add_argument("--layout", default="fp8", choices=tuple(BYTES))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument(
        "--folder", type=Path, help="kept there, and used again where it holds one; else temporary"
    )
    parser.add_argument("--times", type=int, default=2, help="loads")
    parser.add_argument("--cold", action="store_true", help="load from the disk, too")
    parser.add_argument("--fresh", action="store_true", help="load files as they were just written")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    try:
        if not (folder / "config.json").exists():
            began = time.perf_counter()
            folder.mkdir(parents=True, exist_ok=True)
            write(folder, sized(args.gb, args.layout), args.layout, args.device)
            if not args.fresh:
                sync(folder)
            print(f"written in {time.perf_counter() - began:.1f} s", flush=True)
        time_loads(folder, args)
    finally:
        if args.folder is None:
            shutil.rmtree(folder)


def time_loads(folder: Path, args: argparse.Namespace) -> None:
    """Load as often as asked, each time from the page cache; then from the disk."""
    began = time.perf_counter()
    if args.device == "cuda":
        torch.zeros(1, device="cuda")  # the context's own memory comes first
    path = choose_compute_path(load_settings()[0], args.device)
    print(f"context made, path chosen in {time.perf_counter() - began:.2f} s")
    for time_of in range(args.times + args.cold):
        began = time.perf_counter()
        is_cold = time_of == args.times
        if is_cold:
            drop(folder)
        else:
            warm(folder)
        what = "dropped" if is_cold else "warmed"
        print(f"page cache {what} in {time.perf_counter() - began:.2f} s")
        began = time.perf_counter()
        checkpoint = open_checkpoint(folder, read_config(folder))
        print(f"headers and scales looked at in {time.perf_counter() - began:.2f} s")
        load(checkpoint, path, args.device)


if __name__ == "__main__":
    main()
