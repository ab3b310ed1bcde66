"""Walk trees that hypothesis draws, in the interpreter and by the reference; print what differs.

TRITON_INTERPRET=1 python accept_script.py
"""

import json
import sys

import torch
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from kernels.common import interpreter

interpreter.install()

from kernels.sample.accept import AcceptBuffers, accept  # noqa: E402  after the interpreter
from kernels.sample.accept_reference import accept_reference  # noqa: E402
from kernels.sample.laws import load_walk  # noqa: E402
from kernels.sample.walk_truth import Walk  # noqa: E402

faults: list[str] = []
TOKENS = st.integers(0, 2)


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """Any tree whose rows follow earlier ones: the walk needs no other order."""
    num_rows = draw(st.integers(1, 32))
    parents = [-1, *(draw(st.integers(max(0, row - 3), row - 1)) for row in range(1, num_rows))]
    rows = {"min_size": len(parents), "max_size": len(parents)}
    return Walk(
        tuple(parents),
        tuple(draw(st.lists(TOKENS, **rows))),
        tuple(draw(st.lists(st.one_of(TOKENS, TOKENS, TOKENS, st.integers(-1, 2)), **rows))),
        tuple(draw(st.lists(st.integers(2, 4), max_size=3))),
        draw(st.sampled_from([0, 1, 2, 5, 1000])),
    )


@seed(20261129)
@settings(max_examples=120, deadline=None, database=None, phases=[Phase.generate])
@given(walks())
def compare(walk: Walk) -> None:
    ours, theirs = AcceptBuffers.allocate("cpu"), AcceptBuffers.allocate("cpu")
    parents = torch.full((32,), -7, dtype=torch.int32)
    parents[: len(walk.parents)] = torch.tensor(walk.parents)
    chosen = torch.tensor(walk.chosen, dtype=torch.int32)
    for buffers in (ours, theirs):
        for tensor in buffers.tensors().values():
            tensor.fill_(-7)
        buffers.parity.fill_(1)
        load_walk(buffers, walk)
    accept(chosen, parents, ours)
    accept_reference(chosen, parents, theirs.tensors())
    wrong = [n for n, t in ours.tensors().items() if not torch.equal(t, theirs.tensors()[n])]
    if wrong:
        faults.append(f"{walk}: {', '.join(wrong)}")


compare()
json.dump(faults[:3], sys.stdout)
