"""List the samplings of a model as problems to time."""

from collections.abc import Callable
from functools import partial

import torch

from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.sample.op import sample_rows
from kernels.sample.problems import PEAKED, Sampling, sample_case, scratch_for, tree_rows, written
from kernels.sample.reference import Filters

SAMPLINGS = {
    "greedy": Sampling(Filters(0.0)),
    "top_20": Sampling(Filters(0.7, 20, 0.95)),
    "top_20_penalised": Sampling(Filters(0.7, 20, 0.95), 1.5, 1.1),
    "whole": Sampling(Filters()),
    "whole_top_p": Sampling(Filters(1.0, 0, 0.95)),
}
BARS = {("top_20", 16): Bar(max_us=40.0, gpu="H200")}


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return samplings of a model's rows, for up to 32 of them."""
    if rows > MAX_ROWS:
        return ()
    num_bytes = 4 * rows * sizes.vocab_size
    samplings = (
        Problem(
            name=name.replace("_", " "),
            op=name,
            rows=rows,
            sizes={"T": rows, "V": sizes.vocab_size},
            num_bytes=num_bytes,
            make_calls=partial(_sample_calls, sampling, rows, sizes.vocab_size),
            bar=BARS.get((name, rows)),
        )
        for name, sampling in SAMPLINGS.items()
    )
    return tuple(samplings)


def _sample_calls(
    sampling: Sampling, rows: int, num_logits: int, num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    inputs = sample_case("top_20", rows, num_logits, PEAKED).draw(0, device)
    params, method = written(sampling, num_logits, torch.device(device))
    calls: list[Callable[[Tile], object]] = []
    for _ in range(num_copies):
        logits = inputs["logits"].clone()
        ids = torch.empty(rows, dtype=torch.int32, device=device)
        run = partial(sample_rows, logits, params, tree_rows(inputs), method=method, ids=ids,
                      scratch=scratch_for(logits))  # fmt: skip
        calls.append(lambda _tile, run=run: run())
    return calls
