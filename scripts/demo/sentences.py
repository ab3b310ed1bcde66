"""Turns WordNet glosses into full English sentences: articles, plurals, proper nouns."""

from __future__ import annotations

import re

from demo.wordnet import Entry

_DETERMINERS = ("a", "an", "the", "any", "one", "someone", "something", "some", "anyone", "each")
_SUBJECTS = ("he", "she", "they", "i", "we", "it", "there", "you", "his", "her", "their", "my")
_COUNTED = {"animal", "artifact", "person", "plant", "object"}
_LEAD = re.compile(r"^\([^)]*\)\s*")
_LONG_PARENS = re.compile(r"\s*\((?![a-z]{1,12}\))[^)]*\)")
_VOWEL_SOUND = re.compile(
    r"^(?:[aeio]|u(?!ni|s[eu]|ti|til|ro|k|bi)|honor|honest|hour|heir)", re.IGNORECASE
)


def with_article(phrase: str) -> str:
    """Puts 'a' or 'an' before a phrase by the sound of its first letters."""
    one = re.match(r"(?i)(?:one|once|eu|ewe)", phrase)
    return ("an " if _VOWEL_SOUND.match(phrase) and not one else "a ") + phrase


def definition(entry: Entry) -> str | None:
    """Returns the cleaned first definition, or None when it reads badly in a sentence."""
    text = _LEAD.sub("", entry.synset.gloss).split(";")[0].split(": ")[0]
    text = re.sub(r"\s+", " ", _LONG_PARENS.sub("", text)).strip(" .:,-")
    words = text.split()
    if not 3 <= len(words) <= 36 or re.search(r"[^\x20-\x7e]|[\[\]{}<>=`]|--|\)|\(.*\(", text):
        text = text.replace("(", "").replace(")", "") if text.count("(") == text.count(")") else ""
        if not 3 <= len(text.split()) <= 36 or re.search(r"[^\x20-\x7e]|[\[\]{}<>=`]|--", text):
            return None
    if entry.word.lower() in text.lower().split():
        return None
    return text


def noun_phrase(entry: Entry) -> str:
    """Returns the noun as a sentence's subject: 'a glacier', 'freedom', 'Paris'."""
    text = definition(entry) or ""
    first = text.split(" ")[0].lower()
    if entry.proper:
        return entry.word
    if _is_plural(entry):
        return entry.word
    counted = first in ("a", "an", "any", "one", "someone", "anyone")
    mass = entry.synset.field in ("food", "substance", "feeling", "state", "attribute", "cognition")
    if counted and (not mass or entry.synset.field in ("food", "cognition")):
        drinks = re.match(
            r"(?i)an? (?:\w+ )?(?:beverage|drink|liquid|sauce|powder|oil|sugar)", text
        )
        return entry.word if drinks else with_article(entry.word)
    if entry.synset.field in _COUNTED and first not in _DETERMINERS:
        return with_article(entry.word)
    return entry.word


def _noun_sentence(entry: Entry, text: str) -> str:
    """Writes '<subject> is <definition>' with an article where the definition lacks one."""
    subject = noun_phrase(entry)
    first = text.split(" ")[0].lower()
    if _is_plural(entry):
        return f'the word "{entry.word}" means {text}'
    if first in _DETERMINERS:
        return f"{subject} is {text}"
    if entry.proper and entry.synset.instance:
        return f"{subject} {'was' if _is_dead(entry) else 'is'} {with_article(text)}"
    if entry.synset.field in _COUNTED and subject != entry.word:
        return f"{subject} is {with_article(text)}"
    if entry.synset.field == "substance":
        return f"{subject} is {with_article(text)}"
    if subject == entry.word and entry.synset.field in ("act", "state", "feeling"):
        return f"{subject} is {text}"
    return f'the word "{entry.word}" means {text}'


def _is_plural(entry: Entry) -> bool:
    """True for a common noun that looks like a plural ('scissors')."""
    word = entry.word
    return not entry.proper and word.endswith("s") and not word.endswith(("ss", "us", "is"))


def _is_dead(entry: Entry) -> bool:
    """True for a person whose gloss carries a year of death."""
    return entry.synset.field == "person" and bool(re.search(r"\d{3,4}\)", entry.synset.gloss))


def gloss_sentence(entry: Entry) -> str | None:
    """Returns one grammatical sentence that explains the word, or None when it cannot."""
    text = definition(entry)
    if text is None:
        return None
    if entry.synset.pos == "v":
        sentence = f"to {entry.word} means to {text}"
    elif entry.synset.pos == "a":
        sentence = f'the word "{entry.word}" means {text}'
    else:
        sentence = _noun_sentence(entry, text)
    return sentence[0].upper() + sentence[1:] + "."


def example_sentence(entry: Entry) -> str | None:
    """Returns a WordNet example that is a sentence of its own, capitalised and closed."""
    for text in entry.synset.examples:
        words = text.split()
        starts = words and words[0].lower() in _SUBJECTS
        clean = re.fullmatch(r"[A-Za-z0-9 ,.'!?-]+", text)
        if starts and clean and 5 <= len(words) <= 20 and entry.word in text:
            close = "" if text[-1] in ".!?" else "."
            return text[0].upper() + text[1:] + close
    return None
