"""State the laws of the delta walk: trees, chains and commits have the bits of single steps."""

import random
from collections.abc import Iterator
from dataclasses import replace

import torch

from kernels.common import exact_torch
from kernels.common.capture import capture
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands
from kernels.common.round import MAX_ROWS
from kernels.common.tree import TreePlan, depth_first, plan_chain, plan_tree
from kernels.delta.gate import OutputGate, gate_reference
from kernels.delta.model import mean_square
from kernels.delta.problems import bush, comb
from kernels.delta.rounds import Layer, Sizes, Tokens, draw_gate

NUM_ROUNDS = 8
NUM_TREES = {"cpu": 10, "cuda": 200}
SMALL = Sizes(1, 3, 32, 32)
OUT, STATE = ("T", "H", "E"), ("L", "H", "D", "E")


def random_tree(num_rows: int, chance: random.Random) -> TreePlan:
    """Draw a tree: each row follows any earlier one, mostly the last few."""
    parents = [-1]
    for row in range(1, num_rows):
        reach = chance.choice((1, 2, 4, row))
        parents.append(chance.randrange(max(0, row - reach), row))
    order = depth_first(parents)
    place = {row: index for index, row in enumerate(order)}
    return plan_tree([-1, *(place[parents[row]] for row in order[1:])])


def play(plans: Iterator[TreePlan], sizes: Sizes, device: str, seed: int) -> str | None:
    """Play rounds of trees beside single steps, a random path of each tree accepted.

    Each row's output and u are compared with those of a single step from the state behind its
    parent; the state after the next round's fold with that of the steps of the accepted path.

    Returns:
        None when all bits agree, else where they do not.
    """
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    together, alone = Layer(sizes, device), Layer(sizes, device)
    for number, plan in enumerate(plans):
        tokens = Tokens.draw(plan.num_nodes, sizes, device, generator)
        out = together.verify(tokens, plan)
        u = together.written_u(plan.num_nodes)
        where = f"round {number}, parents {plan.parents}"
        committed = alone.copy().fold()
        if fault := different_bits(together.state, committed, STATE):
            return f"{where}: the state with the pending rows: {fault}"
        behind = {-1: alone}
        for row, parent in enumerate(plan.parents):
            behind[row] = behind[parent].copy()
            stepped = behind[row].step(tokens.row(row))
            stepped_u = behind[row].records.u[0, 1 - behind[row].parity, :1]
            for name, got, want in (("out", out, stepped), ("u", u, stepped_u.reshape_as(u[:1]))):
                if fault := different_bits(got[row : row + 1], want, OUT):
                    return f"{where}: {name} of row {row}: {fault}"
        accepted = plan.paths[chance.randrange(plan.num_nodes)]
        together.accept(accepted)
        alone = behind[accepted[-1]]
    if fault := different_bits(together.fold(), alone.fold(), STATE):
        return f"the last state: {fault}"
    return None


def _sizes(device: str) -> Sizes:
    return SMALL if device == "cpu" else Sizes(2, 6)


def _chains_differ(device: str) -> str | None:
    """Play chains of every length."""
    for num_rows in range(1, MAX_ROWS + 1) if device != "cpu" else (1, 2, 7, 32):
        rounds = NUM_ROUNDS if num_rows < 9 or device != "cpu" else 2
        plans = (plan_chain(num_rows) for _ in range(rounds))
        if fault := play(plans, _sizes(device), device, num_rows):
            return f"chains of {num_rows}: {fault}"
    return None


def _trees_differ(device: str) -> str | None:
    """Play random trees, combs and bushes, eight to a run."""
    chance = random.Random(1)
    plans = [random_tree(chance.randint(2, MAX_ROWS), chance) for _ in range(NUM_TREES[device])]
    plans += [shape(num_rows) for shape in (comb, bush) for num_rows in (3, 15, 16, 31, 32)]
    for start in range(0, len(plans), NUM_ROUNDS):
        run = iter(plans[start : start + NUM_ROUNDS])
        if fault := play(run, _sizes(device), device, start):
            return fault
    return None


def _large_layers_differ(device: str) -> str | None:
    """Play a few rounds with the heads of the 27B, its siblings and the demo."""
    for key_heads, heads in ((16, 48), (16, 32), (16, 16), (1, 3)):
        plans = iter((plan_chain(16), comb(16), bush(31), plan_chain(1), plan_chain(32)))
        if fault := play(plans, Sizes(key_heads, heads), device, heads):
            return f"{key_heads} and {heads} heads: {fault}"
    return None


def _played(device: str, num_rows: int = 16) -> tuple[Layer, Tokens]:
    """A layer with pending rows, and the tokens of a round that was written but not walked."""
    sizes, generator = _sizes(device), torch.Generator().manual_seed(7)
    layer = Layer(sizes, device)
    layer.verify(Tokens.draw(MAX_ROWS, sizes, device, generator), comb(MAX_ROWS))
    layer.accept(comb(MAX_ROWS).paths[-1])
    tokens = Tokens.draw(num_rows, sizes, device, generator)
    layer.load(bush(num_rows))
    layer.write(tokens)
    return layer, tokens


def _own_fold_differs(device: str) -> str | None:
    """Compare a walk that folds 0 to 32 pending rows with a fold and a walk of none pending."""
    for count in range(MAX_ROWS + 1) if device != "cpu" else (0, 1, 8, 32):
        layer, tokens = _played(device)
        layer.num_pending.fill_(count)
        layer.pending_rows.copy_(torch.arange(MAX_ROWS))
        apart = layer.copy()
        apart.load(bush(16))
        before = apart.state.clone()
        folded = apart.fold().clone()
        if count == 0 and (fault := different_bits(folded, before, STATE)):
            return f"a fold of nothing changed the state: {fault}"
        got, want = layer.walk(tokens), apart.walk(tokens)
        fault = different_bits(got, want, OUT) or different_bits(layer.state, apart.state, STATE)
        fault = fault or different_bits(apart.state, folded, STATE)
        if fault:
            return f"{count} pending rows: {fault}"
    return None


def _nan_spreads(device: str) -> str | None:
    """Spoil a value of one row and head: its column behind that row is NaN, and nothing else."""
    layer, tokens = _played(device)
    plan, row, head, column = bush(16), 5, 1, 9
    clean = layer.copy()
    clean.load(plan)
    want = clean.walk(tokens)
    tokens.v[row, head, column] = torch.nan
    got = layer.walk(tokens)
    for one, path in enumerate(plan.paths):
        if row in path:
            if not bool(got[one, head, column].isnan()):
                return f"a NaN of row {row} is not in row {one}, which follows it"
            got[one, head, column] = want[one, head, column]
    if fault := different_bits(got, want, OUT):
        return f"a NaN of row {row} reached another place: {fault}"
    return None


def gated_apart(out: torch.Tensor, gate: OutputGate) -> torch.Tensor:
    """Gate outputs that lie in memory, with the kernel's bits: IEEE operations on the CPU."""
    host = OutputGate(gate.z.cpu(), gate.weight.cpu(), gate.eps)
    return gate_reference(out.cpu(), host, mean_square, exact_torch.silu).to(out.device)


def _gate_differs(device: str) -> str | None:
    """Compare walks that end in a gate with walks and a gate apart, with and without overlap."""
    chance = random.Random(4)
    for sizes in (Sizes(2, 6), Sizes(16, 48), Sizes(2, 4, 64, 64), Sizes(1, 3, 32, 48)):
        generator = torch.Generator().manual_seed(sizes.heads)
        for num_rows in (1, 2, 4, 5, 8, 9, 16, 32):
            for plan in (bush(num_rows), random_tree(num_rows, chance), plan_chain(num_rows)):
                layer = Layer(sizes, device)
                layer.verify(Tokens.draw(MAX_ROWS, sizes, device, generator), comb(MAX_ROWS))
                layer.accept(comb(MAX_ROWS).paths[-1])
                tokens = Tokens.draw(num_rows, sizes, device, generator)
                layer.load(plan)
                layer.write(tokens)
                gate = draw_gate(num_rows, sizes, device, generator)
                if fault := _gated_differs(layer, plan, tokens, gate):
                    return f"{num_rows} rows, parents {plan.parents}, {sizes}, {fault}"
    return None


def _gated_differs(layer: Layer, plan: TreePlan, tokens: Tokens, gate: OutputGate) -> str | None:
    """Compare walks of a layer's written rows, gated, with a walk and the gate apart."""
    num_rows, apart = plan.num_nodes, layer.copy()
    apart.load(plan)
    want = gated_apart(apart.walk(tokens), gate)
    for overlap in (False, True):
        gated = layer.copy()
        gated.load(plan)
        got = gated.walk(tokens, gate=gate, overlap=overlap)
        fault = different_bits(got, want, OUT)
        fault = fault or different_bits(gated.state, apart.state, STATE)
        fault = fault or different_bits(gated.written_u(num_rows), apart.written_u(num_rows), OUT)
        if fault:
            return f"overlap {overlap}: {fault}"
    return None


def _gate_operands_differ(device: str) -> str | None:
    """Compare the operands that a gated walk writes with those of its outputs."""
    sizes = Sizes(16, 48) if device == "cuda" else Sizes(1, 3, 32, 128)
    generator = torch.Generator().manual_seed(21)
    for num_rows in (4, 5, 16, 32):
        layer = Layer(sizes, device)
        tokens = Tokens.draw(num_rows, sizes, device, generator)
        gate = draw_gate(num_rows, sizes, device, generator)
        layer.load(bush(num_rows))
        layer.write(tokens)

        def write(
            operands: Operands,
            layer: Layer = layer,
            gate: OutputGate = gate,
            tokens: Tokens = tokens,
        ) -> torch.Tensor:
            apart = layer.copy()
            apart.load(bush(len(tokens.v)))
            ready = replace(gate, operands=operands)
            return apart.walk(tokens, gate=ready).flatten(1)

        if fault := wrong_operands(write, num_rows, sizes.heads * sizes.value_dim, device):
            return f"{num_rows} rows: {fault}"
    return None


def _overlap_differs(device: str) -> str | None:
    """Compare two walks, the second of the first's outputs, with overlap, in a graph and out."""
    first, tokens = _played(device)
    second, _ = _played(device)
    gate = draw_gate(16, _sizes(device), device, torch.Generator().manual_seed(9))
    middle, out = torch.empty_like(tokens.v), torch.empty_like(tokens.v)
    chained = Tokens(tokens.q, tokens.k, middle, tokens.beta, tokens.decay)
    states = first.state.clone(), second.state.clone()

    def run(overlap: bool) -> None:
        first.walk(tokens, middle, gate, overlap=overlap)
        second.walk(chained, out, overlap=overlap)

    run(False)
    expected = out.clone(), second.written_u(16).clone(), second.state.clone()
    graph = capture([lambda: run(True)])
    for how, call in (("eager", lambda: run(True)), ("in a graph", graph.replay)):
        for _ in range(20):
            for layer, state in zip((first, second), states, strict=True):
                layer.state.copy_(state)
                layer.written_u(16).fill_(torch.nan)
            middle.fill_(torch.nan)
            out.fill_(torch.nan)
            torch.cuda.synchronize()
            call()
            got = out, second.written_u(16), second.state
            for one, other, axes in zip(got, expected, (OUT, OUT, STATE), strict=True):
                if fault := different_bits(one, other, axes):
                    return f"{how}: {fault}"
    return None


def _graph_differs(device: str) -> str | None:
    """Replay one graph for other trees, other halves and other pending rows."""
    layer, tokens = _played(device)
    out = torch.empty_like(tokens.v)
    graph = capture([lambda: layer.walk(tokens, out)])
    chance = random.Random(3)
    for number in range(20):
        plan = random_tree(16, chance)
        layer.load(plan)
        layer.write(tokens)
        eager = layer.copy()
        eager.load(plan)
        want = eager.walk(tokens)
        out.fill_(torch.nan)
        graph.replay()
        fault = different_bits(out, want, OUT)
        fault = fault or different_bits(layer.written_u(16), eager.written_u(16), OUT)
        fault = fault or different_bits(layer.state, eager.state, STATE)
        if fault:
            return f"replay {number}, parents {plan.parents}: {fault}"
        layer.accept(plan.paths[chance.randrange(16)])
    return None


LAWS = (
    Law("chains of 1 to 32 rows have the bits of single steps", _chains_differ),
    Law("trees have the bits of single steps along their paths", _trees_differ),
    Law("the heads of all models do", _large_layers_differ, cuda_only=True),
    Law("a walk folds what a fold does", _own_fold_differs),
    Law("a NaN stays in its column and behind its row", _nan_spreads),
    Law("overlap changes no bit, in a graph or out", _overlap_differs, cuda_only=True),
    Law("a gated walk is a walk and its gate", _gate_differs, cuda_only=True),
    Law("a gate's operands are those of its results", _gate_operands_differ),
    Law("one graph serves every tree, half and commit", _graph_differs, cuda_only=True),
)
