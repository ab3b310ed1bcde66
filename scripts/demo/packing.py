"""Packs exchanges into rows: several independent exchanges make one longer conversation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

ROW_LENGTHS = (128, 384)


@dataclass
class Corpus:
    """Tokenised exchanges, flat.

    ids int16/uint16 [N] and graded uint8 [N] (1 on an answer's tokens and its end mark); starts
    int64 [G + 1]; systems: a few tokenised system turns.
    """

    ids: np.ndarray
    graded: np.ndarray
    starts: np.ndarray
    systems: list[np.ndarray]

    def save(self, path: Path) -> None:
        """Writes one .npz, not compressed (the caller packs it)."""
        lengths = np.array([len(s) for s in self.systems])
        np.savez(
            path,
            ids=self.ids,
            graded=np.packbits(self.graded),
            starts=self.starts,
            systems=np.concatenate(self.systems),
            system_lengths=lengths,
        )

    @classmethod
    def load(cls, path: Path) -> Corpus:
        """Reads what `save` wrote."""
        data = np.load(path)
        ids = data["ids"]
        cuts = np.cumsum(data["system_lengths"])[:-1]
        graded = np.unpackbits(data["graded"])[: len(ids)]
        return cls(ids, graded, data["starts"], np.split(data["systems"], cuts))


def row_cuts(lengths: np.ndarray, width: np.ndarray) -> list[int]:
    """Returns the first exchange of each row so that row r holds at most width[r % len] tokens.

    An exchange longer than its row is cut at the row's end.
    """
    ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    cuts, at, r = [0], 0, 0
    while at < len(lengths):
        at = max(at + 1, bisect_right(ends, ends[at] + int(width[r % len(width)])) - 1)
        cuts.append(at)
        r += 1
    return cuts


class Packer:
    """Makes epochs of shuffled rows on the device."""

    def __init__(self, corpus: Corpus, device: str, pad: int, seed: int = 0) -> None:
        """Moves the flat ids to the device once."""
        self.corpus, self.pad, self.device = corpus, pad, device
        self.ids = torch.from_numpy(corpus.ids.astype(np.int32)).to(device)
        self.graded = torch.from_numpy(corpus.graded).to(device)
        self.rng = np.random.default_rng(seed)
        self.lengths = np.diff(corpus.starts)

    def rows(
        self, chosen: np.ndarray, length: int, system: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Packs the chosen exchanges (in order) into rows.

        Returns ids int32 [R, length] and weights fp16 [R, length]: 1 on graded tokens, 0.1 on the
        other text of a turn, 0 on padding and system turns. A share `system` of the rows starts
        with a system turn.
        """
        systems = self.corpus.systems
        pick = np.where(
            self.rng.random(4096) < system, self.rng.integers(0, len(systems), 4096), -1
        )
        lead = np.array([len(systems[p]) if p >= 0 else 0 for p in pick])
        cuts = np.array(row_cuts(self.lengths[chosen], length - lead))
        rows = len(cuts) - 1
        ids = torch.full((rows, length), self.pad, dtype=torch.int32, device=self.device)
        weight = torch.zeros(rows, length, dtype=torch.float16, device=self.device)
        lens = self.lengths[chosen]
        offset = np.concatenate([[0], np.cumsum(lens)])
        row_of = np.repeat(np.arange(rows), np.diff(cuts))
        place = offset[:-1] - offset[cuts[row_of]] + lead[row_of % 4096]
        source = self._spread(self.corpus.starts[:-1][chosen], lens)
        target = self._spread(place, lens)
        line = torch.repeat_interleave(self._tensor(row_of), self._tensor(lens))
        fits = target < length
        source, target, line = source[fits], target[fits], line[fits]
        ids[line, target] = self.ids[source]
        weight[line, target] = (0.1 + 0.9 * self.graded[source]).half()
        self._add_systems(ids, pick)
        return ids, weight

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        """int64 copy on the device."""
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(self.device)

    def _spread(self, first: np.ndarray, lens: np.ndarray) -> torch.Tensor:
        """Returns first[i] + 0 .. lens[i] - 1 for all i, concatenated."""
        counts = self._tensor(lens)
        before = counts.cumsum(0) - counts
        base = torch.repeat_interleave(self._tensor(first) - before, counts)
        return base + torch.arange(len(base), device=self.device)

    def _add_systems(self, ids: torch.Tensor, pick: np.ndarray) -> None:
        """Writes the system turns into the rows that left room for them."""
        chosen = pick[np.arange(len(ids)) % 4096]
        for index, system in enumerate(self.corpus.systems):
            rows = self._tensor(np.flatnonzero(chosen == index))
            ids[rows, : len(system)] = self._tensor(system).int()

    def epoch(
        self, tokens: int, system: float = 0.12
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yields batches of about `tokens` tokens, half the exchanges in each row length."""
        order = self.rng.permutation(len(self.lengths))
        short = (self.rng.random(len(order)) < 0.5) & (self.lengths[order] <= ROW_LENGTHS[0] - 32)
        batches = []
        for length, chosen in zip(ROW_LENGTHS, (order[short], order[~short]), strict=True):
            ids, weight = self.rows(chosen, length, system)
            size = max(1, tokens // length)
            batches += [
                (ids[i : i + size], weight[i : i + size])
                for i in range(0, len(ids) - size + 1, size)
            ]
        for i in self.rng.permutation(len(batches)):
            yield batches[i]
