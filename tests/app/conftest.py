"""Commands as subprocesses, in folders of their own."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.command_line import run_command_line
from app.sessions.store import SessionStore
from engine.settings.environment import child_environment
from tests.app.terminal import Terminal, wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def signals_come():
    """What runs the tests may ignore some of them: nohup does, and a shell's background."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ignored = [one for one in numbers if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        is_break = one == signal.SIGINT
        signal.signal(one, signal.default_int_handler if is_break else signal.SIG_DFL)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


@pytest.fixture
def environment(tmp_path):
    """An environment whose folders are the test's own and that holds no setting of ours."""
    inherited = child_environment({})
    kept = {name: value for name, value in inherited.items() if not name.startswith("QWEN38_")}
    return {
        **kept,
        "QWEN38_PATHS_DATA": str(tmp_path / "data"),
        "QWEN38_PATHS_STATE": str(tmp_path / "state"),
        "QWEN38_PATHS_CONFIG": str(tmp_path / "config"),
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "OMP_NUM_THREADS": "1",
        "TERM": "xterm-256color",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def qwen38(environment, monkeypatch, capfdbinary):
    """Run the command line in this process; returns what a completed process would have."""

    def call(*arguments):
        for name in [one for one in child_environment({}) if one.startswith("QWEN38_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capfdbinary.readouterr()
        code = run_command_line(arguments)
        seen = capfdbinary.readouterr()
        return SimpleNamespace(returncode=code, stdout=seen.out, stderr=seen.err)

    return call


@pytest.fixture
def qwen38_process(environment):
    """Run the command line in a process of its own."""

    def call(*arguments, **options):
        return _run([sys.executable, "-m", "app", *arguments], environment, options)

    return call


@pytest.fixture
def scripted(environment):
    """Run the command over a scripted engine: ``scripted([Script fields], *arguments)``."""

    def call(scripts, *arguments, **options):
        command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), *arguments]
        return _run(command, environment, options)

    return call


@pytest.fixture
def interrupted(environment, tmp_path):
    """As `scripted`, with Ctrl-C once an answer is being written."""

    def call(scripts, *arguments):
        command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), *arguments]
        writing = tmp_path / "writing"
        with subprocess.Popen(
            command, env={**environment, "WRITING": str(writing)}, cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as child:  # fmt: skip
            wait_until(writing.exists)
            child.send_signal(signal.SIGINT)
            out, errors = child.communicate(timeout=60)
        return SimpleNamespace(returncode=child.returncode, stdout=out, stderr=errors)

    return call


@pytest.fixture
def on_terminal(environment):
    """Start the command over a scripted engine on a terminal of its own, as `scripted` does."""

    def start(scripts, *arguments, **options):
        command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), *arguments]
        return Terminal(command, environment, ROOT, **options)

    return start


def _run(command, environment, options):
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    options = {"cwd": ROOT, **options}
    return subprocess.run(
        command, env=environment, capture_output=True, timeout=60, check=False, **options
    )


@pytest.fixture
def store(tmp_path):
    """A store of sessions in a folder of the test's own."""
    return SessionStore(tmp_path / "sessions")
