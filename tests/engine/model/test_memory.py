"""The plan that is made before loading is what is allocated; what does not fit is told politely."""

import gc
from collections import deque
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
import torch

from engine.draft.mtp import MtpRows
from engine.errors import MemoryPlanError
from engine.model import memory
from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.model.kv_scales import calibrate
from engine.model.memory import (
    LEAST_SNAPSHOTS,
    MOST_SNAPSHOT_BYTES,
    MOST_SNAPSHOTS,
    plan_serving,
)
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.serving_memory import kept_bytes
from engine.profile import load_profiles
from engine.turn.rows_verify import RowsVerifier
from engine.turn.verify import RowWalk
from engine.types import KV_FORMATS, Request, Sampling
from tests.fakes.model import local_engine, run, write_text_files

GB = 1_000_000_000
NUM_TOKENS = 2048


def tensors_of(root: object) -> dict[int, int]:
    """Bytes of every storage that can be reached from an object, by address."""
    found: dict[int, int] = {}
    seen, queue = {id(root)}, deque([root])
    while queue:
        for one in gc.get_referents(queue.popleft()):
            if id(one) in seen or isinstance(
                one, type | ModuleType | FunctionType | BuiltinFunctionType
            ):
                continue
            seen.add(id(one))
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
            else:
                queue.append(one)
    return found


def served(folder, *, packed: bool, kv: str = "bf16"):
    """An engine around random weights of the demo's shape, with four points to come back to."""
    formats = load_profiles()["fp8" if packed else "bf16"].formats
    packer = Packer(Launching((9, 0))) if packed else None
    model = random_model(SHAPE_DEMO, formats, device="cpu", packer=packer)
    if kv == "fp8":
        model.kv_scales = calibrate(model, [range(64)])
    verifier = RowsVerifier(model) if packed else RowWalk(model)
    return local_engine(
        model, folder, verifier=verifier, max_context_tokens=NUM_TOKENS, most_marks=4,
        stop_ids=frozenset(),
    )  # fmt: skip


def held_besides(engine, weights: dict[int, int]) -> int:
    return sum(size for at, size in tensors_of(engine).items() if at not in weights)


@pytest.mark.parametrize("kv", KV_FORMATS)
@pytest.mark.parametrize("packed", [False, True], ids=["reference", "kernels"])
def test_what_an_open_engine_holds_is_the_plan_to_the_byte(tmp_path, packed, kv):
    engine = served(write_text_files(tmp_path), packed=packed, kv=kv)
    model = engine._machine.model
    weights = tensors_of(model.weights)
    if packed:
        weights |= tensors_of(model.mtp._head)  # its part of the head is counted with the weights
    plan = plan_serving(
        SHAPE_DEMO, model.weight_bytes, "cpu", packed=packed, with_mtp=True,
        context_tokens=NUM_TOKENS, snapshot_mb=2, kv=kv,
    )  # fmt: skip
    assert held_besides(engine, weights) == sum(plan.kept.values())
    held = sum(plan.kept.values())

    sampling = Sampling(temperature=0.0)
    for turn in range(1, 6):
        ids = tuple(one % 300 for one in range(40 * turn))
        run(engine, Request(prompt_ids=ids, sampling=sampling, max_tokens=4, drafter="mtp"))
    marks = engine._memory._marks
    assert len(marks) == 4
    snapshots = sum(one.snapshot.num_bytes + one.last_hidden.nbytes for one in marks)
    assert snapshots == 4 * plan.snapshot
    # what is left: rows that wait for the head, and the chunk behind the last one
    most = plan.passing["waiting rows"] + plan.passing["prefill"]
    assert 0 <= held_besides(engine, weights) - held - snapshots <= most
    engine.close()


def test_a_head_stands_in_fp32_only_where_it_is_small():
    small = kept_bytes(SHAPE_DEMO, 512, packed=False, with_mtp=True)
    assert small["wide head"] == 4 * 6144 * 256
    assert kept_bytes(SHAPE_27B, 512, packed=False, with_mtp=True)["wide head"] == 0
    assert "wide head" not in kept_bytes(SHAPE_DEMO, 512, packed=True, with_mtp=True)


def test_rows_that_wait_for_the_head_are_bounded_as_planned():
    model = random_model(SHAPE_DEMO, load_profiles()["bf16"].formats, device="cpu")
    rows = MtpRows(model.mtp, 8192)
    hidden = torch.zeros((256, SHAPE_DEMO.hidden_size), dtype=torch.bfloat16)
    most = 0
    for _ in range(9):
        rows.follow([1] * 256, hidden)
        most = max(most, sum(one.nbytes for one in rows._waiting))
    plan = plan_serving(SHAPE_DEMO, 0, "cpu", packed=False, with_mtp=True, context_tokens=8192)
    assert 0 < 2 * most <= plan.passing["waiting rows"]


def planned(available: int, weights: int = 16 * GB, **options):
    options = {"context_tokens": 32_768, **options}
    plan = plan_serving(SHAPE_27B, weights, "cpu", packed=True, with_mtp=True, **options)
    return replace(plan, available=available)


def test_points_to_come_back_to_get_a_quarter_of_what_is_left():
    plenty, little, none = (planned(size) for size in (140 * GB, 24 * GB, 10 * GB))
    assert plenty.snapshots <= MOST_SNAPSHOT_BYTES < plenty.snapshots + plenty.snapshot
    left = 24 * GB - (little.needed - little.snapshots)
    assert little.num_snapshots == left // 4 // little.snapshot > LEAST_SNAPSHOTS
    assert none.num_snapshots == LEAST_SNAPSHOTS
    assert planned(140 * GB, snapshot_mb=0).num_snapshots == 0
    assert planned(140 * GB, snapshot_mb=1000).num_snapshots == 6
    small = plan_serving(SHAPE_DEMO, 0, "cpu", packed=False, with_mtp=True, context_tokens=512)
    assert replace(small, available=140 * GB).num_snapshots == MOST_SNAPSHOTS
    assert plenty.needed == sum(plenty.parts.values())


def test_what_fits_is_not_refused():
    plan = planned(140 * GB)
    plan.expect_fit()
    replace(plan, available=plan.needed, asked_snapshots=plan.snapshots).expect_fit()


@pytest.mark.parametrize(
    ("options", "mend"),
    [
        ({"snapshot_mb": 90_000}, r"Lower model\.snapshot_mb to \d+, or free"),
        ({"context_tokens": 262_144}, r"A context of \d+,\d+ tokens fits: set model\.context_to"),
        ({"weights": 40 * GB}, r"No context fits beside 40\.0 GB of weights: give a smaller"),
    ],
    ids=["points", "context", "weights"],
)
def test_what_does_not_fit_says_what_would(options, mend):
    plan = planned(24 * GB, **options)
    with pytest.raises(MemoryPlanError, match=rf"needs \d+\.\d GB .* 24\.0 GB are free\. {mend}"):
        plan.expect_fit()


def test_the_context_that_is_said_to_fit_fits():
    with pytest.raises(MemoryPlanError) as refused:
        planned(24 * GB, context_tokens=262_144).expect_fit()
    said = int(str(refused.value).split("A context of ")[1].split(" ")[0].replace(",", ""))
    planned(24 * GB, context_tokens=said).expect_fit()
    with pytest.raises(MemoryPlanError):
        planned(24 * GB, context_tokens=said + 8192).expect_fit()


def test_8_bits_leave_room_for_a_longer_context():
    """Not twice: the MTP head keeps BF16, and a layer of what codes stand for is held as well."""
    kept = [planned(24 * GB, kv=one).kept["context"] for one in KV_FORMATS]
    scales = 2 * 4 * 16 * 4
    assert kept[0] == 32_768 * (65_536 + 4_096)
    assert kept[1] == 32_768 * (32_768 + 4_096 + 4_096) + scales


def test_free_memory_is_looked_up_where_the_model_goes(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "available_bytes", lambda device: asked.append(device) or 1)
    plan_serving(SHAPE_DEMO, 1, "cuda", packed=True, with_mtp=True, context_tokens=64)
    assert asked == ["cuda"]
