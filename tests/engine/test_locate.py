"""Which checkpoint opens: the named folder, else the Hugging Face cache, else the demo."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import CheckpointError, ProfileError
from engine.locate import HOW_TO_GIVE, HOW_TO_GIVE_FOLDER, cached_snapshot, choose, how_to_give
from engine.profile import load_profiles
from engine.quantize.manifest import MANIFEST_NAME
from engine.settings.declared import ModelSettings, Settings
from tests.engine.model.checkpoints import write_checkpoint
from tests.engine.model.layouts import write_layout


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def wanting(**model) -> Settings:
    return replace(Settings(), model=ModelSettings(**model))


def snapshot_of(cache: Path, name: str) -> Path:
    return cache / f"models--Qwen--{name}" / "snapshots" / "abc"


def checkpoint(folder: Path, config: dict | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {}))
    return folder


def test_without_any_checkpoint_the_demo_opens(cache):
    chosen = choose(Settings(), load_profiles())
    assert chosen.is_demo
    assert chosen.profile.name == "demo"


def test_a_cached_release_is_found_by_itself(cache):
    snapshot = write_checkpoint(snapshot_of(cache, "Qwen3.8-27B-FP8"))
    chosen = choose(Settings(), load_profiles())
    assert (chosen.path, chosen.profile.name, chosen.is_demo) == (snapshot, "fp8", False)


def test_of_two_cached_releases_the_one_with_fewer_bytes_opens(cache):
    for name in ("Qwen3.8-27B", "Qwen3.8-27B-FP8"):
        write_checkpoint(snapshot_of(cache, name))
    chosen = choose(Settings(), load_profiles())
    assert (chosen.profile.name, chosen.notices) == ("fp8", ())


def test_a_damaged_cached_release_is_passed_over_and_told(cache):
    write_checkpoint(snapshot_of(cache, "Qwen3.8-27B"))
    damaged = write_checkpoint(snapshot_of(cache, "Qwen3.8-27B-FP8"))
    weights = next(damaged.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])
    chosen = choose(Settings(), load_profiles())
    assert chosen.profile.name == "bf16"
    (notice,) = chosen.notices
    assert notice.startswith("'bf16' opens in the place of 'fp8': ")
    assert weights.name in notice


def test_the_demo_opens_where_the_only_cached_release_is_damaged(cache):
    checkpoint(snapshot_of(cache, "Qwen3.8-27B-FP8"), {"model_type": "none of ours"})
    chosen = choose(Settings(), load_profiles())
    assert chosen.is_demo
    assert chosen.notices[0].startswith("'demo' opens in the place of 'fp8': ")


def test_a_damaged_release_that_was_named_is_opened_and_so_refused(cache):
    snapshot = checkpoint(snapshot_of(cache, "Qwen3.8-27B-FP8"))
    chosen = choose(wanting(profile="fp8"), load_profiles())
    assert (chosen.path, chosen.is_demo) == (snapshot, False)


def test_an_unfinished_download_is_not_taken(cache):
    (cache / "models--Qwen--Qwen3.8-27B-FP8" / "snapshots" / "abc").mkdir(parents=True)
    assert cached_snapshot("Qwen/Qwen3.8-27B-FP8", cache) is None


def test_a_named_folder_wins(cache, tmp_path):
    folder = checkpoint(tmp_path / "mine", {"quantization_config": {}})
    chosen = choose(wanting(dir=folder), load_profiles())
    assert (chosen.path, chosen.profile.name) == (folder, "fp8")


def test_a_repository_of_the_cache_is_a_folder_too(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snapshot = write_checkpoint(snapshot_of(cache, "Tuned-27B"))
    for named in ("Qwen/Tuned-27B", cache / "models--Qwen--Tuned-27B", snapshot):
        chosen = choose(wanting(dir=Path(named)), load_profiles())
        assert (chosen.path, chosen.profile.name) == (snapshot, "bf16")


def test_a_folder_that_is_here_wins_over_a_repository_of_its_name(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(snapshot_of(cache, "Tuned-27B"))
    here = write_checkpoint(tmp_path / "Qwen/Tuned-27B").relative_to(tmp_path)
    assert choose(wanting(dir=here), load_profiles()).path == here


def test_part_files_in_the_cache_lie_over_a_release_in_the_cache(cache):
    base = write_checkpoint(snapshot_of(cache, "Release"), fp8=True)
    (cache / "models--me--parts/snapshots/abc").mkdir(parents=True)
    parts = cache / "models--me--parts/snapshots/abc"
    (parts / "mlp.safetensors").write_bytes(next(base.glob("*.safetensors")).read_bytes())
    chosen = choose(wanting(dir=Path("me/parts"), base=Path("Qwen/Release")), load_profiles())
    assert (chosen.path, chosen.overlay) == (base, parts)


@pytest.mark.parametrize("setting", ["dir", "base"])
def test_a_repository_that_is_not_downloaded_says_how(cache, tmp_path, setting):
    overlay = tmp_path / "parts"
    overlay.mkdir()
    (overlay / "mlp.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError) as refused:
        choose(wanting(**{"dir": overlay, setting: Path("Qwen/Tuned-27B")}), load_profiles())
    assert str(cache) in refused.value.message
    assert "hf download Qwen/Tuned-27B" in refused.value.mend


def test_a_full_precision_folder_takes_the_bf16_profile(cache, tmp_path):
    chosen = choose(wanting(dir=checkpoint(tmp_path / "mine")), load_profiles())
    assert chosen.profile.name == "bf16"


@pytest.mark.parametrize(
    ("layout", "profile"),
    [("modelopt", "balanced"), ("compressed", "balanced"), ("nvfp4", "nvfp4"), ("rows", "fp8")],
)
def test_the_profile_nearest_to_the_files_is_taken(cache, tmp_path, layout, profile):
    folder = write_layout(tmp_path / "mine", layout)
    assert choose(wanting(dir=folder), load_profiles()).profile.name == profile
    assert choose(wanting(dir=folder, profile="bf16"), load_profiles()).profile.name == "bf16"


@pytest.mark.parametrize("fp8", [False, True])
def test_the_releases_take_their_own_profiles(cache, tmp_path, fp8):
    folder = write_checkpoint(tmp_path / "mine", fp8=fp8)
    assert choose(wanting(dir=folder), load_profiles()).profile.name == ("fp8" if fp8 else "bf16")


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_is_no_checkpoint_is_refused(cache, tmp_path, made):
    folder = tmp_path / "nothing"
    if made:
        folder.mkdir()
    with pytest.raises(CheckpointError, match=str(folder)):
        choose(wanting(dir=folder), load_profiles())


@pytest.mark.parametrize("has_base", [False, True])
def test_a_quantisation_that_was_stopped_is_no_overlay(cache, tmp_path, has_base):
    out = tmp_path / "out"
    out.mkdir()
    (out / "head.safetensors").touch()
    (out / MANIFEST_NAME).write_text("{}")
    base = write_checkpoint(tmp_path / "base") if has_base else None
    with pytest.raises(CheckpointError, match="'qwen38 quantize' command again"):
        choose(wanting(dir=out, base=base), load_profiles())


def test_a_file_is_no_folder(cache, tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(CheckpointError, match="config.json is a file"):
        choose(wanting(dir=tmp_path / "config.json"), load_profiles())


def test_a_folder_without_rights_says_what_is_missing(cache, tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "mine")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != folder)
    settings = Settings(model=ModelSettings(dir=folder))
    with pytest.raises(CheckpointError, match=r"does not open: permission denied\. Give yourself"):
        choose(settings, load_profiles())


def test_a_profile_without_files_says_how_to_get_them(cache):
    with pytest.raises(CheckpointError, match="--model DIR"):
        choose(wanting(profile="fp8"), load_profiles())


def test_what_is_told_to_be_downloaded_opens_the_profile(tmp_path):
    profiles = load_profiles()
    for profile in profiles.values():
        told = how_to_give(profile)
        assert not profile.repositories or f"download {profile.repositories[0]} with" in told
    assert how_to_give(profiles["nvfp4"]) == HOW_TO_GIVE_FOLDER
    assert how_to_give(profiles["fp8"]) == how_to_give(profiles["demo"]) == HOW_TO_GIVE
    own = replace(profiles["fp8"], folder=str(tmp_path), path="own.toml")
    assert how_to_give(own) == f"{tmp_path} holds no config.json: own.toml names it."


def test_a_misspelt_profile_is_refused(cache):
    with pytest.raises(ProfileError, match="Did you mean"):
        choose(wanting(profile="pf8"), load_profiles())
