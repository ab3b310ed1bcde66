"""The text whose rows decide what an error of each weight costs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from engine.errors import RequestError
from engine.profile import profile_folder
from engine.text.own_text import read_own_text
from engine.text.tokenizer import Tokenizer

SHIPPED = "calibration.txt"
"""Beside the profiles: exchanges in the chat's own form, this program's documents, and its code."""

MAX_TEXT_BYTES = 64 << 20
FEWEST_TOKENS = 256
"""Of a text; fewer say nothing about thousands of inputs."""

LEAST_SEQUENCE = 32
"""Tokens of a last sequence that is still taken."""

GIVE = "Give a text file in UTF-8 with --calibration, or leave it out to use the text that ships."


@dataclass(frozen=True, slots=True)
class Calibration:
    """Token sequences, each read from an empty state; ``name`` and ``sha256`` are of the text."""

    name: str
    sha256: str
    sequences: tuple[tuple[int, ...], ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(one) for one in self.sequences)


def read_calibration(
    path: Path | None, tokenizer: Tokenizer, *, max_tokens: int, sequence_tokens: int
) -> Calibration:
    """Read a text and cut it into sequences.

    Args:
        path: UTF-8 text; control tokens that it spells out are read as such. None takes the text
            that ships.
        tokenizer: of the model.
        max_tokens: the most that are used. Of a longer text sequences are taken from all over it.
        sequence_tokens: of one sequence.

    Raises:
        RequestError: the file does not read, is no text, or is too long or too short.
    """
    source = path or profile_folder() / SHIPPED
    text = read_own_text(source, MAX_TEXT_BYTES, GIVE)
    ids = tokenizer.encode(text, control=True)
    if len(ids) < FEWEST_TOKENS:
        raise RequestError(
            f"{source} has {len(ids)} tokens, expected {FEWEST_TOKENS} at least.", GIVE
        )
    cut = [tuple(ids[at : at + sequence_tokens]) for at in range(0, len(ids), sequence_tokens)]
    if len(cut) > 1 and len(cut[-1]) < LEAST_SEQUENCE:
        cut.pop()
    num = max(1, min(len(cut), max_tokens // sequence_tokens))
    chosen = tuple(cut[index * len(cut) // num] for index in range(num))
    return Calibration(source.name, hashlib.sha256(text.encode()).hexdigest(), chosen)
