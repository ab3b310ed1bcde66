"""The command line: quick, honest about settings, and never a traceback."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.command_line import with_left_out_values
from tests.app.conftest import ROOT
from tests.tries import tries


@pytest.mark.timing
def test_help_is_quick(qwen38_process):
    for _ in tries():
        began = time.perf_counter()
        done = qwen38_process("--help")
        took_s = time.perf_counter() - began
        assert done.returncode == 0
        if took_s < 1.0:  # 0.17 s alone
            return
    pytest.fail(f"it took {took_s:.2f} s")


def test_help_loads_nothing_heavy(environment):
    program = (
        "import sys; sys.argv = ['qwen38', '--help']\n"
        "import atexit; from app.cli import main\n"
        "heavy = {'torch', 'textual', 'prompt_toolkit', 'numpy', 'triton', 'tokenizers'}\n"
        "atexit.register(lambda: print('loaded', sorted(heavy & set(sys.modules))))\n"
        "main()"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, check=True
    ).stdout
    assert out.strip().endswith(b"loaded []")


def test_every_command_has_help(qwen38):
    for command in (
        *(
            ("chat",),
            ("run",),
            ("profiles",),
            ("settings",),
            ("doctor",),
            ("quality",),
            ("check",),
            ("tune",),
            ("trace",),
        ),
        *(("bench", one) for one in ("round", "kernels", "prefill", "ab")),
        *(("sessions", one) for one in ("list", "show", "export", "delete")),
    ):
        done = qwen38(*command, "--help")
        assert done.returncode == 0
        assert b"Usage: qwen38" in done.stdout


@pytest.mark.parametrize("group", [(), ("bench",), ("sessions",)])
def test_help_is_whole_sentences_and_names_values_in_words(qwen38, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    lines = qwen38(*group, "--help").stdout.decode().splitlines()
    assert [line for line in lines if line.endswith("...") and "Usage" not in line] == []
    for command in [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if line]:
        if command in {"Exit", "memory,"}:  # the epilogue
            continue
        told = qwen38(*group, command, "--help").stdout.decode()
        options = told.partition("\nOptions:")[2]
        assert "<" not in options.replace("<=x<=", ""), command


def test_usage_errors_are_one_sentence(qwen38):
    for arguments, message in (
        (("run", "hi", "--nonsense"), "No such option: --nonsense. See "),
        (("run", "hi", "--jsno"), "No such option: --jsno. Did you mean '--json'? See "),
        (("run", "hi", "--seed"), "Option '--seed' requires an argument."),
        (("rnu",), "No such command 'rnu'. Did you mean 'run'?"),
        (("sessions", "epxort"), "No such command 'epxort'. Did you mean 'export'?"),
        (("volcano",), "No such command 'volcano'. See "),
        (("bench", "round", "--context", "0"), "--context is '0', expected it to be greater "),
        (("run", "hi", "--seed", "x"), "--seed is 'x', expected it to be a valid integer. See "),
        (("run", "hi", "--seed", "\x1b[2J"), "--seed is '␛[2J', expected it to be a valid "),
        (("chat", "--speed", ""), "--speed is '', expected it to be a valid number. See "),
        (("run", "hi", "there"), "(there). Write a prompt of several words in quotes. See "),
        (("chat", "there"), "unexpected extra argument(s) (there). See "),
    ):
        done = qwen38(*arguments)
        said = done.stderr.decode()
        assert done.returncode == 2
        assert said.startswith("Usage: ")
        assert message in said
        assert said.endswith(" --help'.\n")
        assert said.count("\n") == 1


def test_without_a_command_the_help_is_shown(qwen38):
    done = qwen38("bench")
    assert done.returncode == 2
    assert b"Usage: qwen38 bench" in done.stderr
    assert b"\n  round " in done.stderr


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_on_a_full_disk_is_a_sentence(environment, option):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app", option], env=environment, cwd=ROOT, check=False,
            stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"No space left on device." in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("wait_ms", [60, 90, 120, 150])
def test_ctrl_c_while_modules_load_is_no_traceback(environment, wait_ms):
    with subprocess.Popen(
        [sys.executable, "-m", "app", "run", "hi"], env=environment, cwd=ROOT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        time.sleep(wait_ms / 1000)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    if b"Traceback" in errors:  # a busy machine's interpreter had not begun the program
        assert b"in main" not in errors
        return
    assert child.returncode in (130, -signal.SIGINT)  # a shell calls both 130


def test_settings_that_no_reader_survives_are_refused(qwen38, tmp_path):
    (tmp_path / "config").mkdir()
    assert b"There is no setting ''." in qwen38("settings", "").stderr
    (tmp_path / "config" / "settings.toml").write_bytes(b"a = 1 # \xff")
    assert b"settings.toml does not read: it is no UTF-8 at byte 8." in qwen38("settings").stderr
    for text, words in (
        ("a=" + "[" * 100_000, b"nested too deep"),
        ("[sampling]\nseed = " + "9" * 5000, b"does not read"),
        ('[paths]\nstate = "/tmp/a\\u0000b"', b"expected a path"),
    ):
        (tmp_path / "config" / "settings.toml").write_text(text)
        done = qwen38("run", "hi")
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count(b"\n") == 1


def test_version(qwen38):
    assert qwen38("--version").stdout.startswith(b"qwen38 0.")


def test_a_bare_resume_means_the_last_one():
    assert with_left_out_values(["chat", "--resume"]) == ["chat", "--resume=latest"]
    assert with_left_out_values(["chat", "--resume", "--plain"])[1] == "--resume=latest"
    assert with_left_out_values(["chat", "--resume", "2026"]) == ["chat", "--resume", "2026"]


def test_settings_say_where_a_value_came_from(qwen38, environment, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text("[chat]\ntheme = 'light'\n")
    environment["QWEN38_SAMPLING_TEMPERATURE"] = "0.5"
    table = json.loads(qwen38("settings", "--json", "--profile", "demo").stdout)
    assert table["sampling.temperature"]["source"] == "environment"
    assert table["sampling.temperature"]["value"] == 0.5
    assert table["chat.theme"]["source"].startswith("user file")
    assert table["model.profile"]["source"] == "command line"
    assert table["sampling.max_tokens"]["source"] == "profile"
    text = qwen38("settings").stdout.decode()
    assert "QWEN38_SAMPLING_TOP_K" in text
    assert all(name in text for name in table)


def test_one_setting_by_its_last_part(qwen38):
    assert qwen38("settings", "top_k").stdout.startswith(b"sampling.top_k = empty")
    section = qwen38("settings", "sampling").stdout.decode()
    assert "sampling.seed = empty" in section
    assert "chat." not in section
    done = qwen38("settings", "topk")
    assert done.returncode == 2
    assert b"Did you mean" in done.stderr


def test_bad_settings_are_refused_by_name_everywhere(qwen38, environment, tmp_path):
    environment["QWEN38_SAMPLING_TEMPRATURE"] = "1"
    for command in (("settings",), ("run", "hi"), ("profiles",), ("sessions", "list")):
        done = qwen38(*command)
        assert done.returncode == 2
        assert b"Did you mean 'QWEN38_SAMPLING_TEMPERATURE'?" in done.stderr
    del environment["QWEN38_SAMPLING_TEMPRATURE"]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text("not toml")
    done = qwen38("settings")
    assert done.returncode == 2
    assert b"does not read" in done.stderr


def test_profiles(qwen38):
    listed = qwen38("profiles").stdout.decode()
    assert re.search(r"^demo +[\d.]+ MB +[\d.]+ MB +at most \d.*  here$", listed, re.MULTILINE)
    assert re.search(r"^fp8 .*  missing", listed, re.MULTILINE)
    assert "GB/s" in listed
    shown = qwen38("profiles", "show", "fp8").stdout.decode()
    assert "fp8_block" in shown
    assert "Qwen/Qwen3.8-27B-FP8" in shown
    assert "12, 16, 24, 32 rows behind up to 1,024, 2,048, 4,096 tokens, chunks of 64," in shown
    table = json.loads(qwen38("profiles", "show", "fp8", "--json").stdout)
    assert 25e9 < table["stored_bytes"] < 35e9
    assert table["graphs"]["context_tokens"] == [1024, 2048, 4096]
    assert table["most_tok_s"] == table["read_gb_s"] * 1e9 / table["early_round_bytes"]
    done = qwen38("profiles", "show", "fp9")
    assert done.returncode == 2
    assert b"Did you mean 'fp8'?" in done.stderr
    assert qwen38("profiles", "fp8").returncode == 2


def test_a_profile_of_ones_own_is_listed_and_its_mistakes_are_named(qwen38, tmp_path):
    shipped = ROOT / "profiles" / "demo.toml"
    own = tmp_path / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text(shipped.read_text())
    assert qwen38("profiles", "show", "mine").stdout.startswith(b"mine: Demo")
    elsewhere = own.read_text().replace('embedded = "demo"', 'folder = "elsewhere"')
    own.write_text(re.sub(r"\nrows = .*", "\nrows = []", elsewhere))
    shown = qwen38("profiles", "show", "mine").stdout.decode()
    folder = re.escape(str(own.parent / "elsewhere"))
    assert re.search(rf"^looks for +the folder {folder}$", shown, re.MULTILINE)
    lacks = rf"^files +missing\. {folder} holds no config\.json: .+ names it\.$"
    assert re.search(lacks, shown, re.MULTILINE)
    assert "opens: no rounds, chunks of 64," in shown
    done = qwen38("run", "hi", "--profile", "mine")
    assert done.returncode == 3
    assert re.search(rf"{folder} holds no config.json.*'weights.folder'", done.stderr.decode())
    for mistake, hint in (
        ("max_tokenz = 7", b"Did you mean 'max_tokens'?"),
        ("max_tokens = 7\n[settings.sampling]\nsede = 3", b"Did you mean 'sampling.seed'?"),
    ):
        text = shipped.read_text().partition("[settings")[0]
        own.write_text(text.replace("max_tokens = 7", mistake))
        done = qwen38("profiles")
        assert done.returncode == 0
        assert re.search(rb"^mine +- +- +- +faulty$", done.stdout, re.MULTILINE)
        assert b"mine is faulty: " in done.stdout
        assert hint in done.stdout
        done = qwen38("profiles", "show", "mine")
        assert done.returncode == 2
        assert hint in done.stderr


@pytest.fixture
def faulty(tmp_path):
    """A profile of one's own, 'mine', whose file does not read."""
    own = tmp_path / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text("title = 3")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("command", [("run", "hi", "--max-tokens", "1"), ("settings", "seed")])
def test_a_faulty_profile_is_told_and_fails_what_names_it(qwen38, command):
    done = qwen38(*command)
    assert done.returncode == 0
    assert done.stderr.count(b"A profile is left out. ") == 1
    done = qwen38(*command, "--profile", "mine")
    assert done.returncode == 2
    assert done.stderr.count(b"mine.toml") == 1
    assert b"mine.toml: 'weights' is missing, expected a table" in done.stderr


@pytest.mark.usefixtures("faulty")
def test_a_faulty_profile_is_a_row_of_every_report(qwen38):
    table = json.loads(qwen38("profiles", "--json").stdout)
    assert (table[-1]["name"], table[-1]["state"]) == ("mine", "faulty")
    report = json.loads(qwen38("doctor", "--json").stdout)
    assert {"profile mine", "memory plan"} <= {one["topic"] for one in report["findings"]}
    assert report["can_chat"]


def test_no_rate_is_told_of_files_that_are_cut(qwen38, tmp_path):
    files = tmp_path / "model"
    shutil.copytree(ROOT / "profiles" / "demo", files)
    (files / "mtp.safetensors").write_bytes((files / "mtp.safetensors").read_bytes()[:-1])
    own = tmp_path / "config" / "profiles" / "cut.toml"
    own.parent.mkdir(parents=True)
    shipped = (ROOT / "profiles" / "demo.toml").read_text()
    own.write_text(shipped.replace('embedded = "demo"', f'folder = "{files}"'))
    listed = qwen38("profiles").stdout.decode()
    assert re.search(r"^cut .* -  refused$", listed, re.MULTILINE)
    assert "cut is refused: " in listed
    shown = qwen38("profiles", "show", "cut").stdout.decode()
    assert "tokens a second" not in shown
    assert re.search(r"^refused +.*mtp\.safetensors is truncated", shown, re.MULTILINE)


def test_doctor_speaks_in_sentences_with_mends(qwen38):
    done = qwen38("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["can_chat"] else 1)
    topics = {one["topic"] for one in report["findings"]}
    assert {"machine", "memory", "gpu", "packages", "chat", "terminal", "profile fp8"} <= topics
    for one in report["findings"]:
        assert one["sentence"].endswith(".")
        assert one["mend"] or one["state"] == "good"
    done = qwen38("doctor", "--model", "/no/such/folder")
    assert done.returncode == 1
    assert b"does not exist" in done.stdout


def test_check_refuses_what_it_does_not_know(qwen38):
    done = qwen38("check", "--family", "nrom", "--device", "cpu")
    assert done.returncode == 2
    assert b"There is no kernel family 'nrom'. Did you mean 'norm'?" in done.stderr
    assert b"Traceback" not in done.stderr
    assert qwen38("check", "--device", "tpu").returncode == 2


def test_bench_round_writes_what_it_measured(qwen38, tmp_path):
    target = tmp_path / "rounds.json"
    done = qwen38(
        *("bench", "round", "--shape", "demo", "--profile", "fp8", "--rows", "1,3"),
        *("--context", "64", "--repetitions", "3", "--device", "cpu", "--json", str(target)),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(target.read_text())
    assert [one["rows"] for one in result["rounds"]] == [1, 3]
    for one in result["rounds"]:
        assert 0 < one["best_ms"] <= one["round_ms"]
        assert one["share"] == one["gb_s"] / result["read_gb_s"]
    done = qwen38("bench", "round", "--json", str(tmp_path / "none" / "x"))
    assert (done.returncode, b"does not exist" in done.stderr) == (2, True)
    for arguments in (("--rows", "33"), ("--rows", "x"), ("--shape", "28b"), ("--profile", "x")):
        assert qwen38("bench", "round", "--device", "cpu", *arguments).returncode == 2
