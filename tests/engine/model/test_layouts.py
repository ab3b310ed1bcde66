"""Every layout loads to the weights that its own definition means, wherever it is held."""

from dataclasses import fields, replace

import pytest
import torch

from engine.model import reading
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.config_file import read_config
from engine.model.footprint import workspace_bytes
from engine.model.loading import load_model
from engine.model.matrix import E4m3Row, Fp8Block, Matrix, Nvfp4, bytes_of, expanded
from engine.model.memory import plan_memory
from engine.model.packed import Member, Packed
from engine.model.packing import Launching, Packer
from engine.model.tensors import expected_tensors
from kernels.common.compare import different_bits
from kernels.linear.reference import exact_values
from kernels.linear.weight import Nvfp4Weight, format_name
from tests.engine.model.checkpoints import TINY, write_checkpoint
from tests.engine.model.layouts import CHOICES, layout_tensors, meaning, on_disk, write_layout

SM_90, SM_121 = (9, 0), (12, 1)
ODD = replace(TINY, hidden_size=80, intermediate_size=208, vocab_size=170)
"""Inputs that no step of 128 divides, rows that no tile or block divides."""


def opened(folder) -> Checkpoint:
    return open_checkpoint(folder, read_config(folder))


def matrices_of(model) -> dict[str, Matrix]:
    """Matrices by canonical name."""
    weights = model.weights
    found = {"lm_head.weight": weights.head, "mtp.fc.weight": weights.mtp.fc}
    for index, layer in enumerate((*weights.layers, weights.mtp)):
        is_mtp = layer is weights.mtp
        prefix = "mtp.layers.0." if is_mtp else f"layers.{index}."
        mixer = layer.attention if is_mtp else layer.mixer
        for one in fields(layer.mlp):
            found[f"{prefix}mlp.{one.name}_proj.weight"] = getattr(layer.mlp, one.name)
        names = {
            "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
            "o": "self_attn.o_proj", "qkv": "linear_attn.in_proj_qkv",
            "z": "linear_attn.in_proj_z", "a": "linear_attn.in_proj_a",
            "b": "linear_attn.in_proj_b", "out": "linear_attn.out_proj",
        }  # fmt: skip
        for field, name in names.items():
            if hasattr(mixer, field):
                found[f"{prefix}{name}.weight"] = getattr(mixer, field)
    return found


def exact(matrix: Matrix) -> torch.Tensor:
    """What a packed matrix's numbers are, fp64 [N, K]."""
    if isinstance(matrix, Member):
        return exact_values(matrix.whole.weight)[matrix.rows]
    assert isinstance(matrix, Packed)
    return exact_values(matrix.weight)


def all_matrices() -> set[str]:
    return {name for name, spec in expected_tensors(TINY).items() if spec.matrix}


@pytest.mark.parametrize("config", [TINY, ODD], ids=["tiny", "odd"])
@pytest.mark.parametrize("capability", [SM_90, SM_121])
@pytest.mark.parametrize("layout", CHOICES)
def test_packed_matrices_are_exactly_what_the_files_mean(tmp_path, layout, capability, config):
    """Bit for bit in fp64; of a divisor within the one rounding of its inverse."""
    folder = write_layout(tmp_path / "model", layout, config)
    model = load_model(folder, packer=Packer(Launching(capability)))
    tensors, held = layout_tensors(layout, config), matrices_of(model)
    assert held.keys() == all_matrices()
    for name, matrix in held.items():
        want, got = meaning(tensors, name), exact(matrix)
        divided = on_disk(name).replace(".weight", ".weight_global_scale") in tensors
        bound = 2.0**-24 * want.abs() if divided else 0
        assert ((got - want).abs() <= bound).all(), name


@pytest.mark.parametrize("layout", CHOICES)
def test_expanded_matrices_are_the_meaning_rounded_to_bf16(tmp_path, layout):
    """2^-8 by the rounding to BF16; 2^-24 each by the products of scales and codes, an inverse."""
    tensors = layout_tensors(layout)
    held = matrices_of(load_model(write_layout(tmp_path / "model", layout)))
    assert held.keys() == all_matrices()
    for name, matrix in held.items():
        assert isinstance(matrix, torch.Tensor)
        want = meaning(tensors, name)
        bound = (2.0**-8 + 3 * 2.0**-24) * want.abs()
        assert ((matrix.double() - want).abs() <= bound).all(), name


@pytest.mark.parametrize("layout", CHOICES)
def test_packed_and_expanded_are_one_model(tmp_path, layout):
    folder = write_layout(tmp_path / "model", layout)
    packed = load_model(folder, packer=Packer(Launching(SM_90)))
    wide = matrices_of(load_model(folder))
    for name, matrix in matrices_of(packed).items():
        assert different_bits(expanded(matrix).contiguous(), wide[name], "NK") is None, name


@pytest.mark.parametrize("layout", CHOICES)
def test_codes_and_scales_are_held_with_the_files_bytes(tmp_path, layout):
    tensors = layout_tensors(layout)
    held = matrices_of(load_model(write_layout(tmp_path / "model", layout), expand=False))
    for name, matrix in held.items():
        module = on_disk(name).removesuffix(".weight")
        if not isinstance(matrix, Nvfp4 | E4m3Row | Fp8Block):
            assert torch.equal(matrix, tensors[f"{module}.weight"])
            continue
        codes = tensors.get(f"{module}.weight", tensors.get(f"{module}.weight_packed"))
        if isinstance(matrix, Fp8Block):
            assert torch.equal(matrix.codes.view(torch.uint8), codes.view(torch.uint8))
            assert torch.equal(matrix.scales.float(), tensors[f"{module}.weight_scale_inv"].float())
            continue
        scales = tensors[f"{module}.weight_scale"]
        assert torch.equal(matrix.codes.view(torch.uint8), codes.view(torch.uint8))
        if isinstance(matrix, E4m3Row):
            assert torch.equal(matrix.scales, scales.float().flatten().expand(len(codes)))
        else:
            assert torch.equal(matrix.scales.view(torch.uint8), scales.view(torch.uint8))


def test_a_divisor_is_inverted_and_a_multiplier_is_not(tmp_path):
    name = "layers.0.mlp.up_proj.weight"
    for layout, leaf in (("compressed", "weight_global_scale"), ("modelopt", "weight_scale_2")):
        held = matrices_of(load_model(write_layout(tmp_path / layout, layout), expand=False))
        stored = layout_tensors(layout)[on_disk(name).replace("weight", leaf)].reshape(())
        want = (1 / stored.double()).float() if layout == "compressed" else stored
        assert held[name].tensor_scale.shape == ()
        assert torch.equal(held[name].tensor_scale, want)


@pytest.mark.parametrize("layout", CHOICES)
def test_pieces_smaller_than_a_matrix_give_the_same_bits(tmp_path, monkeypatch, layout):
    folder = write_layout(tmp_path / "model", layout)
    whole = matrices_of(load_model(folder))
    monkeypatch.setattr(reading, "PIECE_BYTES", 1000)
    pieces = matrices_of(load_model(folder))
    assert all(different_bits(whole[name], pieces[name], "NK") is None for name in whole)


def test_members_with_scales_of_their_own_are_joined_and_mixed_formats_are_not(tmp_path):
    layers = {}
    for layout in ("modelopt", "compressed"):
        folder = write_layout(tmp_path / layout, layout)
        layers[layout] = load_model(folder, packer=Packer(Launching(SM_90))).weights.layers
    layer = layers["modelopt"][3]
    gate = layer.mlp.gate
    assert gate.whole is layer.mlp.up.whole
    assert isinstance(gate.whole.weight, Nvfp4Weight)
    assert len(gate.whole.weight.row_scales.unique()) == 2
    assert layer.mixer.q.whole is layer.mixer.v.whole
    assert len(layer.mixer.q.whole.weight.row_scales.unique()) == 3
    assert format_name(layers["compressed"][0].mlp.gate.whole.weight) == "nvfp4"
    assert format_name(layers["compressed"][3].mlp.gate.whole.weight) == "e4m3_row"


def mixed(tmp_path, **sources: str):
    """The modelopt checkpoint with some modules as another checkpoint stores them, packed."""
    tensors = layout_tensors("modelopt")
    for module, layout in sources.items():
        key = f".{module}."
        others = layout_tensors(layout)
        tensors = {name: one for name, one in tensors.items() if key not in name}
        tensors |= {name: one for name, one in others.items() if key in name}
    folder = write_checkpoint(tmp_path / "mixed", tensors=tensors)
    return tensors, matrices_of(load_model(folder, packer=Packer(Launching(SM_90))))


Q, K, V = (f"layers.3.self_attn.{one}_proj.weight" for one in "qkv")
GATE, UP = (f"layers.0.mlp.{one}_proj.weight" for one in ("gate", "up"))


def test_a_group_of_two_layouts_in_one_format_is_joined_and_exact(tmp_path):
    """K a row's and q, v a tensor's FP8; up by a divisor and gate by a multiplier."""
    tensors, held = mixed(tmp_path, k_proj="compressed", up_proj="compressed")
    assert held[Q].whole is held[K].whole is held[V].whole
    assert held[GATE].whole is held[UP].whole
    for name in (Q, K, V, GATE):
        assert torch.equal(exact(held[name]), meaning(tensors, name))
    want = meaning(tensors, UP)
    assert ((exact(held[UP]) - want).abs() <= 2.0**-24 * want.abs()).all()


def test_a_group_of_nvfp4_and_fp8_stays_apart_and_exact(tmp_path):
    tensors, held = mixed(tmp_path, k_proj="nvfp4")
    for name in (Q, K, V):
        assert isinstance(held[name], Packed)
        assert torch.equal(exact(held[name]), meaning(tensors, name))


@pytest.mark.parametrize("layout", CHOICES)
@pytest.mark.parametrize("config", [TINY, ODD], ids=["tiny", "odd"])
def test_the_plan_counts_what_is_then_held(tmp_path, layout, config):
    folder = write_layout(tmp_path / "model", layout, config)
    checkpoint = opened(folder)
    for expand in (True, False):
        plan = plan_memory(checkpoint, "cpu", expand=expand)
        assert plan.stored + plan.expanded == load_model(folder, expand=expand).weight_bytes
    plan = plan_memory(checkpoint, "cpu", packed=True)
    model = load_model(folder, packer=Packer(Launching(SM_90)))
    assert plan.stored + plan.expanded == model.weight_bytes
    assert plan.workspace >= workspace_bytes(config)


@pytest.mark.parametrize(("layout", "copies"), [("modelopt", False), ("nvfp4", True)])
def test_the_plan_counts_the_copied_part_of_the_head_in_its_format(tmp_path, layout, copies):
    folder = write_layout(tmp_path / "model", layout, replace(TINY, vocab_size=33_000))
    checkpoint = opened(folder)
    plan = plan_memory(checkpoint, "cpu", packed=True)
    model = load_model(folder, packer=Packer(Launching(SM_90)))
    draft = model.weights.part_bytes.get("draft_head", 0)
    assert plan.stored + plan.expanded == model.weight_bytes
    assert (draft == 32_768 * (128 + 4 + 4)) is copies


def test_the_plan_leaves_room_for_a_large_head_in_both_orders(tmp_path):
    config = replace(TINY, vocab_size=4096)
    checkpoint = opened(write_layout(tmp_path / "model", "modelopt", config))
    codes = checkpoint.weights["lm_head.weight"].weight.num_bytes
    assert plan_memory(checkpoint, "cpu", packed=True).workspace == codes
    assert codes == 4096 * 32 > workspace_bytes(config)


@pytest.mark.parametrize(
    ("layout", "scales", "formats"),
    [
        ("modelopt", 13 + 13, {"mlp": {"nvfp4": 12}, "head": {"nvfp4": 1}, "mtp": {"bf16": 7}}),
        ("compressed", 9, {"mlp": {"nvfp4": 9, "e4m3_row": 3}, "head": {"e4m3_row": 1}}),
        ("nvfp4", 12 + 13 + 7, {"mtp": {"nvfp4": 7}, "head": {"e4m3_row": 1}}),
    ],
)
def test_formats_are_told_by_part_and_scales_that_nothing_reads_are_counted(
    tmp_path, layout, scales, formats
):
    checkpoint = opened(write_layout(tmp_path / "model", layout))
    assert checkpoint.has_mtp
    assert formats.items() <= checkpoint.part_formats.items()
    assert checkpoint.part_formats["attention"].total() == 4
    assert checkpoint.num_unused == scales
    assert len(checkpoint.kv_scales) == (2 if layout == "compressed" else 0)


def test_a_kv_scale_may_stand_with_its_projection(tmp_path):
    tensors = layout_tensors("modelopt")
    for one in "kv":
        tensors[on_disk(f"layers.3.self_attn.{one}_proj.{one}_scale")] = torch.tensor(1.0)
    checkpoint = opened(write_checkpoint(tmp_path / "m", tensors=tensors))
    assert checkpoint.num_unused == 13 + 13
    assert set(checkpoint.kv_scales) == {(3, "k"), (3, "v")}


@pytest.mark.parametrize("layout", CHOICES)
def test_a_model_computes_alike_packed_and_expanded(tmp_path, layout):
    folder = write_layout(tmp_path / "model", layout)
    outs = []
    for packer in (Packer(Launching(SM_121)), None):
        model = load_model(folder, packer=packer)
        state = model.new_state(128)
        model.prefill(list(range(70)), state)
        outs.append(model.logits(model.step(5, state)))
    assert outs[0].abs().max() > 0.1
    torch.testing.assert_close(*outs, rtol=0.05, atol=0.1)


def test_what_is_held_twice_counts_once(tmp_path):
    model = load_model(write_layout(tmp_path / "m", "modelopt"), packer=Packer(Launching(SM_90)))
    mlp = model.weights.layers[0].mlp
    assert bytes_of([mlp.gate, mlp.up]) == bytes_of([mlp.gate])
