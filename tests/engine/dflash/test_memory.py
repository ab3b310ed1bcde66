"""What a drafter adds to the memory plan is what it allocates."""

import threading

import pytest

from engine.dflash.attach import attach_dflash
from engine.dflash.checkpoint import open_dflash
from engine.dflash.memory import dflash_bytes
from engine.draft.dflash import MAX_WAITING_ROWS, DflashRows
from engine.errors import MemoryPlanError
from engine.model import memory
from engine.model.checkpoint import open_checkpoint
from engine.model.config import SHAPE_DEMO
from engine.model.config_file import read_config
from engine.model.memory import plan_memory
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import load_profiles, profile_folder
from tests.engine.dflash.drafters import write_dflash
from tests.engine.model.test_memory import tensors_of

NUM_TOKENS = 2048


@pytest.mark.parametrize("stored", ["bf16", "nvfp4"])
@pytest.mark.parametrize("packed", [False, True], ids=["reference", "kernels"])
def test_what_a_drafter_holds_is_the_plan_to_the_byte(tmp_path, packed, stored):
    formats = load_profiles()["fp8" if packed else "bf16"].formats
    new_packer = lambda: Packer(Launching((9, 0))) if packed else None
    model = random_model(SHAPE_DEMO, formats, device="cpu", packer=new_packer())
    before = tensors_of(model)
    checkpoint = open_dflash(write_dflash(tmp_path / "drafter"), SHAPE_DEMO)
    source = attach_dflash(
        model, checkpoint, on_progress=None, cancel=threading.Event(), packer=new_packer(),
        stored=stored,
    )  # fmt: skip
    rows = DflashRows(source, NUM_TOKENS)
    plan = dflash_bytes(checkpoint, NUM_TOKENS, packed=packed, stored=stored)
    assert plan is not None
    weights = tensors_of(source.drafter.weights)
    assert sum(weights.values()) == plan.held == source.drafter.weight_bytes
    assert model.weight_bytes == model.weights.num_bytes >= plan.held
    held = {at: size for at, size in tensors_of(rows).items() if at not in before | weights}
    assert sum(held.values()) == sum(plan.kept.values())


def test_rows_that_wait_are_bounded_as_planned(tmp_path):
    model = random_model(SHAPE_DEMO, load_profiles()["bf16"].formats, device="cpu")
    checkpoint = open_dflash(write_dflash(tmp_path / "drafter"), SHAPE_DEMO)
    source = attach_dflash(
        model, checkpoint, on_progress=None, cancel=threading.Event(), packer=None, stored="bf16"
    )
    rows, most = DflashRows(source, NUM_TOKENS), 0
    for start in range(0, 1500, 100):
        source.taps.keep(start, source.taps.copy(100))
        rows.follow(100)
        most = max(most, sum(one.nbytes for one in rows._waiting))
    plan = dflash_bytes(checkpoint, NUM_TOKENS, packed=False, stored="bf16")
    assert plan is not None
    assert 0 < most < plan.passing["waiting rows"]
    assert most < (MAX_WAITING_ROWS + 100) * source.taps.buffer[0].nbytes


def test_a_drafter_that_does_not_fit_beside_the_model_is_refused_before_it_is_loaded(
    tmp_path, monkeypatch
):
    folder = profile_folder() / "demo"
    checkpoint = open_checkpoint(folder, read_config(folder))
    beside = open_dflash(write_dflash(tmp_path / "drafter"), checkpoint.config)
    drafter = dflash_bytes(beside, NUM_TOKENS, packed=False, stored="bf16")
    options = {"context_tokens": NUM_TOKENS, "snapshot_mb": 10}
    alone = plan_memory(checkpoint, "cpu", **options)
    both = plan_memory(checkpoint, "cpu", drafter=drafter, **options)
    assert drafter is not None
    added = drafter.held + sum(drafter.kept.values()) + sum(drafter.passing.values())
    assert sum(both.parts.values()) - sum(alone.parts.values()) == added
    assert {"dflash2", "blocks"} <= both.parts.keys()
    monkeypatch.setattr(memory, "available_bytes", lambda _: alone.needed)
    plan_memory(checkpoint, "cpu", **options).expect_fit()
    with pytest.raises(MemoryPlanError, match="dflash2"):
        plan_memory(checkpoint, "cpu", drafter=drafter, **options).expect_fit()
