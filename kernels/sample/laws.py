"""State the laws of sampling: the tree's walk, its marks, the draws' distribution, one graph."""

from functools import partial

import torch

from kernels.common.capture import capture
from kernels.common.family import Law
from kernels.common.round import MAX_ROWS
from kernels.common.tree import depth_first, plan_tree
from kernels.sample.accept import COMMITTED, PATH, AcceptBuffers, accept
from kernels.sample.mark import mark_rows
from kernels.sample.op import sample_rows
from kernels.sample.params import SampleParams
from kernels.sample.problems import (
    PEAKED,
    POISON,
    SEED,
    Sampling,
    sample_case,
    scratch_for,
    tree_rows,
    written,
)
from kernels.sample.reference import Filters, filter_reference
from kernels.sample.truth import truth_of_draw
from kernels.sample.walk_truth import Walk, truth_of_walk

NUM_TREES = 60
NUM_WORDS = 4
"""Different tokens in a drawn tree: few, so that siblings share one and walks go deep."""

DRAWN = (
    Filters(0.7, 20),
    Filters(1.0, 20, 0.8),
    Filters(1.0, 20, min_p=0.1),
    Filters(),
    Filters(0.6, 0, 0.9),
    Filters(0.6, 100),
    Filters(0.6, 0, 1.0, 0.1),
)
"""Every filter alone or with a top_k that sorts."""

MIN_P = 0.01
"""Probability below which a chi-square statistic counts as red; the seeds are fixed."""


def drawn_walk(seed: int) -> Walk:
    """Draw a tree of 1 to 32 rows, what was chosen behind each, stop ids and a budget."""
    generator = torch.Generator().manual_seed(seed)

    def below(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    num_rows = 1 + below(MAX_ROWS)
    parents = [-1] + [max(0, row - 1 - below(1 + seed % 4)) for row in range(1, num_rows)]
    order = depth_first(parents)
    place = {row: index for index, row in enumerate(order)}
    plan = plan_tree([-1 if row == 0 else place[parents[row]] for row in order])
    return Walk(
        parents=plan.parents,
        tokens=tuple(below(NUM_WORDS) for _ in range(num_rows)),
        chosen=tuple(-1 if below(40) == 0 else below(NUM_WORDS) for _ in range(num_rows)),
        stops=tuple(range(NUM_WORDS - below(2), NUM_WORDS))[: seed % 2],
        budget=below(2 * num_rows) if seed % 3 else 1000,
    )


def _walk_differs(device: str) -> str | None:
    """Walk drawn trees in poisoned buffers, and compare every number with an other algorithm's."""
    for seed in range(NUM_TREES):
        walk = drawn_walk(seed)
        buffers = AcceptBuffers.allocate(device)
        for name, tensor in buffers.tensors().items():
            tensor.fill_(POISON if name != "parity" else seed % 2)
        load_walk(buffers, walk)
        parents = torch.full((MAX_ROWS,), POISON, dtype=torch.int32)
        parents[: len(walk.parents)] = torch.tensor(walk.parents)
        chosen = torch.tensor(walk.chosen, dtype=torch.int32, device=device)
        accept(chosen, parents.to(device), buffers)
        got, want = walked(buffers), truth_of_walk(walk) | {"parity": 1 - seed % 2}
        if got != want:
            return f"tree {seed}, {walk}: got {got}, want {want}"
    return None


def load_walk(buffers: AcceptBuffers, walk: Walk) -> None:
    """Put a walk's tokens, stop ids, budget and a start of 100 into buffers."""
    buffers.row_ids[: len(walk.tokens)] = torch.tensor(walk.tokens, dtype=torch.int32)
    buffers.stop_ids[: len(walk.stops)] = torch.tensor(walk.stops, dtype=torch.int32)
    buffers.num_stop_ids.fill_(len(walk.stops))
    buffers.budget.fill_(walk.budget)
    buffers.start.fill_(100)


def walked(buffers: AcceptBuffers) -> dict[str, object]:
    """Read what a walk left, by the names of `truth_of_walk`."""
    result = buffers.result
    return {
        "counts": result[:5].tolist(),
        "committed": result[COMMITTED].tolist(),
        "path": result[PATH].tolist(),
        "pending": [int(buffers.num_pending), buffers.pending_rows.tolist()],
        "start": int(buffers.start) - 100,
        "budget": int(buffers.budget),
        "root": int(buffers.row_ids[0]),
        "parity": int(buffers.parity),
    }


def _marks_differ(device: str) -> str | None:
    """Mark the ids of results of no, some and 32 tokens in marks that hold some already."""
    for count in (0, 3, 32):
        result = torch.full((80,), POISON, dtype=torch.int32, device=device)
        result[0] = count
        result[16:] = 299  # behind the committed ids: no id of this round
        result[16 : 16 + count] = torch.arange(count, device=device) * 7
        seen = torch.zeros(300, dtype=torch.uint8, device=device)
        seen[5] = 1
        generated = torch.zeros_like(seen)
        mark_rows(result, seen, generated)
        want = {7 * place for place in range(count)}
        if set(generated.nonzero()[:, 0].tolist()) != want:
            return f"{count} ids: generated {generated.nonzero()[:, 0].tolist()}"
        if set(seen.nonzero()[:, 0].tolist()) != want | {5}:
            return f"{count} ids: seen {seen.nonzero()[:, 0].tolist()}"
    return None


def _drafts_are_free(device: str) -> str | None:
    """Make each row's own draft its likeliest id by less than the penalty takes away."""
    inputs = dict(sample_case("greedy", 8, 300).draw(8, device))
    chain = torch.arange(MAX_ROWS, dtype=torch.int32, device=device)
    inputs |= {"depths": chain[:8], "paths": chain.repeat(8, 1), "row_ids": chain * 7 + 3}
    for name in ("seen", "generated"):
        inputs[name] = torch.zeros_like(inputs[name])
    logits = inputs["logits"]
    own = inputs["row_ids"][:8].long()
    logits[torch.arange(8, device=device), own] = logits.amax(1) + 0.1
    sampling = Sampling(Filters(0.0), presence=0.5)
    params, method = written(sampling, 300, logits.device)
    ids = torch.full((8,), POISON, dtype=torch.int32, device=device)
    sample_rows(logits, params, tree_rows(inputs), method=method, ids=ids,
                scratch=scratch_for(logits))  # fmt: skip
    want = truth_of_draw(inputs, sampling.filters, (0.5, 1.0), SEED)["ids"].int()
    return None if torch.equal(ids, want) else f"got {ids.tolist()}, want {want.tolist()}"


def chi_square_p(drawn: torch.Tensor, ids: torch.Tensor, probabilities: torch.Tensor) -> float:
    """Return p of the chi-square statistic of draws; rare classes are joined to five or more.

    Args:
        drawn: int64 [any].
        ids: int64 [n], all that may be drawn; another one makes p 0.
        probabilities: fp64 [n].
    """
    places = {int(token): place for place, token in enumerate(ids.tolist())}
    if not set(drawn.tolist()) <= places.keys():
        return 0.0
    counts = torch.zeros(len(ids), dtype=torch.float64)
    for token in drawn.tolist():
        counts[places[token]] += 1
    expected = probabilities.cpu().double() * len(drawn)
    ascending = expected.argsort()
    reach = expected[ascending].cumsum(0)
    rare = torch.zeros_like(expected, dtype=torch.bool)
    # a joined class of fewer than five would make rare events look impossible
    rare[ascending] = (expected[ascending] < 5) | (reach - expected[ascending] < 5)
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True)))
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    half = torch.tensor((len(expected) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, statistic / 2)) if len(expected) > 1 else 1.0


def _draws_are_skewed(device: str) -> str | None:
    """Draw 4,096 times from one row of 248,320 under each filter."""
    inputs = sample_case("top_20", 32, 248_320, PEAKED).draw(5, device)
    logits = inputs["logits"][:1].expand(32, -1).contiguous()
    inputs = inputs | {"depths": torch.arange(32, dtype=torch.int32, device=device)}
    rows, scratch, params = tree_rows(inputs), scratch_for(logits), SampleParams(device)
    ids = torch.empty(32, dtype=torch.int32, device=device)
    for filters in DRAWN:
        method = params.write(filters, SEED, logits.shape[1])
        drawn: list[int] = []
        for call in range(128):
            rows.start.fill_(32 * call)
            sample_rows(logits, params, rows, method=method, ids=ids, scratch=scratch)
            drawn += ids.tolist()
        kept, probabilities = filter_reference(logits[0].cpu(), filters)
        p = chi_square_p(torch.tensor(drawn), kept, probabilities)
        if p < MIN_P:
            return f"{filters}: p = {p:.2g} of {len(drawn)} draws"
    return None


def _graph_is_stale(device: str) -> str | None:
    """Replay one graph of a method under other parameters, logits and places."""
    inputs = dict(sample_case("top_20", 4, 5000).draw(6, device))
    rows, scratch, params = tree_rows(inputs), scratch_for(inputs["logits"]), SampleParams(device)
    ids = torch.full((4,), POISON, dtype=torch.int32, device=device)
    for first, second in (
        (Filters(0.7, 20, 0.9), Filters(1.3, 32, 1.0, 0.1)),
        (Filters(0.7, 0, 0.9), Filters(1.3, 0, 0.5)),
        (Filters(0.7, 50, 0.9), Filters(1.3, 500, 0.5)),
    ):
        logits = inputs["logits"]
        method = params.write(first, SEED, 5000)
        run = partial(sample_rows, logits, params, rows, method=method, ids=ids, scratch=scratch)
        graph = capture([run])
        if params.write(second, SEED + 1, 4000) != method:
            return f"{first} and {second} are of two methods"
        logits.copy_(sample_case("top_20", 4, 5000).draw(7, device)["logits"])
        rows.start.add_(5)
        run()
        want = ids.clone()
        ids.fill_(POISON)
        graph.replay()
        if not torch.equal(ids, want):
            return f"{second}: replay gives {ids.tolist()}, the call {want.tolist()}"
    return None


LAWS = (
    Law("a tree is walked as every path of it says", _walk_differs),
    Law("a row's own draft is penalised, and row 0 by its marks", _drafts_are_free),
    Law("committed ids are marked, and no others", _marks_differ),
    Law("draws follow the filtered distribution", _draws_are_skewed, cuda_only=True),
    Law("a graph serves every sampling of its method", _graph_is_stale, cuda_only=True),
)
