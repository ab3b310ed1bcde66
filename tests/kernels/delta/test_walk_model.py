"""The model of the kernel's order: its fused multiply-add is IEEE's, and it obeys the laws."""

import random
from fractions import Fraction

import pytest
import torch

from kernels.common.compare import beyond_tolerance, different_bits
from kernels.common.proofs import SEED
from kernels.delta import laws, rounds
from kernels.delta.cases import FAMILY, WALK_CASES
from kernels.delta.model import fma, model_fold, model_walk
from kernels.delta.problems import bush, comb
from kernels.delta.record import DeltaRecord

NEAR = [0.0, -0.0, 1.0, -1.0, 2.0**-126, 2.0**-149, 2.0**-75, 2.0**24 + 2, 3.4e38, 1 + 2.0**-23]


def numbers(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, generator=generator)
    return torch.ldexp(drawn, torch.randint(-30, 31, (count,), generator=generator))


def is_nearest(got: torch.Tensor, a: float, b: float, c: float) -> bool:
    """Compare with exact arithmetic: no fp32 is nearer, and a tie goes to the even one."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    error = abs(Fraction(got.item()) - exact)
    for toward in (-torch.inf, torch.inf):
        other = torch.nextafter(got, torch.tensor(toward))
        if other.isinf():
            continue
        distance = abs(Fraction(other.item()) - exact)
        if distance < error or (distance == error and got.view(torch.int32).item() & 1):
            return False
    return True


def test_fused_multiply_add_rounds_once():
    a, b, c = (numbers(4000, seed) for seed in range(3))
    near = c.clone()
    near[:2000] = -(a * b)[:2000]  # what is left is the product's own rounding error
    for addend in (c, near):
        got = fma(a, b, addend)
        for one, *parts in zip(got, a.tolist(), b.tolist(), addend.tolist(), strict=True):
            assert is_nearest(one, *parts)


def test_fused_multiply_add_of_values_at_the_ends_of_fp32():
    values = torch.tensor(NEAR)
    a, b, c = torch.meshgrid(values, values, values, indexing="ij")
    got = fma(a, b, c)
    for one, *parts in zip(*(x.flatten() for x in (got, a, b, c)), strict=True):
        if one.isfinite():
            assert is_nearest(one, *(part.item() for part in parts))


def test_fused_multiply_add_is_not_two_roundings():
    """A sum halfway in fp32 whose rest is lost in fp64: rounding twice goes the other way."""
    a, b = torch.tensor(1 + 2.0**-12), torch.tensor(1 + 2.0**-12)
    c = torch.tensor(2.0**-60)
    halfway = fma(torch.tensor(1.0), torch.tensor(1 + 2.0**-23), torch.tensor(2.0**-24))
    assert halfway.item() == 1 + 2.0**-22
    product = Fraction(a.item()) * Fraction(b.item())  # 1 + 2^-11 + 2^-24
    assert product == 1 + Fraction(1, 2**11) + Fraction(1, 2**24)
    assert (a.double() * b.double() + c.double()).float().item() == 1 + 2.0**-11
    assert fma(a, b, c).item() == 1 + 2.0**-11 + 2.0**-23


def test_fused_multiply_add_keeps_infinity_and_nan():
    inf, nan, one = (torch.tensor(x) for x in (torch.inf, torch.nan, 1.0))
    assert fma(inf, one, one).isposinf()
    assert fma(one, one, -inf).isneginf()
    assert fma(inf, one, -inf).isnan()
    assert fma(nan, one, one).isnan()
    assert fma(torch.tensor(3e38), torch.tensor(2.0), one).isposinf()


@pytest.mark.parametrize(
    "case", [case for case in WALK_CASES if not case.cuda_only], ids=lambda case: case.label
)
def test_model_is_within_the_bound(case):
    inputs = case.draw(SEED, "cpu")
    op = FAMILY.ops[case.op]
    got, truth = op.model(inputs), op.truth(inputs)
    for spec in case.outputs:
        slack = truth[f"{spec.name}_slack"]
        name = spec.name
        assert not beyond_tolerance(got[name], truth[name], case.tolerance, spec.axes, slack)


def walk_by_model(q, v, beta, state, record, parity, num_pending, pending_rows, saves, restores,
                  *, out, gate=None, overlap=False):  # fmt: skip
    """Stand in for delta_walk."""
    tensors = {"q": q, "v": v, "beta": beta, "state": state, "record_k": record.k,
               "record_u": record.u, "record_decay": record.decay, "parity": parity,
               "num_pending": num_pending, "pending_rows": pending_rows, "saves": saves,
               "restores": restores}  # fmt: skip
    predicted = model_walk(tensors)
    state.copy_(predicted["state_out"])
    record.u.copy_(predicted["record_u_out"])
    return out.copy_(predicted["out"])


def fold_by_model(state, record: DeltaRecord, parity, num_pending, pending_rows):
    """Stand in for delta_fold."""
    tensors = {"state": state, "record_k": record.k, "record_u": record.u,
               "record_decay": record.decay, "parity": parity, "num_pending": num_pending,
               "pending_rows": pending_rows}  # fmt: skip
    state.copy_(model_fold(tensors)["state_out"])


def test_the_kernels_order_of_operations_obeys_the_laws(monkeypatch):
    monkeypatch.setattr(rounds, "delta_walk", walk_by_model)
    monkeypatch.setattr(rounds, "delta_fold", fold_by_model)
    chance = random.Random(2)
    plans = [laws.random_tree(chance.randint(1, 20), chance) for _ in range(4)]
    plans += [comb(9), bush(15)]
    assert laws.play(iter(plans), rounds.Sizes(1, 2, 64, 16), "cpu", 5) is None
    assert laws._own_fold_differs("cpu") is None


def test_another_order_has_other_bits():
    """If all orders had the same bits, a comparison with the model would say nothing."""
    case = next(case for case in WALK_CASES if case.sizes.get("R") == 16)
    inputs = case.draw(SEED, "cpu")
    outputs = case.poisoned_outputs("cpu").tensors
    FAMILY.ops[case.op].run(inputs, outputs)  # torch's order
    predicted = model_walk(inputs)
    for name in ("state_out", "record_u_out"):
        assert different_bits(outputs[name], predicted[name], "HDEX"[: outputs[name].dim()])
