"""The words and questions kept out of training, and the committed list of 60 judged questions."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Never the subject of a training question: neither of the teacher's nor of the glosses'.
HELD_OUT = (
    "tiger",
    "honey",
    "umbrella",
    "desert",
    "candle",
    "guitar",
    "piano",
    "ladder",
    "whale",
    "castle",
    "hammer",
    "diamond",
    "carpet",
    "autumn",
    "sailor",
    "pencil",
    "rabbit",
    "lemon",
    "coffee",
    "bicycle",
    "dentist",
    "mirror",
    "blanket",
    "kitchen",
    "tornado",
    "earthquake",
    "library",
    "spider",
    "butter",
    "telescope",
    "violin",
    "penguin",
    "orchard",
    "courage",
    "jealousy",
    "whisper",
    "generous",
    "fragile",
    "borrow",
    "harvest",
)
_HELD = re.compile(rf"\b({'|'.join(HELD_OUT)})(?:s|es|ed|ing)?\b", re.IGNORECASE)

SEEN = (
    "hello",
    "who are you?",
    "thanks",
    "how are you?",
    "what can you do?",
    "tell me a joke",
    "good night",
    "are you a robot?",
    "what is a glacier?",
    "what is a volcano?",
    "what is a lake?",
    "What is a tree?",
    "what is freedom?",
    "what is gravity?",
    "what is the sun?",
    "what is bread?",
    "what does happy mean?",
    "what does to run mean?",
    "why is the sky blue?",
    "why do we sleep?",
    "how do I make tea?",
    "how do plants grow?",
    "how can I sleep better?",
    "Why do leaves fall from trees?",
    "what is the moon?",
    "What is the difference between a lake and a river?",
    "tell me about dogs",
    "what is a computer?",
    "tell me a story",
    "why is water important?",
)
UNSEEN = (
    "what is a tiger?",
    "What is honey?",
    "what is an umbrella?",
    "what is a desert?",
    "what is a candle",
    "tell me about whales",
    "What is a castle?",
    "what is a hammer used for?",
    "what is a diamond?",
    "how do I clean a carpet?",
    "what is autumn?",
    "what does a sailor do?",
    "What is the difference between a piano and a guitar?",
    "how do I make coffee?",
    "why do rabbits have long ears?",
    "what does a dentist do?",
    "how does a mirror work?",
    "what is a tornado?",
    "Why do earthquakes happen?",
    "what is a library?",
    "tell me about spiders",
    "how does a telescope work?",
    "what does generous mean?",
    "what does fragile mean?",
    "what does to borrow mean?",
    "what is courage?",
    "explain jealousy",
    "how do I ride a bicycle?",
    "give me a sentence with the word whisper",
    "what is the difference between butter and honey?",
)


def held_out(question: str) -> bool:
    """True when a question names a held-out word in any common form."""
    return bool(_HELD.search(question))


def write_questions(path: Path) -> None:
    """Writes the 60 questions as JSON: a list of {"question", "seen"}."""
    rows = [{"question": q, "seen": True} for q in SEEN]
    rows += [{"question": q, "seen": False} for q in UNSEEN]
    path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
