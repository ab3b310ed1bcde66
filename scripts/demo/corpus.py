"""From sources and teacher answers to training ids: prompts, exchanges, tokenizer, corpus."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from demo.distil import read_answers, write_prompts
from demo.everyday import fact_pairs
from demo.filters import good_answer, tidy
from demo.packing import Corpus
from demo.prompts import (
    ADJ_ASKS,
    NAME_ASKS,
    NOUN_ASKS,
    PLACE_ASKS,
    VERB_ASKS,
    Prompt,
    teacher_prompts,
    usable,
    vary,
)
from demo.questions import held_out
from demo.sentences import example_sentence, gloss_sentence, noun_phrase
from demo.smalltalk import SMALLTALK, read_chatterbot, read_smalltalk
from demo.vocabulary import SYSTEM_TURNS, save_tokenizer, train_tokenizer
from demo.wordnet import Entry, rank_entries

Talk = list[tuple[str, str]]


def prepare(work: Path, wordnet: Path, teacher_tokenizer: Path, limit: int = 0) -> None:
    """Writes `work`/prompts.pkl and `work`/prompts.npz.xz."""
    work.mkdir(parents=True, exist_ok=True)
    entries, _ = rank_entries(wordnet)
    prompts = teacher_prompts(entries, random.Random(0))
    prompts = prompts[:limit] if limit else prompts
    (work / "prompts.pkl").write_bytes(pickle.dumps(prompts))
    write_prompts(work / "prompts.npz.xz", prompts, Tokenizer.from_file(str(teacher_tokenizer)))
    print(f"{len(prompts)} prompts")


def distilled(work: Path, teacher_tokenizer: Path) -> list[Talk]:
    """Returns the filtered teacher talks; each distinct (question, answer) once."""
    tokenizer = Tokenizer.from_file(str(teacher_tokenizer))
    prompts: list[Prompt] = pickle.loads((work / "prompts.pkl").read_bytes())
    first: list[tuple[int, np.ndarray]] = []
    later: dict[int, str] = {}
    for seed in range(len({p.name.split("-")[1] for p in work.glob("first-*.npz.xz")})):
        second = read_answers(work, f"second-{seed}")
        more = tokenizer.decode_batch([ids.tolist() for _, ids in second])
        later |= {n + len(first): tidy(t) for (n, _), t in zip(second, more, strict=True)}
        first += read_answers(work, f"first-{seed}")
    texts = [tidy(t) for t in tokenizer.decode_batch([ids.tolist() for _, ids in first])]
    rng, seen, out = random.Random(1), set(), []
    for n, ((index, _), text) in enumerate(zip(first, texts, strict=True)):
        prompt = prompts[index]
        if (prompt.ask, text) in seen or not text or not good_answer(prompt.ask, text):
            continue
        seen.add((prompt.ask, text))
        talk = [(vary(prompt.ask if rng.random() < 0.5 else prompt.user.lower(), rng), text)]
        reply = later.get(n)
        if reply and reply != text and good_answer(prompt.follow, reply):
            talk.append((vary(prompt.follow, rng), reply))
        out.append(talk)
    print(f"{len(first)} first answers, {len(out)} kept, {sum(len(t) > 1 for t in out)} go on")
    return out


def gloss_talks(entries: list[Entry], rng: random.Random) -> list[Talk]:
    """Returns WordNet's own sentences as questions and answers."""
    out: list[Talk] = []
    for rank, entry in enumerate(entries[:45000]):
        sentence = gloss_sentence(entry)
        if sentence is None or held_out(entry.word) or not usable(entry):
            continue
        asks = {"v": VERB_ASKS[:5], "a": ADJ_ASKS[:6]}.get(entry.synset.pos, NOUN_ASKS)
        if entry.proper:
            asks = NAME_ASKS if entry.synset.field == "person" else PLACE_ASKS
        example = example_sentence(entry)
        for template in rng.sample(asks, 3 if rank < 12000 else 1):
            question = template.format(w=entry.word, np=noun_phrase(entry))
            answer = f"{sentence} {example}" if example and rng.random() < 0.4 else sentence
            out.append([(vary(question, rng), answer)])
    return out


def own_talks(chatterbot: Path | None, rng: random.Random) -> list[Talk]:
    """Returns small talk and hand-written answers (many variants), sums, capitals, chatterbot."""
    out: list[Talk] = []
    for path, times in ((SMALLTALK, 14), (SMALLTALK.with_name("answers.txt"), 40)):
        for asks, answers in read_smalltalk(path):
            for ask in asks:
                for answer in answers:
                    out += [[(_sloppy(ask, rng), answer)] for _ in range(times)]
    out += [[(vary(q, rng), a)] for q, a in fact_pairs(rng) for _ in range(3)]
    if chatterbot:
        out += [[(_sloppy(q, rng), a)] for q, a in read_chatterbot(chatterbot) for _ in range(6)]
    return [t for t in out if not held_out(t[0][0])]


def _sloppy(question: str, rng: random.Random) -> str:
    """Keeps, lower-cases or capitalises a question, and drops or keeps its last mark."""
    text = question
    if rng.random() < 0.5:
        text = text[0].upper() + text[1:]
        text = text.replace(" i ", " I ").replace(" i'm", " I'm")
    if rng.random() < 0.35:
        text = text.rstrip("?!.") or text
    elif rng.random() < 0.1:
        text += "!" if text[-1].isalnum() else ""
    return text


def encode_talks(talks: list[Talk], tokenizer: Tokenizer) -> Corpus:
    """Tokenises talks in the chat template; answers and their end marks are graded."""
    asks = [
        f"<|im_start|>user\n{q.strip()}<|im_end|>\n<|im_start|>assistant\n"
        for talk in talks
        for q, _ in talk
    ]
    replies = [f"{a.strip()}<|im_end|>" for talk in talks for _, a in talk]
    close = tokenizer.encode("\n").ids
    parts: list[np.ndarray] = []
    graded: list[np.ndarray] = []
    pairs = zip(tokenizer.encode_batch(asks), tokenizer.encode_batch(replies), strict=True)
    lengths, sizes = [], [len(talk) for talk in talks]
    for ask, reply in pairs:
        parts.append(np.array(ask.ids + reply.ids + close, np.uint16))
        graded.append(np.repeat([0, 1, 0], [len(ask.ids), len(reply.ids), len(close)]))
        lengths.append(len(parts[-1]))
    ends = np.cumsum(lengths)[np.cumsum(sizes) - 1]
    systems = [
        np.array(tokenizer.encode(f"<|im_start|>system\n{t}<|im_end|>\n").ids, np.uint16)
        for t in SYSTEM_TURNS
    ]
    starts = np.concatenate([[0], ends]).astype(np.int64)
    return Corpus(np.concatenate(parts), np.concatenate(graded).astype(np.uint8), starts, systems)


def bake(work: Path, wordnet: Path, chatterbot: Path | None, teacher_tokenizer: Path) -> None:
    """Writes the tokenizer, train.npz and held.npz (2,000 distilled talks never trained on)."""
    rng = random.Random(2)
    entries, _ = rank_entries(wordnet)
    taught = distilled(work, teacher_tokenizer)
    rng.shuffle(taught)
    gloss, own = gloss_talks(entries, rng), own_talks(chatterbot, rng)
    held, taught = taught[:2000], taught[2000:]
    print(f"talks: {len(taught)} distilled, {len(gloss)} from glosses, {len(own)} our own")
    sample = [*rng.sample(taught, min(len(taught), 120_000)), *gloss, *own[::10]]
    tokenizer = train_tokenizer(f"{q}\n{a}" for talk in sample for q, a in talk)
    save_tokenizer(tokenizer, work / "tokenizer")
    for name, talks in (("train", taught + gloss + own), ("held", held)):
        corpus = encode_talks(talks, tokenizer)
        corpus.save(work / f"{name}.npz")
        print(f"{name}: {len(talks)} talks, {len(corpus.ids)} tokens")
