"""State the laws of rows in one launch: they have the bits of single steps and of two launches."""

import random
from collections.abc import Iterator
from itertools import product

import torch

from kernels.common.capture import capture
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands
from kernels.common.tree import StagedTree, TreePlan, plan_chain, plan_tree
from kernels.mixer.rounds import Layer, Rows, Sizes, Weights
from kernels.mixer.tile import HEAD_DIM, MOST_ROWS

PLANS = (*(plan_chain(rows) for rows in range(1, MOST_ROWS + 1)), plan_tree((-1, 0, 0)))
"""Every tree that the launch takes."""

WRITTEN = ("state", "tails", "record.raw", "record.k", "record.u", "record.decay")


def first_difference(got: Layer, want: Layer) -> str | None:
    """Say which buffer of two layers differs first; NaN where neither has written is equal."""
    for name, one, other in zip(WRITTEN, got.buffers(), want.buffers(), strict=False):
        axes = [f"axis {axis}" for axis in range(one.ndim)]
        if fault := different_bits(one, other, axes):
            return f"{name}: {fault}"
    return None


def play(
    sizes: Sizes, plans: Iterator[TreePlan], device: str, *, gated: bool, overlap: bool
) -> str | None:
    """Play rounds in one launch beside the same rounds in two, a random path accepted."""
    generator, chance = torch.Generator().manual_seed(sizes.inputs), random.Random(sizes.heads)
    together = Layer(sizes, Weights.draw(sizes, device, generator), device)
    for number, plan in enumerate(plans):
        rows = Rows.draw(plan.num_nodes, sizes, device, generator)
        together.begin(plan)
        apart = together.copy()
        out = torch.full((plan.num_nodes, sizes.heads, HEAD_DIM), torch.nan, device=device)
        got, want = out.bfloat16(), out.bfloat16()
        gate = together.gate(rows) if gated else None
        together.joined(rows, got, gate=gate, overlap=overlap)
        apart.apart(rows, want, gate=gate)
        fault = different_bits(got, want, ("T", "H", "E")) or first_difference(together, apart)
        if fault:
            how = f"gated {gated}, overlap {overlap}"
            return f"round {number} of {sizes}, parents {plan.parents}, {how}: {fault}"
        together.accept(plan.paths[chance.randrange(plan.num_nodes)])
    return None


def _rows_differ_from_single_steps(device: str) -> str | None:
    """Compare every row of all trees with single steps along its path; other paths are accepted."""
    sizes = Sizes(2, 6, 768) if device == "cuda" else Sizes(1, 3, 20)
    generator = torch.Generator().manual_seed(3)
    together = Layer(sizes, Weights.draw(sizes, device, generator), device)
    alone = together.copy()
    for number, plan in enumerate((*PLANS, *PLANS[::-1])):
        rows, num_rows = Rows.draw(plan.num_nodes, sizes, device, generator), plan.num_nodes
        reached = {-1: alone}
        together.begin(plan)
        got = torch.empty((num_rows, sizes.heads, HEAD_DIM), dtype=torch.bfloat16, device=device)
        together.joined(rows, got)
        for row, parent in enumerate(plan.parents):
            step = reached[row] = reached[parent].copy()
            step.tree = StagedTree(torch.device(device))
            step.begin(plan_chain(1))
            want = torch.empty_like(got[:1])
            step.joined(rows.row(row), want)
            step.accept((0,))
            if fault := different_bits(got[row : row + 1], want, ("T", "H", "E")):
                return f"round {number}, row {row} of parents {plan.parents}: {fault}"
        last = max(num_rows - 1 - number // len(PLANS), 0)
        together.accept(plan.paths[last])
        alone = reached[last]
    return None


def _launches_differ(device: str) -> str | None:
    """Play all trees after all trees, of the heads of all models and of odd numbers of inputs."""
    pairs = [plan for one in PLANS for other in PLANS for plan in (one, other)]
    for sizes in (Sizes(16, 48, 5120), Sizes(2, 6, 1500), Sizes(1, 3, 512), Sizes(4, 4, 20)):
        for gated, overlap in product((False, True), (False, True)):
            if fault := play(sizes, iter(pairs), device, gated=gated, overlap=overlap):
                return fault
    return None


def _operands_differ(device: str) -> str | None:
    """Compare operands of gated outputs with those of the rows that are written beside them."""
    sizes, generator = Sizes(2, 6, 256), torch.Generator().manual_seed(5)
    for plan in PLANS:
        layer = Layer(sizes, Weights.draw(sizes, device, generator), device)
        layer.begin(plan)
        rows = Rows.draw(plan.num_nodes, sizes, device, generator)
        rows.z[0, 1, 3] = torch.nan

        def write(operands: Operands, layer: Layer = layer, rows: Rows = rows) -> torch.Tensor:
            out = torch.empty_like(rows.z, memory_format=torch.contiguous_format)
            layer.joined(rows, out, gate=layer.gate(rows, operands))
            return out.flatten(1)

        if fault := wrong_operands(write, plan.num_nodes, sizes.heads * HEAD_DIM, device):
            return f"parents {plan.parents}: {fault}"
    return None


def _pending_rows_differ(device: str) -> str | None:
    """Take 0 to 32 pending rows of any order, in either half."""
    sizes, generator = Sizes(2, 6, 256), torch.Generator().manual_seed(1)
    layer = Layer(sizes, Weights.draw(sizes, device, generator), device)
    for one in (layer.record.raw, layer.record.k, layer.record.u, layer.tails):
        one.copy_(torch.randn(one.shape, generator=generator) * 0.1)
    layer.record.decay.copy_(torch.rand(layer.record.decay.shape, generator=generator))
    for count in range(33):
        plan = PLANS[count % len(PLANS)]
        layer.accept(tuple(torch.randperm(32, generator=generator)[:count].tolist()))
        together = layer.copy()
        together.begin(plan)
        apart = together.copy()
        rows = Rows.draw(plan.num_nodes, sizes, device, generator)
        got, want = (
            torch.empty((plan.num_nodes, 6, HEAD_DIM), dtype=torch.bfloat16, device=device)
            for _ in range(2)
        )
        together.joined(rows, got)
        apart.apart(rows, want)
        fault = different_bits(got, want, ("T", "H", "E")) or first_difference(together, apart)
        if fault:
            return f"{count} pending rows: {fault}"
    return None


def _graph_differs(device: str) -> str | None:
    """Replay one graph of two overlapped layers, the second of the first's outputs, over rounds."""
    sizes, generator = (Sizes(2, 6, 768), Sizes(1, 4, 768)), torch.Generator().manual_seed(2)
    first, second = (Layer(one, Weights.draw(one, device, generator), device) for one in sizes)
    second.follow(first)
    rows, others = (Rows.draw(MOST_ROWS, one, device, generator) for one in sizes)
    middle, out = (
        torch.empty((MOST_ROWS, one.heads, HEAD_DIM), dtype=torch.bfloat16, device=device)
        for one in sizes
    )
    chained = Rows(middle.view(MOST_ROWS, -1), others.inputs, others.z)
    first.begin(PLANS[-1])

    def run() -> None:
        first.joined(rows, middle, gate=first.gate(rows), overlap=True)
        second.joined(chained, out, gate=second.gate(chained), overlap=True)

    graph = capture([run])
    chance = random.Random(4)
    for number in range(12):
        plan = (PLANS[-1], PLANS[-2])[number % 2]
        first.begin(plan)
        fresh = Rows.draw(MOST_ROWS, sizes[0], device, generator)
        rows.x.copy_(fresh.x)
        rows.inputs.copy_(fresh.inputs)
        wanted = first.copy(), second.copy()
        for one in wanted:
            one.tree = first.tree
        between, want = torch.empty_like(middle), torch.empty_like(out)
        wanted[0].apart(rows, between, gate=first.gate(rows))
        again = Rows(between.view(MOST_ROWS, -1), others.inputs, others.z)
        wanted[1].apart(again, want, gate=second.gate(again))
        graph.replay()
        fault = different_bits(out, want, ("T", "H", "E"))
        for got, one in zip((first, second), wanted, strict=True):
            fault = fault or first_difference(got, one)
        if fault:
            return f"replay {number}: {fault}"
        first.accept(plan.paths[chance.randrange(MOST_ROWS)])
    return None


LAWS = (
    Law("a row of a chain or tree has the bits of single steps", _rows_differ_from_single_steps),
    Law("one launch has the bits of two", _launches_differ, cuda_only=True),
    Law("operands are those of the rows", _operands_differ),
    Law("it does with any rows pending", _pending_rows_differ, cuda_only=True),
    Law("overlapped in a graph, round after round, it does", _graph_differs, cuda_only=True),
)
