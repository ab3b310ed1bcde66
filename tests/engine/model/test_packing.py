"""Packing on a CPU for a GPU that is not there: values, bytes, groups, tiles and notices."""

from dataclasses import fields, is_dataclass, replace

import pytest
import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import open_checkpoint
from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.model.config_file import read_config
from engine.model.footprint import (
    packed_bytes,
    weight_bytes,
    workspace_bytes,
)
from engine.model.groups import GROUPS, group_of
from engine.model.loading import load_model
from engine.model.matrix import bytes_of, expanded
from engine.model.memory import plan_memory
from engine.model.packed import Member, Packed
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.tensors import expected_tensors
from engine.profile import Formats, load_profiles, profile_folder
from kernels.common.compare import different_bits
from kernels.linear.tile import SkinnyTile
from kernels.linear.tile_choice import defaults
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint

SM_90, SM_121 = (9, 0), (12, 1)
FORMATS = {name: one.formats for name, one in load_profiles().items()}
DEMO = profile_folder() / "demo"
TIED = replace(TINY, tie_word_embeddings=True)
IDS = list(range(150))


def packer(capability=SM_90, **options) -> Packer:
    return Packer(Launching(capability, **options))


def tensors_of(held) -> list[torch.Tensor]:
    """Every tensor that is reachable from the weights."""
    if isinstance(held, torch.Tensor):
        return [held]
    if isinstance(held, tuple):
        return [tensor for one in held for tensor in tensors_of(one)]
    if is_dataclass(held):
        return [t for one in fields(held) for t in tensors_of(getattr(held, one.name))]
    return []


def held_bytes(model) -> int:
    """What the weights really occupy, the derived decay rates and biases as their sources."""
    memory = {one.data_ptr(): one for one in tensors_of(model.weights)}
    derived = 2 * 2 * model.config.num_value_heads * model.config.num_delta_layers
    return sum(one.nbytes for one in memory.values()) - derived


def matrices_of(model) -> dict[str, object]:
    found = {"head": model.weights.head, "fc": model.weights.mtp.fc}
    for index, layer in enumerate((*model.weights.layers, model.weights.mtp)):
        mixer = layer.attention if layer is model.weights.mtp else layer.mixer
        for part in (layer.mlp, mixer):
            for one in fields(part):
                if one.name not in ("conv", "decay_rate", "dt_bias") and "norm" not in one.name:
                    found[f"{index}.{one.name}"] = getattr(part, one.name)
    return found


@pytest.mark.parametrize("capability", [SM_90, SM_121])
def test_the_demo_checkpoint_packs_to_the_values_it_stores(capability):
    ours, plain = load_model(DEMO, packer=packer(capability)), load_model(DEMO)
    want = matrices_of(plain)
    for name, one in matrices_of(ours).items():
        assert isinstance(one, Packed | Member), name
        assert different_bits(expanded(one), expanded(want[name]), "NK") is None, name
    assert ours.weight_bytes < plain.weight_bytes
    assert ours.weight_bytes == held_bytes(ours)


@pytest.mark.parametrize("name", FORMATS)
def test_a_packed_random_model_computes_what_the_reference_does(name: str):
    models = [
        random_model(SHAPE_DEMO, FORMATS[name], device="cpu", packer=one)
        for one in (packer(), None)
    ]
    got, want = [], []
    for model, found in zip(models, (got, want), strict=True):
        state = model.new_state(256)
        hidden = [model.prefill(IDS, state), model.step(5, state), model.step(6, state)]
        found += [torch.cat(hidden), model.logits(hidden[-1])]
    torch.testing.assert_close(got[0], want[0], rtol=0.05, atol=0.05)
    torch.testing.assert_close(got[1], want[1], rtol=0.05, atol=0.1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("config", [SHAPE_DEMO, TINY, TIED], ids=["demo", "tiny", "tied"])
def test_footprint_counts_what_a_packed_model_holds(config, name: str):
    model = random_model(config, FORMATS[name], device="cpu", packer=packer())
    assert model.weights.part_bytes == weight_bytes(config, FORMATS[name], packed=True)
    assert model.weight_bytes == held_bytes(model)


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("config", [TINY, TIED], ids=["untied", "tied"])
def test_the_plan_counts_what_a_packed_load_holds(tmp_path, config, fp8):
    folder = write_checkpoint(tmp_path / "model", config, fp8=fp8)
    checkpoint = open_checkpoint(folder, read_config(folder))
    plan = plan_memory(checkpoint, "cpu", packed=True)
    model = load_model(folder, packer=packer())
    assert plan.stored + plan.expanded == model.weight_bytes == held_bytes(model)
    workspace = model.weights.layers[0].mlp.down.workspace
    assert plan.workspace == workspace_bytes(config) >= 2 * workspace.num_elements > 0
    assert plan.workspace in range(plan.needed)


def test_the_27b_in_fp8_is_held_at_half_of_bf16():
    fp8, bf16 = FORMATS["fp8"], FORMATS["bf16"]
    packed, wide = (
        sum(weight_bytes(SHAPE_27B, formats, packed=True).values()) for formats in (fp8, bf16)
    )
    assert packed / 1e9 == pytest.approx(30.3, abs=0.1)
    draft_head = 32_768 * (2 * 5120 + 4)
    assert wide == sum(weight_bytes(SHAPE_27B, bf16).values()) + draft_head
    assert workspace_bytes(SHAPE_27B) == 2 * 34816 * 5120


def test_padding_and_tiles_of_scales_are_counted():
    spec = expected_tensors(TINY)["layers.0.linear_attn.in_proj_a.weight"]
    assert spec.shape == (4, 64)
    assert packed_bytes(spec, "bf16") == 2 * 4 * 128
    assert packed_bytes(spec, "e4m3_row") == 4 * 128 + 4 * 4
    assert packed_bytes(spec, "fp8_block") == 4 * 128 + 4
    assert packed_bytes(spec, "nvfp4") == 4 * 64 + 16 * 8 + 4 * 4


def test_groups_are_named_once_and_the_draft_heads_queries_stand_alone():
    names = list(expected_tensors(SHAPE_27B))
    assert group_of("layers.0.mlp.up_proj.weight") == (
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
    )
    for name in names:
        group = group_of(name)
        assert name in group
        assert all(one in names and group_of(one) == group for one in group)
    query = "mtp.layers.0.self_attn.q_proj.weight"
    assert group_of(query) == (query,)
    assert len({group_of(one) for one in names if one.endswith(GROUPS[1])}) == 16 + 2


def test_a_group_is_joined_whatever_the_order_of_its_files(tmp_path):
    folder = write_checkpoint(tmp_path / "model", num_shards=5)
    layer = load_model(folder, packer=packer()).weights.layers[3]
    assert layer.mixer.q.whole is layer.mixer.k.whole is layer.mixer.v.whole
    tensors = random_tensors(TINY)
    for name in "qkv":
        want = tensors[f"model.language_model.layers.3.self_attn.{name}_proj.weight"]
        assert different_bits(expanded(getattr(layer.mixer, name)), want, "NK") is None


def test_members_whose_scales_do_not_meet_stay_apart(tmp_path):
    folder = write_checkpoint(tmp_path / "model", fp8=True)  # gate and up have 96 rows
    mlp = load_model(folder, packer=packer()).weights.layers[0].mlp
    assert isinstance(mlp.gate, Packed)
    assert isinstance(mlp.up, Packed)


def test_members_of_several_formats_stay_apart(tmp_path):
    plain, codes = random_tensors(TINY), random_tensors(TINY, fp8=True)
    name = "model.language_model.layers.3.self_attn.k_proj.weight"
    mixed = plain | {one: codes[one] for one in (name, name + "_scale_inv")}
    folder = write_checkpoint(tmp_path / "model", tensors=mixed)
    mixer = load_model(folder, packer=packer()).weights.layers[3].mixer
    assert all(isinstance(one, Packed) for one in (mixer.q, mixer.k, mixer.v))


def test_a_tied_head_shares_the_embeddings_memory_where_it_can():
    shared = random_model(
        replace(SHAPE_DEMO, tie_word_embeddings=True), FORMATS["bf16"], device="cpu",
        packer=packer(),
    )  # fmt: skip
    assert shared.weights.part_bytes["head"] == 0
    assert bytes_of([shared.weights.embedding, shared.weights.head]) == 2 * 6144 * 256
    assert (
        random_model(TIED, FORMATS["bf16"], device="cpu", packer=packer()).weights.part_bytes[
            "head"
        ]
        == 2 * 160 * 128
    )


def test_codes_that_are_no_numbers_are_refused_by_name(tmp_path):
    tensors = random_tensors(TINY, fp8=True)
    name = "model.language_model.layers.1.mlp.down_proj.weight"
    tensors[name].view(torch.uint8)[3, 5] = 0x7F
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.down_proj.*is not a number"):
        load_model(folder, packer=packer())


DOWN = ("fp8_block", 256, 768)


def row_of(tile: SkinnyTile, rows: int, shape=DOWN) -> dict:
    name, N, K = shape
    sizes = {"op": "skinny_linear", "N": N, "K": K, "format": name, "rows": rows}
    return sizes | tile.as_row()


def table(tile: SkinnyTile, shape=DOWN) -> tuple[dict, ...]:
    return tuple(row_of(tile, rows, shape) for rows in (8, 16))


def test_a_tables_tiles_are_taken_once_at_load_and_the_rest_is_told():
    tile = SkinnyTile(1, 2, 1, 3, "global")
    one = packer(rows=table(tile))
    model = random_model(SHAPE_DEMO, FORMATS["fp8"], device="cpu", packer=one)
    down = model.weights.layers[0].mlp.down
    assert down.tiles.upto_8 == tile
    assert model.weights.head.tiles == defaults(6144, 256, "bf16", SM_90)
    said = one.notice
    assert "fp8_block 256x768" not in said
    assert said.count("fp8_block 1536x256") == said.count("bf16 6144x256") == 1
    assert "qwen38 tune --family linear" in said


def test_an_entry_that_does_not_hold_together_is_told_and_not_used():
    one = packer(rows=(row_of(SkinnyTile(1, 2, 1, 3, "global"), 8),))
    model = random_model(SHAPE_DEMO, FORMATS["fp8"], device="cpu", packer=one)
    assert model.weights.layers[0].mlp.down.tiles == defaults(256, 768, "fp8_block", SM_90)
    assert "A tile table entry is not used: fp8_block 256x768" in one.notice
    assert one.notice.count("is not used") == 1


def test_no_tile_changes_the_name_of_the_arithmetic():
    base = SkinnyTile(1, 2, 1, 3, "global")
    found = []
    for tile in (base, replace(base, stages=2), replace(base, splits=2, crew=3)):
        one = packer(rows=table(tile))
        random_model(SHAPE_DEMO, FORMATS["fp8"], device="cpu", packer=one)
        found.append(one.arithmetic)
    assert found[0] == found[1] == found[2]
    assert found[0].startswith("linear-2:")


def test_every_format_of_a_profile_can_be_packed_for_a_spark():
    formats = Formats("nvfp4", "fp8_block", "e4m3_row", "e4m3_row", "nvfp4")
    model = random_model(SHAPE_DEMO, formats, device="cpu", packer=packer(SM_121))
    assert not model.weights.layers[0].mlp.down.weight.spread
    assert model.step(3, model.new_state(64)).isfinite().all()


@pytest.mark.parametrize(("unused", "times"), [(256 << 20, 0), ((256 << 20) + 1, 1)])
def test_much_memory_that_lies_unused_goes_back_before_a_weight_settles(monkeypatch, unused, times):
    gave = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 7 + unused)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 7)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: gave.append("back"))
    one = packer()
    one.add("layers.0.mlp.down_proj.weight", torch.ones(16, 128, dtype=torch.bfloat16))
    assert len(gave) == times
