"""State the law between preparation and verify: a verify sees the keys that were just written.

With overlap it begins before the preparation has ended, and reads what is committed beside the
rows' own slots while those still hold what was there before. The preparation has to wait for a
kernel that lingers, so it is always so.
"""

import torch

from kernels.attention.kv_cases import for_both, scales_of
from kernels.attention.kv_codes import to_codes
from kernels.attention.prep_cases import empty_store, prep_case, prepare
from kernels.attention.verify import attention_verify
from kernels.attention.verify_problems import plan_of
from kernels.common.capture import capture
from kernels.common.case import Tensors
from kernels.common.compare import different_bits
from kernels.common.linger import linger
from kernels.common.tree import StagedTree

ROUNDS = (
    *((1, 40, None), (1, 5000, None), (5, 1000, None), (9, 62, None), (16, 1008, None)),
    *((20, 1000, None), (32, 1500, None), (9, 5000, None), (16, 1000, 2), (9, 5000, 3)),
)
"""Rows, committed positions and the seed of a tree: own rows in one tile and in two."""


def _prepared_differs(device: str, *, coded: bool) -> str | None:
    """Prepare and verify without overlap, then with it behind slots that hold NaN."""
    for rows, start, tree in ROUNDS:
        inputs = dict(_drawn(rows, start, coded=coded, device=device))
        tables = StagedTree(torch.device(device))
        tables.load(plan_of(rows, tree))
        inputs["depths"] = tables.depths
        spoilt = [_committed(inputs, start) for _ in range(2)]
        keys, values = (one.clone() for one in spoilt)
        query = inputs["q"].new_empty((rows, 6, 256))
        gate = inputs["q"].unflatten(1, (6, 512))[..., 256:]
        out = inputs["q"].new_empty((rows, 6 * 256))

        def both(
            overlap: bool = True,
            inputs: Tensors = inputs,
            store: tuple[torch.Tensor, torch.Tensor] = (keys, values),
            query: torch.Tensor = query,
            gate: torch.Tensor = gate,
            out: torch.Tensor = out,
            tables: StagedTree = tables,
        ) -> None:
            if overlap:
                linger()
            prepare(inputs, *store, query, overlap=overlap)
            attention_verify(
                query, *store, gate, inputs["start"], tables.depths, tables.paths, out=out,
                max_context=store[0].shape[1], scales=scales_of(inputs), overlap=overlap,
            )  # fmt: skip

        both(overlap=False)
        expected = out.clone()
        graph = capture([both])
        for how, call in (("eager", both), ("in a graph", graph.replay)):
            for _ in range(10):
                for one, before in zip((keys, values), spoilt, strict=True):
                    one.copy_(before)
                for one in (query, out):
                    one.fill_(torch.nan)
                call()
                if fault := different_bits(out, expected, ("T", "HD")):
                    return f"{rows} rows at {start}, tree {tree}, {how}: {fault}"
    return None


def _drawn(rows: int, start: int, *, coded: bool, device: str) -> Tensors:
    """Draw what a product gives of rows, and the tables of a preparation."""
    positions = start + rows + 9
    case = prep_case(rows, (6, 1), start=start, positions=positions, tree=False, coded=coded)
    return case.draw(9, device)


def _committed(inputs: Tensors, start: int) -> torch.Tensor:
    """Make keys or values of one layer: committed positions, then NaN."""
    store, scales = empty_store(inputs), scales_of(inputs)
    drawn = torch.randn(store[:, :start].shape, device=store.device).bfloat16()
    if scales is not None:
        drawn = to_codes(drawn, scales.keys[:, None, None])
    store[:, :start] = drawn
    return store


LAWS = (
    *for_both("a verify sees what was prepared right before", _prepared_differs, cuda_only=True),
)
