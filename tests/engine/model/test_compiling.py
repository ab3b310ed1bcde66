"""Every launch of a round is known before the first one, each once."""

import pytest

from engine.model import compiling
from engine.model.compiling import packed_in, variants_in
from engine.model.config import SHAPE_DEMO
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import load_profiles
from kernels.linear.tile import macros


@pytest.fixture(scope="module")
def model():
    packer = Packer(Launching((9, 0), overlap=True))
    formats = load_profiles()["fp8"].formats
    return random_model(SHAPE_DEMO, formats, device="cpu", packer=packer)


def test_all_matrices_of_all_layers_are_found(model):
    found = {id(one): one for one in packed_in(model.weights)}
    layer = model.weights.layers[0]
    for one in (layer.mlp.gate.whole, layer.mlp.down, layer.mixer.out, model.weights.mtp.fc):
        assert id(one) in found
    assert id(model.weights.head) in found
    assert len(found) == sum(1 for _ in set(found))


def test_each_launch_is_listed_once_and_heads_write_fp32(model):
    head = model.weights.head
    listed = variants_in(model.weights, [head], (1, 8, 16, 32))
    assert len({one.choices for one in listed}) == len(listed)
    assert all(one.overlap for one in listed)
    logits = [one for one in listed if one.fp32_out]
    sizes = {(one.problem.N, one.problem.Kp) for one in logits}
    assert sizes == {(SHAPE_DEMO.vocab_size, SHAPE_DEMO.hidden_size)}
    wanted = {
        tuple(macros(tile, one.problem).items())
        for one in logits
        for rows in (1, 8, 16, 32)
        for count, tile in head.tiles.launches(rows)
        if count == one.problem.rows
    }
    assert {tuple(macros(one.tile, one.problem).items()) for one in logits} == wanted
    fewer = variants_in(model.weights, [head], (1,))
    assert {one.choices for one in fewer} < {one.choices for one in listed}


def test_what_is_listed_is_compiled(model, monkeypatch):
    compiled = []
    monkeypatch.setattr(compiling, "compile_ahead", compiled.extend)
    compiling.compile_products(model.weights, [model.weights.head, model.mtp.head], (1, 16))
    assert compiled == variants_in(model.weights, [model.weights.head, model.mtp.head], (1, 16))


@pytest.mark.parametrize(("capability", "most"), [((9, 0), 32), ((12, 1), 16)])
def test_gate_and_up_that_end_in_one_output_are_not_compiled_apart(capability, most):
    packer = Packer(Launching(capability, overlap=True))
    model = random_model(SHAPE_DEMO, load_profiles()["nvfp4"].formats, device="cpu", packer=packer)
    size = 2 * SHAPE_DEMO.intermediate_size, SHAPE_DEMO.hidden_size
    for rows in (1, 16, 17, 32):
        listed = variants_in(model.weights, [model.weights.head], (rows,))
        fed = [one.problem for one in listed if (one.problem.N, one.problem.Kp) == size]
        assert {one.paired for one in fed} == {rows <= most}
