"""An engine that is opened with a drafter uses it, and says in a sentence why it does not."""

import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial

import pytest
import torch

from engine.compute_path import ComputePath
from engine.errors import CheckpointError, RequestError
from engine.graph_classes import GraphClasses
from engine.locate import choose
from engine.model.packing import Launching
from engine.open import open_engine
from engine.profile import load_profiles
from engine.settings.declared import DraftSettings, ModelSettings, Settings
from engine.types import Message, Request, Sampling
from engine.warm_up import warm_up
from tests.engine.dflash.drafters import DEMO_DRAFTER, write_dflash
from tests.fakes.model import run

SETTINGS = Settings(
    model=ModelSettings(device="cpu", threads=1, context_tokens=512, profile="demo")
)
HELLO = Request(
    messages=(Message("user", "tell me a story"),), sampling=Sampling(temperature=0.0),
    max_tokens=12, keep_logits=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_dflash(tmp_path_factory.mktemp("drafter"))


def opened(draft: DraftSettings, on_progress=None):
    settings = replace(SETTINGS, draft=draft)
    chosen = choose(settings, load_profiles())
    return open_engine(chosen, settings, on_progress, threading.Event())


def test_the_demo_drafts_with_a_drafter_that_is_named(folder):
    progress: list = []
    engine = opened(DraftSettings(dflash_dir=folder), progress.append)
    assert {one.file for one in progress} >= {"model.safetensors", "outside.safetensors"}
    drafted = run(engine, replace(HELLO, drafter="dflash2"))[-1].record
    plain = run(engine, replace(HELLO, drafter="off"))[-1].record
    assert {one.drafter for one in drafted.rounds} == {"dflash2"}
    assert {one.rows for one in drafted.rounds} >= {DEMO_DRAFTER.block_size}
    assert drafted.token_ids == plain.token_ids
    assert torch.equal(drafted.logits, plain.logits)
    assert {one.drafter for one in run(engine, HELLO)[-1].record.rounds} == {"mtp"}, "as before"
    engine.close()


def test_a_model_without_a_drafter_refuses_it_before_the_first_event():
    engine = opened(DraftSettings())
    with pytest.raises(RequestError, match=r"not loaded. Set draft\.dflash_dir"):
        run(engine, replace(HELLO, drafter="dflash2"))
    engine.close()


def test_a_drafter_of_another_model_stops_the_opening(tmp_path):
    wide = replace(DEMO_DRAFTER, vocab_size=6400)
    write_dflash(tmp_path, wide)
    with pytest.raises(CheckpointError, match="vocabulary of 6400, and the model's has 6144"):
        opened(DraftSettings(dflash_dir=tmp_path))


def test_the_command_refuses_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    command = [
        sys.executable,
        "-m",
        "app",
        "run",
        "hi",
        "--profile",
        "demo",
        "--drafter",
        "dflash2",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "not on this machine" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_warms_up_on_a_gpu_leaves_an_empty_conversation(folder):
    """Every number of rows to catch up with, and every context, is launched once."""
    engine = opened(DraftSettings(dflash_dir=folder))
    machine, memory = engine._machine, engine._memory
    launched: list = []
    graphs = machine.dflash.drafter._graphs
    run_before = graphs.run
    graphs.run = lambda key, *rest, **how: (launched.append(key), run_before(key, *rest, **how))
    engine.warm_up(partial(warm_up, classes=GraphClasses(), sampling=Sampling()))
    fills = {key for key in launched if key[0] == "fill"}
    assert fills == {("fill", one) for one in range(1, 33)}
    assert [key for key in launched if key[0] == "block"] == [("block", 256)]
    assert (memory.dflash.num_read, memory.dflash._state.length, memory.ids) == (0, 0, [])
    record = run(engine, replace(HELLO, drafter="dflash2"))[-1].record
    assert record.error == ""
    assert {one.drafter for one in record.rounds} == {"dflash2"}
    engine.close()


def test_a_packed_path_serves_a_drafter(folder, monkeypatch):
    """As on a GPU, by the kernels' references: weights packed, rows computed together."""
    path = ComputePath(Launching((9, 0), graphs=False))
    monkeypatch.setattr("engine.open.choose_compute_path", lambda *_: path)
    engine = opened(DraftSettings(dflash_dir=folder))
    request = replace(HELLO, max_tokens=5)
    drafted = run(engine, replace(request, drafter="dflash2", draft_shape="tree"))[-1].record
    plain = run(engine, replace(request, drafter="off"))[-1].record
    assert (drafted.error, drafted.token_ids) == ("", plain.token_ids)
    assert torch.equal(drafted.logits, plain.logits)
    assert {one.drafter for one in drafted.rounds} == {"dflash2"}
    table = engine._machine.routing.prices.table
    moved = engine._machine.dflash.drafter.moved_bytes(table.context_tokens[0])
    assert table.block_ms == pytest.approx(moved / engine.info.read_gb_s / 1e6)
    assert table.estimated[-1].startswith("block_ms: ")
    engine.close()
