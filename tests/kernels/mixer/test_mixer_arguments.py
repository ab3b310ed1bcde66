"""What the joined launch takes, and what it says of what it does not."""

from dataclasses import replace

import pytest
import torch

from kernels.common.tree import plan_chain
from kernels.conv.arguments import GateInputs
from kernels.mixer.laws import PLANS, play
from kernels.mixer.op import mixer_rows
from kernels.mixer.rounds import Layer, Rows, Sizes, Weights
from kernels.mixer.tile import MOST_ROWS, takes

SIZES = Sizes(1, 3, 20)


def layer_and_rows(num_rows: int = 2) -> tuple[Layer, Rows, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    layer = Layer(SIZES, Weights.draw(SIZES, "cpu", generator), "cpu")
    layer.begin(plan_chain(num_rows))
    rows = Rows.draw(num_rows, SIZES, "cpu", generator)
    return layer, rows, torch.empty((num_rows, 3, 128), dtype=torch.bfloat16)


def call(layer: Layer, rows: Rows, out: torch.Tensor, **changed) -> torch.Tensor:
    weights = layer.weights
    arguments = {
        "x": rows.x, "gates": GateInputs(rows.inputs, weights.gates), "taps": weights.taps,
        "decay_rate": weights.decay_rate, "dt_bias": weights.dt_bias, "tails": layer.tails,
        "record": layer.record, "state": layer.state, "parity": layer.parity,
        "num_pending": layer.num_pending, "pending_rows": layer.pending_rows, "tree": layer.tree,
        "out": out,
    }  # fmt: skip
    return mixer_rows(**(arguments | changed))


def test_it_takes_few_rows_of_heads_that_a_warp_holds():
    assert [takes(rows, 128, 128, 5120) for rows in (0, 1, MOST_ROWS, MOST_ROWS + 1)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not takes(1, 64, 128, 5120)
    assert not takes(1, 128, 64, 5120)
    assert not takes(1, 128, 128, 5122)


@pytest.mark.parametrize("gated", [False, True])
def test_on_a_cpu_it_is_the_two_functions_that_it_joins(gated):
    plans = iter((*PLANS, *PLANS))
    assert play(SIZES, plans, "cpu", gated=gated, overlap=False) is None


def test_it_returns_what_it_wrote():
    layer, rows, out = layer_and_rows()
    assert call(layer, rows, out) is out
    assert bool(out.isfinite().all())


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"x": torch.zeros((2, 640))}, TypeError, "x"),
        ({"taps": torch.zeros((640, 3), dtype=torch.bfloat16)}, ValueError, "3 taps"),
        (
            {"tails": torch.zeros((2, 2, 640), dtype=torch.bfloat16)},
            ValueError,
            r"\[2, 3, 640\], got",
        ),
        ({"state": torch.zeros((3, 64, 128))}, ValueError, "D"),
        ({"parity": torch.zeros(2, dtype=torch.int32)}, ValueError, r"parity must be \[1\]"),
        ({"out": torch.zeros((2, 3, 128))}, TypeError, "out"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else None,
)
def test_what_does_not_fit_is_refused_with_a_sentence(changed, error, said):
    layer, rows, out = layer_and_rows()
    with pytest.raises(error, match=said):
        call(layer, rows, out, **changed)


def test_more_rows_are_sent_to_the_two_launches():
    layer, rows, out = layer_and_rows(4)
    with pytest.raises(ValueError, match="got 4 rows.*call conv_gates and delta_walk"):
        call(layer, rows, out)


def test_rows_that_begin_anywhere_are_refused():
    layer, rows, out = layer_and_rows()
    shifted = torch.zeros((2, 641), dtype=torch.bfloat16)[:, :640]
    with pytest.raises(ValueError, match="row stride of 641"):
        call(layer, rows, out, x=shifted)


@pytest.mark.parametrize(("name", "num_bytes"), [("taps", 8), ("tails", 4), ("record_raw", 4)])
def test_what_begins_between_two_loads_is_refused(name, num_bytes, shifted, request):
    layer, rows, out = layer_and_rows()
    changed = {
        "taps": {"taps": shifted(layer.weights.taps, 8)},
        "tails": {"tails": shifted(layer.tails, 4)},
        "record_raw": {"record": replace(layer.record, raw=shifted(layer.record.raw, 4))},
    }
    request.getfixturevalue("on_gpu")
    with pytest.raises(ValueError, match=rf"{name} starts at .* multiple of {2 * num_bytes} bytes"):
        call(layer, rows, out, **changed[name])
