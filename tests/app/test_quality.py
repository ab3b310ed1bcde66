"""``qwen38 quality`` for a person and for a script: a report, a file, an exit code."""

import json
from dataclasses import replace

import pytest

from app.command_line import with_left_out_values
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.fakes.model import write_text_files

CONFIG = replace(TINY, vocab_size=320, eos_ids=(302,))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, tensors = tmp_path_factory.mktemp("models"), random_tensors(CONFIG)
    wrong = tensors | {"lm_head.weight": 30 * tensors["lm_head.weight"].roll(1, 0)}
    for name, form in (("right", tensors), ("wrong", wrong)):
        write_text_files(write_checkpoint(root / name, CONFIG, tensors=form))
    (root / "text.txt").write_text("It was raining when the ferry came in. " * 6)
    return root


@pytest.fixture
def quality(qwen38, folders):
    def call(candidate: str, *more: str):
        return qwen38(
            "quality", "--model", str(folders / "right"), "--candidate", str(folders / candidate),
            "--text", str(folders / "text.txt"), "--answer-tokens", "6", "--device", "cpu", *more,
        )  # fmt: skip

    return call


def test_a_person_reads_a_report_and_sees_how_far_it_is(quality):
    done = quality("right")
    assert done.returncode == 0
    assert done.stdout.startswith(b"# Quality: right against right\n\n**passed.**")
    assert b"candidate: text.txt, " in done.stderr


def test_a_candidate_over_the_bar_ends_with_1_and_a_file_with_the_figures(quality, tmp_path):
    done = quality("wrong", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 1
    assert b"**failed.**" in done.stdout
    data = json.loads((tmp_path / "found.json").read_text())
    assert data["passed"] is False
    assert data["texts"][0]["difference"]["mean"] > data["bar_nats"]


def test_a_bare_json_is_all_there_is_on_stdout(quality):
    done = quality("wrong", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["candidate"]["model"] == "wrong"
    given = with_left_out_values(["quality", "--json", "--model", "x"])
    assert given == ["quality", "--json=-", "--model", "x"]
    assert with_left_out_values(["run", "hi", "--json"]) == ["run", "hi", "--json"]


def test_keys_and_values_in_8_bits_are_a_candidate(qwen38, folders):
    done = qwen38(
        "quality", "--model", str(folders / "right"), "--candidate-set", "model.kv=fp8", "--text",
        str(folders / "text.txt"), "--answer-tokens", "0", "--device", "cpu", "--json",
    )  # fmt: skip
    assert done.returncode == 0
    data = json.loads(done.stdout)
    sides = [data[one] for one in ("reference", "candidate")]
    assert sides[0]["path"] == sides[1]["path"]
    assert ["kv-e4m3" in one["arithmetic"] for one in sides] == [False, True]
    assert data["texts"][0]["difference"]["mean"] != 0


def test_a_setting_alone_makes_a_candidate_of_the_same_files(qwen38, folders):
    done = qwen38(
        "quality", "--model", str(folders / "right"), "--candidate-set", "model.hold=stored",
        "--text", str(folders / "text.txt"), "--answer-tokens", "0", "--device", "cpu", "--json",
    )  # fmt: skip
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["texts"][0]["difference"]["mean"] == 0  # this one changes no bit
    assert data["candidate"]["path"] == data["reference"]["path"]


def test_profiles_alone_make_a_candidate_of_the_same_files(qwen38, folders):
    done = qwen38(
        "quality", "--model", str(folders / "right"), "--profile", "bf16", "--candidate-profile",
        "fp8", "--text", str(folders / "text.txt"), "--answer-tokens", "0", "--device", "cpu",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["candidate"]["profile"] == "fp8"
    assert data["candidate"]["path"] == data["reference"]["path"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, b"There is no candidate."),
        (("--candidate", "/no/such/folder"), 3, b"/no/such/folder does not exist"),
        (("--candidate", ".", "--json", "/no/such/folder/x"), 2, b"does not exist"),
        (("--candidate-profile", "nvpf4"), 2, b"Did you mean 'nvfp4'?"),
        (("--candidate-set", "model.kv"), 2, b"Write --candidate-set NAME=VALUE."),
        (("--candidate-set", "kernels.prefill=fp9"), 2, b"kernels.prefill"),
        (("--candidate-set", "chat.theem=light"), 2, b"Did you mean 'chat.theme'?"),
        (("--candidate-set", "chat.theme=light"), 2, b"can be compared: model.dir, "),
        (
            ("--candidate-profile", "demo-fp8", "--candidate-set", "sampling.seed=1"),
            2,
            b"nothing to compare",
        ),
        (("--candidate-set", "model.kv=bf16"), 2, b"'model.kv' is 'bf16' on both sides"),
        (("--candidate-profile", "demo"), 2, b"The profile is 'demo' on both sides"),
        (("--candidate-set", "kernels.prefill=fp8", "--device", "cpu"), 2, b"On a CPU no kernel"),
        (("--candidate-profile", "demo-fp8", "--text", "/no/such/text"), 2, b"does not read"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(qwen38, arguments, code, said):
    done = qwen38("quality", *arguments)
    assert done.returncode == code
    assert said in done.stderr
