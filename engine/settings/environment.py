"""The only reader of the process environment: our own names and the few foreign ones we honour."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

PREFIX = "QWEN38_"

EDITORS = ("editor", "nano", "vi", "emacs")
PAGERS = ("less", "more")
"""Programs that are looked for, in this order, where the person names none."""


def own_variables() -> dict[str, str]:
    """Every variable of the environment whose name starts with ``QWEN38_``."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def expanded(path: str | Path) -> Path:
    """``path`` with ~ as the person's home; a ~NAME that is nobody's stays, as in a shell."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for ~NAME


def hugging_face_cache() -> Path:
    """The Hugging Face hub cache folder, by the rules of huggingface_hub (it may not exist)."""
    if hub := os.environ.get("HF_HUB_CACHE"):
        return expanded(hub)
    if home := os.environ.get("HF_HOME"):
        return expanded(home) / "hub"
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return expanded(cache) / "huggingface" / "hub"


def no_color() -> bool:
    """Whether the person asked for no colour (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def terminal_name() -> str:
    """The value of TERM; ``dumb`` when it is not set."""
    return os.environ.get("TERM", "dumb")


def terminal_program() -> str:
    """The program that draws the terminal, with its version, where it says so; else empty."""
    if name := os.environ.get("TERM_PROGRAM"):
        return f"{name} {os.environ.get('TERM_PROGRAM_VERSION', '')}".strip()
    vte = os.environ.get("VTE_VERSION")
    return f"VTE {vte}" if vte else ""


def has_true_colour() -> bool:
    """Whether the terminal says that it draws 24-bit colours."""
    return os.environ.get("COLORTERM") in ("truecolor", "24bit")


def over_ssh() -> bool:
    """Whether this terminal is reached over SSH, where painting is slowed down."""
    return "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ


def inside_multiplexer() -> bool:
    """Whether tmux or screen sits between us and the terminal."""
    return "TMUX" in os.environ or os.environ.get("TERM", "").startswith("screen")


def editor() -> str:
    """The person's editor command, else the first of `EDITORS` that is here, else empty."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    return named or next(filter(shutil.which, EDITORS), "")


def pager() -> str:
    """The person's pager command, else the first of `PAGERS` that is here, else empty."""
    return os.environ.get("PAGER") or next(filter(shutil.which, PAGERS), "")


def display_server() -> str:
    """``wayland`` or ``x11`` when this terminal runs on a desktop of this machine, else empty."""
    if over_ssh():
        return ""
    if os.environ.get("WAYLAND_DISPLAY"):
        return "wayland"
    return "x11" if os.environ.get("DISPLAY") else ""


def child_environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """The environment for a subprocess: ours with ``overrides`` on top."""
    return {**os.environ, **overrides}
