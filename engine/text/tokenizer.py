"""Turn text into ids and back with the checkpoint's own ``tokenizer.json``.

What a person types never becomes a control token. Foreign text is *guarded*: ``GUARD``, a code
point that Unicode keeps out of all text, follows every character that could open a control token,
so that no control token can be read out of it, whatever a template does around it.
``encode_guarded`` then finds the control tokens that are left, which are the template's, and
encodes the text between them, guards removed, with a second tokenizer that knows no added token.
Text that spells no control token gets the ids that it gets everywhere else.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import tokenizers

from engine.errors import CheckpointError
from engine.model.plain_file import read_bounded

GUARD = "\ufdd0"
"""A Unicode noncharacter; where foreign text holds it, it is replaced by U+FFFD."""

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
MAX_TOKENIZER_BYTES = 128 << 20
"""The tokenizer of the 27B has 13 MB."""

NEUTRAL: dict[str, Any] = {"post_processor": None, "padding": None, "truncation": None}
"""What would add ids to a text or take some away."""

MEND = "Download the checkpoint's tokenizer files again."


class Tokenizer:
    """The text side of a checkpoint.

    Attributes:
        num_ids: one more than the highest id that stands for anything. Rows of the embedding
            from here on are padding and are never sampled.
        control_ids: ids of the added tokens, by their spelling. None of them is ever shown.
        think_open_id: opens the thinking channel; None when the vocabulary has no such token.
        think_close_id: closes it.

    Raises:
        CheckpointError: the vocabulary is empty or not byte-level, or an added token cannot be told
            from text.
    """

    def __init__(self, definition: dict[str, Any], origin: Path) -> None:
        self._origin = origin
        added = cast("list[dict[str, Any]]", definition.get("added_tokens") or [])
        self._library = _build({**definition, **NEUTRAL}, origin)
        self._plain = _build({**definition, **NEUTRAL, "added_tokens": []}, origin)
        self.control_ids = {str(one["content"]): int(one["id"]) for one in added}
        self.think_open_id = self.control_ids.get(THINK_OPEN)
        self.think_close_id = self.control_ids.get(THINK_CLOSE)
        pieces = self._library.get_vocab(with_added_tokens=True)
        if not pieces:
            raise CheckpointError(f"{origin} has an empty vocabulary.", MEND)
        self.num_ids = 1 + max(pieces.values())
        self._check(definition, added)
        # a character of a piece is a byte, a control token is spelled out
        self._longest_bytes = max(
            len(one.encode()) if one in self.control_ids else len(one) for one in pieces
        )
        self._controls = re.compile(_alternatives(self.control_ids))
        self._openings = re.compile(_alternatives({one[0] for one in self.control_ids}))

    @classmethod
    def load(cls, folder: Path, vocab_size: int) -> "Tokenizer":
        """Read the tokenizer of a checkpoint.

        Args:
            folder: holds ``tokenizer.json``.
            vocab_size: rows of the model's embedding.

        Raises:
            CheckpointError: the file is missing or broken, is no byte-level tokenizer, needs what
                we do not do (stripping added tokens), or has more ids than the model has rows.
        """
        path = folder / "tokenizer.json"
        try:
            definition = json.loads(read_bounded(path, MAX_TOKENIZER_BYTES))
        except FileNotFoundError:
            raise CheckpointError(f"{folder} holds no tokenizer.json.", MEND) from None
        except (OSError, ValueError, RecursionError) as problem:
            raise CheckpointError(f"{path} does not read: {problem}.", MEND) from None
        if not isinstance(definition, dict):
            raise CheckpointError(f"{path} holds no JSON object.", MEND)
        tokenizer = cls(cast("dict[str, Any]", definition), path)
        if tokenizer.num_ids > vocab_size:
            raise CheckpointError(
                f"{path} has ids up to {tokenizer.num_ids - 1}, "
                f"but the model has {vocab_size} rows.",
                "Use the tokenizer that came with the model.",
            )
        return tokenizer

    def guard(self, text: str) -> str:
        """Make foreign text safe to put into a rendering.

        Lone surrogates and ``GUARD`` itself become U+FFFD; nothing else is lost.
        """
        sound = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        sound = sound.replace(GUARD, "\ufffd")
        return self._openings.sub(lambda found: found[0] + GUARD, sound)

    def encode_guarded(self, rendering: str) -> list[int]:
        """Ids of a rendering in which all foreign text is guarded."""
        ids: list[int] = []
        end = 0
        for control in self._controls.finditer(rendering):
            ids += self._encode_plain(rendering[end : control.start()])
            ids.append(self.control_ids[control[0]])
            end = control.end()
        return ids + self._encode_plain(rendering[end:])

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Ids of text; only with ``control`` are spelled-out control tokens read as such."""
        return self.encode_guarded(text if control else self.guard(text))

    def fewest_ids(self, rendering: str) -> int:
        """At least so many ids a guarded rendering has, without encoding it.

        No id stands for more bytes than the longest piece. The text is counted as NFC leaves it,
        which Qwen's tokenizers do to it first.
        """
        text = unicodedata.normalize("NFC", rendering.replace(GUARD, ""))
        return -(-len(text.encode()) // self._longest_bytes)

    def has(self, token_id: int) -> bool:
        """Whether the id stands for anything."""
        return self._library.id_to_token(token_id) is not None

    def decode(self, ids: Sequence[int], *, control: bool = False) -> str:
        """Text of ids; control tokens are spelled out with ``control``, else left out.

        Bytes that are not UTF-8 become U+FFFD.
        """
        kept = [one for one in ids if control or one not in self._control_values]
        return b"".join(self.bytes_of(one) for one in kept).decode("utf-8", "replace")

    def decode_guarded(self, ids: Sequence[int]) -> str:
        """The rendering whose ids these are: control tokens spelled out, the rest guarded."""
        parts: list[str] = []
        run: list[int] = []
        for one in ids:
            if one in self._control_values:
                parts += [self.guard(self.decode(run)), self._control_values[one]]
                run = []
            else:
                run.append(one)
        return "".join(parts) + self.guard(self.decode(run))

    def bytes_of(self, token_id: int) -> bytes:
        """Bytes that an id stands for; none for an id that stands for nothing."""
        if token_id in self._control_values:
            return self._control_values[token_id].encode()
        piece = self._library.id_to_token(token_id)
        return b"" if piece is None else bytes(_BYTE_OF_CHARACTER[one] for one in piece)

    def is_control(self, token_id: int) -> bool:
        """Whether the id is an added token, which is never shown."""
        return token_id in self._control_values

    def starts_thinking(self, ids: Sequence[int]) -> bool:
        """Whether the model that reads ``ids`` goes on inside its thinking."""
        for one in reversed(ids):
            if one == self.think_open_id:
                return True
            if one == self.think_close_id:
                return False
        return False

    @cached_property
    def _control_values(self) -> dict[int, str]:
        return {one: content for content, one in self.control_ids.items()}

    def _encode_plain(self, text: str) -> list[int]:
        if not text:
            return []
        try:
            return self._plain.encode(text.replace(GUARD, ""), add_special_tokens=False).ids
        except BaseException as problem:
            if type(problem).__name__ != "PanicException":  # of the library, by no other name
                raise
            raise CheckpointError(
                f"{self._origin} cannot read this text: {problem}.",
                "Use the tokenizer that came with the model.",
            ) from None

    def _check(self, definition: dict[str, Any], added: list[dict[str, Any]]) -> None:
        """Refuse what would be decoded or guarded wrongly."""
        decoder = cast("dict[str, Any]", definition.get("decoder") or {})
        if decoder.get("type") != "ByteLevel":
            raise CheckpointError(
                f"{self._origin} has the decoder {decoder.get('type')}, expected ByteLevel.",
                "Only byte-level tokenizers, as Qwen's, are read.",
            )
        normalizer = cast("dict[str, Any]", definition.get("normalizer") or {"type": "NFC"})
        if normalizer.get("type") != "NFC":
            raise CheckpointError(
                f"{self._origin} has the normalizer {normalizer.get('type')}, expected NFC.",
                "It would change what a person writes; use the tokenizer that came with the model.",
            )
        pieces = self._plain.get_vocab(with_added_tokens=False).keys() - self.control_ids.keys()
        strange = set("".join(pieces)) - _BYTE_OF_CHARACTER.keys()
        if strange:
            raise CheckpointError(
                f"{self._origin}: the vocabulary holds {min(strange)!r}, which is no byte.", MEND
            )
        for one in added:
            content = str(one["content"])
            strips = one.get("lstrip") or one.get("rstrip") or one.get("single_word")
            read_as = self._library.token_to_id(content)
            if read_as != int(one["id"]):
                raise CheckpointError(
                    f"{self._origin} gives the added token {content[:80]!r} the id {one['id']}, "
                    f"where its vocabulary has {read_as}.",
                    MEND,
                )
            if strips or len(content) < 2 or int(one["id"]) in self._encode_plain(content):
                raise CheckpointError(
                    f"{self._origin}: the added token {content!r} cannot be told from text.",
                    "Use the tokenizer that came with the model.",
                )


def _build(definition: dict[str, Any], origin: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(definition))
    except Exception as problem:  # noqa: BLE001  (the library raises bare Exception)
        raise CheckpointError(f"{origin} is no tokenizer: {problem}.", MEND) from None


def _alternatives(words: "set[str] | dict[str, int]") -> str:
    """A pattern of any of ``words``, longest first; without words, one that matches nothing."""
    longest_first = sorted(words, key=lambda one: (-len(one), one))
    return "|".join(re.escape(one) for one in longest_first) or r"(?!)"


def _byte_level_alphabet() -> dict[str, int]:
    """The byte behind each character of a byte-level vocabulary.

    Printable Latin-1 stands for itself, the other bytes in order for U+0100 and up.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    moved = {chr(0x100 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | moved


_BYTE_OF_CHARACTER = _byte_level_alphabet()
