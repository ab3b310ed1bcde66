"""Reads WordNet 3.0's data files and ranks its words by how common they are.

The files are those of Debian's package `wordnet-base` (`/usr/share/wordnet`). Only definitions,
example sentences, lexicographer files and hypernym pointers are kept.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import pairwise
from pathlib import Path

POS_FILES = {"n": "data.noun", "v": "data.verb", "a": "data.adj"}
NOUN_FIELDS = {
    3: "top",
    4: "act",
    5: "animal",
    6: "artifact",
    7: "attribute",
    8: "body",
    9: "cognition",
    10: "communication",
    11: "event",
    12: "feeling",
    13: "food",
    14: "group",
    15: "location",
    16: "motive",
    17: "object",
    18: "person",
    19: "phenomenon",
    20: "plant",
    21: "possession",
    22: "process",
    23: "quantity",
    24: "relation",
    25: "shape",
    26: "state",
    27: "substance",
    28: "time",
}
_WORD = re.compile(r"[a-z]+")
_QUOTED = re.compile(r'"([^"]+)"')


@dataclass
class Synset:
    """One meaning: its words in order of use, definition, examples and nearest broader meanings."""

    key: str
    pos: str
    field: str
    words: list[str]
    gloss: str
    examples: list[str]
    parents: list[str] = dataclass_field(default_factory=list)
    instance: bool = False


@dataclass
class Entry:
    """A word with its most frequent meaning and a score (higher is more common)."""

    word: str
    synset: Synset
    score: float

    @property
    def proper(self) -> bool:
        """True when WordNet spells the word with a capital letter."""
        return self.word[:1].isupper()


def _parse_line(line: str, pos: str) -> Synset:
    """Parses one line of a data file (wndb(5)) into a synset."""
    head, _, text = line.partition(" | ")
    parts = head.split(" ")
    count = int(parts[3], 16)
    words = [re.sub(r"\(\w+\)$", "", w).replace("_", " ") for w in parts[4 : 4 + 2 * count : 2]]
    at = 4 + 2 * count
    pointers = int(parts[at])
    parents, instance = [], False
    for i in range(pointers):
        symbol, offset, kind = parts[at + 1 + 4 * i : at + 4 + 4 * i]
        if symbol in ("@", "@i"):
            parents.append(kind + offset)
            instance |= symbol == "@i"
    examples = [e.strip() for e in _QUOTED.findall(text)]
    gloss = re.split(r'; "|^"', text.strip())[0].strip().rstrip(";").strip()
    name = NOUN_FIELDS.get(int(parts[1]), "other") if pos == "n" else pos
    return Synset(pos + parts[0], pos, name, words, gloss, examples, parents, instance)


def read_synsets(folder: Path) -> dict[str, Synset]:
    """Returns every noun, verb and adjective synset by its key (part of speech and offset)."""
    found: dict[str, Synset] = {}
    for pos, name in POS_FILES.items():
        for line in (folder / name).read_text("latin-1").splitlines():
            if line[:1] != " ":
                synset = _parse_line(line, pos)
                found[synset.key] = synset
    return found


def _sense_order(folder: Path, pos: str) -> dict[str, list[str]]:
    """Returns lower-case lemma -> synset keys, most frequent sense first (index files)."""
    name = {"n": "index.noun", "v": "index.verb", "a": "index.adj"}[pos]
    order: dict[str, list[str]] = {}
    for line in (folder / name).read_text("latin-1").splitlines():
        if line[:1] == " ":
            continue
        parts = line.split()
        count = int(parts[2])
        order[parts[0].replace("_", " ")] = [pos + o for o in parts[-count:]]
    return order


def _tag_counts(folder: Path) -> Counter[tuple[str, str]]:
    """Returns how often each (lemma, part of speech) was tagged in the Brown-like corpus."""
    counts: Counter[tuple[str, str]] = Counter()
    kinds = {"1": "n", "2": "v", "3": "a", "5": "a"}
    for line in (folder / "cntlist.rev").read_text("latin-1").splitlines():
        key, _, count = line.split()
        lemma, _, rest = key.partition("%")
        pos = kinds.get(rest[:1])
        if pos:
            counts[lemma.replace("_", " "), pos] += int(count)
    return counts


def _main_sense(senses: list[Synset]) -> Synset:
    """Returns the first sense, or the animal where the first is a person likened to one."""
    if senses[0].field in ("person", "food"):
        return next((s for s in senses[:3] if s.field == "animal"), senses[0])
    return senses[0]


def rank_entries(folder: Path) -> tuple[list[Entry], dict[str, Synset]]:
    """Returns all words of one or two parts, most common first, and the synsets.

    The score adds the tagged frequency to the number of glosses that use the word.
    """
    synsets = read_synsets(folder)
    used: Counter[str] = Counter()
    for synset in synsets.values():
        words = _WORD.findall(" ".join([synset.gloss, *synset.examples]).lower())
        used.update(set(words))
        used.update({f"{a} {b}" for a, b in pairwise(words)})
    tagged = _tag_counts(folder)
    entries = []
    for pos in POS_FILES:
        for lemma, keys in _sense_order(folder, pos).items():
            if not re.fullmatch(r"[a-z]{2,}( [a-z]{2,})?", lemma):
                continue
            synset = _main_sense([synsets[k] for k in keys])
            word = next((w for w in synset.words if w.lower() == lemma), lemma)
            score = tagged[lemma, pos] + used[lemma] / (1 if " " in lemma else 3)
            entries.append(Entry(word, synset, score))
    entries.sort(key=lambda e: (-e.score, e.word, e.synset.pos))
    return entries, synsets


def siblings(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Groups noun entries that share their first hypernym: material for 'difference' questions."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.synset.pos == "n" and entry.synset.parents and not entry.proper:
            groups[entry.synset.parents[0]].append(entry)
    return {k: v for k, v in groups.items() if len(v) > 1}
