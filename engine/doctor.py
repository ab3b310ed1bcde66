"""What this machine is, what fits on it, what is missing, and what to do about it.

Every finding is a sentence; a finding that is no good carries its mend. Knows no screen.
"""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.compute_path import ComputePath, choose_compute_path, describe_paths
from engine.dflash.attach import find_dflash
from engine.dflash.memory import dflash_bytes
from engine.errors import EngineError
from engine.fit import Need, need_of
from engine.locate import HOW_TO_GIVE, Choice, choose, how_to_give
from engine.machine.device import choose_device
from engine.machine.free_memory import available_bytes
from engine.machine.gpu import Gpu, read_gpu
from engine.machine.triton_part import what_triton_lacks
from engine.model.checkpoint import open_checkpoint
from engine.model.config import ModelConfig
from engine.model.config_file import read_config
from engine.model.memory import plan_memory
from engine.profile import kv_format_of, kv_format_set, load_profiles
from engine.rehearsal import END
from engine.settings.declared import Settings
from engine.sizes import size_text
from engine.text.tokenizer import Tokenizer
from engine.tune.tiles import tile_notice
from engine.tune.user_prices import Served, find_prices

State = Literal["good", "note", "bad"]

PACKAGES = ("torch", "triton", "safetensors", "tokenizers", "textual", "prompt-toolkit")
MIN_FREE_DISK_BYTES = 1 << 30
"""Below this a conversation may soon find the disk full."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact. ``bad`` means that chat cannot run, ``note`` that something is missing or slow."""

    topic: str
    state: State
    sentence: str
    mend: str = ""


def has_cuda() -> bool:
    """Whether torch sees a GPU that it can use."""
    import torch

    return torch.cuda.is_available()


def examine(settings: Settings, *, measure: bool = False) -> list[Finding]:
    """Look at the machine; ``measure`` also reads memory for about a second."""
    gpu = read_gpu()
    findings = [_machine(), _memory(), *_gpu(gpu), *_packages()]
    if measure:
        findings.append(_bandwidth())
    findings += [_disk("data", settings.data_dir), _disk("state", settings.state_dir)]
    findings += _models(settings)
    return findings


def memory_bytes() -> tuple[int, int]:
    """Total bytes of this machine's RAM, and those that this process can still have."""
    found: dict[str, int] = {}
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return pages, pages
    return found.get("MemTotal", 0), min(found.get("MemAvailable", 0), available_bytes("cpu"))


def _machine() -> Finding:
    return Finding(
        "machine",
        "good",
        f"{_cpu_name()} with {os.cpu_count()} cores, {platform.machine()}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}.",
    )


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "A CPU"
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else "A CPU"  # Arm's names are not in there


def _memory() -> Finding:
    total, available = memory_bytes()
    return Finding(
        "memory", "good", f"{size_text(total)} of RAM, {size_text(available)} available."
    )


def _gpu(gpu: Gpu | None) -> Iterator[Finding]:
    if gpu is None:
        yield Finding(
            "gpu",
            "note",
            "No NVIDIA GPU answers; the model runs on the CPU, which is right for the demo only.",
            "On a machine with one, install its driver; nvidia-smi must list it.",
        )
        return
    yield Finding("gpu", "good", f"{gpu.name}, driver {gpu.driver}, {gpu.memory_sentence}.")
    if not has_cuda():
        yield Finding(
            "gpu",
            "note",
            "This torch cannot use the GPU: it was built without CUDA, or the driver is too old.",
            "Install the CUDA build of torch; scripts/chat does so in a fresh .venv.",
        )


def _packages() -> Iterator[Finding]:
    versions: list[str] = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding(
                "packages", "bad", f"{name} is not installed.", "Run scripts/chat, or pip install ."
            )
    yield Finding("packages", "good", f"{', '.join(versions)}.")


def _bandwidth() -> Finding:
    from engine.machine.measure import read_bandwidth

    device = "cuda" if has_cuda() else "cpu"
    if device == "cuda" and (lack := what_triton_lacks()):
        return Finding("bandwidth", "note", lack.sentence, lack.mend)
    rate = read_bandwidth(device).gb_s
    return Finding("bandwidth", "good", f"Reading memory measured {rate:.1f} GB/s ({device}).")


def _disk(topic: str, folder: Path) -> Finding:
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    place = f"{folder} has {size_text(free)} free"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            topic, "note", f"{folder} cannot be written; conversations stay in memory.",
            f"Give another folder with the setting paths.{topic}.",
        )  # fmt: skip
    if free < MIN_FREE_DISK_BYTES:
        return Finding(topic, "note", f"{place}, which is little.", "Free some space.")
    return Finding(topic, "good", f"{place}.")


def _models(settings: Settings) -> Iterator[Finding]:
    profiles = load_profiles(settings.config_dir)
    for name, error in profiles.faulty.items():
        yield Finding(f"profile {name}", "note", error.message, error.mend)
    try:
        device = choose_device(settings.model.device)
        path = choose_compute_path(settings, device)
        if path.rehearsal:
            yield Finding("launches", "note", path.rehearsal, END)
        if device == "cuda":
            yield _kernels(path)
        room = available_bytes(device)
        for profile in profiles.values():
            need = need_of(
                profile, settings.model.context_tokens, packed=path.is_packed,
                kv=kv_format_set(settings),
            )  # fmt: skip
            yield _fit(need, room, how_to_give(profile))
        yield from _chat(settings, choose(settings, profiles), device, path)
    except EngineError as error:
        yield Finding("chat", "bad", error.message, error.mend)


def _chat(settings: Settings, choice: Choice, device: str, path: ComputePath) -> Iterator[Finding]:
    """Whether what chat would open reads and fits; raises the `EngineError` that it would meet."""
    config = read_config(choice.path)
    checkpoint = open_checkpoint(choice.path, config, choice.overlay)
    Tokenizer.load(choice.path, config.vocab_size)
    tokens = min(settings.model.context_tokens, config.max_position_embeddings)
    beside = find_dflash(settings.draft, config)
    plan = plan_memory(
        checkpoint, device, packed=path.is_packed, context_tokens=tokens,
        snapshot_mb=settings.model.snapshot_mb,
        drafter=dflash_bytes(
            beside, tokens, packed=path.is_packed, stored=choice.profile.formats.mtp
        ),
        kv=kv_format_of(choice.profile, settings), graphs=choice.profile.graphs,
    )  # fmt: skip
    plan.expect_fit()
    yield Finding("memory plan", "good", plan.sentence)
    yield from _prices(settings, choice, config, path)
    if choice.is_demo:
        yield Finding("chat", "note", "'qwen38 chat' opens the small demo model.", HOW_TO_GIVE)
        return
    yield Finding("chat", "good", f"'qwen38 chat' opens {choice.named} with {choice.profile.name}.")


def _prices(
    settings: Settings, choice: Choice, config: ModelConfig, path: ComputePath
) -> Iterator[Finding]:
    """What the router believes that rounds cost; on a CPU nothing is routed."""
    if path.launching is None:
        return
    kv = kv_format_of(choice.profile, settings)
    served = Served.of(config, choice.profile.formats, path.capability, kv)
    found = find_prices(served, settings.data_dir)
    mend = "'qwen38 tune --family rounds' measures them."
    if found.is_own:
        yield Finding("prices", "good", found.notice)
    elif found.table is None:
        none = "No prices of rounds are known for this GPU, so that none is routed."
        yield Finding("prices", "note", f"{found.notice} {none}".strip(), mend)
    else:
        ships = f"Rounds are priced by the table that ships: {found.table.source}."
        state = "good" if found.table.is_measured and not found.notice else "note"
        yield Finding("prices", state, f"{found.notice} {ships}".strip(), mend)


def _kernels(path: ComputePath) -> Finding:
    if path.capability is not None:
        told = f"{describe_paths(path)} {tile_notice(path.capability)}"
        return Finding("kernels", "good", told.rstrip())
    mend = "With the setting kernels.linear at 'auto' they are taken where they run."
    return Finding("kernels", "note", describe_paths(path), mend)


def _fit(need: Need, room: int, how_to_give_it: str) -> Finding:
    """Whether a profile fits, and its files are here and read."""
    topic = f"profile {need.profile}"
    stored, held = need.stored_bytes, max(need.stored_bytes, need.held_bytes)
    widened = ""
    if held > 1.1 * stored:  # more than padding
        widened = f", {size_text(stored)} in files but bf16 where no kernels run"
    size = (
        f"needs {size_text(need.total_bytes)} ({size_text(held)} weights{widened}, "
        f"{size_text(need.conversation_bytes)} for {need.context_tokens:,} tokens in "
        f"{need.kv_format})"
    )
    if need.problem is not None:
        mend = need.problem.mend or "Download it again."
        return Finding(topic, "note", need.problem.message, mend)
    if need.total_bytes > room:
        return Finding(
            topic, "note", f"It {size}: more than the {size_text(room)} that are free.",
            "Close other programs, lower model.context_tokens, or take a smaller profile.",
        )  # fmt: skip
    if need.path is None:
        return Finding(topic, "note", f"It {size} and fits; its files are missing.", how_to_give_it)
    return Finding(topic, "good", f"It {size} and fits; its files are in {need.path}.")
