"""What a drafter is to the round, and the one that proposes nothing."""

from typing import Protocol


class Drafter(Protocol):
    """Proposes the tokens after the newest committed one.

    Attributes:
        name: as in ``engine.types.DRAFTERS``.
        uses_mtp: whether a proposal costs a pass through the checkpoint's MTP head.
    """

    name: str
    uses_mtp: bool

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Propose a chain.

        Args:
            token_id: the newest committed token, which the target has not read yet.
            num_generated: tokens committed in this turn, ``token_id`` among them.
            num_tokens: the most proposals that the round can use, 1 or more.

        Returns:
            Up to ``num_tokens`` ids, the first proposed for the position after ``token_id``.
        """
        ...


class NoDrafter:
    """Plain decode: every round has one row."""

    name = "off"
    uses_mtp = False

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:  # noqa: ARG002
        """Propose nothing."""
        return []
