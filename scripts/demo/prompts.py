"""Builds the teacher's prompts: what a user might ask, and what the teacher is told beside it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from demo.everyday import everyday_questions
from demo.questions import held_out
from demo.sentences import definition, gloss_sentence, noun_phrase
from demo.wordnet import Entry, siblings

SYSTEM = "You answer each question in one or two short, simple and correct sentences."
SHOTS = (
    (
        (
            "Fact: A fox is a wild animal of the dog family with a pointed nose and a bushy tail.\n"
            "Question: What is a fox?"
        ),
        (
            "A fox is a wild animal that looks like a small dog. "
            "It has a pointed nose and a bushy tail."
        ),
    ),
    (
        "Question: How do I clean a window?",
        "Spray the glass with water and a little vinegar. Then wipe it with a soft cloth.",
    ),
    (
        (
            "Fact: A mug is a large cup with a handle. "
            "A bowl is a round dish that is open at the top.\n"
            "Question: What is the difference between a mug and a bowl?"
        ),
        (
            "A mug is a large cup with a handle for drinking, "
            "while a bowl is a round, open dish for food."
        ),
    ),
    (
        "Question: Give me a sentence with the word early.",
        "The birds begin to sing early in the morning.",
    ),
    (
        "Question: Why do we wear coats?",
        "We wear coats because they keep our bodies warm when it is cold outside.",
    ),
    (
        "Question: How does a pen work?",
        "A pen holds ink in a thin tube. When the tip moves over paper, a little ink flows out.",
    ),
    (
        "Question: Do you like the rain?",
        "Yes, I like the rain because it makes everything fresh and green.",
    ),
)

NOUN_ASKS = (
    "what is {np}",
    "what is {np}",
    "what's {np}",
    "explain {np}",
    "explain {w}",
    "define {w}",
    "what does {w} mean",
    "what does the word {w} mean",
    "what is the meaning of {w}",
    "tell me about {np}",
    "tell me about {w}",
    "can you explain what {np} is",
    "what exactly is {np}",
    "describe {np}",
    "what do you know about {w}",
    "what is {w}",
)
NOUN_OPEN = (
    "why is {np} important",
    "what is {np} used for",
    "give an example of {np}",
    "where can i find {np}",
    "why do people like {np}",
    "how is {np} made",
    "what does {np} look like",
    "give me a sentence with the word {w}",
    "what is special about {np}",
    "use {w} in a sentence",
    "tell me something interesting about {np}",
)
PERSON_OPEN = (
    "what does {np} do",
    "how do i become {np}",
    "where does {np} work",
    "why do we need {np}",
    "give me a sentence with the word {w}",
)
ANIMAL_OPEN = (
    "what does {np} eat",
    "where does {np} live",
    "what does {np} look like",
    "is {np} dangerous",
    "can {np} be a pet",
    "tell me about {np}",
)
VERB_ASKS = (
    "what does {w} mean",
    "what does to {w} mean",
    "what does it mean to {w}",
    "explain the word {w}",
    "define {w}",
    "give me a sentence with the verb {w}",
    "when do people {w}",
    "use {w} in a sentence",
)
ADJ_ASKS = (
    "what does {w} mean",
    "what does {w} mean",
    "what does the word {w} mean",
    "explain the word {w}",
    "define {w}",
    "what is the meaning of {w}",
    "give me a sentence with the word {w}",
    "use {w} in a sentence",
)
NAME_ASKS = ("who is {w}", "who was {w}", "tell me about {w}", "what do you know about {w}")
PLACE_ASKS = ("what is {w}", "where is {w}", "tell me about {w}", "what do you know about {w}")
FOLLOW_UPS = (
    "why?",
    "why is that?",
    "can you give an example?",
    "give me an example",
    "tell me more",
    "can you tell me more?",
    "really?",
    "is that important?",
    "how does that work?",
    "what does that mean?",
    "can you say that in simpler words?",
    "where can I find one?",
    "thanks, what else should I know?",
    "and why is it useful?",
    "interesting, tell me more",
)
_ASKS = re.compile(r"(?i)(what|what's|why|how|who|where|when|which|is|are|can|do|does|should)\b")


@dataclass
class Prompt:
    """One request to the teacher, which reads `fact` and `ask`; `user` is what we keep."""

    fact: str
    ask: str
    user: str
    follow: str = ""


def vary(question: str, rng: random.Random) -> str:
    """Returns the question as people type it: with or without capital, mark and politeness."""
    text = question.strip().rstrip("?. ") or question
    asks = bool(_ASKS.match(text))
    if rng.random() < 0.05:
        text = rng.choice(["please ", "hi, ", "hello, ", "ok, ", "so "]) + text
    if rng.random() < 0.5:
        text = text[0].upper() + text[1:]
        text = re.sub(r"\bi\b", "I", text)
    roll = rng.random()
    if asks:
        return text + ("?" if roll < 0.72 else " ?" if roll < 0.74 else "")
    return text + ("." if roll < 0.25 else "!" if roll < 0.28 else "")


def turn(role: str, text: str) -> str:
    """Returns one turn in ChatML."""
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def prefix_text() -> str:
    """Returns the part of the teacher's prompt that is the same for all: system and examples."""
    shots = "".join(turn("user", q) + turn("assistant", a) for q, a in SHOTS)
    return turn("system", SYSTEM) + shots


def suffix_text(prompt: Prompt) -> str:
    """Returns the part of the teacher's prompt that is its own, up to the answer."""
    fact = f"Fact: {prompt.fact}\n" if prompt.fact else ""
    return turn("user", f"{fact}Question: {prompt.ask}") + "<|im_start|>assistant\n"


def _asks_for(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns (questions answered by the gloss, open questions) for an entry."""
    field, pos = entry.synset.field, entry.synset.pos
    if pos == "v":
        return VERB_ASKS, ()
    if pos == "a":
        return ADJ_ASKS, ()
    if entry.proper:
        return (NAME_ASKS if field == "person" else PLACE_ASKS), ()
    opens = {"person": PERSON_OPEN, "animal": ANIMAL_OPEN}.get(field, NOUN_OPEN)
    return NOUN_ASKS, opens


def word_prompts(entry: Entry, count: int, rng: random.Random) -> list[Prompt]:
    """Returns up to `count` prompts about one word; most carry its gloss as a fact."""
    sentence = gloss_sentence(entry)
    asks, opens = _asks_for(entry)
    out = []
    for template in rng.sample(asks, min(count, len(asks))):
        question = template.format(w=entry.word, np=noun_phrase(entry))
        out.append(_prompt(sentence or "", question, rng))
    for template in rng.sample(opens, min(count // 3, len(opens))):
        question = template.format(w=entry.word, np=noun_phrase(entry))
        out.append(_prompt(sentence or "", question, rng))
    return out


def _prompt(fact: str, question: str, rng: random.Random) -> Prompt:
    """Makes a prompt whose teacher side is tidy and whose kept side is as people type."""
    asked = question[0].upper() + re.sub(r"\bi\b", "I", question[1:])
    follow = rng.choice(FOLLOW_UPS) if rng.random() < 0.12 else ""
    mark = "?" if _ASKS.match(asked) else "."
    return Prompt(fact, asked + mark, vary(question, rng), follow)


def difference_prompts(entries: list[Entry], count: int, rng: random.Random) -> list[Prompt]:
    """Returns 'difference between X and Y' prompts for words with the same broader meaning."""
    groups = [g for g in siblings(entries).values() if len(g) > 1]
    weights = [len(g) ** 0.5 for g in groups]
    out = []
    while len(out) < count:
        one, two = rng.sample(rng.choices(groups, weights)[0], 2)
        glosses = [gloss_sentence(one), gloss_sentence(two)]
        if one.synset is two.synset or None in glosses:
            continue
        pair = f"{noun_phrase(one)} and {noun_phrase(two)}"
        form = rng.choice(
            [
                "what is the difference between {}",
                "how are {} different",
                "difference between {}",
                "compare {}",
            ]
        )
        out.append(_prompt(" ".join(map(str, glosses)), form.format(pair), rng))
    return out


def teacher_prompts(entries: list[Entry], rng: random.Random) -> list[Prompt]:
    """Returns the whole shuffled list of prompts, without any that names a held-out word.

    The commonest words are asked about most often; a word without a usable gloss is skipped
    unless it is common.
    """
    out: list[Prompt] = []
    kept = [e for e in entries if not held_out(e.word) and usable(e)]
    for rank, entry in enumerate(kept[:26000]):
        if definition(entry) or rank < 3000:
            out += word_prompts(entry, 14 if rank < 4000 else 8 if rank < 12000 else 5, rng)
    out += difference_prompts([e for e in kept[:14000] if definition(e)], 40000, rng)
    for question in everyday_questions():
        out += [_prompt("", question, rng) for _ in range(40)]
    out = [p for p in out if not held_out(p.user)]
    rng.shuffle(out)
    return out


def usable(entry: Entry) -> bool:
    """Drops taxonomy, one-letter words and rude or grim meanings."""
    text = entry.word + " " + entry.synset.gloss
    taxon = re.match(r"(?i)(family|genus|order|type|class|phylum|suborder|subfamily) ", entry.word)
    grim = re.search(
        r"(?i)\b(offensive|slang|obscene|sexual|sex|genitals?|rape|nazi|slur|disparag"
        r"\w+|ethnic|prostitut\w+|copulat\w+|penis|breasts?|excrement|defecat\w+)\b",
        text,
    )
    taxonomic = re.search(r"(?i)\b(genus|genera|family of|taxonomic)\b", entry.synset.gloss)
    return not (taxon or grim or taxonomic or len(entry.word) < 3)
