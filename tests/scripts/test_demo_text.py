"""The demo's text: articles, questions, filters, and that the held-out words stay held out."""

import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo.corpus import own_talks  # noqa: E402
from demo.everyday import everyday_questions  # noqa: E402
from demo.filters import good_answer, has_loop, tidy  # noqa: E402
from demo.prompts import teacher_prompts, vary  # noqa: E402
from demo.questions import HELD_OUT, held_out  # noqa: E402
from demo.sentences import gloss_sentence, with_article  # noqa: E402
from demo.wordnet import Entry, Synset  # noqa: E402


def entry(word, gloss, field="object", pos="n", **more):
    return Entry(word, Synset("n1", pos, field, [word], gloss, [], **more), 5.0)


@pytest.mark.parametrize(
    ("phrase", "whole"),
    [
        ("glacier", "a glacier"),
        ("hour", "an hour"),
        ("university", "a university"),
        ("umbrella", "an umbrella"),
        ("one-way street", "a one-way street"),
    ],
)
def test_articles_follow_the_sound(phrase, whole):
    assert with_article(phrase) == whole


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            entry("glacier", "a slowly moving mass of ice"),
            "A glacier is a slowly moving mass of ice.",
        ),
        (entry("run", "move fast on foot", "v", "v"), "To run means to move fast on foot."),
        (
            entry("Paris", "the capital and largest city of France; and more", "location"),
            "Paris is the capital and largest city of France.",
        ),
        (entry("stub", "a stub", "object"), None),
    ],
)
def test_glosses_become_sentences(made, sentence):
    assert gloss_sentence(made) == sentence


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        ("A lake is a body of water with land around it.", True),
        ("Too short.", False),
        ("It goes round and round the town, round and round the town.", False),
        ("As an AI language model I cannot answer this question.", False),
        ("this one starts in lower case and is not tidy.", False),
        ("This answer never comes to its end because", False),
    ],
)
def test_the_filter_keeps_plain_closed_english(answer, good):
    assert good_answer("What is a lake?", answer) is good


def test_tidy_joins_lines_and_mends_articles():
    assert tidy(' "A lung is a organ\nof the body." ') == "A lung is an organ of the body."


def test_loops_are_found():
    assert has_loop(["a", "b", "c", "d", "a", "b", "c", "d"])
    assert not has_loop(["a", "b", "c", "d", "e", "a", "b", "c"])


def test_questions_vary_but_keep_their_words():
    rng = random.Random(0)
    forms = {vary("what is a lake?", rng) for _ in range(200)}
    assert {"what is a lake?", "What is a lake", "What is a lake?"} <= forms
    assert all("a lake" in form for form in forms)


def test_no_training_question_names_a_held_out_word():
    assert held_out("Tell me about WHALES!")
    assert not held_out("what is a pianist?")
    entries = [entry(word, "a thing that is held out") for word in HELD_OUT]
    entries += [
        entry(word, f"a thing of kind {word[0]} that is kept here", parents=["n9"])
        for word in ("lake", "river", "hill", "tree")
    ]
    for one in entries[-4:]:
        one.synset = Synset(f"n{one.word}", "n", "object", [one.word], one.synset.gloss, [], ["n9"])
    prompts = teacher_prompts(entries, random.Random(0))
    assert len(prompts) > 1000
    assert not [p for p in prompts if held_out(p.user) or held_out(p.ask)]
    assert not [t for t in own_talks(None, random.Random(0)) if held_out(t[0][0])]


def test_everyday_questions_are_many_and_distinct():
    questions = everyday_questions()
    assert len(set(questions)) > 1000
