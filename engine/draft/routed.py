"""The drafter behind ``auto`` where a round's rows are computed together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.draft.dflash import DflashRows, walk
from engine.draft.draft import Draft, Foreseen
from engine.draft.drafter import Drafter, Room
from engine.draft.lookup import LookupDrafter
from engine.draft.market import Proposal
from engine.draft.mtp import MtpRows
from engine.draft.prices import Prices
from engine.draft.router import Router


@dataclass(frozen=True, slots=True)
class Routing:
    """What routing needs that outlives conversations.

    Attributes:
        prices: of this machine, which its rounds correct.
        max_steps: most tokens that the MTP head may propose a round.
    """

    prices: Prices
    max_steps: int


class RoutedDrafter(Drafter):
    """Proposes what the router chooses; each draft names who proposed it.

    What a round taught counts from the next but one on: nothing that can be done while a round runs
    is done while a device waits for the next. So the last round of a turn teaches nothing.

    Args:
        router: of the turn.
        lookup: of the turn.
        mtp: rows of the checkpoint's head, where it has one.
        dflash: rows of the DFlash2 drafter, where one is loaded.
        num_prompt: tokens of the prompt.
        answer_ids: what the turn has committed, as it grows.
    """

    name = "off"

    def __init__(
        self,
        router: Router,
        lookup: LookupDrafter,
        mtp: MtpRows | None,
        dflash: DflashRows | None,
        num_prompt: int,
        answer_ids: Sequence[int],
    ) -> None:
        self._router = router
        self._lookup = lookup
        self._mtp = mtp
        self._dflash = dflash
        self.reads_rows = mtp is not None or dflash is not None
        self._num_prompt = num_prompt
        self._answer_ids = answer_ids
        # tokens that were there when something was said, as far as that was not learned from
        self._said_at: list[int] = []
        self._is_plain = False
        self._draft = Draft.chain(())

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:
        """Propose what pays best, which may be nothing."""
        self._said_at.append(num_generated)
        if not self._router.is_prepared:
            self._learn()
        endings = self._lookup.endings(num_tokens)
        context_tokens = self._num_prompt + num_generated - 1  # ``token_id`` is not read yet
        chosen = self._router.propose(
            endings, context_tokens, num_tokens, partial(self._run, token_id)
        )
        said = chosen.num_steps or chosen.with_block or chosen.token_ids
        self._is_plain = not said and self._router.expects_no_copy
        self._draft = self._drafted(chosen)
        return self._draft

    def goes_on_plainly(self, num_generated: int, num_tokens: int) -> bool:
        """Whether no drafter pays or is tried behind what is known; see ``Drafter``."""
        if not self._said_at or num_generated > self._said_at[-1]:
            self._said_at.append(num_generated)
            self._learn()
            self._draft = Draft.chain(())  # the round on its way is plain
            context_tokens = self._num_prompt + num_generated
            endings = self._lookup.endings(num_tokens + 1)
            self._is_plain = self._router.goes_on_plainly(endings, context_tokens, num_tokens)
        return self._is_plain

    def prepare(self, num_generated: int, room_behind: Room) -> Foreseen | None:
        """Learn, weigh what is known, and foresee that a copy goes on; see ``Drafter``."""
        self._learn()
        guess, endings = self._lookup.guess(self._draft, room_behind)
        num_tokens = room_behind(len(guess) or 1)
        if num_tokens < 1:
            return None
        context_tokens = self._num_prompt + num_generated
        chosen = self._router.prepare(context_tokens, num_tokens, endings)
        return Foreseen(guess, self._drafted(chosen)) if guess and chosen is not None else None

    def _learn(self) -> None:
        """Learn from the rounds whose tokens are known."""
        while len(self._said_at) > 1:
            self._router.learn(self._answer_ids[self._said_at[0] : self._said_at[1]])
            del self._said_at[0]

    def _drafted(self, chosen: Proposal) -> Draft:
        block_bytes = 0
        if chosen.with_block and self._dflash is not None:
            block_bytes = self._dflash.drafter.moved_bytes(self._dflash.num_read)
        return replace(
            Draft.tree(chosen.token_ids, chosen.parents),
            drafter=chosen.drafter,
            num_steps=chosen.num_steps,
            with_block=chosen.with_block,
            num_bytes=block_bytes,
        )

    def _run(self, token_id: int, drafter: str, num_tokens: int) -> list[int]:
        if drafter == "mtp" and self._mtp is not None:
            return self._mtp.draft(token_id, num_tokens)
        if drafter == "dflash2" and self._dflash is not None:
            return walk(self._dflash.propose(token_id), num_tokens)
        raise ValueError(f"the router asks for '{drafter}', which is not loaded")
