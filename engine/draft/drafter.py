"""What a drafter is to the round, and the one that proposes nothing."""

from collections.abc import Callable
from typing import Protocol

from engine.draft.draft import Draft, Foreseen

Room = Callable[[int], int]


class Drafter(Protocol):
    """Proposes the tokens after the newest committed one.

    Attributes:
        name: what its rounds go by, unless a draft names who proposed it.
        reads_rows: whether it proposes from rows that the target left of every committed token.
            Else they are handed on when the next round is on its way.
    """

    name: str
    reads_rows: bool = False

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:
        """Propose a chain or a tree.

        Args:
            token_id: the newest committed token, which the target has not read yet.
            num_generated: tokens committed in this turn, ``token_id`` among them.
            num_tokens: the most proposals that the round has room for, 1 or more; all tokens of
                a tree count.

        Returns:
            Up to ``num_tokens`` proposals for the positions after ``token_id``.
        """
        ...

    def goes_on_plainly(self, num_generated: int, num_tokens: int) -> bool:  # noqa: ARG002
        """Whether to propose nothing behind a plain round that is still on its way.

        Nobody knows yet what that round commits. To be asked again changes nothing.

        Args:
            num_generated: tokens committed in this turn.
            num_tokens: the most proposals that there is room for behind the next token, 1 or more.
        """
        return False

    def prepare(self, num_generated: int, room_behind: Room) -> Foreseen | None:  # noqa: ARG002
        """Do what can be done for the next proposal while a round is on its way.

        Args:
            num_generated: tokens committed in this turn, those of that round not among them.
            room_behind: (tokens that the round commits) -> the most proposals behind them.

        Returns:
            How that round may go, and what is then proposed behind it: `propose` is asked as ever,
            and says the same. None where nobody knows.
        """
        return None


class NoDrafter(Drafter):
    """Plain decode: every round has one row."""

    name = "off"

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose nothing."""
        return Draft.chain(())

    def goes_on_plainly(self, num_generated: int, num_tokens: int) -> bool:  # noqa: ARG002
        """Always."""
        return True
