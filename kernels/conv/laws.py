"""State the laws of a round's convolution: a row is its path, whatever was computed beside it."""

import random
from collections.abc import Callable

import torch

from kernels.common.capture import capture
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.common.round import MAX_ROWS
from kernels.common.tree import plan_chain, plan_tree
from kernels.conv.arguments import GateInputs
from kernels.conv.op import conv_fold
from kernels.conv.rounds import Layer, Rounds, random_tree, small_layer

CUDA_ROWS = range(1, MAX_ROWS + 1)
CPU_ROWS = (1, 2, 5, 9)
"""Rows of a round that are tried: all on a GPU, few in the interpreter."""


Drawn = tuple[torch.Tensor, torch.Tensor | GateInputs]
Draw = Callable[[Layer, int], Drawn]
"""Draws x and a | b of some rows, or what a | b are the product of."""

DRAWS: dict[str, tuple[Draw, ...]] = {
    "cpu": (Layer.rows,),
    "cuda": (Layer.rows, lambda layer, num_rows: layer.product_rows(num_rows, 768)),
}


def _however_drawn(differs: Callable[[str, Draw], str | None]) -> Callable[[str], str | None]:
    """Have a law tried with a | b that came, and with such as are multiplied."""

    def broken(device: str) -> str | None:
        faults = (differs(device, draw) for draw in DRAWS[device])
        return next((fault for fault in faults if fault), None)

    return broken


def _row_of(ab: torch.Tensor | GateInputs, row: int) -> torch.Tensor | GateInputs:
    """Return what is a row's alone."""
    if isinstance(ab, GateInputs):
        return GateInputs(ab.rows[row : row + 1], ab.weight)
    return ab[row : row + 1]


def _copy_gates(to: torch.Tensor | GateInputs, other: torch.Tensor | GateInputs) -> None:
    if isinstance(to, GateInputs) and isinstance(other, GateInputs):
        to.rows.copy_(other.rows)
        to.weight.copy_(other.weight)
    elif isinstance(to, torch.Tensor) and isinstance(other, torch.Tensor):
        to.copy_(other)


def first_difference(
    got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], names: tuple[str, ...]
) -> str | None:
    """Say which tensor differs first."""
    for name in names:
        axes = [f"axis {axis}" for axis in range(want[name].ndim)]
        if fault := different_bits(got[name], want[name], axes):
            return f"{name}: {fault}"
    return None


OF_A_ROW = ("q", "k", "v", "beta", "decay", "raw")
OF_A_ROUND = (*OF_A_ROW, "tail")


def _rows_differ_from_single_steps(device: str, draw: Draw) -> str | None:
    """Compare every row of chains and trees over rounds with single steps along its path."""
    layer, chance = small_layer(device, 0), random.Random(1)
    rounds = Rounds(layer, layer.draw(3, layer.channels))
    single = rounds.copy()
    for num_rows in CUDA_ROWS if device == "cuda" else CPU_ROWS:
        for parents in (plan_chain(num_rows).parents, random_tree(num_rows, chance)):
            plan = plan_tree(parents)
            x, ab = draw(layer, num_rows)
            together = rounds.verify(x, ab, parents)
            reached: list[Rounds] = []
            for row, parent in enumerate(parents):
                step = (reached[parent] if row else single).copy()
                alone = step.verify(x[row : row + 1], _row_of(ab, row), (-1,))
                step.accept((0,))
                reached.append(step)
                one = {name: together[name][row : row + 1] for name in OF_A_ROW}
                fault = first_difference(one, alone, OF_A_ROW)
                if row == 0:
                    fault = fault or first_difference(together, alone, ("tail",))
                if fault:
                    return f"row {row} of {parents} is not its path alone: {fault}"
            last = chance.randrange(num_rows)
            rounds.accept(plan.paths[last])
            single = reached[last]
    return None


def _fold_differs(device: str) -> str | None:
    """Compare folded tails with those that the next round would write."""
    layer, chance = small_layer(device, 1), random.Random(2)
    rounds = Rounds(layer, layer.draw(3, layer.channels))
    for num_accepted in (1, 2, 3, 5):
        x, ab = layer.rows(5)
        rounds.verify(x, ab, plan_chain(5).parents)
        rounds.accept(tuple(sorted(chance.sample(range(5), num_accepted))))
        folded = rounds.copy()
        conv_fold(
            folded.tails[None], folded.raw[None], folded.parity, folded.num_pending,
            folded.pending_rows,
        )  # fmt: skip
        x, ab = layer.rows(1)
        tail = rounds.verify(x, ab, (-1,))["tail"]
        rounds.accept((0,))
        for half in range(2):
            if fault := different_bits(folded.tails[half], tail, ("kept", "C")):
                return f"{num_accepted} pending rows, half {half}: {fault}"
    return None


def _captured_rounds_differ(device: str, draw: Draw) -> str | None:
    """Replay one graph over rounds of changing trees, halves and pending rows."""
    chance = random.Random(3)
    for num_rows in (1, 16, 32):
        layer = small_layer(device, 4)
        eager = Rounds(layer, layer.draw(3, layer.channels))
        replayed = eager.copy()
        x, ab = draw(layer, num_rows)
        outputs = replayed.outputs(num_rows)
        graph = capture([lambda r=replayed, x=x, ab=ab, o=outputs: r.launch(x, ab, o)])
        for _ in range(6):
            parents = random_tree(num_rows, chance)
            some_x, some_ab = draw(layer, num_rows)
            x.copy_(some_x)
            _copy_gates(ab, some_ab)
            want = eager.verify(x, ab, parents)
            half = int(replayed.parity)
            replayed.parents[:num_rows] = torch.tensor(parents, dtype=torch.int32)
            for tensor in outputs.values():
                tensor.fill_(torch.nan)
            for record in (replayed.tails, replayed.raw, replayed.k, replayed.decay):
                record[half] = torch.nan
            graph.replay()
            got = outputs | {
                "raw": replayed.raw[half, :num_rows],
                "k": replayed.k[half, :num_rows],
                "decay": replayed.decay[half, :num_rows],
                "tail": replayed.tails[half],
            }
            if fault := first_difference(got, want, OF_A_ROUND):
                return f"{num_rows} rows, tree {parents}: {fault}"
            path = plan_tree(parents).paths[chance.randrange(num_rows)]
            eager.accept(path)
            replayed.accept(path)
    return None


def _overlap_differs(device: str, draw: Draw) -> str | None:
    """Compare two layers, the second of the first one's values, with and without overlap."""
    layers = small_layer(device, 5), Layer(device, 6, 1, 4, 128)
    (x, ab), (_, other_ab) = (draw(layer, 16) for layer in layers)
    tails = [layer.draw(3, layer.channels) for layer in layers]

    def prepared(layer: Layer, tail: torch.Tensor) -> tuple[Rounds, dict[str, torch.Tensor]]:
        rounds = Rounds(layer, tail)
        rounds.parents.copy_(torch.arange(-1, MAX_ROWS - 1))
        rounds.pending_rows.copy_(torch.arange(MAX_ROWS))
        rounds.num_pending.fill_(16)
        rounds.raw.zero_()
        return rounds, rounds.outputs(16)

    first, second = (prepared(*one) for one in zip(layers, tails, strict=True))

    def both(*, overlap: bool) -> None:
        first[0].launch(x, ab, first[1], overlap=overlap)
        second[0].launch(first[1]["v"].flatten(1), other_ab, second[1], overlap=overlap)

    def written() -> dict[str, torch.Tensor]:
        rounds, outputs = second
        named = {"raw": rounds.raw, "k": rounds.k, "decay": rounds.decay, "tail": rounds.tails}
        return {name: tensor.clone() for name, tensor in (outputs | named).items()}

    both(overlap=False)
    want = written()
    graph = capture([lambda: both(overlap=True)])
    for how, call in (("eager", lambda: both(overlap=True)), ("in a graph", graph.replay)):
        for _ in range(10):
            for rounds, outputs in (first, second):
                rounds.raw.zero_()
                for tensor in outputs.values():
                    tensor.fill_(torch.nan)
            torch.cuda.synchronize()
            call()
            if fault := first_difference(written(), want, OF_A_ROUND):
                return f"{how}: {fault}"
    return None


LAWS = (
    Law(
        "a row of a chain or tree is single steps along its path",
        _however_drawn(_rows_differ_from_single_steps),
    ),
    Law("folded tails are those of the next round", _fold_differs),
    Law("one graph serves every round", _however_drawn(_captured_rounds_differ), cuda_only=True),
    Law(
        "overlap with the kernel before changes no bit",
        _however_drawn(_overlap_differs),
        cuda_only=True,
    ),
)
