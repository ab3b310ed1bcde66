"""End the thinking of an answer when it has taken the tokens that it may take."""

from dataclasses import dataclass

from engine.text.tokenizer import THINK_CLOSE, Tokenizer

CLOSING = f"\n{THINK_CLOSE}\n\n"
"""What ends thinking, as models that think write it and their templates repeat it."""


@dataclass(slots=True)
class ThinkingBudget:
    """Counts an answer's thinking and says which token must come next once it is spent.

    A forced token is a function of the tokens before it, as a chosen one is, so that it is the same
    however rounds are cut.

    Attributes:
        num_left: tokens of thinking that may still come.
        is_thinking: whether the next token is one of them.
        open_id: opens thinking.
        close_id: ends it.
        closing: what is forced; no token when the vocabulary cannot end thinking.
        num_forced: of ``closing``, how many came; None while nothing is forced.
    """

    num_left: int
    is_thinking: bool
    open_id: int | None
    close_id: int | None
    closing: tuple[int, ...]
    num_forced: int | None = None

    @staticmethod
    def of(tokenizer: Tokenizer, budget: int, *, is_thinking: bool) -> "ThinkingBudget":
        """The budget of an answer that is to begin.

        Args:
            tokenizer: of the checkpoint.
            budget: tokens of thinking.
            is_thinking: whether the prompt ends inside the thinking.
        """
        can_close = tokenizer.think_close_id is not None
        closing = tuple(tokenizer.encode(CLOSING, control=True)) if can_close else ()
        return ThinkingBudget(
            budget, is_thinking, tokenizer.think_open_id, tokenizer.think_close_id, closing
        )

    @property
    def forced(self) -> int | None:
        """The token that must come next; None leaves it to the model."""
        if self.num_forced is not None:
            return self.closing[self.num_forced]
        spent = self.is_thinking and self.num_left <= 0
        return self.closing[0] if spent and self.closing else None

    def note(self, token_id: int) -> None:
        """Count the next token of the answer."""
        if self.forced is not None:
            self.num_forced = (self.num_forced or 0) + 1
            if self.num_forced == len(self.closing):
                self.num_forced, self.is_thinking = None, False
        elif token_id in (self.open_id, self.close_id):
            self.is_thinking = token_id == self.open_id
        elif self.is_thinking:
            self.num_left -= 1
