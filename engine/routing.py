"""What routes a model's rounds: prices, and whether its drafters are weighed at all."""

from dataclasses import replace

from engine.compute_path import ComputePath
from engine.draft.dflash import DflashSource
from engine.draft.price_table import PriceTable
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.machine.measure import read_bandwidth
from engine.profile import Profile
from engine.settings.declared import DraftSettings


def routing_of(
    draft: DraftSettings,
    path: ComputePath,
    profile: Profile,
    table: PriceTable | None,
    dflash: DflashSource | None = None,
) -> Routing | None:
    """What routes the drafter ``auto``: where rows are computed together, at prices we know.

    On a CPU every row costs a step, and a choice between drafters has little to win.

    Args:
        draft: whether rounds shall be routed.
        path: how the model runs.
        profile: bounds the steps of the MTP head.
        table: of what rounds cost here.
        dflash: a drafter whose blocks are weighed too.
    """
    if path.launching is None or not draft.router or table is None:
        return None
    if dflash is not None:
        table = with_block(table, dflash, read_bandwidth(dflash.taps.buffer.device.type).gb_s)
    return Routing(Prices(table), profile.drafting.max_tokens)


def with_block(table: PriceTable, dflash: DflashSource, read_gb_s: float) -> PriceTable:
    """A table with the price of a block: by its bytes, until rounds have shown it.

    Args:
        table: without one.
        dflash: the drafter whose blocks they are.
        read_gb_s: read bandwidth of the device.
    """
    moved = dflash.drafter.moved_bytes(table.context_tokens[0])
    why = f"block_ms: {moved / 1e9:.2f} GB over {read_gb_s:,.0f} GB/s"
    return replace(table, block_ms=moved / read_gb_s / 1e6, estimated=(*table.estimated, why))
