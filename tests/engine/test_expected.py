"""What a profile is expected to do comes from bytes and a measured bandwidth, and says so."""

import shutil
from dataclasses import replace

import pytest

from engine import expected
from engine.compute_path import ComputePath
from engine.draft.price_table import PriceTable, shipped_prices
from engine.expected import expect, expect_here
from engine.machine.measure import ReadBandwidth
from engine.model.packing import Launching
from engine.profile import load_profiles, profile_folder
from engine.settings.load import load_settings
from engine.tune.user_prices import Served, prices_path, write_prices

PROFILES = load_profiles()
GB = 10**9
H200 = ComputePath(Launching((9, 0)))
SPARK = ComputePath(Launching((12, 1)))
CPU = ComputePath()


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def of(name: str, path: ComputePath = H200, **changed):
    facts = {"read_gb_s": 4500.0, "free_bytes": 140 * GB} | changed
    return expect(PROFILES[name], 32768, path, **facts)


def test_the_most_is_the_bandwidth_over_the_bytes_of_a_round():
    one = of("nvfp4")
    assert 15.0 * GB < one.early_bytes < 15.8 * GB
    assert one.most_tok_s == 4500.0 * GB / one.early_bytes
    assert of("nvfp4", read_gb_s=2250.0).most_tok_s == one.most_tok_s / 2


def test_fewer_bits_are_faster_where_they_are_held_as_stored_only():
    assert of("nvfp4").most_tok_s > of("balanced").most_tok_s > of("fp8").most_tok_s
    on_cpu = [of(name, CPU).most_tok_s for name in ("nvfp4", "fp8", "bf16")]
    assert on_cpu[0] == on_cpu[1] == on_cpu[2]


def test_a_timed_model_tells_its_time_and_whose_it_was():
    one = of("nvfp4")
    table = shipped_prices("sm_90", "nvfp4")
    assert one.timed_tok_s == pytest.approx(1000 / table.verify(1, 1024))
    assert one.source == table.source
    assert "H200" in one.source
    assert one.timed_tok_s > of("fp8").timed_tok_s > 0.5 * one.timed_tok_s


@pytest.mark.parametrize("name", ["bf16", "balanced", "demo"])
def test_nothing_is_told_of_a_model_that_nobody_timed(name: str):
    assert of(name).timed_tok_s is None
    assert not of(name).source


def test_computed_prices_and_the_reference_tell_no_time():
    assert of("nvfp4", SPARK).timed_tok_s is None
    assert of("nvfp4", CPU).timed_tok_s is None


OWN = PriceTable("bf16", (1,), (1024,), ((40.0,),), (), (), source="this very machine")


@pytest.mark.parametrize(("name", "path"), [("bf16", H200), ("balanced", SPARK), ("demo", CPU)])
def test_what_this_machine_measured_comes_first_for_any_model(tmp_path, name, path):
    profile, plain = PROFILES[name], of(name, path)
    served = Served.of(plain.need.config, profile.formats, path.capability, "bf16")
    write_prices(prices_path(tmp_path, path.capability), {}, served, OWN)
    one = of(name, path, data_dir=tmp_path)
    assert plain.timed_tok_s is None
    assert (one.timed_tok_s, one.source, one.notice) == (25.0, "this very machine", "")


def test_a_damaged_table_of_this_machine_is_told(tmp_path):
    path = prices_path(tmp_path, (9, 0))
    path.parent.mkdir()
    path.write_text("[[")
    one = of("nvfp4", data_dir=tmp_path)
    assert one.source == of("nvfp4").source
    assert f"{path} is not used" in one.notice


def test_a_slower_gpu_of_the_same_kind_is_not_told_to_beat_its_own_bandwidth():
    slow = of("nvfp4", read_gb_s=1000.0)
    assert slow.timed_tok_s == slow.most_tok_s
    unmeasured = of("nvfp4", read_gb_s=0.0)
    assert (unmeasured.timed_tok_s, unmeasured.most_tok_s) == (None, 0.0)


def test_the_state_tells_whether_it_would_open():
    assert of("demo").state == "ready"
    assert of("demo", free_bytes=1000).state == "too large"
    missing = of("fp8")
    assert missing.state == "missing"
    assert missing.fits
    assert not of("fp8", free_bytes=GB).fits


def test_a_config_that_does_not_read_is_refused(tmp_path):
    snapshot = tmp_path / "hub" / "models--Qwen--Qwen3.8-27B-FP8" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{")
    one = of("fp8")
    assert one.state == "refused"
    assert "config.json" in str(one.need.problem)


def test_files_that_are_cut_are_refused_by_their_headers(tmp_path):
    files = tmp_path / "model"
    shutil.copytree(profile_folder() / "demo", files)
    (files / "mtp.safetensors").write_bytes((files / "mtp.safetensors").read_bytes()[:-1])
    one = expect(
        replace(PROFILES["demo"], folder=str(files)), 1024, CPU, read_gb_s=10.0, free_bytes=GB
    )
    assert one.state == "refused"
    assert "mtp.safetensors is truncated" in str(one.need.problem)


def test_this_machine_is_measured_once_for_all(monkeypatch):
    asked = []
    measured = ReadBandwidth(10.0, "")
    monkeypatch.setattr(expected, "read_bandwidth", lambda device: asked.append(device) or measured)
    settings, _ = load_settings()
    settings = replace(settings, model=replace(settings.model, device="cpu"))
    found = expect_here(settings, PROFILES.values())
    assert asked == ["cpu"]
    assert [one.need.profile for one in found] == list(PROFILES)
    assert all(one.read_gb_s == 10 for one in found)
