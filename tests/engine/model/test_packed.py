"""Which kernel multiplies how many rows, and what a packed weight computes on a CPU."""

from collections.abc import Mapping

import pytest
import torch
from torch.nn import functional

from engine.model.matrix import Nvfp4, Stored, expanded, logits_of, product, products
from engine.model.mlp import feed_forward
from engine.model.packed import (
    Crossovers,
    Member,
    Packed,
    crossovers_of,
    way_of,
)
from engine.model.packing import Launching, Packer
from engine.model.weights import MlpWeights
from kernels.common.compare import different_bits
from kernels.linear import skinny_maps
from kernels.linear.tile import SkinnyTile
from kernels.linear.weight import Nvfp4Weight

SM_90, SM_121 = (9, 0), (12, 1)


@pytest.mark.parametrize(
    ("capability", "num_rows", "kernel", "reason"),
    [
        (SM_90, 1, "skinny", "read once"),
        (SM_90, 32, "skinny", "read once"),
        (SM_90, 33, "middle", "33 to 512"),
        (SM_90, 512, "middle", "decoded while multiplied"),
        (SM_90, 513, "expand", "more than 512"),
        (SM_121, 32, "skinny", "read once"),
        (SM_121, 33, "middle", "33 to 1024"),
        (SM_121, 1025, "expand", "library product"),
    ],
)
def test_the_number_of_rows_alone_chooses_the_kernel(capability, num_rows, kernel, reason):
    way = way_of(num_rows, crossovers_of(capability))
    assert way.kernel == kernel
    assert reason in way.reason


def test_decode_never_leaves_the_row_invariant_kernel():
    for capability in (SM_90, (10, 0), (12, 0), SM_121):
        ways = {way_of(rows, crossovers_of(capability)).kernel for rows in range(1, 33)}
        assert ways == {"skinny"}


def values(num_rows: int, width: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(num_rows, width, generator=generator) * width**-0.5).bfloat16()


def packed(names: Mapping[str, Stored], *, paired: bool = False) -> dict:
    packer = Packer(Launching(SM_90, paired=paired))
    for name, one in names.items():
        packer.add(name, one)
    return packer.finish(values(4, 128), tied=False)


Q, K, V = (f"layers.3.self_attn.{one}_proj.weight" for one in "qkv")
GATE, UP, DOWN = (f"layers.0.mlp.{one}_proj.weight" for one in ("gate", "up", "down"))


@pytest.mark.parametrize("num_rows", [1, 3, 32, 33, 70, 800])
def test_every_kernel_multiplies_by_the_same_matrix(num_rows: int):
    weight, x = values(48, 200), values(num_rows, 200, seed=1)
    held = packed({DOWN: weight})[DOWN]
    want = functional.linear(x.double(), weight.double())
    torch.testing.assert_close(product(x, held).double(), want, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("num_rows", [1, 5, 33, 70])
def test_logits_of_a_row_are_those_of_the_row_alone(num_rows: int):
    weight, x = values(48, 200), values(num_rows, 200, seed=1)
    head = packed({"lm_head.weight": weight})["lm_head.weight"]
    rows = torch.cat([logits_of(row, head) for row in x.split(1)])
    assert rows.dtype == torch.float32
    assert different_bits(logits_of(x, head), rows, "TV") is None
    assert different_bits(rows, logits_of(x, weight), "TV") is None


def test_members_of_a_group_are_read_together(monkeypatch):
    held = packed({Q: values(64, 128), K: values(32, 128, 1), V: values(32, 128, 2)})
    assert isinstance(held[Q], Member)
    assert held[Q].whole is held[K].whole is held[V].whole
    calls = []
    real = Packed.product

    def counted(self, x, operands=None):
        calls.append(x)
        return real(self, x, operands)

    monkeypatch.setattr(Packed, "product", counted)
    x = values(2, 128, 3)
    together = products(x, held[Q], held[K], held[V])
    assert len(calls) == 1
    for name, got in zip((Q, K, V), together, strict=True):
        want = product(x, held[name])
        assert different_bits(got.contiguous(), want.contiguous(), "TN") is None
        assert torch.equal(expanded(held[name]), expanded(held[name].whole)[held[name].rows])


def four_bits(num_rows: int, width: int, seed: int) -> Nvfp4:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (num_rows, width // 2), generator=generator, dtype=torch.uint8)
    scales = torch.ones(num_rows, width // 16).to(torch.float8_e4m3fn)
    return Nvfp4(codes, scales, torch.tensor(0.02))


def test_the_pair_epilogue_rounds_as_the_layer_does():
    tensors = {GATE: four_bits(32, 128, 0), UP: four_bits(32, 128, 1), DOWN: values(128, 32, 2)}
    for num_rows in (3, 16, 17, 32):
        x = values(num_rows, 128, 4)
        outs = []
        for paired in (False, True):
            held = packed(tensors, paired=paired)
            weights = MlpWeights(held[GATE], held[UP], held[DOWN])
            assert held[GATE].whole.gates(num_rows) is paired
            outs.append(feed_forward(x, weights))
        assert different_bits(outs[0], outs[1], "TD") is None


def test_a_table_that_is_older_than_wide_pairs_is_helped_out_and_told_of():
    tile = SkinnyTile(1, 1, 2, 2, "shared", 1)
    key = {"op": "skinny_pair", "N": 64, "K": 1024, "format": "nvfp4"}
    rows = tuple({**key, "rows": most, **tile.as_row()} for most in (8, 16))
    packer = Packer(Launching(SM_90, rows))
    for name, seed in ((GATE, 0), (UP, 1)):
        packer.add(name, four_bits(32, 1024, seed))
    pair = packer.packed()[GATE].whole.pair_tiles
    assert (pair.upto_8, pair.upto_16) == (tile, tile)
    assert pair.upto_24.is_streamed
    assert pair.upto_32.is_streamed
    assert "64x1024 in one output of 17 rows and more" in packer.notice


def test_8_bits_and_more_multiply_gate_and_up_apart():
    held = packed({GATE: values(32, 128), UP: values(32, 128, 1)}, paired=True)
    assert held[GATE].whole.pair_tiles is None


def test_the_workspace_holds_the_largest_weight_and_no_head():
    held = packed({"lm_head.weight": values(500, 128), Q: values(64, 128), DOWN: values(16, 300)})
    workspace = held["lm_head.weight"].workspace
    assert workspace.num_elements == 64 * 128
    x = values(9, 128)
    narrow = Crossovers(2, 3)
    one = held[Q]
    assert isinstance(one, Packed)
    wide = Packed(one.weight, one.tiles, narrow, workspace)
    assert way_of(40, narrow).kernel == "expand"
    assert wide.product(values(40, 128)).shape == (40, 64)
    assert workspace.buffer(x.device).numel() == 64 * 128


def test_a_weight_in_the_memory_of_a_freed_one_is_described_anew(monkeypatch):
    """Codes may come to lie where another model's lay, with their scales elsewhere."""
    monkeypatch.setattr(skinny_maps, "_maps", {})
    monkeypatch.setattr(skinny_maps, "byte_map", lambda address, *_: address)
    codes = torch.zeros(16, 64, dtype=torch.uint8)
    found = []
    for _ in range(2):
        runs = torch.zeros(1, 1, 8, 4, 2, 2, dtype=torch.uint8).view(torch.float8_e4m3fn)
        weight = Nvfp4Weight(codes, runs, torch.ones(16), 128)
        tile = SkinnyTile(1, 1, 1, 2, "shared")
        assert skinny_maps.maps_for(tile, weight, 1) == (codes.data_ptr(), runs.data_ptr())
        found.append(weight)
