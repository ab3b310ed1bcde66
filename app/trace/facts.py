"""What a trace says about program, machine, model and settings: flat, so that Perfetto shows it."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib import metadata
from pathlib import Path
from typing import Any, cast, get_type_hints

from app.trace.traced import Fact
from engine.machine.gpu import read_gpu
from engine.settings.declared import Settings
from engine.types import EngineInfo, Request, Sampling

PACKAGES = ("qwen38", "torch", "triton")
_CONVERSATION = "setting.chat.system"
"""The one setting that is text of a conversation."""


def facts_of(info: EngineInfo, settings: Settings, *, keep_text: bool) -> dict[str, Fact]:
    """Everything that a figure of the trace may depend on.

    The home folder is written ``~``; the system prompt is left out unless text is kept.
    """
    gpu = read_gpu() if info.device.startswith("cuda") else None
    facts: dict[str, Any] = {
        **{f"package.{name}": _version(name) for name in PACKAGES},
        "machine.python": platform.python_version(),
        "machine.system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "machine.cpus": os.cpu_count() or 0,
        "machine.gpu": gpu.name if gpu else "",
        "machine.driver": gpu.driver if gpu else "",
        **_flat("engine", asdict(info)),
        "engine.notices": " ".join(info.notices).replace(str(Path.home()), "~"),
        **_flat("setting", asdict(settings)),
    }
    if not keep_text:
        facts[_CONVERSATION] = "(left out)" if facts[_CONVERSATION] else ""
    return {name: _fact(value) for name, value in facts.items()}


def request_facts(request: Request) -> dict[str, Fact]:
    """What a turn was asked with, as the settings stood then; none of its text."""
    asked: dict[str, Any] = {
        "drafter": request.drafter,
        "draft_shape": request.draft_shape,
        "num_draft_tokens": request.num_draft_tokens,
        "max_tokens": request.max_tokens,
        "thinking": request.thinking,
        "thinking_budget": request.thinking_budget,
        "effort": request.effort,
        "num_messages": len(request.messages),
        **asdict(request.sampling),
    }
    return {name: _fact(value) for name, value in asked.items()}


def info_of(facts: Mapping[str, Fact]) -> EngineInfo:
    """The engine that was recorded; a value that is missing or odd becomes an empty one."""
    sampling = Sampling(**_values(Sampling, facts, "engine.default_sampling."))
    values = _values(EngineInfo, facts, "engine.")
    return EngineInfo(**values, default_sampling=sampling)


def _values(kind: type, facts: Mapping[str, Fact], prefix: str) -> dict[str, Any]:
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for one in fields(kind):
        wanted = hints[one.name]
        value = facts.get(prefix + one.name)
        if wanted not in (str, int, float, bool):
            continue
        if wanted is float and type(value) is int:
            value = float(value)
        found[one.name] = value if type(value) is wanted else wanted()
    return found


def _flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        full = f"{prefix}.{name}"
        inner = cast("dict[str, Any]", value) if isinstance(value, dict) else None
        flat |= {full: value} if inner is None else _flat(full, inner)
    return flat


def _fact(value: object) -> Fact:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    home = str(Path.home())
    text = str(value)
    return text.replace(home, "~", 1) if len(home) > 1 and text.startswith(home) else text


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
