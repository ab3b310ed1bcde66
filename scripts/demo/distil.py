"""Runs the teacher over the prompts and stores its answers as compressed id shards."""

from __future__ import annotations

import lzma
import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from demo.prompts import Prompt, prefix_text, suffix_text, turn
from demo.teacher import Teacher, load_gguf

SHARD_TOKENS = 7_000_000
PASSES = 3


@dataclass
class Ragged:
    """A list of id sequences kept flat: ids uint16 [N], lengths uint16 [n]."""

    ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: list[np.ndarray]) -> Ragged:
        """Flattens rows."""
        lengths = np.array([len(r) for r in rows], np.uint16)
        flat = np.concatenate([*rows, np.zeros(0)]).astype(np.uint16)
        return cls(flat, lengths)

    def rows(self) -> list[np.ndarray]:
        """Returns the rows as views."""
        ends = np.cumsum(self.lengths.astype(np.int64))
        return [self.ids[e - n : e] for e, n in zip(ends, self.lengths, strict=True)]


def write_prompts(path: Path, prompts: list[Prompt], tokenizer: Tokenizer) -> None:
    """Tokenises the prompts with the teacher's `tokenizers.Tokenizer` into one xz file.

    Holds the common prefix, each prompt's own part, and the follow-up turn of those with one.
    """
    encode = lambda texts: [
        np.array(e.ids, np.uint16) for e in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
    follow = [
        f"<|im_end|>\n{turn('user', 'Question: ' + p.follow)}<|im_start|>assistant\n"
        if p.follow
        else ""
        for p in prompts
    ]
    own = Ragged.of(encode([suffix_text(p) for p in prompts]))
    later = Ragged.of(encode(follow))
    prefix = encode([prefix_text()])[0]
    with lzma.open(path, "wb", preset=3) as file:
        np.savez(
            file,
            prefix=prefix,
            ids=own.ids,
            lengths=own.lengths,
            follow_ids=later.ids,
            follow_lengths=later.lengths,
        )


def _write_shard(job: tuple[Path, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Writes one compressed shard (runs in a worker process)."""
    path, index, lengths, ids = job
    with lzma.open(path, "wb", preset=1) as file:
        np.savez(file, index=index, lengths=lengths, ids=ids)


def write_answers(folder: Path, name: str, rows: list[tuple[int, np.ndarray]]) -> None:
    """Writes (prompt index, answer ids) as shards of at most SHARD_TOKENS tokens."""
    flat = Ragged.of([ids for _, ids in rows])
    index = np.array([i for i, _ in rows], np.uint32)
    ends = np.cumsum(flat.lengths.astype(np.int64))
    shards = int(ends[-1] // SHARD_TOKENS) + 1 if len(ends) else 0
    jobs = []
    for number, part in enumerate(np.array_split(np.arange(len(rows)), max(shards, 1))):
        if len(part):
            low = ends[part[0]] - flat.lengths[part[0]]
            path = folder / f"{name}-{number}.npz.xz"
            jobs.append((path, index[part], flat.lengths[part], flat.ids[low : ends[part[-1]]]))
    with multiprocessing.get_context("fork").Pool(8) as pool:
        pool.map(_write_shard, jobs)


def read_answers(folder: Path, name: str) -> list[tuple[int, np.ndarray]]:
    """Reads every shard of `name` back."""
    out: list[tuple[int, np.ndarray]] = []
    for path in sorted(folder.glob(f"{name}-*.npz.xz")):
        with lzma.open(path) as file:
            data = dict(np.load(file))
        rows = Ragged(data["ids"], data["lengths"]).rows()
        out += zip(data["index"].tolist(), rows, strict=True)
    return out


def _by_length(order: list[int], lengths: np.ndarray, window: int = 8192) -> list[int]:
    """Sorts each window of the order by prompt length, so that a prefill pads little."""
    out: list[int] = []
    for i in range(0, len(order), window):
        out += sorted(order[i : i + window], key=lambda n: lengths[n])
    return out


def distil(
    gguf: Path,
    prompts: Path,
    out: Path,
    device: str,
    seconds: float,
    rows: int,
    seed: int,
    skip: int,
) -> None:
    """Answers the prompts, PASSES times if time allows, then the follow-ups; writes to `out`.

    Three quarters of `seconds` go to first answers, a quarter to second turns. A later run
    continues with another `seed` and `skip` requests left out.
    """
    start = time.time()
    torch.manual_seed(seed)
    weights = load_gguf(gguf, device, torch.bfloat16 if device == "cuda" else torch.float32)
    with lzma.open(prompts) as file:
        data = dict(np.load(file))
    own = Ragged(data["ids"], data["lengths"]).rows()
    later = Ragged(data["follow_ids"], data["follow_lengths"]).rows()
    print(f"loaded {len(own)} prompts in {time.time() - start:.1f} s", flush=True)
    teacher = Teacher(weights, data["prefix"], rows, 64 + int(data["lengths"].max()), 64)
    order = [*range(len(own))]
    for again in range(PASSES - 1):
        order += np.random.default_rng(again).permutation(len(own)).tolist()
    order = _by_length(order[skip:], data["lengths"])
    first = _collect(teacher, order, [own[i] for i in order], 0.75 * seconds)
    write_answers(out, f"first-{seed}", first)
    follow = {
        n: np.concatenate([own[i], a, later[i]])
        for n, (i, a) in enumerate(first)
        if len(later[i]) and len(own[i]) + len(a) + len(later[i]) <= 176
    }
    del teacher
    teacher = Teacher(weights, data["prefix"], rows // 2, 240, 64)
    second = _collect(teacher, [*follow], [*follow.values()], 0.25 * seconds)
    write_answers(out, f"second-{seed}", second)
    print(f"done in {time.time() - start:.1f} s", flush=True)


def _collect(
    teacher: Teacher, owners: list[int], prompts: list[np.ndarray], seconds: float
) -> list[tuple[int, np.ndarray]]:
    """Runs the teacher and keeps the answers that ended by themselves, as (owner, ids)."""
    start, out, tokens, seen = time.time(), [], 0, 0
    for answer in teacher.run(prompts, seconds):
        seen += 1
        tokens += len(answer.ids)
        if answer.ended:
            out.append((owners[answer.prompt], answer.ids.astype(np.uint16)))
    spent = time.time() - start
    print(
        f"{seen} answers, {len(out)} ended, {tokens} tokens in {spent:.1f} s: "
        f"{tokens / spent:.0f} tokens a second",
        flush=True,
    )
    return out
