"""Documents name only files, commands and settings that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "kernels/**/*.md", "profiles/**/*.md")
    for path in ROOT.glob(pattern)
)
TOP = ("app", "engine", "kernels", "profiles", "tests", "scripts", ".ci")


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_path_named_in_a_document_exists(document):
    named = {one for one in quoted(document.read_text()) if re.fullmatch(r"[\w./*-]+", one)}
    paths = {one for one in named if one.split("/")[0] in TOP and "NAME" not in one}
    missing = [one for one in sorted(paths) if not any(ROOT.glob(one.rstrip("/")))]
    assert not missing


def command_names() -> set[str]:
    from app.command_line import cli

    groups = {group.name for group in cli.registered_groups}
    return groups | {command.name for command in cli.registered_commands}


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_command_named_in_a_document_exists(document):
    used = {found.split()[1] for found in re.findall(r"`qwen38 [a-z]+", document.read_text())}
    assert not used - command_names()


def test_every_variable_named_in_a_document_is_declared():
    from engine.settings.declared import KNOWN

    known = {one.env for one in KNOWN.values()}
    named = {
        name for path in DOCUMENTS for name in re.findall(r"QWEN38_[A-Z0-9_]+", path.read_text())
    }
    assert named <= known


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
