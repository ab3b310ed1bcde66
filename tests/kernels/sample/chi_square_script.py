"""Draw from a small vocabulary in the interpreter under every filter; print p of each.

Each draw must be the one that the reference makes at its position. The reference's draws, those and
as many more as a chi-square statistic needs to be one, follow the distribution or do not: p of a
few hundred draws is below 0.01 in 1 to 3 of 100 seeds, with nothing wrong.

A search sees one row, and 32 rows of the same logits then draw with the threshold that it found:
the interpreter takes seconds for a search.

TRITON_INTERPRET=1 python chi_square_script.py
"""

import json
import sys

import torch

from kernels.common import interpreter

interpreter.install()

from kernels.sample import op  # noqa: E402  after the interpreter
from kernels.sample.laws import DRAWN, chi_square_p  # noqa: E402
from kernels.sample.params import SampleParams  # noqa: E402
from kernels.sample.problems import LOGITS, SEED, sample_case, scratch_for, tree_rows  # noqa: E402
from kernels.sample.reference import filter_reference, gumbel_reference  # noqa: E402

NUM_CALLS = 4
NUM_DRAWS = 20_000
NUM_IDS = 120

inputs = sample_case("top_20", 32, NUM_IDS, LOGITS).draw(5, "cpu")
logits = inputs["logits"][:1].expand(32, -1).contiguous()
rows = tree_rows(inputs | {"depths": torch.arange(32, dtype=torch.int32)})
params, scratch = SampleParams("cpu"), scratch_for(logits)
ids = torch.empty(32, dtype=torch.int32)
found: dict[str, float] = {}
for filters in DRAWN:
    method = params.write(filters, SEED, NUM_IDS)
    call = op._Call(logits, params, rows, method, ids, scratch)
    if method.choice == "whole":
        op._launch_maxima(call, call.chunks, op.CHUNK)
        alone = op._Call(logits[:1], params, rows, method, ids[:1], scratch)
        if method.counts:
            op._search(alone, counts=True, has_floor=False)
        if method.weighs:
            op._search(alone, counts=False, has_floor=method.counts)
        scratch.floors.fill_(int(scratch.floors[0]))
    drawn: list[int] = []
    for turn in range(NUM_CALLS):
        rows.start.fill_(32 * turn)
        if method.choice == "whole":
            op._launch_draw(call)
        else:
            op._launch_top(call)
        drawn += ids.tolist()
    kept, probabilities = filter_reference(logits[0], filters)
    noise = gumbel_reference(SEED, 1 + torch.arange(NUM_DRAWS)[:, None], kept)
    expected = kept[(probabilities.log() + noise).argmax(1)]
    assert drawn == expected[: len(drawn)].tolist(), f"{filters}: other draws than the reference's"
    found[str(filters)] = chi_square_p(expected, kept, probabilities)
json.dump(found, sys.stdout)
