"""List the problems that the head's choices are checked on, and the laws between them."""

from functools import partial

import torch

from kernels.common import exact_torch
from kernels.common.capture import capture
from kernels.common.case import Case, Tensors
from kernels.common.family import Family, Law, Op
from kernels.common.logit_rows import CHUNK, MAX_TOP, lanes_of, num_chunks
from kernels.head.launch import CHUNK_PAIRS
from kernels.head.op import argmax_logprob_rows, argmax_rows
from kernels.head.problems import (
    APART,
    LOGITS,
    LONELY,
    NEGATIVE,
    POISON,
    TIES,
    ZEROS,
    as_numbers,
    case_of,
    run_argmax,
    run_logprob,
    run_top,
    scratch_for,
)
from kernels.head.product_law import company_changes_ids, overlap_changes_ids
from kernels.head.reference import argmax_reference
from kernels.head.timed import timed
from kernels.head.top import topk_rows
from kernels.head.truth import truth_of_choice, truth_of_top

VOCABULARY = 248_320
TOP = 20
DOMAINS = (LOGITS, TIES, ZEROS, LONELY, NEGATIVE, APART)


def _cases() -> tuple[Case, ...]:
    """Build all cases: whole and broken chunks on a CPU, the 27B's vocabulary on a GPU."""
    cases: list[Case] = []
    for op, k in (("argmax_rows", 0), ("argmax_logprob_rows", 0), ("topk_rows", TOP)):
        cases.extend(case_of(op, 3, 5000, values, k=k) for values in DOMAINS)
        cases.append(case_of(op, 2, 2 * CHUNK, k=k))
        cases.append(case_of(op, 32, 300, k=k, interpreted=False))
        cases.extend(case_of(op, 32, VOCABULARY, values, k=k, cuda_only=True) for values in DOMAINS)
    cases.extend(case_of("argmax_rows", 2, num_logits) for num_logits in (1, 3, 63))
    return tuple(cases)


def _model_logprob(inputs: Tensors) -> Tensors:
    """Repeat the kernels' sums in torch, chunk by chunk and then over the chunks."""
    logits = inputs["logits"]
    num_rows, num_logits = logits.shape
    chunks = num_chunks(num_logits)
    padded = torch.full((num_rows, chunks * CHUNK), -torch.inf)
    padded[:, :num_logits] = logits
    padded = padded.view(num_rows, chunks, CHUNK)
    best = padded.amax(2, keepdim=True) + 0.0  # a zero as +0
    weights = torch.where(padded == -torch.inf, 0.0, exact_torch.exp(padded - best))
    sums = exact_torch.sum_rows(weights, 0, CHUNK_PAIRS)[..., 0]
    best = best[..., 0]
    top = best.amax(1, keepdim=True)
    shares = torch.where(best == -torch.inf, 0.0, sums * exact_torch.exp(best - top))
    total = exact_torch.sum_rows(shares, 0, lanes_of(chunks).bit_length() - 1)[:, 0]
    ids = argmax_reference(logits, num_logits, torch.arange(num_logits), torch.empty(0))[0]
    return {"ids": as_numbers(ids), "logprobs": -total.double().log().float()}


def _masks_differ(device: str) -> str | None:
    """Hide ids by num_ids, by a ban and behind a map; compare with logits that are -inf there."""
    logits = case_of("argmax_rows", 4, 5000, TIES).draw(1, device)["logits"]
    order = torch.randperm(9000, generator=torch.Generator().manual_seed(2))[:5000]
    id_map, scratch = order.int().to(device), scratch_for(logits)
    ids = torch.full((4,), POISON, dtype=torch.int32, device=device)
    best = id_map[logits.argmax(1)]
    banned = torch.cat((best, best + 1))
    for count in (0, 2, 4):
        num_banned = torch.tensor([count], dtype=torch.int32, device=device)
        for num_ids in (9000, 4000, 1):
            argmax_rows(logits, num_ids, ids=ids, scratch=scratch, id_map=id_map, banned=banned,
                        num_banned=num_banned)  # fmt: skip
            allowed = (id_map < num_ids) & ~torch.isin(id_map, banned[:count])
            hidden = logits.masked_fill(~allowed, -torch.inf)
            want = [_lowest(row, id_map) for row in hidden]
            if ids.tolist() != want:
                return f"{count} banned, {num_ids} ids: got {ids.tolist()}, want {want}"
    return None


def _lowest(row: torch.Tensor, id_map: torch.Tensor) -> int:
    winners = id_map[row == row.max()]
    return int(winners.min()) if bool(row.max().isfinite()) else -1


def _fewer_differ(device: str) -> str | None:
    """Take 1 to 32 of rows with ties, one shorter than that; each is the start of a stable sort."""
    for num_logits in (5000, MAX_TOP, 9):
        logits = case_of("topk_rows", 3, num_logits, TIES).draw(6, device)["logits"]
        want_values, want_ids = logits.sort(dim=1, descending=True, stable=True)
        for k in (1, 2, 9, 31, MAX_TOP):
            values = torch.full((3, k), torch.nan, device=device)
            ids = torch.full((3, k), POISON, dtype=torch.int32, device=device)
            topk_rows(logits, num_logits, values=values, ids=ids, scratch=scratch_for(logits))
            some = min(k, num_logits)
            right = torch.equal(values[:, :some], want_values[:, :some])
            right = right and torch.equal(ids[:, :some], want_ids[:, :some].int())
            if not (right and bool((ids[:, some:] == -1).all())):
                return f"the best {k} of {num_logits}: got {ids.tolist()}"
    return None


def _broken_rows_win(device: str) -> str | None:
    """Choose from rows that hold NaN, +inf or nothing, between rows that are sound."""
    logits = case_of("argmax_rows", 7, 5000).draw(3, device)["logits"]
    logits[1, 4999] = torch.nan
    logits[3, 0] = torch.inf
    logits[5] = -torch.inf
    ids = torch.full((7,), POISON, dtype=torch.int32, device=device)
    logprobs = torch.zeros(7, device=device)
    argmax_logprob_rows(logits, 5000, ids=ids, logprobs=logprobs, scratch=scratch_for(logits))
    top = torch.full((7, 3), POISON, dtype=torch.int32, device=device)
    values = torch.zeros((7, 3), device=device)
    topk_rows(logits, 5000, values=values, ids=top, scratch=scratch_for(logits))
    broken = [False, True, False, True, False, True, False]
    refused = {
        "ids": ids == -1,
        "logprobs": logprobs.isnan(),
        "top ids": (top == -1).all(1),
        "top": values.isnan().all(1),
    }
    for name, found in refused.items():
        if found.tolist() != broken:
            return f"{name}: rows refused are {found.tolist()}"
    return None


def _graph_differs(device: str) -> str | None:
    """Replay one graph on other logits, whose ids the eager call finds."""
    logits = case_of("argmax_rows", 5, 5000).draw(4, device)["logits"]
    ids = torch.full((5,), POISON, dtype=torch.int32, device=device)
    scratch = scratch_for(logits)
    graph = capture([partial(argmax_rows, logits, 5000, ids=ids, scratch=scratch)])
    logits.copy_(case_of("argmax_rows", 5, 5000).draw(5, device)["logits"])
    graph.replay()
    want = logits.argmax(1).int()
    return None if torch.equal(ids, want) else f"got {ids.tolist()}, want {want.tolist()}"


FAMILY = Family(
    name="head",
    ops={
        "argmax_rows": Op(run_argmax, truth_of_choice),
        "argmax_logprob_rows": Op(run_logprob, truth_of_choice, _model_logprob),
        "topk_rows": Op(run_top, lambda inputs: truth_of_top(TOP, inputs)),
    },
    cases=_cases(),
    laws=(
        Law("hidden, banned and mapped ids are those of -inf logits", _masks_differ),
        Law("the best k are the start of a stable sort", _fewer_differ),
        Law("a row without a sound maximum has id -1", _broken_rows_win),
        Law("logits and ids of a row are the same in company", company_changes_ids, cuda_only=True),
        Law("overlap with the product before changes no id", overlap_changes_ids, cuda_only=True),
        Law("a graph serves other logits", _graph_differs, cuda_only=True),
    ),
    timed=timed,
)
