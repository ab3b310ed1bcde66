"""What a drafter is to the round, and the one that proposes nothing."""

from typing import Protocol

from engine.draft.draft import Draft


class Drafter(Protocol):
    """Proposes the tokens after the newest committed one.

    Attributes:
        name: what its rounds go by, unless a draft names who proposed it.
    """

    name: str

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


class NoDrafter:
    """Plain decode: every round has one row."""

    name = "off"

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose nothing."""
        return Draft.chain(())
