"""A conversation as the model has read it: rendered text and the ids that stand for it.

History is never tokenised again: the ids that were read or generated stay as they were, and only
what the template adds behind them is tokenised. Byte-level pieces are not unique, so tokenising an
answer's text again may give other ids than were generated, and the state that is held for them
would be lost.
"""

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import RequestError
from engine.text.template import ChatTemplate, Thinking
from engine.text.tokenizer import THINK_CLOSE, THINK_OPEN, Tokenizer
from engine.types import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt (guarded text) and its ids.

    ``num_seams`` counts the seams of the transcript that it was built on.
    """

    text: str
    ids: tuple[int, ...]
    num_seams: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    """The text and ids of a conversation, and its seams.

    A seam is a length of the text and one of the ids that belong together: the end of a prompt or
    of an answer, in order.
    """

    text: str = ""
    ids: tuple[int, ...] = ()
    seams: tuple[tuple[int, int], ...] = ()


class Transcript:
    """Holds one conversation up to the last answer; also serves a prompt that branches off.

    Args:
        tokenizer: of the checkpoint.
        template: of the checkpoint.
        max_context_tokens: a prompt that cannot be shorter is refused before it is tokenised.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, max_context_tokens: int
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._max_context_tokens = max_context_tokens
        self._held = _Held()

    def prompt(self, messages: Sequence[Message], thinking: Thinking) -> Prompt:
        """Render the next prompt and tokenise what lies behind the last seam that it reaches.

        An answer as the last message is unfinished: the prompt ends with what it says, so that the
        model goes on behind it. What is held changes with ``answered`` only.

        Raises:
            TemplateError: the template refuses the conversation.
            RequestError: a role or the effort is unknown, or the prompt cannot fit.
        """
        text = self._text_of(messages, thinking)
        held = self._held
        num_seams, num_characters, num_ids = len(held.seams), 0, 0
        while num_seams:
            num_characters, num_ids = held.seams[num_seams - 1]
            if text.startswith(held.text[:num_characters]):
                break
            num_seams -= 1
            num_characters = num_ids = 0
        fewest = num_ids + self._tokenizer.fewest_ids(text[num_characters:])
        if fewest >= self._max_context_tokens:
            raise RequestError(
                f"The prompt has at least {fewest:,} tokens and the context "
                f"{self._max_context_tokens:,}.",
                "Shorten the prompt, or begin a new conversation.",
            )
        added = self._tokenizer.encode_guarded(text[num_characters:])
        return Prompt(text, (*held.ids[:num_ids], *added), num_seams)

    def _text_of(self, messages: Sequence[Message], thinking: Thinking) -> str:
        if not messages or messages[-1].role != "assistant":
            return self._template.render(messages, thinking, prompt=True)
        *before, answer = messages
        opening = self._template.render(before, thinking, prompt=True)
        written = opening + self._begun(answer, opening)
        held = self._held.text
        # white space between thinking and answer is the model's, and no message keeps it
        said = (_signs_of(written), _signs_of(written + THINK_CLOSE))
        return held if held.startswith(opening) and _signs_of(held) in said else written

    def _begun(self, answer: Message, opening: str) -> str:
        """What an unfinished answer says so far, behind the opening of its turn."""
        reasoning, content = map(self._tokenizer.guard, (answer.reasoning, answer.content))
        if opening.rfind(THINK_OPEN) <= opening.rfind(THINK_CLOSE):
            return content
        return f"{reasoning}\n{THINK_CLOSE}\n\n{content}" if content else reasoning

    def recall(
        self,
        prompt_ids: Sequence[int],
        token_ids: Sequence[int],
        render: Callable[[], tuple[str, str]],
    ) -> None:
        """Hold a conversation that was read by an earlier process, or on another branch.

        Nothing changes when it is held already.

        Args:
            prompt_ids: what was read.
            token_ids: what was generated.
            render: gives the prompt as the template writes it now, behind which the answer
                begins, and what ``answered`` takes as ``rendered``.
        """
        ids = (*prompt_ids, *token_ids)
        if self._held.ids[: len(ids)] == ids:
            return
        prompt, rendered = render()
        text = _as_written(self._tokenizer.decode_guarded(prompt_ids), prompt, rendered)
        self.answered(Prompt(text, tuple(prompt_ids)), token_ids, rendered)

    def answered(self, prompt: Prompt, token_ids: Sequence[int], rendered: str) -> None:
        """Hold a prompt with its answer.

        The ids stand for their own text, or, where the template writes the same answer with other
        white space (it trims), for the template's writing of it.

        Args:
            prompt: what was read.
            token_ids: what was generated, a stop token included.
            rendered: the conversation with the answer as its last message, as the template
                renders it; empty when it does not.
        """
        written = prompt.text + self._tokenizer.decode_guarded(token_ids)
        text = _as_rendered(written, rendered, prompt.text)
        ids = (*prompt.ids, *token_ids)
        seams = self._held.seams[: prompt.num_seams]
        ends = ((len(prompt.text), len(prompt.ids)), (len(text), len(ids)))
        self._held = _Held(text, ids, (*seams, *ends))


def _signs_of(text: str) -> str:
    """What a text says apart from white space, which templates trim, in the tokenizers' form."""
    return unicodedata.normalize("NFC", "".join(text.split()))


def _as_written(own: str, prompt: str, rendered: str) -> str:
    """What was read, in the template's writing; ``own``, the text of its ids, if it says otherwise.

    Behind ``prompt`` stands what its answer had said, when that went on from there.
    """
    said = _signs_of(prompt)
    end = bisect_left(range(len(own)), len(said), key=lambda size: len(_signs_of(own[:size])))
    if _signs_of(own[:end]) != said:
        return own
    begun = own[end:]
    return _as_rendered(prompt + begun, rendered, prompt) if begun.strip() else prompt


def _as_rendered(written: str, rendered: str, prompt: str) -> str:
    """The beginning of ``rendered`` that says what ``written`` says, or ``written`` itself.

    They may differ in white space only, behind ``prompt``.
    """
    if rendered.startswith(written) or not rendered.startswith(prompt):
        return written
    at = len(prompt)
    for sign in "".join(written[len(prompt) :].split()):
        while at < len(rendered) and rendered[at].isspace():
            at += 1
        if at == len(rendered) or rendered[at] != sign:
            return written
        at += 1
    return rendered[:at]
