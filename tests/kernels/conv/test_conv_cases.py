"""The paths of the family agree, and its arguments are refused in words."""

import pytest
import torch

from engine.check.families import sizes_of
from engine.model.config import SHAPE_27B
from kernels.common.compare import different_bits
from kernels.conv import conv_fold, conv_gates, conv_prefill
from kernels.conv.arguments import GateInputs
from kernels.conv.cases import FAMILY
from kernels.conv.gates_reference import KERNEL, TORCH, softplus_of_kernel
from kernels.conv.reference import conv_reference, next_tail_reference
from kernels.conv.rounds import Layer, Rounds
from kernels.conv.timed import timed
from kernels.delta import reference as delta

SIZES = sizes_of("27b", SHAPE_27B, ("nvfp4",))


@pytest.fixture
def layer() -> Layer:
    return Layer("cpu", 7, 2, 4, 16)


def test_a_chain_on_a_cpu_has_the_bits_of_the_references(layer):
    tail = layer.draw(3, layer.channels)
    rounds = Rounds(layer, tail)
    x, ab = layer.rows(1)
    got = rounds.verify(x, ab, (-1,))
    y = conv_reference(x, tail, layer.weight)
    a, b = ab.chunk(2, dim=-1)
    g, beta = delta.gates_reference(a, b, layer.decay_rate, layer.dt_bias)
    heads = y.unflatten(1, (-1, 16))
    q, k, v = heads.split((2, 2, 4), dim=1)
    want = {
        "q": delta.unit_length(q.float()) * 16**-0.5,
        "k": delta.unit_length(k.float()),
        "v": v,
        "beta": beta.float(),
        "decay": g.exp(),
        "tail": tail,
        "raw": x,
    }
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name


def test_a_prefill_on_a_cpu_has_the_bits_of_the_references(layer):
    tail = layer.draw(3, layer.channels)
    x, ab = layer.rows(70)
    out = torch.full_like(x, torch.nan)
    q, k, v = out.unflatten(1, (-1, 16)).split((2, 2, 4), dim=1)
    g, beta, next_tail = torch.empty(70, 4), torch.empty(70, 4).bfloat16(), tail.clone()
    conv_prefill(
        x, ab, layer.weight, layer.decay_rate, layer.dt_bias, next_tail, q=q, k=k, v=v, g=g,
        beta=beta, tail_out=next_tail,
    )  # fmt: skip
    want_g, want_beta = delta.gates_reference(*ab.chunk(2, dim=-1), layer.decay_rate, layer.dt_bias)
    assert different_bits(out, conv_reference(x, tail, layer.weight), "TC") is None
    assert different_bits(g, want_g, "TH") is None
    assert different_bits(beta, want_beta, "TH") is None
    assert torch.equal(next_tail, next_tail_reference(x, tail))


def test_the_kernels_softplus_is_within_five_roundings_of_fp64_everywhere():
    x = torch.cat((torch.linspace(-87, 40, 200_001), torch.tensor([0.0, -0.0, 1e-30, 88.0, 1e30])))
    truth = torch.logaddexp(x.double(), torch.zeros(1, dtype=torch.float64))
    error = (softplus_of_kernel(x).double() - truth).abs() / truth
    assert error.max() < 5 * 2.0**-24
    assert torch.equal(softplus_of_kernel(x[x > 20]), x[x > 20])
    assert bool(softplus_of_kernel(torch.tensor([torch.nan])).isnan())


def test_the_kernels_functions_are_close_to_torchs():
    x = torch.linspace(-30, 30, 10_001)
    for name in ("silu", "softplus", "sigmoid"):
        ours, theirs = getattr(KERNEL, name)(x), getattr(TORCH, name)(x)
        assert ((ours - theirs).abs() <= 1e-6 * theirs.abs() + 1e-30).all(), name


def call(layer: Layer, **changed: torch.Tensor) -> None:
    """Call conv_gates on five rows, some arguments exchanged."""
    rounds = Rounds(layer, layer.draw(3, layer.channels))
    x, ab = layer.rows(5)
    outputs = rounds.outputs(5)
    arguments = {
        "x": x, "ab": ab, "weight": layer.weight, "decay_rate": layer.decay_rate,
        "dt_bias": layer.dt_bias, "tails": rounds.tails, "record_raw": rounds.raw,
        "record_k": rounds.k, "record_decay": rounds.decay, "parity": rounds.parity,
        "num_pending": rounds.num_pending, "pending_rows": rounds.pending_rows,
        "parents": rounds.parents, **outputs,
    }  # fmt: skip
    conv_gates(**arguments | changed)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("x", (5, 100), r"weight must be \[C, taps\] = \[100, any\], got \[128, 4\]"),
        ("ab", (5, 7), "2 H = 8 gates .* ab of 7"),
        ("weight", (128, 3), "4 taps; got .* weight of 3 taps"),
        ("tails", (2, 4, 128), r"tails must be \[2, 3, C\] = \[2, 3, 128\], got \[2, 4, 128"),
        ("v", (5, 4, 8), r"v must be \[T, H, D\] = \[5, 4, 16\], got \[5, 4, 8\]"),
    ],
)
def test_a_wrong_shape_is_a_sentence(layer, name, shape, message):
    with pytest.raises(ValueError, match=message):
        call(layer, **{name: torch.zeros(shape, dtype=torch.bfloat16)})


def test_a_wrong_dtype_is_a_sentence(layer):
    with pytest.raises(TypeError, match="q must be float32"):
        call(layer, q=torch.zeros(5, 2, 16).bfloat16())


def test_records_must_be_contiguous(layer):
    tails = torch.zeros(2, 3, 256).bfloat16()[..., ::2].transpose(0, 1)
    with pytest.raises(ValueError, match="stride 1 along C"):
        call(layer, tails=tails.transpose(0, 1))
    halves = torch.zeros(3, 2, 128).bfloat16().transpose(0, 1)
    with pytest.raises(ValueError, match=r"tails must be contiguous, .* call \.contiguous\(\)"):
        call(layer, tails=halves)


def test_a_weight_of_fewer_inputs_than_rows_have_is_refused(layer):
    x, ab = layer.product_rows(2, 64)
    q, v, beta = torch.zeros(2, 2, 16), torch.zeros(2, 4, 16).bfloat16(), torch.zeros(2, 4)
    narrow = GateInputs(ab.rows, ab.weight[:, :48].contiguous())
    with pytest.raises(ValueError, match=r"ab\.weight has 48 inputs and ab\.rows 64"):
        call(layer, x=x, ab=narrow, q=q, v=v, beta=beta)


def test_a_product_is_that_of_the_rows_alone(layer):
    """A weight wider than the rows is padded: what is beyond them is not read."""
    x, ab = layer.product_rows(2, 64)
    wide = torch.cat((ab.weight, torch.full_like(ab.weight, torch.nan)), -1)
    written = []
    for gates in (ab, GateInputs(ab.rows, wide)):
        q, v, beta = torch.zeros(2, 2, 16), torch.zeros(2, 4, 16).bfloat16(), torch.zeros(2, 4)
        call(layer, x=x, ab=gates, q=q, v=v, beta=beta)
        written.append(beta)
    assert torch.equal(*written)
    assert written[0].any()


def test_a_prefill_reads_three_rows_before_its_own(layer):
    x, ab = layer.rows(2)
    q, k, v = x.unflatten(1, (-1, 16)).split((2, 2, 4), dim=1)
    with pytest.raises(ValueError, match=r"tail_in must be \[3, C\] = \[3, 128\], got \[2, 128\]"):
        conv_prefill(
            x, ab, layer.weight, layer.decay_rate, layer.dt_bias, layer.draw(2, layer.channels),
            q=q, k=k, v=v, g=torch.zeros(2, 4), beta=torch.zeros(2, 4).bfloat16(),
            tail_out=layer.draw(2, layer.channels),
        )  # fmt: skip


def test_scalars_are_one_number_each(layer):
    two = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"parity must be \[1\] = \[1\], got \[2\]"):
        call(layer, parity=two, num_pending=two)


def test_more_rows_than_a_record_are_refused(layer):
    with pytest.raises(ValueError, match="33 rows came, a record holds 32"):
        call(
            layer, x=layer.draw(33, 128), ab=layer.draw(33, 8), q=torch.zeros(33, 2, 16),
            v=layer.draw(33, 4, 16), beta=torch.zeros(33, 4),
        )  # fmt: skip


def test_no_rows_and_no_layers_change_nothing(layer):
    tail = layer.draw(3, layer.channels)
    x, ab = layer.rows(0)
    heads = x.view(0, 2, 16), x.view(0, 2, 16), layer.draw(0, 4, 16)
    out = torch.full_like(tail, torch.nan)
    conv_prefill(
        x, ab, layer.weight, layer.decay_rate, layer.dt_bias, tail, q=heads[0], k=heads[1],
        v=heads[2], g=torch.zeros(0, 4), beta=torch.zeros(0, 4).bfloat16(), tail_out=out,
    )  # fmt: skip
    assert torch.equal(out, tail)
    rounds = Rounds(layer, tail)
    conv_fold(
        rounds.tails[None][:0], rounds.raw[None][:0], rounds.parity,
        rounds.num_pending, rounds.pending_rows,
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 16, 1024])
def test_problems_are_timed_on_what_was_proven(rows):
    problems = timed(SIZES, rows)
    assert len(problems) == (2 if rows <= 32 else 1)  # with a | b, and with their product
    for problem in problems:
        assert problem.op in FAMILY.ops
        assert problem.case is not None
        written = problem.case.written_bytes
        assert written < problem.num_bytes < problem.case.read_bytes + 2 * written
