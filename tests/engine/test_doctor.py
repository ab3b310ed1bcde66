"""The doctor finds what would stop a chat before the chat does."""

from dataclasses import replace

import pytest

from engine import doctor
from engine.compute_path import ComputePath
from engine.draft.price_table import shipped_prices
from engine.fit import need_of
from engine.locate import Choice
from engine.model.config import SHAPE_27B
from engine.model.packing import Launching
from engine.profile import load_profiles
from engine.settings.load import load_settings
from engine.tune.user_prices import Served, prices_path, write_prices


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    found, _ = load_settings({"paths.data": tmp_path, "paths.state": tmp_path})
    return found


def findings(settings):
    return {one.topic: one for one in doctor.examine(settings)}


def test_a_broken_checkpoint_is_found(settings, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{")
    chat = findings(replace(settings, model=replace(settings.model, dir=folder)))["chat"]
    assert chat.state == "bad"
    assert "config.json" in chat.sentence


def test_too_little_memory_is_found(settings, monkeypatch):
    monkeypatch.setattr(doctor, "available_bytes", lambda _: 1000)
    found = findings(settings)
    assert "more than the 1.0 KB" in found["profile fp8"].sentence


def test_a_folder_that_cannot_be_written_is_found(settings, tmp_path):
    (tmp_path / "file").write_text("")
    state = findings(
        replace(settings, paths=replace(settings.paths, state=tmp_path / "file" / "x"))
    )["state"]
    assert state.state == "note"
    assert "cannot be written" in state.sentence


def test_ram_is_read():
    total, available = doctor.memory_bytes()
    assert 0 < available <= total


@pytest.mark.parametrize("packed", [False, True])
def test_weights_that_are_held_in_more_than_their_files_have_are_told_as_that(packed):
    need = need_of(load_profiles()["nvfp4"], 1024, packed=packed)
    told = doctor._fit(need, 1 << 40, "Give them.").sentence
    assert ("17.9 GB in files but bf16 where no kernels run" in told) is not packed


def test_a_profile_without_files_says_what_it_needs_and_how_to_give_them():
    need = need_of(load_profiles()["nvfp4"], 1024, packed=True)
    found = doctor._fit(need, 1 << 40, "Give them.")
    assert found.state == "note"
    assert "fits; its files are missing" in found.sentence
    assert found.mend == "Give them."
    assert "more than the 1.0 GB" in doctor._fit(need, 10**9, "Give them.").sentence


def test_the_path_of_products_on_a_gpu_is_told(settings, monkeypatch):
    path = ComputePath(why_not="The kernels are not used: they are far.")
    assert doctor._kernels(path).state == "note"
    assert doctor._kernels(path).mend
    told = doctor._kernels(ComputePath(Launching((9, 0))))
    assert told.state == "good"
    assert "skinny up to 32 rows, middle up to 512" in told.sentence


def test_what_rounds_are_priced_by_is_told(settings, tmp_path):
    """This machine's own table, the one that ships, or that there is none."""
    profile = load_profiles()["nvfp4"]
    choice = Choice(tmp_path, profile, is_demo=False)

    def told(capability) -> list:
        path = ComputePath(Launching(capability)) if capability else ComputePath()
        return list(doctor._prices(settings, choice, SHAPE_27B, path))

    assert told(None) == []
    (shipped,) = told((9, 0))
    assert (shipped.topic, shipped.state) == ("prices", "good")
    assert shipped_prices("sm_90", "nvfp4").source in shipped.sentence
    (guessed,) = told((12, 1))
    assert guessed.state == "note"
    assert "not measured" in guessed.sentence
    assert "'qwen38 tune --family rounds' measures them." in guessed.mend
    (unknown,) = told((8, 0))
    assert unknown.state == "note"
    assert "none is routed" in unknown.sentence
    served = Served.of(SHAPE_27B, profile.formats, (12, 1), "bf16")
    own = replace(shipped_prices("sm_121", "nvfp4"), source="this machine")
    path = prices_path(settings.data_dir, (12, 1))
    write_prices(path, {}, served, own)
    (mine,) = told((12, 1))
    assert (mine.state, mine.sentence) == ("good", f"Rounds are priced by {path}: this machine.")
    path.write_text("[[")
    (damaged,) = told((12, 1))
    assert damaged.state == "note"
    assert f"{path} is not used" in damaged.sentence
    assert "not measured" in damaged.sentence
