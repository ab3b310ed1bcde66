"""Say which token a row must draw, by numpy's sorts in fp64: no step of kernel or reference."""

import numpy as np
import torch

from kernels.common.case import Tensors
from kernels.sample.reference import Filters


def truth_of_draw(
    inputs: Tensors, filters: Filters, penalties: tuple[float, float], seed: int
) -> dict[str, torch.Tensor]:
    """Choose each row's token as `kernels.sample.problems.run_sample` asks for it.

    Args:
        inputs: of a case of sample_rows.
        filters: what narrows the distribution.
        penalties: presence and repetition.
        seed: of the noise.

    Returns:
        ids: fp64 [T].
    """
    rows = {name: tensor.cpu().numpy() for name, tensor in inputs.items()}
    start, row_ids = int(rows["start"][0]), rows["row_ids"].astype(int)
    chosen = [
        _draw(
            _penalised(logits, rows, row_ids[path[1 : int(depth) + 1].astype(int)], penalties),
            filters,
            (seed, start + int(depth) + 1),
        )
        for logits, depth, path in zip(rows["logits"], rows["depths"], rows["paths"], strict=True)
    ]
    ids = torch.tensor(chosen, dtype=torch.float64)
    return {"ids": ids.to(inputs["logits"].device)}


def _penalised(
    logits: np.ndarray,
    rows: dict[str, np.ndarray],
    drafts: np.ndarray,
    penalties: tuple[float, float],
) -> np.ndarray:
    """Penalise in fp32, as a row's logits are: what is chosen follows from rounded numbers."""
    presence, repetition = (np.float32(number) for number in penalties)
    out = logits.astype(np.float32).copy()
    seen = np.union1d(np.flatnonzero(rows["seen"]), drafts)
    out[seen] = [x / repetition if x > 0 else x * repetition for x in out[seen]]
    generated = np.union1d(np.flatnonzero(rows["generated"]), drafts)
    out[generated] -= presence
    return out.astype(np.float64)


def _draw(logits: np.ndarray, filters: Filters, key: tuple[int, int]) -> int:
    """Sort, cut three times, add noise."""
    if filters.temperature == 0.0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    if filters.top_k:
        order = order[: filters.top_k]
    order = order[np.isfinite(logits[order])]
    exponents = (logits[order] - logits[order[0]]) / filters.temperature
    mass = np.exp(exponents)
    keep = np.ones(order.size, dtype=bool)
    if filters.top_p < 1.0:
        before = np.concatenate(([0.0], np.cumsum(mass)[:-1]))
        keep &= before < filters.top_p * mass.sum()
    keep &= mass >= filters.min_p
    keep[0] = True
    scores = np.where(keep, exponents + _gumbel(*key, order), -np.inf)
    return int(order[scores == scores.max()].min())


def _gumbel(seed: int, position: int, ids: np.ndarray) -> np.ndarray:
    """Draw -log(-log(u)) with u from the words of Philox4x32-10 on unsigned 64-bit numbers."""
    word = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c = [ids.astype(np.uint64), np.zeros(ids.size, np.uint64)]
    c += [np.full(ids.size, part, np.uint64) for part in (position & 0xFFFFFFFF, position >> 32)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        left, right = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(right >> half) ^ c[1] ^ np.uint64(keys[0]), right & word,
             (left >> half) ^ c[3] ^ np.uint64(keys[1]), left & word]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    bits = (c[0] >> np.uint64(6)) * np.uint64(2**26) + (c[1] >> np.uint64(6))
    return -np.log(-np.log((bits.astype(np.float64) + 0.5) / 2.0**52))
