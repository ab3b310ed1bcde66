"""`tune` times every product that the engine launches: of the layers, the MTP head and the head."""

import pytest

from engine.check.families import sizes_of
from engine.explained_model import LAYERS, MTP, formats_in, matrices, subject_of_shape
from engine.model.config import SHAPE_DEMO, SHAPES
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import load_profiles
from engine.tune.entries import entries_of
from engine.tune.tiles import TABLES, shipped_table
from kernels.common.family import load_families
from kernels.linear.formats import STEP
from kernels.linear.tile_choice import OP, PAIR_OP, PAIRED_FORMAT, lookup

(LINEAR,) = load_families(["linear"])
PROFILES = load_profiles()


def entries(config, formats):
    return entries_of(LINEAR, [sizes_of("model", config, formats)], ())


def launched(subject):
    """Op, N, padded K and format of each product of rounds and drafts."""
    products = [one for part in (LAYERS, MTP) for one in matrices(subject, part, joined=True)]
    for one in products:
        padded = -(-one.K // STEP) * STEP
        yield OP, one.N, padded, one.stored
        if one.label == "gate | up" and one.stored == PAIRED_FORMAT:
            yield PAIR_OP, one.N, padded, one.stored
    yield OP, subject.config.vocab_size, subject.config.hidden_size, "bf16"
    yield OP, subject.config.vocab_size, subject.config.hidden_size, "e4m3_row"


def timed(found):
    return {(one.tunable.op, *(one.key[name] for name in ("N", "K", "format"))) for one in found}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", SHAPES)
def test_tune_has_an_entry_for_every_product_of_a_model_in_its_formats(shape, profile):
    subject = subject_of_shape(shape, PROFILES[profile])
    found = timed(entries(subject.config, formats_in(subject)))
    assert set(launched(subject)) <= found


@pytest.mark.parametrize("profile", ["nvfp4", "balanced", "bf16", "demo"])
def test_a_model_packed_with_the_entries_of_tune_runs_no_default_tile(profile):
    formats = PROFILES[profile].formats
    stored = formats_in(subject_of_shape("demo", PROFILES[profile]))
    found = entries(SHAPE_DEMO, stored)
    rows = [{"op": one.tunable.op, **one.key, **one.tunable.to_row(one.present)} for one in found]
    assert packed_notice(formats, rows) == ""
    for op in (OP, PAIR_OP) if "nvfp4" in stored else (OP,):
        others = [row for row in rows if row["op"] != op]
        assert "No tile table holds" in packed_notice(formats, others)


def packed_notice(formats, rows) -> str:
    packer = Packer(Launching((9, 0), tuple(rows)))
    random_model(SHAPE_DEMO, formats, device="cpu", packer=packer)
    return packer.notice


@pytest.mark.parametrize("profile", ["nvfp4", "balanced", "fp8"])
@pytest.mark.parametrize("capability", TABLES)
def test_tables_that_ship_hold_every_product_of_the_27b(capability, profile):
    table = shipped_table("linear", capability)
    for op, N, Kp, name in launched(subject_of_shape("27b", PROFILES[profile])):
        assert lookup(table, N, Kp, name, paired=op == PAIR_OP), f"{op} {name} {N}x{Kp}"


def shapes(models):
    """Outputs and inputs of the entries, in order, each once."""
    found = entries_of(LINEAR, models, ())
    return list(dict.fromkeys((one.key["N"], one.key["K"]) for one in found))


def test_what_moves_most_of_a_round_comes_first_and_what_a_round_has_in_another_last():
    gate_up, down, qkv_z, out = (34816, 5120), (5120, 17408), (16384, 5120), (5120, 6144)
    head = (248320, 5120)
    found = shapes([sizes_of("27b", SHAPES["27b"], ("nvfp4",))])
    assert found[:5] == [gate_up, down, head, qkv_z, out]
    parts = [(12288, 5120), (10240, 5120), (6144, 5120), (1024, 5120), (96, 5120)]
    assert found[-5:] == parts


def test_entries_of_the_first_model_come_before_those_that_only_others_need():
    own, other = sizes_of("own", SHAPE_DEMO, ("nvfp4",)), sizes_of("27b", SHAPES["27b"])
    alone = shapes([own])
    assert shapes([own, other])[: len(alone)] == alone
    assert shapes([other, own])[-len(alone) :] == alone
