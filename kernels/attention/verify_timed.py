"""List decode and verify attention as problems to time, at a short and a long context."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.nn import functional

from kernels.attention.kv_codes import KvScales, to_codes
from kernels.attention.verify import attention_verify, scratch_elements
from kernels.attention.verify_problems import verify_case
from kernels.common.peers import Peer
from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.common.tree import StagedTree, plan_chain

CONTEXTS = (1024, 32_768)
"""Positions that a row attends to, its own and those of the rows before it counted."""

GPU = "H200"
"""What bars are stated for; other GPUs are timed and not judged."""

PROVEN_START = 1010
"""Committed positions of the case that is proven first: its rows reach across a chunk's edge."""


def timed_verify(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return attention over both contexts, for 1 to 32 rows.

    Bars: 5 us at 1k and 1 row; 80 % of read bandwidth at 32k and 1 row, and at most 1.5 times that
    time at up to 16 rows.
    """
    if rows > MAX_ROWS:
        return ()
    return tuple(
        _problem(sizes, rows, context, coded=coded)
        for context in CONTEXTS
        for coded in (False, True)
    )


def _problem(sizes: ModelSizes, rows: int, context: int, *, coded: bool) -> Problem:
    heads, groups, width = sizes.num_heads, sizes.num_kv_heads, sizes.head_dim
    stored = 2 * groups * context * width * (1 if coded else 2)
    num_bytes = stored + 2 * 3 * rows * heads * width
    return Problem(
        name=f"attention at {context // 1024}k" + (", e4m3" if coded else ""),
        op="attention_verify",
        rows=rows,
        sizes={"H": heads, "G": groups, "D": width, "S": context},
        num_bytes=num_bytes,
        make_calls=partial(_make_calls, sizes, rows, context, coded),
        case=verify_case(rows, PROVEN_START, heads=heads, groups=groups, width=width, coded=coded),
        bar=_bar(sizes, rows, context),
        peers=()  # the library reads BF16
        if coded
        else (Peer("sdpa", num_bytes, partial(_make_peers, sizes, rows, context)),),
    )


def _bar(sizes: ModelSizes, rows: int, context: int) -> Bar | None:
    if sizes.num_heads != 24:
        return None
    if rows == 1:
        return Bar(max_us=5.0, gpu=GPU) if context < 4096 else Bar(min_share=0.8, gpu=GPU)
    return Bar(max_times_rows=(1, 1.5), gpu=GPU) if context > 4096 and rows <= 16 else None


def _tensors(
    sizes: ModelSizes, rows: int, context: int, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    make = partial(torch.randn, dtype=torch.bfloat16, device=device)
    store = (sizes.num_kv_heads, context, sizes.head_dim)
    product = make(rows, sizes.num_heads, 2 * sizes.head_dim)  # per head: query, then gate
    q = product[:, :, : sizes.head_dim].contiguous()
    return q, make(store), make(store), product[:, :, sizes.head_dim :]


def _make_calls(
    sizes: ModelSizes, rows: int, context: int, coded: bool, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    scales = _scales(sizes, device) if coded else None
    tables = StagedTree(torch.device(device))
    tables.load(plan_chain(rows))
    start = torch.tensor([context - rows], dtype=torch.int32, device=device)
    scratch = torch.empty(scratch_elements(rows, sizes.num_heads, context), device=device)
    calls: list[Callable[[Tile], object]] = []
    for _ in range(num_copies):
        q, keys, values, gate = _tensors(sizes, rows, context, device)
        out = q.new_empty(q.shape).flatten(1)
        if scales is not None:
            keys, values = (
                to_codes(x, scale[:, None, None])
                for x, scale in ((keys, scales.keys), (values, scales.values))
            )
        arguments = (q, keys, values, gate, start, tables.depths, tables.paths, out, scratch)
        calls.append(partial(_call, arguments, scales, context))
    return calls


def _scales(sizes: ModelSizes, device: str) -> KvScales:
    """Scales of standard normal keys and values."""
    one = torch.full((sizes.num_kv_heads,), 2.0**-5, device=device)
    return KvScales(one, one)


def _call(
    arguments: tuple[torch.Tensor, ...], scales: KvScales | None, context: int, tile: Tile
) -> None:
    """Attend with overlap, as a round does."""
    *inputs, out, scratch = arguments
    attention_verify(
        *inputs, max_context=context, scales=scales, out=out, scratch=scratch,
        overlap=out.is_cuda, tile=tile,
    )  # fmt: skip


def _make_peers(
    sizes: ModelSizes, rows: int, context: int, num_copies: int, device: str
) -> Sequence[Callable[[], object]]:
    calls: list[Callable[[], object]] = []
    for _ in range(num_copies):
        q, keys, values, _ = _tensors(sizes, rows, context, device)
        calls.append(partial(_library, q.transpose(0, 1)[None], keys[None], values[None]))
    return calls


def _library(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Attend with torch, without the gate."""
    from torch.nn.attention.bias import causal_lower_right

    rows, positions = q.shape[2], keys.shape[2]
    mask = None if rows == 1 else causal_lower_right(rows, positions)
    return functional.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)
