"""State the laws of attention's preparation: a row is its own, a slot is a row's."""

import math

import torch

from kernels.attention.kv_cases import for_both, scales_of, without_numbers
from kernels.attention.kv_codes import to_codes, widened
from kernels.attention.prep_cases import empty_store, prep_case, prepare
from kernels.common.capture import capture
from kernels.common.case import Tensors
from kernels.common.compare import different_bits
from kernels.common.e4m3 import E4M3_MAX
from kernels.common.family import Law

HEADS = "RHD"
STORE = "GSD"


def _fresh(inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Allocate keys, values and queries full of NaN."""
    width, num_rows = inputs["q_norm"].shape[0], len(inputs["q"])
    shape = (num_rows, inputs["q"].shape[1] // (2 * width), width)
    return empty_store(inputs), empty_store(inputs), inputs["q"].new_full(shape, math.nan)


def _rows(inputs: Tensors, start: int, stop: int) -> dict[str, torch.Tensor]:
    """Take some rows of a case's inputs."""
    of_rows = {name: inputs[name][start:stop] for name in ("q", "k", "v")}
    if "depths" in inputs:
        of_rows["depths"] = inputs["depths"][start:stop]
    return {**inputs, **of_rows}


def _rows_differ_alone(device: str, *, coded: bool) -> str | None:
    """Compare every number of rows with single rows, queries and stored slots."""
    large = device == "cuda"
    case = prep_case(32 if large else 7, (24, 4) if large else (3, 1), coded=coded)
    inputs = case.draw(1, device)
    first = inputs["start"]
    single = []
    for row in range(len(inputs["q"])):
        keys, values, out = _fresh(inputs)
        prepare(_rows(inputs, row, row + 1), keys, values, out[:1])
        slot = int(first)
        single.append((out[0], keys[:, slot].clone(), values[:, slot].clone()))
    for count in range(1, len(single) + 1):
        keys, values, out = _fresh(inputs)
        prepare(_rows(inputs, 0, count), keys, values, out[:count])
        wanted = _fresh(inputs)
        for row in range(count):
            wanted[2][row], slot = single[row][0], int(first) + row
            wanted[0][:, slot], wanted[1][:, slot] = single[row][1:]
        for got, want, axes in zip((keys, values, out), wanted, (STORE, STORE, HEADS), strict=True):
            if fault := different_bits(got, want, axes):
                return f"{count} rows: {fault}"
    return None


def _prefill_differs_from_steps(device: str, *, coded: bool) -> str | None:
    """Compare rows in order, more than a verify has, with single rows at their positions."""
    inputs = prep_case(40, (1, 1), tree=False, coded=coded).draw(2, device)
    inputs["start"].fill_(9)
    keys, values, out = _fresh(inputs)
    prepare(inputs, keys, values, out)
    one_keys, one_values, one_out = _fresh(inputs)
    for row in range(40):
        step = _rows(inputs, row, row + 1) | {"start": inputs["start"] + row}
        prepare(step, one_keys, one_values, one_out[row : row + 1])
    return (
        different_bits(out, one_out, HEADS)
        or different_bits(keys, one_keys, STORE)
        or different_bits(values, one_values, STORE)
    )


def _keys_differ_from_queries(device: str, *, coded: bool) -> str | None:
    """Compare a key head with a query head of the same values and weight."""
    inputs = prep_case(6, (2, 2), tree=False, coded=coded).draw(3, device)
    width = inputs["q_norm"].shape[0]
    inputs["k"] = inputs["q"].unflatten(1, (2, 2, width))[:, :, 0].flatten(1).contiguous()
    inputs["k_norm"] = inputs["q_norm"]
    keys, values, out = _fresh(inputs)
    prepare(inputs, keys, values, out)
    slot, scales = int(inputs["start"]), scales_of(inputs)
    wanted = out if scales is None else to_codes(out, scales.keys[:, None])
    return different_bits(keys[:, slot : slot + 6].transpose(0, 1), wanted, HEADS)


def _strided_rows_differ(device: str, *, coded: bool) -> str | None:
    """Compare slices of one fused product and of a larger store with tensors of their own."""
    inputs = prep_case(6, (3, 1), coded=coded).draw(4, device)
    apart = _fresh(inputs)
    prepare(inputs, *apart)
    widths = [inputs[name].shape[1] for name in ("q", "k", "v")]
    fused = torch.cat([inputs[name] for name in ("q", "k", "v")], dim=1)
    parts = dict(zip(("q", "k", "v"), fused.split(widths, dim=1), strict=True))
    keys, _, out = _fresh(inputs)
    large = without_numbers(keys.new_empty((2, 3, *keys.shape)))
    prepare(inputs | parts, large[0, 1], large[1, 2], out)
    return (
        different_bits(out, apart[2], HEADS)
        or different_bits(large[0, 1], apart[0], STORE)
        or different_bits(large[1, 2], apart[1], STORE)
    )


def _nothing_beyond_the_store(device: str, *, coded: bool) -> str | None:
    """Let the last rows run past the capacity: they are not stored, nor is anything else."""
    inputs = prep_case(6, (3, 1), tree=False, coded=coded).draw(5, device)
    capacity = inputs["cos"].shape[0]
    inputs["start"].fill_(capacity - 4)
    keys, _, out = _fresh(inputs)
    around = without_numbers(keys.new_empty((2, 3, *keys.shape[1:])))
    prepare(inputs, around[0, 1:2], around[1, 1:2], out)
    if not bool(around[:, ::2].float().isnan().all()):
        return "a row past the capacity was stored in another head's slots"
    kept = around[:, 1, capacity - 4 :].float()
    return None if not bool(kept.isnan().any()) else "a row within the capacity was not stored"


def _captured_rounds_differ(device: str, *, coded: bool) -> str | None:
    """Replay one graph with other rows, starts and depths."""
    inputs = prep_case(16, (24, 4), coded=coded).draw(6, device)
    replayed = _fresh(inputs)
    graph = capture([lambda: prepare(inputs, *replayed)])
    for seed in range(4):
        again = prep_case(16, (24, 4), coded=coded).draw(seed, device)
        for name in ("q", "k", "v", "depths"):
            inputs[name].copy_(again[name])
        inputs["start"].fill_(11 * seed)
        eager = _fresh(inputs)
        prepare(inputs, *eager)
        for tensor in replayed:
            tensor.copy_(without_numbers(tensor))
        graph.replay()
        for got, want, axes in zip(replayed, eager, (STORE, STORE, HEADS), strict=True):
            if fault := different_bits(got, want, axes):
                return f"round {seed}: {fault}"
    return None


def _overlap_differs(device: str, *, coded: bool) -> str | None:
    """Compare two calls, the second of the first's result, with and without overlap."""
    inputs = prep_case(16, (4, 4), coded=coded).draw(7, device)
    stores = _fresh(inputs)
    second = inputs | {"k": stores[2].flatten(1)}
    results = _fresh(inputs)

    def two(*, overlap: bool) -> None:
        prepare(inputs, *stores, overlap=overlap)
        prepare(second, *results, overlap=overlap)

    two(overlap=False)
    wanted = [tensor.clone() for tensor in results]
    graph = capture([lambda: two(overlap=True)])
    for how, call in (("eager", lambda: two(overlap=True)), ("in a graph", graph.replay)):
        for _ in range(20):
            for tensor in (*stores, *results):
                tensor.copy_(without_numbers(tensor))
            call()
            for got, want, axes in zip(results, wanted, (STORE, STORE, HEADS), strict=True):
                if fault := different_bits(got, want, axes):
                    return f"{how}: {fault}"
    return None


def _codes_hide_what_is_not_finite(device: str) -> str | None:
    """Store values that are infinite, no number and beyond the largest code."""
    inputs = prep_case(1, (2, 2), tree=False, coded=True).draw(8, device)
    largest = float(inputs["value_scales"][0]) * E4M3_MAX
    given = torch.tensor([math.inf, -math.inf, math.nan, 2e4, -2e4], device=device)
    inputs["v"][0, :5] = given.bfloat16()
    keys, values, out = _fresh(inputs)
    prepare(inputs, keys, values, out)
    stored = widened(keys, values, scales_of(inputs))[1][0, int(inputs["start"]), :5].tolist()
    if not all(math.isnan(one) for one in stored[:3]) or stored[3:] != [largest, -largest]:
        return f"{given.tolist()} are stored as {stored}, not as three NaN and +-{largest}"
    return None


LAWS = (
    *for_both("a prepared row is the row alone, in its slot alone", _rows_differ_alone),
    *for_both("a prepared prefill is single rows in order", _prefill_differs_from_steps),
    *for_both("a key head has the bits of a query head", _keys_differ_from_queries),
    *for_both("prepared slices have the bits of contiguous rows", _strided_rows_differ),
    *for_both("nothing is stored beyond the capacity", _nothing_beyond_the_store),
    *for_both("one graph prepares every round", _captured_rounds_differ, cuda_only=True),
    *for_both("preparation overlaps without changing a bit", _overlap_differs, cuda_only=True),
    Law("what is not finite is stored as no number", _codes_hide_what_is_not_finite),
)
