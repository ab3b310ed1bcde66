"""List the convolution of a model as problems to time."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from kernels.common.case import Case, Tensors
from kernels.common.peers import library_copy
from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.conv.arguments import GateInputs
from kernels.conv.problems import gates_case, prefill_case, run_prefill
from kernels.conv.rounds import Layer, Rounds

BAR = Bar(max_times_floor=1.5)
"""It takes at most this many times an empty launch plus its bytes."""


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the convolution of a model's layer, for a number of tokens."""
    heads, width = (sizes.num_key_heads, sizes.num_value_heads), sizes.key_head_dim
    if rows > MAX_ROWS:
        return (_problem("conv and gates", prefill_case(rows, heads, width=width)),)
    products = {"": 0, "product, ": sizes.hidden_size}
    return tuple(
        _problem(
            f"conv, {named}gates",
            gates_case(rows, heads, width=width, num_inputs=inputs, interpreted=False),
        )
        for named, inputs in products.items()
    )


def _problem(name: str, case: Case) -> Problem:
    sizes = case.sizes
    heads, width = (sizes["G"], sizes["H"]), sizes["D"]
    verify = case.op == "conv_gates"
    num_bytes = _bytes_of(sizes, verify=verify)
    if verify:
        calls = partial(_verify_calls, sizes["R"], heads, width, sizes.get("K", 0))
    else:
        calls = partial(_prefill_calls, sizes["R"], heads, width)
    return Problem(
        name=name,
        op=case.op,
        rows=sizes["R"],
        sizes={"G": heads[0], "H": heads[1], "D": width},
        num_bytes=num_bytes,
        make_calls=calls,
        case=case,
        bar=BAR,
        peers=(library_copy(num_bytes),),
    )


def _bytes_of(sizes: Mapping[str, int], *, verify: bool) -> int:
    """Count weights, two tails and each row's x, a, b and outputs; the record is a copy of x.

    With K inputs a | b are made of a row of them and a weight, and are never in memory.
    """
    rows, channels, values = sizes["R"], sizes["C/D"], sizes["H"]
    keys = 2 * sizes["G"] * sizes["D"]
    fixed = channels * (2 * 4 + 2 * 2 * 3) + values * 8
    written = 2 * channels + 6 * values
    if verify:
        written = 4 * keys + 2 * (channels - keys) + 2 * channels + 8 * values
    inputs = sizes.get("K", 0)
    gates = 2 * inputs if inputs else 4 * values
    return fixed + 2 * 2 * values * inputs + rows * (2 * channels + gates + written)


def _verify(
    rounds: Rounds,
    x: torch.Tensor,
    ab: torch.Tensor | GateInputs,
    outputs: dict[str, torch.Tensor],
    _tile: Tile,
) -> None:
    rounds.launch(x, ab, outputs, overlap=x.is_cuda)


def _run_prefill(inputs: Tensors, outputs: Tensors, _tile: Tile) -> None:
    run_prefill(inputs, outputs)


def _verify_calls(
    rows: int, heads: tuple[int, int], width: int, num_inputs: int, num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    """Make calls on layers of their own that share what an engine has once: parity and tree.

    They overlap, as a round runs them.
    """
    calls: list[Callable[[Tile], object]] = []
    shared = _one_round(Layer(device, 0, *heads, width), rows).scalars
    for seed in range(num_copies):
        layer = Layer(device, seed, *heads, width)
        rounds = _one_round(layer, rows)
        rounds.use_scalars(shared)
        x, ab = layer.product_rows(rows, num_inputs) if num_inputs else layer.rows(rows)
        calls.append(partial(_verify, rounds, x, ab, rounds.outputs(rows)))
    return calls


def _one_round(layer: Layer, rows: int) -> Rounds:
    """Make the buffers of a chain after a round of which half the rows were accepted."""
    rounds = Rounds(layer, layer.draw(3, layer.channels))
    rounds.raw.zero_()
    rounds.parents.copy_(torch.arange(-1, MAX_ROWS - 1))
    rounds.accept(tuple(range((rows + 1) // 2)))
    return rounds


def _prefill_calls(
    rows: int, heads: tuple[int, int], width: int, num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    case = prefill_case(rows, heads, width=width)
    drawn = case.draw(0, device)
    calls: list[Callable[[Tile], object]] = []
    for _ in range(num_copies):
        inputs = {name: tensor.clone() for name, tensor in drawn.items()}
        outputs = case.poisoned_outputs(device).tensors
        calls.append(partial(_run_prefill, inputs, outputs))
    return calls
