"""A kernel family whose tiles are sound, wrong or broken as they say, for bench and tune."""

from dataclasses import dataclass, replace
from functools import partial

import torch

from kernels.common.case import Case, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import NORMAL
from kernels.common.family import Family, Op
from kernels.common.problem import Problem, Tunable
from kernels.common.timing import Timing

CAPABILITY = (9, 0)


@dataclass(frozen=True)
class FakeTile:
    """A tile by its behaviour: what it computes, and how long it takes."""

    does: str
    us: float


PRESENT = FakeTile("sound", 10.0)
FAST = FakeTile("sound", 5.0)
LITTLE_FASTER = FakeTile("sound", 9.9)
WRONG = FakeTile("wrong", 1.0)
LEAVES_A_HOLE = FakeTile("hole", 1.5)
ROWS_DIFFER = FakeTile("rows differ", 2.0)
BREAKS = FakeTile("breaks", 0.5)
OTHER_BITS = FakeTile("other order", 1.0)


def run(inputs, outputs, tile=None):
    """Double x; another order of a sum would be a little off, within the bound."""
    tile = tile or PRESENT
    x, out = inputs["x"], outputs["out"]
    if tile.does == "breaks":
        raise RuntimeError("out of shared memory")
    out.copy_(2 * x)
    if tile.does == "other order":
        out.mul_(1 + 2.0**-20)
    if tile.does == "wrong":
        out.mul_(1.5)
    if tile.does == "hole":
        out[:, -1] = torch.nan
    if tile.does == "rows differ" and len(x) != 32:
        out.add_(1e-6)


def case(rows, width=8):
    bound = Tolerance(1e-5, 1e-5, "another order of the sum moves the last bits of fp32")
    return Case(
        "double",
        {"T": rows, "D": width},
        (TensorSpec("x", ("T", "D"), torch.float32, NORMAL),),
        (TensorSpec("out", ("T", "D"), torch.float32),),
        bound,
        interpreted=True,
    )


class Ran:
    """What the problems' calls were given, and a timer that believes the tile of the last one."""

    def __init__(self):
        self.tiles = []

    def make_calls(self, num_copies, device):
        return [self.tiles.append] * min(num_copies, 2)

    def timer(self, calls, device):
        for call in calls:
            call()
        us = self.tiles[-1].us
        return Timing(us, us, us, len(calls))


def problem(ran, rows, width=8, **fields):
    about = Problem(
        name="double", op="double", rows=rows, sizes={"T": rows, "D": width}, num_bytes=1 << 20,
        make_calls=ran.make_calls, case=case(rows, width),
    )  # fmt: skip
    return replace(about, **fields)


def tunable(candidates, **fields):
    about = Tunable(
        op="double",
        rows=(1, 16),
        key=lambda one: {"width": one.sizes["D"]},
        key_fields=("width",),
        candidates=lambda key: candidates,
        default=lambda key: PRESENT,
        case=lambda one: case(32, one.sizes["D"]),
        run=run,
        to_row=lambda tile: {"does": tile.does, "us_a_call": tile.us},
        from_row=lambda row: FakeTile(row["does"], row["us_a_call"]),
    )
    return replace(about, **fields)


def family(ran, candidates=(PRESENT,), run_default=run, **fields):
    """The family; ``fields`` change its tunable."""
    return Family(
        name="fake",
        ops={"double": Op(partial(run_default), lambda inputs: {"out": 2 * inputs["x"].double()})},
        cases=(case(3),),
        timed=lambda sizes, rows: (problem(ran, rows),),
        tunables=(tunable(tuple(candidates), **fields),),
    )
