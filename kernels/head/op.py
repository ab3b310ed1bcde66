"""Offer the choice of the best id of each row: check arguments, launch two kernels.

CUDA tensors go to the Triton kernels, CPU tensors to the torch references, or to the kernels in a
process that interprets them.
"""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.logit_rows import CHUNK, MAX_IDS, lanes_of, num_chunks
from kernels.head.launch import CHUNK_OPTIONS, CHUNK_PAIRS, ROW_OPTIONS
from kernels.head.reference import argmax_reference
from kernels.head.scratch import HeadScratch


def argmax_rows(
    logits: torch.Tensor,
    num_ids: int,
    *,
    ids: torch.Tensor,
    scratch: HeadScratch,
    id_map: torch.Tensor | None = None,
    banned: torch.Tensor | None = None,
    num_banned: torch.Tensor | None = None,
    overlap: bool = False,
) -> torch.Tensor:
    """Choose the token id of the largest logit of each row.

    Args:
        logits: fp32 [T, V], rows contiguous, any row stride.
        num_ids: token ids from here on never win; at most 2^20.
        ids: int32 [T] to write into.
        scratch: for at least T rows of V logits; held until the call has run.
        id_map: int32 [V], the token id of each column of a trimmed vocabulary, all different; None
            where column and id are one.
        banned: int32 [any], token ids that do not win either; needs `num_banned`.
        num_banned: int32 [1] on the device: how many of `banned` count.
        overlap: start before the previous kernel of the stream has ended (programmatic dependent
            launch). Changes no bit; every kernel of the stream must then wait as this one does.
            The map is read before that kernel ends: it must be older than the graph, or than the
            last kernel without overlap.

    Returns:
        `ids`: the lowest token id among equal logits, mapped ids included; +0 and -0 are equal. -1
        for a row that holds a NaN, or whose largest logit is infinite, among the ids that may win.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the scratch is too small.

    Numerics:
        Comparisons alone. A row's result depends on the row alone.

    Side effects:
        Two launches on the current stream; safe in graph capture.
    """
    _choose(
        "argmax_rows", logits, num_ids, ids, scratch, id_map, (banned, num_banned), logprobs=None,
        overlap=overlap,
    )  # fmt: skip
    return ids


def argmax_logprob_rows(
    logits: torch.Tensor,
    num_ids: int,
    *,
    ids: torch.Tensor,
    logprobs: torch.Tensor,
    scratch: HeadScratch,
    id_map: torch.Tensor | None = None,
    banned: torch.Tensor | None = None,
    num_banned: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose as `argmax_rows` does, and say how likely the choice was.

    Args:
        logits: fp32 [T, V], rows contiguous, any row stride.
        num_ids: token ids from here on never win.
        ids: int32 [T] to write into.
        logprobs: fp32 [T] to write into.
        scratch: for at least T rows of V logits; held until the call has run.
        id_map: int32 [V] or None, as in `argmax_rows`.
        banned: int32 [any] or None, as in `argmax_rows`.
        num_banned: int32 [1] or None, as in `argmax_rows`.

    Returns:
        `ids`; and `logprobs`, the natural logarithm of the choice's probability at temperature 1
        among the ids that may win, NaN where the id is -1.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the scratch is too small.

    Numerics:
        fp32 exponentials by IEEE operations (`common/exact.py`), summed in chunks of 2,048 and
        then over chunks by fixed trees; the logarithm in fp64, rounded to fp32. A row's bits
        depend on the row alone.

    Side effects:
        Two launches on the current stream; safe in graph capture.
    """
    _choose(
        "argmax_logprob_rows", logits, num_ids, ids, scratch, id_map, (banned, num_banned), logprobs
    )
    return ids, logprobs


def _choose(
    function: str,
    logits: torch.Tensor,
    num_ids: int,
    ids: torch.Tensor,
    scratch: HeadScratch,
    id_map: torch.Tensor | None,
    bans: tuple[torch.Tensor | None, torch.Tensor | None],
    logprobs: torch.Tensor | None,
    *,
    overlap: bool = False,
) -> None:
    banned, num_banned = bans
    axes = Axes(function)
    axes.tensor("logits", logits, ("T", "V"), (torch.float32,), "ask the head for fp32 logits")
    axes.tensor("ids", ids, ("T",), (torch.int32,), "allocate one int32 a row")
    placed = {"logits": logits, "ids": ids, "scratch": scratch.keys}
    if logprobs is not None:
        axes.tensor("logprobs", logprobs, ("T",), (torch.float32,), "allocate one fp32 a row")
        placed["logprobs"] = logprobs
    if id_map is not None:
        axes.tensor("id_map", id_map, ("V",), (torch.int32,), "give each column its token id")
        placed["id_map"] = id_map
    if (banned is None) != (num_banned is None):
        raise ValueError(f"{function}: banned and num_banned come together; pass both or neither")
    if banned is not None and num_banned is not None:
        axes.tensor("banned", banned, ("N",), (torch.int32,), "pass token ids as int32")
        axes.tensor("num_banned", num_banned, ("1",), (torch.int32,), "pass a count as int32 [1]")
        placed |= {"banned": banned, "num_banned": num_banned}
    axes.same_device(**placed)
    expect_ids(function, num_ids)
    scratch.expect(function, axes["T"], axes["V"])
    if not interpreter.on_kernels(logits):
        _choose_by_reference(logits, num_ids, ids, id_map, (banned, num_banned), logprobs)
    elif axes["T"]:
        _launch(logits, num_ids, ids, scratch, id_map, bans, logprobs, overlap=overlap)


def _launch(
    logits: torch.Tensor,
    num_ids: int,
    ids: torch.Tensor,
    scratch: HeadScratch,
    id_map: torch.Tensor | None,
    bans: tuple[torch.Tensor | None, torch.Tensor | None],
    logprobs: torch.Tensor | None,
    *,
    overlap: bool,
) -> None:
    from kernels.head.kernel import best_of_chunk_kernel, best_of_row_kernel

    (num_rows, num_logits), (banned, num_banned) = logits.shape, bans
    chunks, with_logprob = num_chunks(num_logits), logprobs is not None
    # what a launch does not read still needs an address: the ids serve
    best_of_chunk_kernel[(chunks, num_rows)](
        logits, ids if id_map is None else id_map, ids if banned is None else banned,
        ids if num_banned is None else num_banned, scratch.keys, scratch.sums,
        logits.stride(0), num_logits, num_ids,
        HAS_MAP=id_map is not None, HAS_BANNED=banned is not None, LOGPROB=with_logprob,
        CHUNK=CHUNK, PAIRS=CHUNK_PAIRS, OVERLAP=overlap,
        **CHUNK_OPTIONS | {"launch_pdl": overlap},
    )  # fmt: skip
    lanes = lanes_of(chunks)
    best_of_row_kernel[(num_rows,)](
        scratch.keys, scratch.sums, ids, scratch.sums if logprobs is None else logprobs, chunks,
        LOGPROB=with_logprob, LANES=lanes, PAIRS=lanes.bit_length() - 1, OVERLAP=overlap,
        **ROW_OPTIONS | {"launch_pdl": overlap},
    )  # fmt: skip


def _choose_by_reference(
    logits: torch.Tensor,
    num_ids: int,
    ids: torch.Tensor,
    id_map: torch.Tensor | None,
    bans: tuple[torch.Tensor | None, torch.Tensor | None],
    logprobs: torch.Tensor | None,
) -> None:
    banned, num_banned = bans
    id_map = torch.arange(logits.shape[1]) if id_map is None else id_map
    if banned is None or num_banned is None:
        banned = torch.empty(0, dtype=torch.int32)
    else:
        banned = banned[: int(num_banned)]
    best, likely = argmax_reference(logits, num_ids, id_map, banned)
    ids.copy_(best)
    if logprobs is not None:
        logprobs.copy_(likely)


def expect_ids(function: str, num_ids: int) -> None:
    """Refuse a number of token ids that keys have no room for.

    Raises:
        ValueError: it is below 1 or above 2^20.
    """
    if not 1 <= num_ids <= MAX_IDS:
        raise ValueError(
            f"{function}: num_ids is {num_ids}; a vocabulary has 1 to {MAX_IDS} token ids"
        )
