"""What drafters said in a round, and what that was worth when its tokens are known. No tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.draft.candidates import Chain
from engine.draft.market import Market
from engine.draft.ngrams import Ending, num_common


@dataclass(frozen=True, slots=True)
class Said:
    """What the drafters said in a round, to be scored when its tokens are committed.

    Attributes:
        chains: of drafters with weights.
        endings: of lookup.
        tried: drafters that ran although they did not pay.
        market: its prices.
        draft_ms: of each drafter's chain.
    """

    chains: Sequence[Chain]
    endings: Sequence[Ending]
    tried: frozenset[str] = frozenset()
    market: Market | None = None
    draft_ms: Mapping[str, float] = field(default_factory=dict[str, float])


def worth_another_try(said: Said, right: Mapping[str, int], committed: Sequence[int]) -> list[str]:
    """Drafters that were tried and would have paid: more tokens a millisecond than without them.

    To have been right is not enough: rows, or the drafter itself, may cost more than they bring.

    Args:
        said: in the round.
        right: tokens of each chain that were.
        committed: by the round.
    """
    market = said.market
    if not said.tried or market is None:
        return []
    lengths = {one.drafter: len(one.token_ids) for one in said.chains}
    rates = {
        name: (1 + number) / market.ms(lengths[name], said.draft_ms[name])
        for name, number in right.items()
    }
    copied = max((num_common(one.continuation, committed) for one in said.endings), default=0)
    others = [rate for name, rate in rates.items() if name not in said.tried]
    best = max(1 / market.ms(0), (1 + copied) / market.ms(copied), *others)
    return [name for name in said.tried if rates[name] > best]
