"""What a turn runs on, and what it reads."""

from dataclasses import dataclass

from engine.draft.dflash import DflashSource
from engine.draft.routed import Routing
from engine.model.decoder import Model
from engine.records import RangeRecord
from engine.text.tokenizer import Tokenizer
from engine.turn.traffic import Traffic
from engine.turn.verify import Verifier


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts that outlive a turn.

    Attributes:
        model: the weights.
        tokenizer: of the checkpoint.
        verifier: computes a round's rows.
        traffic: counts their bytes.
        stop_ids: end a turn.
        max_context_tokens: positions that a conversation may have.
        num_threads: CPU threads of its products.
        routing: what routes the rounds of the drafter ``auto``; None where nothing does.
        dflash: the DFlash2 drafter of the model, where one is loaded.
    """

    model: Model
    tokenizer: Tokenizer
    verifier: Verifier
    traffic: Traffic
    stop_ids: frozenset[int]
    max_context_tokens: int
    num_threads: int
    routing: Routing | None = None
    dflash: DflashSource | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a turn reads before it answers.

    Attributes:
        ids: the whole prompt.
        recorded: how its first positions were computed once, to be computed so again.
        num_reread: tokens that had been read before and must be read again.
    """

    ids: tuple[int, ...]
    recorded: tuple[RangeRecord, ...] = ()
    num_reread: int = 0
