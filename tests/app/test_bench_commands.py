"""`bench prefill`, `bench ab` and `doctor --explain` as a person meets them."""

import errno
import json
import os
from dataclasses import asdict, replace

import pytest

from app.commands import bench_figures, bench_round
from engine.bench import ab
from engine.bench.launches import Place
from engine.bench.switches import SWITCHES
from engine.compute_path import ComputePath
from engine.errors import OutputError
from engine.model.config import SHAPE_DEMO, SHAPES, hybrid_layers
from engine.model.packing import Launching

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0, vocab_size=512)
ROUNDS = ("--rows", "2", "--rounds", "1", "--context", "16")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(SHAPES, "demo", SMALL)


@pytest.fixture
def on_kernels(small, monkeypatch):
    monkeypatch.setattr(ab, "choose_compute_path", lambda *_: ComputePath(Launching((9, 0))))
    monkeypatch.setattr(ab, "NUM_PASSES", 2)


def test_bench_round_shows_phases_launches_and_parts(small, qwen38, tmp_path):
    target = tmp_path / "rounds.json"
    done = qwen38(
        *("bench", "round", "--rows", "1,2", "--context", "16", "--repetitions", "2"),
        *("--device", "cpu", "--json", str(target)),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(target.read_text())
    for one in result["rounds"]:
        assert one["launches"] is None
        assert set(one["phases"]) == {"draft", "verify", "accept", "host"}
        verify = one["phases"]["verify"]
        assert verify["bytes"] == sum(one["bytes"].values())  # nothing was drafted
        assert verify["gb_s"] == pytest.approx(verify["bytes"] / verify["ms"] / 1e6)
        assert verify["share"] == pytest.approx(verify["gb_s"] / result["read_gb_s"])
        assert one["phases"]["host"]["bytes"] == 0
    lines = done.stdout.decode().splitlines()
    assert lines[4].split() == ["rows", "phase", "launches", "ms", "best", "GB", "GB/s", "share"]
    assert [line.split()[0] for line in lines[6:10]] == ["draft", "verify", "accept", "host"]
    assert lines[-3].split() == ["rows", "GB", "of", "weights", "head", "state", "kv"]


def test_bench_round_says_that_a_cpu_has_no_kernels_to_tell(small, qwen38):
    done = qwen38(
        *("bench", "round", "--context", "16", "--repetitions", "1", "--device", "cpu"), "--kernels"
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.decode().splitlines()[-1]
    assert last == "No kernel was seen: a CPU has none, or the driver lets nobody look."


def test_bench_round_refuses_before_anything_is_drawn(qwen38):
    for arguments, words in (
        (("--rows", "33"), "A round has 1 to 32 rows, not 33."),
        (("--context", "4096"), "The model has 4,096 positions; 4,096 tokens of context"),
    ):
        done = qwen38("bench", "round", *arguments)
        assert (done.returncode, words in done.stderr.decode()) == (2, True)
        assert b"drawing" not in done.stderr


def test_a_round_is_told_by_kernel():
    places = [asdict(Place("skinny", "rows", 64, 26.25, 1.7)), asdict(Place("rows", "", 1, 2, 0.1))]
    drafts = {"kernels": {"places": places[1:]}}
    rounds = [{"rows": 16, "kernels": places}, {"rows": 1, "kernels": None}]
    lines = bench_round._kernels(rounds, drafts)
    assert [" ".join(line.split()) for line in lines] == [
        "",
        "rows kernel, and which it ends behind launches us each adds ms",
        "16 skinny, rows 64 26.25 1.700",
        "16 rows 1 2.00 0.100",
        "",
        "rows kernel, and which it ends behind launches us each adds ms",
        "MTP rows 1 2.00 0.100",
    ]


def test_bench_round_times_the_heads_own_drafts(small, qwen38, tmp_path, monkeypatch):
    monkeypatch.setitem(SHAPES, "demo", replace(SMALL, num_mtp_layers=1))
    target = tmp_path / "rounds.json"
    done = qwen38(
        *("bench", "round", "--context", "16", "--repetitions", "2", "--device", "cpu"),
        *("--json", str(target)),
    )
    assert done.returncode == 0, done.stderr
    drafts = json.loads(target.read_text())["drafts"]
    assert (drafts["rows"], drafts["steps"]) == (4, 3)
    assert drafts["step_ms"] == pytest.approx(drafts["ms"]["draft"] / 3)
    assert 1 <= drafts["tokens"] <= 4
    lines = done.stdout.decode().splitlines()
    assert lines[-2].startswith("MTP, 3 steps   round ms   draft ms  verify ms  accept ms")
    assert lines[-1].split()[:2] == ["4", "rows"]


def test_bench_prefill_writes_what_it_measured(small, qwen38, tmp_path):
    target = tmp_path / "prefill.json"
    done = qwen38(
        *("bench", "prefill", "--tokens", "40,300", "--repetitions", "1", "--device", "cpu"),
        *("--json", str(target), "--set", "kernels.prefill=fp8"),
    )
    assert done.returncode == 0, done.stderr
    assert (
        b"'kernels.prefill' is 'fp8', which needs the kernels of a GPU: prompts are read in BF16."
        in done.stderr
    )
    result = json.loads(target.read_text())
    assert [one["tokens"] for one in result["prompts"]] == [40, 300]
    assert all(0 < one["ms"] < one["first_token_ms"] for one in result["prompts"])
    text = done.stdout.decode()
    assert "demo fp8 on cpu, chunks of 256 tokens, 1 prompt each" in text
    assert "path: reference" in text
    assert "ms: reading alone, host; first ms: with head and choice, host, until" in text
    assert b"prompts of 300 tokens" in done.stderr


def test_bench_prefill_refuses_in_a_sentence(qwen38, tmp_path):
    for arguments, code, words in (
        (("--tokens", "1,x"), 2, "--tokens is '1,x', expected numbers between commas"),
        (("--tokens", "0"), 2, "1 to 4,096 tokens, not 0."),
        (("--shape", "28b"), 2, "There is no shape '28b'. Did you mean '27b'?"),
        (("--profile", "fp9"), 2, "fp9"),
        (("--set", "kernels.prefill=fp9"), 2, "'kernels.prefill'"),
        (("--json", str(tmp_path / "none" / "x")), 2, "does not exist"),
        (("--shape", "27b", "--tokens", "262144"), 4, "a shorter prompt with --tokens"),
    ):
        done = qwen38("bench", "prefill", "--device", "cpu", *arguments)
        assert (done.returncode, words in done.stderr.decode()) == (code, True)
        assert done.stderr.count(b"\n") == 1


def test_bench_ab_gives_a_verdict(on_kernels, qwen38, tmp_path):
    target = tmp_path / "ab.json"
    done = qwen38("bench", "ab", "--switch", "kernels.graphs=off", *ROUNDS, "--json", str(target))
    assert done.returncode == 0, done.stderr
    result = json.loads(target.read_text())
    assert (result["base"]["value"], result["candidate"]["value"]) == ("on", "off")
    assert (result["equal_tokens"], result["equal_logits"], result["fault"]) == (True, True, "")
    text = done.stdout.decode()
    assert "kernels.graphs, 2 passes of 1 round of 2 rows, 16 before" in text
    assert "tokens are equal; equal logits, bit for bit" in text
    assert text.splitlines()[-1].startswith("resolved" if result["resolved"] else "not resolved")


def test_bench_ab_ends_with_one_when_tokens_differ(on_kernels, qwen38, monkeypatch, tmp_path):
    relaunched = ab.relaunched

    def spoilt(model, launching):
        found = relaunched(model, launching)
        if not launching.graphs:
            found.weights = replace(found.weights, norm=-2 - found.weights.norm)
        return found

    monkeypatch.setattr(ab, "relaunched", spoilt)
    target = tmp_path / "ab.json"
    done = qwen38("bench", "ab", "--switch", "kernels.graphs=off", *ROUNDS, "--json", str(target))
    assert done.returncode == 1
    assert b"The two differ: Round 0 chose" in done.stdout
    assert not json.loads(target.read_text())["equal_tokens"]


def test_bench_ab_says_which_switches_there_are(qwen38):
    told = qwen38("bench", "ab", "--help").stdout.decode()
    assert all(name in told for name in SWITCHES)


def test_bench_ab_refuses_in_a_sentence(qwen38):
    for switch, words in (
        ("kernels.graphs=off", "changes nothing here: reference"),
        ("kernels.linear=reference", "weights are packed for it while they load"),
        ("kernels.graph=off", "Did you mean 'kernels.graphs'?"),
        ("kernels.graphs=x", "expected on or off"),
    ):
        done = qwen38("bench", "ab", "--switch", switch, "--device", "cpu")
        assert (done.returncode, words in done.stderr.decode()) == (2, True)
        assert done.stderr.count(b"\n") == 1
    assert qwen38("bench", "ab").returncode == 2


def test_doctor_explains_every_operation(qwen38):
    done = qwen38("doctor", "--explain")
    assert done.returncode == 0
    text = done.stdout.decode()
    assert "What runs on cpu for " in text
    assert "path      reference  The model runs on the CPU" in text
    assert "a decode round, 1 to 32 rows" in text
    assert "a chunk of prefill" in text
    assert text.count("delta rule of a ") == 2
    told = json.loads(qwen38("doctor", "--explain", "--json").stdout)
    assert {"can_chat", "findings", "explanation"} == set(told)
    operations = told["explanation"]["operations"]
    assert {one["phase"] for one in operations} == {"round", "between", "chunk"}
    assert all(one["kernel"] and one["reason"] and one["times"] for one in operations)
    assert "explanation" not in json.loads(qwen38("doctor", "--json").stdout)


def test_doctor_explains_a_shape(qwen38):
    done = qwen38("doctor", "--explain", "--json", "--shape", "27b", "--profile", "fp8")
    told = json.loads(done.stdout)["explanation"]
    assert told["subject"] == "the shape 27b in the formats of 'fp8'"
    assert {one["times"] for one in told["operations"]} >= {48, 16, 64}
    done = qwen38("doctor", "--explain", "--shape", "27b", "--set", "kernels.prefill=fp8")
    assert b"prefill   bf16       There are no kernels with FP8 operands." in done.stdout
    for arguments, words in (
        (("--explain", "--shape", "28b"), b"Did you mean '27b'?"),
        (("--shape", "27b"), b"Write --explain beside it."),
    ):
        done = qwen38("doctor", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True)


def test_bench_ui_tells_what_the_screen_costs(qwen38, tmp_path):
    target = tmp_path / "ui.json"
    done = qwen38(
        *("bench", "ui", "--tokens", "100", "--rate", "1000", "--messages", "20"),
        *("--json", str(target)),
    )
    result = json.loads(target.read_text())
    assert done.returncode == (0 if result["is_met"] else 1), done.stderr
    assert result["engine"]["kind"] == "timed"
    assert [one["name"] for one in result["answers"]] == ["code", "list", "table"]
    for one in result["answers"]:
        assert one["ratio"] == pytest.approx(one["tui_tok_s"] / one["run_tok_s"])
        assert one["num_tokens"] >= 100
        assert one["name"] in done.stdout.decode()
    assert result["is_met"] == (
        result["conversation"]["is_met"] and all(one["is_met"] for one in result["answers"])
    )


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--engine", "model"), ["demo"]),
        (("--engine", "random", "--shape", "demo", "--profile", "fp8"), ["code", "list", "table"]),
    ],
)
def test_bench_ui_measures_with_an_engine_that_computes(
    qwen38, tmp_path, monkeypatch, arguments, names
):
    monkeypatch.setitem(SHAPES, "demo", replace(SMALL, vocab_size=SHAPE_DEMO.vocab_size))
    target = tmp_path / "ui.json"
    done = qwen38(
        *("bench", "ui", "--tokens", "32", "--passes", "2", "--messages", "4", "--device", "cpu"),
        *("--seed", "3", "--json", str(target), *arguments),
    )
    result = json.loads(target.read_text())
    assert done.returncode == (0 if result["is_met"] else 1), done.stderr
    assert result["engine"]["device"] == "cpu"
    assert [one["name"] for one in result["answers"]] == names
    for one in result["answers"]:
        assert 1 < one["num_tokens"] <= 32
        assert len(one["pairs"]) == 2
        mean = [sum(side) / 2 for side in zip(*one["pairs"], strict=True)]
        assert [one["run_tok_s"], one["tui_tok_s"]] == pytest.approx(mean)
    assert b"pass by pass" in done.stdout


def test_bench_ui_refuses_in_a_sentence(qwen38):
    for arguments, words in (
        (("--engine", "modelx"), "There is no engine 'modelx'. Did you mean 'model'?"),
        (("--engine", "random", "--shape", "28b"), "Did you mean '27b'?"),
        (("--engine", "random", "--profile", "nvfp5"), "nvfp4"),
        (("--profile", "nvfp4"), "Write --engine model or random beside it."),
        (("--engine", "model", "--shape", "27b"), "--shape says nothing to the engine 'model'."),
        (("--engine", "random", "--model", "/x"), "--model says nothing to the engine 'random'."),
        (("--engine", "model", "--rate", "60"), "Write --engine timed beside it."),
        (("--tokens", "99999999999"), "'sampling.max_tokens' is 99999999999, expected 1 to"),
        (("--seed", "99999999999999999999"), "'sampling.seed' is 99999999999999999999, expected"),
        (("--messages", "999999999"), "less than or equal to 100000"),
        (("--set", "nope=1"), "there is no setting 'nope'"),
    ):
        done = qwen38("bench", "ui", *arguments)
        assert (done.returncode, words in done.stderr.decode()) == (2, True)


def test_figures_of_before_stay_when_the_disk_refuses_new_ones(tmp_path, monkeypatch):
    target = tmp_path / "rounds.json"
    bench_figures.write_figures(target, {"ms": 1})

    def refuse(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OutputError, match="No space left on device"):
        bench_figures.write_figures(target, {"ms": 2})
    assert json.loads(target.read_text()) == {"ms": 1}
    assert list(tmp_path.iterdir()) == [target]
