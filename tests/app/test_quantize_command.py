"""`qwen38 quantize` as a person meets it."""

import json
import re
import shlex

import pytest

from tests.engine.quantize.demo import calibration_file, write_source


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("source") / "short", layers=(0,))


def test_a_release_becomes_a_folder_that_answers(source, qwen38, tmp_path):
    out = tmp_path / "my out"
    text = calibration_file(tmp_path)
    given = ("--method", "gptq", "--calibration", str(text), "--tokens", "384")
    done = qwen38("quantize", str(source), str(out), *given, "--sequence", "384", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    told = done.stderr.decode().splitlines()
    assert told[0] == "exchanges.txt: 384 tokens in 1 sequence."
    sizes = r"It takes at most [\d.]+ MB of memory, the program among it, and [\d.]+ MB of disk\."
    assert re.match(sizes, told[1])
    assert "layers-0" in told[5]
    assert "left" in told[5]
    table = done.stdout.decode()
    assert "down_proj" in table
    told = next(line for line in table.splitlines() if line.startswith("Try it with:"))
    command = shlex.split(told.partition(":")[2])  # as a shell reads what is copied
    assert command[1:] == ["run", "--model", str(out), "hello"]
    done = qwen38(*command[1:], "--max-tokens", "4", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["token_ids"]) > 0
    again = qwen38(
        "quantize", str(source), str(out), *given, "--sequence", "384", "--device", "cpu"
    )
    assert again.returncode == 0
    assert again.stderr.decode().count("was there") == 4


def test_an_interrupt_says_how_to_go_on(source, qwen38, tmp_path, monkeypatch):
    from engine.quantize import run

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "quantise_layer", interrupted)
    arguments = ("--method", "nearest", "--device", "cpu")
    done = qwen38("quantize", str(source), str(tmp_path / "out"), *arguments)
    assert done.returncode == 130
    assert b"same command again" in done.stderr
    assert (tmp_path / "out" / "head.safetensors").is_file()


def test_a_dry_run_writes_nothing(source, qwen38, tmp_path):
    out = tmp_path / "out"
    done = qwen38(
        "quantize", str(source), str(out), "--method", "nearest", "--dry-run", "--device", "cpu"
    )
    assert done.returncode == 0, done.stderr
    assert b"Nothing was written" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("no-such", "out"), 3, "config.json is missing"),
        (("{source}", "{source}"), 2, "within each other"),
        (("{source}", "out", "--method", "awq"), 2, "expected one of nearest, clip, gptq"),
        (("{source}", "out", "--calibration", "no-such"), 2, "does not read"),
        (
            ("{source}", "out", "--method", "nearest", "--calibration", "a.txt"),
            2,
            "--method nearest reads no text",
        ),
        (("{source}", "out", "--tokens", "0"), 2, "--tokens"),
    ],
)
def test_refusals_are_sentences(arguments, code, said, source, qwen38, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [one.format(source=source) for one in arguments]
    done = qwen38("quantize", *words, "--device", "cpu")
    assert done.returncode == code
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_help_says_how_the_methods_differ(qwen38):
    done = qwen38("quantize", "--help")
    text = " ".join((done.stdout + done.stderr).decode().split())
    for word in ("nearest", "clip", "gptq", "--calibration", "--dry-run", "same command again"):
        assert word in text
