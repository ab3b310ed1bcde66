"""State the laws of decode and verify attention: a row is its single step, whatever is near."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from kernels.attention.compact import attention_compact
from kernels.attention.kv_cases import for_both, scales_of, slots_of, without_numbers
from kernels.attention.kv_codes import COLUMN_ORDER, widened
from kernels.attention.verify import attention_verify
from kernels.attention.verify_problems import (
    MAX_ROWS,
    alone,
    plan_of,
    run_verify,
    single_step,
    verify_case,
)
from kernels.attention.verify_tile import VerifyTile, default, row_groups, sm_of
from kernels.common import gpu
from kernels.common.ahead import call_ahead
from kernels.common.capture import capture
from kernels.common.case import Case, Tensors
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands

ROWS = ("T", "HD")

NUM_TREES = {False: 200, True: 60}
"""Of a BF16 store, and of codes, which take the same paths through the same kernel."""

TREE_STARTS = (0, 1, 31, 40, 63, 64, 100, 127, 1000, 1015, 1023, 2030, 2047, 4090, 5000)


def _called(
    inputs: Tensors,
    tile: VerifyTile | None = None,
    max_context: int | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Call attention_verify into a poisoned output."""
    q = inputs["q"]
    out = torch.full((q.shape[0], q[0].numel()), torch.nan, dtype=q.dtype, device=q.device)
    names = ("q", "keys", "values", "gate", "start", "depths", "paths")
    reached = inputs["keys"].shape[1] + MAX_ROWS if max_context is None else max_context
    return attention_verify(
        *(inputs[name] for name in names), max_context=reached, scales=scales_of(inputs), out=out,
        tile=tile, operands=operands,
    )  # fmt: skip


def _trees_differ(device: str, *, coded: bool) -> str | None:
    """Compare every row of random trees with its single step."""
    few = device == "cpu"
    for seed in range(6 if few else NUM_TREES[coded]):
        chosen = random.Random(seed)
        rows, start = chosen.randrange(2, 6 if few else 33), chosen.choice(TREE_STARTS)
        heads = 6 if seed % 3 else 4
        case = verify_case(rows, start, heads=heads, groups=1, tree=seed, coded=coded)
        inputs = case.draw(seed, device)
        together = _called(inputs)
        apart = torch.cat([_called(single_step(inputs, row)) for row in range(rows)])
        if fault := different_bits(together, apart, ROWS):
            return f"tree {seed} of {plan_of(rows, seed).parents} at {start}: {fault}"
    return None


def _later_rows_reach_earlier_ones(device: str, *, coded: bool) -> str | None:
    """Put NaN and infinity into one row's own key and value: only rows on its path may change."""
    infinite = () if coded else (("values", torch.inf),)  # no code is infinite
    # of few rows two are a chain that a warp computes alone on every GPU, 20 one of four warps
    many = () if device == "cpu" else ((20, None),)
    for rows, tree in ((2, None), (5, None), (5, 3), *many):
        spoilt = min(rows - 1, 3)
        case = verify_case(rows, 40, heads=6, groups=1, tree=tree, coded=coded)
        inputs = case.draw(7, device)
        clean = _called(inputs)
        for name, value in (("keys", torch.nan), ("values", torch.nan), *infinite):
            spoiled = {**inputs, name: inputs[name].clone()}
            spoiled[name][:, 40 + spoilt] = value
            got = _called(spoiled)
            for row, path in enumerate(plan_of(rows, tree).paths):
                if spoilt in path and bool(got[row].isfinite().all()):
                    return f"{name} {value} in row {spoilt} vanished from row {row}"
                if spoilt not in path and not torch.equal(got[row], clean[row]):
                    return f"{name} {value} in row {spoilt} reached row {row}, which is not behind"
    return None


def _infinite_values_reach_other_columns(device: str, *, coded: bool) -> str | None:
    """Make one committed value infinite or NaN: its column shows it, no other has another bit."""
    column, many = 5, () if device == "cpu" else (20,)
    for rows in (1, 3, *many):
        inputs = verify_case(rows, 200, heads=6, groups=1, coded=coded).draw(11, device)
        values = inputs["values"].clone()
        values[:, :200, column] = 0.0
        clean = _called({**inputs, "values": values}).unflatten(1, (6, -1))
        for value in (torch.nan,) if coded else (torch.nan, torch.inf, -torch.inf):
            values = values.clone()
            values[:, 130, column] = value
            got = _called({**inputs, "values": values}).unflatten(1, (6, -1))
            if bool(got[..., column].isfinite().any()):
                return f"{value} vanished from a row of {rows}"
            got[..., column] = clean[..., column]
            if fault := different_bits(got, clean, ("T", "H", "D")):
                return f"{value} in column {column}, {rows} rows: {fault}"
    return None


def _compacted_differs(device: str, *, coded: bool) -> str | None:
    """Compare a step behind a compacted path with the same step behind the path laid by hand."""
    for seed in (1, 2, 5):
        case = verify_case(9, 61, heads=6, groups=1, tree=seed, coded=coded)
        inputs = case.draw(seed, device)
        plan = plan_of(9, seed)
        row = max(range(9), key=lambda one: plan.depths[one])
        path, wanted = plan.paths[row], single_step(inputs, row)
        accepted = torch.tensor([*path, *[0] * (MAX_ROWS - len(path))], dtype=torch.int32)
        stores = {name: inputs[name].clone() for name in ("keys", "values")}
        for advanced in (False, True):
            moved = {name: store.clone()[None] for name, store in stores.items()}
            num = torch.tensor([len(path)], dtype=torch.int32, device=device)
            start = inputs["start"] + num if advanced else inputs["start"]
            attention_compact(
                moved["keys"], moved["values"], start, num, accepted.to(device), advanced=advanced
            )
            got = _called({**wanted, **{name: store[0] for name, store in moved.items()}})
            if fault := different_bits(got, _called(wanted), ROWS):
                return f"path {path}, advanced={advanced}: {fault}"
    return None


def _tile_changes_bits(device: str, *, coded: bool) -> str | None:
    """Compare other tiles with the default: more 16-row tiles, streams and teams, shorter rings."""
    sm = sm_of(gpu.choices(device))
    for case in _swept(coded):
        inputs = case.draw(3, device)
        expected = _called(inputs)
        share = case.sizes["H"] // case.sizes["G"]
        kv_bytes = inputs["keys"].itemsize
        parts = row_groups(case.sizes["T"], share, sm, 4096, kv_bytes)
        usual = default(parts.rows, share, sm, 4096, kv_bytes)
        tiles = [tile for tile in _others(usual) if tile.fits(sm)]
        call_ahead(partial(_called, inputs, tile) for tile in tiles)
        for tile in tiles:
            if fault := different_bits(_called(inputs, tile), expected, ROWS):
                return f"{case.label} {tile}: {fault}"
    return None


def _others(tile: VerifyTile) -> Iterator[VerifyTile]:
    if tile.kv_bytes == 2:
        wide = replace(tile, wide=True, streams=1, team=1, m_tiles=-(-tile.m_tiles // 4) * 4)
        yield replace(wide, units=2)
        yield replace(wide, units=5)
        yield replace(wide, units=4, m_tiles=8)
        tile = replace(tile, wide=False, m_tiles=min(tile.m_tiles, 6))
    yield replace(tile, units=3)
    yield replace(tile, units=5)
    yield replace(tile, streams=2, units=4)
    if tile.kv_bytes == 2:
        yield replace(tile, team=1)
        yield replace(tile, streams=2, team=1, units=4)
        yield replace(tile, streams=1, team=2)
    more = replace(tile, streams=1, team=1 if tile.kv_bytes == 2 else tile.team, units=4)
    yield replace(more, m_tiles=min(tile.m_tiles + 1, 6))
    yield replace(more, m_tiles=6)


def _swept(coded: bool) -> tuple[Case, ...]:
    return (
        verify_case(1, 1100, coded=coded),
        verify_case(5, 2040, heads=6, groups=1, tree=9, coded=coded),
        verify_case(16, 1020, heads=6, groups=1, coded=coded),
    )


def _class_changes_bits(device: str, *, coded: bool) -> str | None:
    """Compare context classes, and see a context that outgrew its class."""
    for case in _swept(coded):
        inputs = case.draw(4, device)
        expected = _called(inputs)
        for larger in (4096, 40_000, 262_144):
            if fault := different_bits(_called(inputs, max_context=larger), expected, ROWS):
                return f"{case.label} max_context={larger}: {fault}"
        if not bool(_called(inputs, max_context=64).isnan().all()):
            return f"{case.label}: a class of 64 positions gave numbers"
    return None


def _overlap_differs(device: str, *, coded: bool) -> str | None:
    """Compare two calls, the second's queries the first's result, with overlap and in a graph."""
    for rows, start, tree in ((1, 1000, None), (16, 1000, None), (7, 300, 4)):
        case = verify_case(rows, start, tree=tree, coded=coded)
        inputs = case.draw(5, device)
        shape = inputs["q"].shape
        first, second = (torch.empty(shape, dtype=torch.bfloat16, device=device) for _ in range(2))

        def run(
            overlap: bool,
            inputs: Tensors = inputs,
            first: torch.Tensor = first,
            second: torch.Tensor = second,
        ) -> None:
            run_verify(inputs, {"out": first.flatten(1)}, overlap=overlap)
            run_verify({**inputs, "q": first}, {"out": second.flatten(1)}, overlap=overlap)

        run(overlap=False)
        expected = second.clone()
        graph = capture([lambda run=run: run(True), lambda run=run: run(True)])
        for how, call in (("eager", lambda run=run: run(True)), ("in a graph", graph.replay)):
            for _ in range(10):
                first.fill_(torch.nan)
                second.fill_(torch.nan)
                call()
                if fault := different_bits(second.flatten(1), expected.flatten(1), ROWS):
                    return f"{case.label} {how}: {fault}"
    return None


def _strides_differ(device: str, *, coded: bool) -> str | None:
    """Compare views of fused products and of a larger store with contiguous copies."""
    case = verify_case(3, 70, heads=8, groups=2, tree=2, coded=coded)
    inputs = case.draw(6, device)
    rows, heads, width = inputs["q"].shape
    fused = torch.stack((inputs["q"], inputs["gate"]), 2).flatten(2)  # per head: query, then gate
    wide = without_numbers(torch.stack((inputs["keys"], inputs["values"])).repeat(1, 1, 2, 1))
    for kind, name in enumerate(("keys", "values")):
        wide[kind, :, : case.sizes["S"]] = inputs[name]
    padded = torch.cat((inputs["q"].flatten(1), inputs["q"].flatten(1)), 1)
    views = {
        **inputs,
        "q": padded[:, : heads * width].unflatten(1, (heads, width)),
        "gate": fused[:, :, width:],
        "keys": wide[0],
        "values": wide[1],
    }
    assert not alone(views)
    assert rows > 1
    slots = case.sizes["S"]
    got, want = (_called(one, max_context=slots) for one in (views, inputs))
    return different_bits(got, want, ROWS)


def _chain_is_no_tree(device: str, *, coded: bool) -> str | None:
    """Compare a chain with the same rows behind a sibling, which takes the kernel's other path."""
    case = verify_case(4, 62, heads=6, groups=1, coded=coded)
    inputs = case.draw(8, device)
    expected = _called(inputs)
    # row 1 becomes a leaf beside the chain's second row, which moves one slot on
    order = torch.tensor([0, 1, 1, 2, 3], device=device)
    longer = {**inputs, **{name: inputs[name][order] for name in ("q", "gate")}}
    for name in ("keys", "values"):
        store = inputs[name].clone()
        store[:, 62:67] = slots_of(inputs[name], 62 + order)
        store[:, 63] = torch.ones_like(store[:, 63], dtype=torch.float32).to(store.dtype)
        longer[name] = store
    paths = torch.zeros(5, MAX_ROWS, dtype=torch.int32)
    for row, path in enumerate(((0,), (0, 1), (0, 2), (0, 2, 3), (0, 2, 3, 4))):
        paths[row, : len(path)] = torch.tensor(path)
    longer["paths"] = paths.to(device)
    longer["depths"] = torch.tensor([0, 1, 1, 2, 3], dtype=torch.int32, device=device)
    kept = torch.tensor([0, 2, 3, 4], device=device)
    return different_bits(_called(longer)[kept], expected, ROWS)


def _codes_differ_from_what_they_stand_for(device: str) -> str | None:
    """Compare a store of codes with the BF16 store of their values, columns in the same order."""
    for rows, start, tree in ((1, 1100, None), (5, 62, None), (6, 130, 3), (16, 1010, None)):
        inputs = verify_case(rows, start, heads=8, groups=2, tree=tree, coded=True).draw(9, device)
        scales = scales_of(inputs)
        keys, values = widened(inputs["keys"], inputs["values"], scales)
        plain = {name: one for name, one in inputs.items() if not name.endswith("_scales")}
        plain |= {"keys": keys, "values": values}
        if device == "cuda":
            order = torch.tensor(COLUMN_ORDER, device=device)
            for name in ("q", "keys"):
                plain[name] = plain[name].unflatten(-1, (-1, 16))[..., order].flatten(-2)
        if fault := different_bits(_called(inputs), _called(plain), ROWS):
            return f"{rows} rows at {start}, tree {tree}: {fault}"
    return None


def _operands_differ(device: str, *, coded: bool) -> str | None:
    """Compare operands with those of the rows that are written beside them."""
    for rows, start, heads in ((1, 40, 6), (5, 1100, 6), (19, 62, 4)):
        case = verify_case(rows, start, heads=heads, groups=1, coded=coded)
        inputs = case.draw(10, device)
        inputs["gate"][0, 1, 3] = torch.nan

        def write(operands: Operands, inputs: Tensors = inputs) -> torch.Tensor:
            return _called(inputs, operands=operands)

        if fault := wrong_operands(write, rows, inputs["q"][0].numel(), device):
            return f"{rows} rows at {start}: {fault}"
    return None


LAWS = (
    *for_both("random trees are the single steps of their rows", _trees_differ),
    *for_both("a chain has the bits of a branch of a tree", _chain_is_no_tree),
    *for_both("what is not on a row's path does not reach it", _later_rows_reach_earlier_ones),
    *for_both("what is not finite stays in its column", _infinite_values_reach_other_columns),
    *for_both("a compacted path is a committed path", _compacted_differs),
    *for_both("operands are those of the rows", _operands_differ),
    *for_both("views have the bits of contiguous copies", _strides_differ),
    *for_both("no tile of attention changes a bit", _tile_changes_bits, cuda_only=True),
    *for_both("no context class changes a bit", _class_changes_bits, cuda_only=True),
    *for_both(
        "overlap changes no bit of attention, in a graph or out", _overlap_differs, cuda_only=True
    ),
    Law("codes have the bits of what they stand for", _codes_differ_from_what_they_stand_for),
)
