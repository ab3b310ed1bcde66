"""`bench kernels` and `tune` as a person meets them: tables, files, refusals and exit codes."""

import json
import time
import tomllib
from dataclasses import replace

import pytest

from engine.check import families
from engine.draft.price_table import PriceTable
from engine.model.config import SHAPE_DEMO, SHAPES, hybrid_layers
from engine.model.config_file import read_config
from engine.profile import load_profiles, profile_folder
from engine.tune import rounds, tiles, user_prices
from engine.tune import run as tuning
from tests.fakes import family as fake


class Sleeper(fake.Ran):
    """Calls that take as long as their tile says, in tenths of a millisecond."""

    def make_calls(self, num_copies, device):
        return [lambda tile: time.sleep(tile.us * 1e-4)] * 2


@pytest.fixture
def on_a_gpu(monkeypatch, tmp_path):
    """Let the command believe in a GPU and tune the fake family: ``on_a_gpu(tile, ...)``."""

    def call(*candidates):
        family = fake.family(Sleeper(), (fake.PRESENT, *candidates))
        monkeypatch.setattr("engine.doctor.has_cuda", lambda: True)
        monkeypatch.setattr("engine.compute_path.what_triton_lacks", lambda: None)
        monkeypatch.setattr(families, "choose_families", lambda names, *_: (family,))
        monkeypatch.setattr(tiles, "load_families", lambda names: (family,))
        place = lambda folder: tuning.Place("cpu", fake.CAPABILITY, folder)
        monkeypatch.setattr(tuning, "this_gpu", place)
        tiles.forget_tables()

    yield call
    tiles.forget_tables()


def test_bench_kernels_prints_a_table_and_writes_what_it_measured(qwen38, tmp_path):
    target = tmp_path / "kernels.json"
    done = qwen38(
        *("bench", "kernels", "--family", "norm", "--shape", "demo", "--rows", "1", "--peers"),
        *("--device", "cpu", "--json", str(target)),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(target.read_text())
    assert [one["name"] for one in result["problems"]] == [
        *("residual + norm", "norm", "query norm", "key norm", "gated norm"),
    ]
    for one in result["problems"]:
        assert 0 < one["low_us"] <= one["us"] <= one["high_us"]
        assert one["share"] == pytest.approx(one["gb_s"] / result["read_gb_s"])
        assert one["peers"][0]["name"] == "copy"
    text = done.stdout.decode()
    assert "read bandwidth measured now: " in text
    assert "norm: 15 proofs green (timed cases)" in text
    assert text.count("\nnorm      ") == len(result["problems"])
    assert "against copy" in text
    assert b"checking what is timed of norm" in done.stderr


def test_bench_kernels_refuses_in_a_sentence(qwen38, tmp_path):
    for arguments, words in (
        (("--family", "nrom"), "There is no kernel family 'nrom'. Did you mean 'norm'?"),
        (("--shape", "28b"), "There is no shape '28b'. Did you mean '27b'?"),
        (("--rows", "1,x"), "--rows is '1,x', expected numbers between commas"),
        (("--rows", "0"), "A call has 1 to 65,536 rows, not 0."),
        (("--device", "tpu"), "expected one of auto, cpu, cuda"),
        (("--json", str(tmp_path / "none" / "x")), "does not exist"),
    ):
        done = qwen38("bench", "kernels", "--device", "cpu", *arguments)
        assert done.returncode == 2
        assert words in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


def test_a_red_kernel_is_not_timed_and_the_exit_code_says_so(qwen38, monkeypatch):
    def wrong(inputs, outputs, tile=None):
        fake.run(inputs, outputs, fake.WRONG)

    ran = fake.Ran()
    red = fake.family(ran, run_default=wrong, run=wrong)
    monkeypatch.setattr(families, "choose_families", lambda names, *_: (red,))
    done = qwen38("bench", "kernels", "--device", "cpu")
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()[-1]
    assert said.startswith("Check: fake is red and is not timed: double ")
    assert said.endswith("See 'qwen38 check --family fake'.")
    assert not done.stdout
    assert not ran.tiles


def test_tune_without_a_gpu_is_a_sentence(qwen38, monkeypatch):
    monkeypatch.setattr("engine.doctor.has_cuda", lambda: False)
    done = qwen38("tune")
    assert done.returncode == 2
    assert done.stderr.startswith(b"Request: There is no CUDA device here")
    assert done.stderr.count(b"\n") == 1
    for name, meant in (("nrom", b"norm"), ("round", b"rounds")):
        done = qwen38("tune", "--family", name)
        assert done.returncode == 2
        assert b"Did you mean '" + meant + b"'?" in done.stderr
    assert qwen38("tune", "--seconds", "0").returncode == 2


def test_tune_shows_before_and_after_and_writes_a_table(qwen38, on_a_gpu, tmp_path):
    on_a_gpu(fake.FAST, fake.WRONG)
    done = qwen38("tune")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    path = tmp_path / "data" / "tiles" / "fake-sm_90.toml"
    assert f"Written to {path}; it serves from the next start on." in text
    refused = (
        "refused for double width=8: FakeTile(does='wrong', us=1.0): it changes bits, which is"
    )
    assert refused in text
    assert "FakeTile(does='sound', us=5.0)" in text
    assert tomllib.loads(path.read_text())["tile"][0]["us_a_call"] == 5.0
    assert b"fake double width=8: 3 tiles (1/1)" in done.stderr
    again = qwen38("tune")
    assert b"Nothing is faster than the present tiles; no table was written." in again.stdout


def test_tune_times_the_27b_and_the_own_model_in_the_formats_of_its_files(
    qwen38, on_a_gpu, monkeypatch
):
    on_a_gpu()
    asked = []

    def tune(families, models, place, **_):
        asked.extend((one.name, one.hidden_size, one.formats) for one in models)
        return tuning.Tuning()

    monkeypatch.setattr(tuning, "tune", tune)
    assert qwen38("tune", "--profile", "demo").returncode == 0
    own, shape = ("demo", 256, ("fp8_block",)), ("27b", 5120, ("nvfp4", "fp8_block"))
    assert asked == [own, shape]
    asked.clear()
    assert qwen38("tune").returncode == 0
    assert asked == [shape, own]


def test_tune_counts_what_the_time_did_not_reach_and_names_what_comes_next(qwen38, monkeypatch):
    monkeypatch.setattr("engine.doctor.has_cuda", lambda: True)
    monkeypatch.setattr("engine.compute_path.ready_kernels", lambda *_: "")
    left = tuning.Tuning(unreached=[f"fake double width={width}" for width in range(8, 208)])
    monkeypatch.setattr(tuning, "this_gpu", lambda folder: None)
    monkeypatch.setattr(tuning, "tune", lambda *_, **__: left)
    printed = qwen38("tune").stdout.decode()
    assert "did not reach 200 of 200 entries, the first of them fake double width=8;" in printed
    assert "width=9" not in printed


def test_tune_dry_run_writes_nothing(qwen38, on_a_gpu, tmp_path):
    on_a_gpu(fake.FAST)
    done = qwen38("tune", "--dry-run")
    assert done.returncode == 0
    assert b"Nothing was written (--dry-run)." in done.stdout
    assert not (tmp_path / "data").exists()


def test_tune_says_what_is_red_and_ends_with_one(qwen38, on_a_gpu, monkeypatch):
    on_a_gpu(fake.FAST)
    (family,) = families.choose_families(None)
    (tunable,) = family.tunables
    red = replace(family, tunables=(replace(tunable, default=lambda key: fake.LEAVES_A_HOLE),))
    monkeypatch.setattr(families, "choose_families", lambda names, *_: (red,))
    done = qwen38("tune")
    assert done.returncode == 1
    assert b"Check: fake double width=8 is red and is not tuned" in done.stderr


def test_tune_on_a_full_disk_is_a_sentence(qwen38, on_a_gpu, tmp_path):
    on_a_gpu(fake.FAST)
    (tmp_path / "data").write_text("a file where the folder should be")
    done = qwen38("tune")
    assert done.returncode == 1
    assert b"Output: " in done.stderr
    assert b"cannot be written" in done.stderr


def test_tune_refuses_a_model_that_is_not_there(qwen38, on_a_gpu):
    on_a_gpu(fake.FAST)
    assert qwen38("tune", "--model", "/no/such/folder").returncode == 3


@pytest.fixture
def few_rounds(monkeypatch):
    monkeypatch.setitem(SHAPES, "demo", SMALL)
    monkeypatch.setattr(rounds, "NUM_PASSES", 1)
    monkeypatch.setattr(rounds, "NUM_DRAFTS", 1)


SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=512)
ROUNDS = ("tune", "--family", "rounds", "--shape", "demo", "--profile", "demo")


def test_tune_prices_rounds_and_needs_no_gpu_for_it(qwen38, few_rounds, tmp_path):
    done = qwen38(*ROUNDS, "--rows", "1,4", "--context", "8,16")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    staircase = [one.split() for one in lines if one.startswith(("verify", "chain", "tree"))]
    assert staircase[0] == ["verify", "ms,", "behind", "8", "16"]
    assert [one[:2] for one in staircase[1:]] == [["chain", "1"], ["chain", "4"], ["tree", "4"]]
    assert any(one.startswith("drafts of the MTP head: 1 step ") for one in lines)
    path = tmp_path / "data" / "prices" / "cpu.toml"
    assert lines[-1] == f"Written to {path}; it serves from the next start on."
    (entry,) = tomllib.loads(path.read_text())["prices"]
    command = "qwen38 tune --family rounds --shape demo --profile demo"
    assert entry["source"].endswith(command)
    assert b"rounds of 1, 4 rows behind 16" in done.stderr
    again = qwen38(*ROUNDS, "--rows", "1", "--context", "8", "--dry-run")
    assert b"Nothing was written (--dry-run)." in again.stdout
    assert tomllib.loads(path.read_text())["prices"] == [entry]


def test_profiles_tells_what_this_machine_measured(qwen38, tmp_path):
    demo = load_profiles()["demo"]
    config = read_config(profile_folder() / "demo")
    table = PriceTable("x", (1,), (1024,), ((8.0,),), (), (), source="measured right here")
    path = user_prices.prices_path(tmp_path / "data", None)
    served = user_prices.Served.of(config, demo.formats, None, "bf16")
    user_prices.write_prices(path, {}, served, table)
    shown = json.loads(qwen38("profiles", "show", "demo", "--json").stdout)
    assert shown["timed_tok_s"] == min(125.0, shown["most_tok_s"])
    assert b", by measured right here" in qwen38("profiles", "show", "demo").stdout
    path.write_text("[[")
    for arguments in (("profiles",), ("profiles", "show", "demo")):
        said = qwen38(*arguments).stdout.decode()
        assert f"{path} is not used" in said
        assert "measured right here" not in said


def test_tune_of_rounds_refuses_in_a_sentence(qwen38, few_rounds):
    for arguments, words in (
        (("tune", "--rows", "1"), "Write --family rounds beside them."),
        ((*ROUNDS, "--rows", "4,1"), "--rows is 4, 1, expected numbers that ascend."),
        ((*ROUNDS, "--context", "x"), "expected numbers between commas"),
        ((*ROUNDS, "--shape", "28b"), "Did you mean '27b'?"),
        ((*ROUNDS, "--seconds", "5"), "--seconds is of the sweep of tiles."),
        ((*ROUNDS, "--family", "linear", "--rows", "33"), "A round has 1 to 32 rows, not 33."),
    ):
        done = qwen38(*arguments)
        assert done.returncode == 2
        assert words in done.stderr.decode()
        assert done.stderr.count(b"\n") <= 2
