"""One answer for scripts: stdout holds data only, and every failure has its sentence and code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.conftest import ROOT

ANSWER = "A volcano is a mountain that can erupt."


def test_the_answer_is_byte_exact_on_a_pipe(scripted):
    text = "raw \x1b[2J and \u202e bytes"
    done = scripted([{"answer": text}], "run", "hello")
    assert done.returncode == 0
    assert done.stdout == text.encode() + b"\n"
    assert done.stderr == b""


def test_an_answer_ends_with_one_newline(scripted):
    assert scripted([{"answer": "it ends\n"}], "run", "hi").stdout == b"it ends\n"
    assert scripted([{"answer": "it does not"}], "run", "hi").stdout == b"it does not\n"


def test_stdin_is_the_prompt_and_the_argument_wins(scripted):
    done = scripted([], "run", "--json", input=b"what is a volcano?\n")
    record = json.loads(done.stdout)
    assert record["text"] == ANSWER
    assert record["prompt_tokens"] == 8
    done = scripted([], "run", "one", "--json", input=b"one two three four")
    assert json.loads(done.stdout)["prompt_tokens"] == 5


def test_the_record_has_what_other_tools_read(scripted):
    done = scripted([], "run", "hi", "--json", "--seed", "7", "--temperature", "0")
    record = json.loads(done.stdout)
    for name in (
        *("text", "token_ids", "finish_reason", "rounds", "ttft_s", "decode_tok_s"),
        *("prefill_tok_s", "seed", "model", "profile", "drafter", "device"),
    ):
        assert name in record
    assert record["seed"] == 7
    assert record["sampling"]["temperature"] == 0
    assert {"drafter", "rows", "accepted", "ms", "bytes"} <= set(record["rounds"][0])


def test_thinking_and_notices_stay_off_stdout(scripted):
    script = {"thinking": "let me see", "notice": "a slower \x1b[2J path"}
    done = scripted([script], "run", "hi")
    assert done.stdout == ANSWER.encode() + b"\n"
    assert "a slower ␛[2J path".encode() in done.stderr


def test_a_fresh_seed_is_drawn_and_told(scripted):
    seeds = {json.loads(scripted([], "run", "hi", "--json").stdout)["seed"] for _ in range(2)}
    assert len(seeds) == 2


def test_token_ids_come_from_a_file(scripted, tmp_path):
    path = tmp_path / "ids.json"
    path.write_text("[1, 2, 3]")
    assert scripted([], "run", "--ids", str(path), "--json").returncode == 0
    assert scripted([], "run", "--ids", "-", "--json", input=b"1 2 3").returncode == 0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "1 two",
        "[1, -2]",
        "[1.5]",
        "[" * 100_000,
        "9" * 5000,
        "\0",
        '["1"]',
        "1 ٢",
        "2 ３",
        "1_0",
        "²",
        "+1",
    ],
)
def test_a_file_without_token_ids_is_refused_in_our_own_words(qwen38, tmp_path, content):
    path = tmp_path / "ids.json"
    path.write_text(content)
    done = qwen38("run", "--ids", str(path))
    assert done.returncode == 2
    assert (
        done.stderr
        == (
            f"Request: {path} holds no token ids. "
            "Write whole numbers, none below 0: a JSON list, or words.\n"
        ).encode()
    )


def test_a_prompt_with_bytes_that_are_no_utf_8_is_read_with_signs_in_their_places(scripted):
    done = scripted([], "run", b"what is \xff\xfe?", "--json")
    assert done.returncode == 0
    assert b"Some bytes of the prompt are no UTF-8" in done.stderr
    refused = scripted([], "run", "hi", "--system", b"be \xff")
    assert (refused.returncode, b"'chat.system' is" in refused.stderr) == (2, True)
    assert b"expected text in UTF-8" in refused.stderr


def test_an_ids_file_that_is_none_is_named(qwen38, tmp_path):
    done = qwen38("run", "--ids", str(tmp_path / "none"))
    assert (done.returncode, b"none is missing." in done.stderr) == (2, True)
    done = qwen38("run", "--ids", str(tmp_path))
    assert (done.returncode, b"Is a directory" in done.stderr) == (2, True)


def test_input_without_an_end_is_refused(scripted):
    done = scripted([], "run", "--ids", "/dev/zero")
    assert (done.returncode, b"more than 16,777,216 bytes" in done.stderr) == (2, True)
    with Path("/dev/zero").open("rb") as zero:
        done = scripted([], "run", stdin=zero)
    assert (done.returncode, b"stdin holds more than" in done.stderr) == (2, True)


def test_a_prompt_that_cannot_fit_is_refused_at_once(qwen38_process):
    done = qwen38_process("run", input=b"word " * 3_000_000)
    assert done.returncode == 2
    assert b"The prompt has at least" in done.stderr


def test_where_logits_go_is_looked_at_before_the_work(qwen38, tmp_path):
    (tmp_path / "folder.safetensors").mkdir()
    for path, words in (
        ("logits.bin", b"ends in .safetensors"),
        ("none/logits.safetensors", b"does not exist"),
        ("folder.safetensors", b"is no file"),
    ):
        done = qwen38("run", "hi", "--logits", str(tmp_path / path))
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stdout == b""


def test_the_replay_drafter_is_given_what_came_out(scripted):
    done = scripted([], "run", "hi", "--drafter", "replay", "--json")
    assert done.returncode == 0
    assert b"something to replay" in done.stderr


def test_a_tree_of_drafts_is_asked_for_and_recorded(qwen38):
    done = qwen38(
        "run", "hello", "--drafter", "wrong", "--draft-shape", "tree", "--draft-tokens", "4",
        "--max-tokens", "6", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["drafter"], record["draft_shape"]) == ("wrong", "tree")
    rounds = [(one["shape"], one["rows"], one["accepted"]) for one in record["rounds"]]
    assert rounds[:2] == [("tree", 5, 0), ("tree", 4, 0)]  # 5 tokens are left, then 4


def test_refusals_are_sentences_with_their_codes(scripted, qwen38):
    for arguments, code, words in (
        (("run", ""), 2, b"The prompt is empty."),
        (("run", "hi", "--draft-tokens", "32"), 2, b"expected 1 to 31 tokens"),
        (("run", "hi", "--draft-shape", "chian"), 2, b"Did you mean 'chain'?"),
        (("run", "hi", "--drafter", "mpt"), 2, b"Did you mean 'mtp'?"),
        (("run", "hi", "--temperature", "-1"), 2, b"expected 0 to 10"),
        (("run", "hi", "--set", "sampling.temprature=1"), 2, b"Did you mean"),
        (("run", "hi", "--set", "nonsense"), 2, b"names no value"),
        (("run", "hi", "--nonsense"), 2, b"No such option"),
        (
            ("run", "hi", "--ids", "ids.txt"),
            2,
            b"no prompt, --system, --read or --no-thinking goes",
        ),
    ):
        done = scripted([], *arguments)
        assert done.returncode == code, arguments
        assert words in done.stderr, arguments
        assert b"Traceback" not in done.stderr
        assert done.stdout == b""
    for model, code, words in (
        ("/no/such/folder", 3, b"does not exist"),
        (__file__, 3, b"is a file"),
        ("", 2, b"names no folder"),
    ):
        done = qwen38("run", "hi", "--model", model)
        assert (done.returncode, words in done.stderr) == (code, True)


def test_empty_and_closed_standard_streams(scripted):
    assert b"holds no prompt" in scripted([], "run", input=b" \n").stderr
    closed = scripted([], "run", preexec_fn=lambda: os.close(0))
    assert closed.returncode == 2
    assert b"There is no prompt" in closed.stderr
    no_output = scripted([], "run", "hi", preexec_fn=lambda: os.close(1))
    assert no_output.returncode == 1
    assert b"stdout is closed" in no_output.stderr
    no_errors = scripted([{"notice": "slow"}], "run", "hi", preexec_fn=lambda: os.close(2))
    assert no_errors.returncode == 0
    assert no_errors.stdout == ANSWER.encode() + b"\n"


def test_a_full_disk_behind_stdout(scripted, environment):
    command = [sys.executable, "-m", "tests.app.driver", "[]", "run", "hi"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_megabyte_of_prompt(scripted):
    done = scripted([], "run", "--json", input=b"word " * 200_000)
    assert json.loads(done.stdout)["prompt_tokens"] == 200_004


def test_an_engine_error_in_mid_answer_keeps_the_text(scripted):
    done = scripted([{"fails_after": 1}], "run", "hi")
    assert done.returncode == 1
    assert done.stdout == b"A volcano is\n"
    assert b"The scripted device was lost." in done.stderr


def test_an_unforeseen_error_is_one_line_and_a_log(scripted, tmp_path):
    done = scripted([{"crashes_after": 1}], "run", "hi")
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1
    assert "RuntimeError: the scripted engine crashed" in lines[0]
    log = next((tmp_path / "state" / "logs").iterdir())
    assert str(log) in lines[0]
    assert "Traceback" in log.read_text()


def test_a_reader_that_goes_away_ends_it_quietly(environment):
    script = json.dumps([{"answer": "word " * 200, "round_s": 0.02}])
    command = [sys.executable, "-m", "tests.app.driver", script, "run", "hi"]
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.read(1)
        child.stdout.close()
        assert child.wait(timeout=60) == 141
        assert child.stderr.read() == b""


def test_ctrl_c_finishes_with_what_there_is(interrupted):
    done = interrupted([{"answer": "word " * 4000, "round_s": 0.02}], "run", "hi", "--json")
    assert done.returncode == 130
    record = json.loads(done.stdout)
    assert record["finish_reason"] == "cancelled"
    assert record["text"].startswith("word word")
    assert b"Stopped" in done.stderr


def test_the_demo_gives_the_same_answer_twice(qwen38_process, tmp_path):
    logits = tmp_path / "logits.safetensors"
    records = [
        json.loads(
            qwen38_process(
                *("run", "--json", "--seed", "1", "--max-tokens", "12", "--logits", str(logits)),
                input=b"what is a volcano?\n",
            ).stdout
        )
        for _ in range(2)
    ]
    assert records[0]["text"] == records[1]["text"]
    assert records[0]["token_ids"] == records[1]["token_ids"]
    assert records[0]["is_demo"]
    assert logits.stat().st_size > 4 * 6000 * len(records[0]["token_ids"])


def test_what_is_piped_in_goes_along_below_the_prompt_where_it_is_asked_for(scripted, tmp_path):
    (tmp_path / "stdin").write_text("one two three")
    by_file = scripted([], "run", "hi", "--read", "stdin", "--json", cwd=tmp_path)
    piped = scripted([], "run", "hi", "--read", "-", "--json", input=b"one two three\n")
    assert piped.stderr == b""
    told = [json.loads(one.stdout)["prompt_tokens"] for one in (by_file, piped)]
    assert told[0] == told[1]


def test_what_is_piped_in_and_not_read_is_told(scripted):
    done = scripted([{"answer": "Well."}], "run", "hi", input=b"one two three")
    assert done.stdout == b"Well.\n"
    assert (
        b"What is piped in is not read beside a prompt: '--read -' sends it along." in done.stderr
    )
    assert scripted([], "run", "hi", input=b"").stderr == b""


def test_a_pipe_is_one_thing_alone(scripted):
    done = scripted([], "run", "--read", "-", input=b"one two three")
    assert done.returncode == 2
    assert b"sends what is piped in along below a prompt, and there is none" in done.stderr


def test_files_go_along_below_the_prompt(scripted, tmp_path):
    (tmp_path / "notes.txt").write_text("one two")
    (tmp_path / "binary").write_bytes(b"\0")
    read = ("--read", str(tmp_path / "notes.txt"))
    alone = json.loads(scripted([], "run", "hi @x", "--json").stdout)["prompt_tokens"]
    done = scripted([], "run", "hi @x", *read, *read, "--json")
    assert json.loads(done.stdout)["prompt_tokens"] > alone
    refused = scripted([], "run", "hi", "--read", str(tmp_path / "binary"))
    assert refused.returncode == 2
    assert b"binary is no text" in refused.stderr
