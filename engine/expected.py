"""What a profile would do on this machine, before it is opened: speed, memory, where it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.compute_path import ComputePath, choose_compute_path
from engine.draft.price_table import PriceTable
from engine.fit import Need, held_formats, need_of, widened_bytes
from engine.machine.device import choose_device
from engine.machine.free_memory import available_bytes
from engine.machine.measure import read_bandwidth
from engine.model import footprint
from engine.model.config import SHAPE_27B, ModelConfig
from engine.profile import Profile, kv_format_set
from engine.settings.declared import Settings
from engine.tune.user_prices import FoundPrices, Served, find_prices
from engine.types import KvFormat

EARLY_TOKENS = 1024
"""Positions before the round whose speed is told: the beginning of a conversation."""

State = Literal["ready", "too large", "missing", "refused"]
"""``ready`` opens; ``too large`` is here without room; ``refused`` is here and does not read."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A profile's need against what this machine has, and its speed without drafts.

    Attributes:
        need: memory, and where the files lie.
        state: whether it would open.
        free_bytes: what it was compared with.
        read_gb_s: read bandwidth of this machine; 0 where none was measured.
        early_bytes: what a round of one row reads and writes, as weights are held here, with
            ``early_tokens`` positions before it.
        early_tokens: those positions: ``EARLY_TOKENS``, or all that a shorter conversation has.
        most_tok_s: rounds a second of one token when nothing but these bytes takes time; 0 where
            no bandwidth was measured.
        timed_tok_s: the same from rounds that were timed; None where nobody timed such a model on
            such a GPU.
        source: GPU, date and command of the timing; empty without one.
        notice: why a table that this machine measured does not serve; empty otherwise.
    """

    need: Need
    state: State
    free_bytes: int
    read_gb_s: float
    early_bytes: int
    early_tokens: int
    most_tok_s: float
    timed_tok_s: float | None = None
    source: str = ""
    notice: str = ""

    @property
    def fits(self) -> bool:
        """Whether everything has room at once, files here or not."""
        return self.need.total_bytes <= self.free_bytes


def expect(
    profile: Profile,
    context_tokens: int,
    path: ComputePath,
    *,
    read_gb_s: float,
    free_bytes: int,
    kv: KvFormat | None = None,
    data_dir: Path | None = None,
) -> Expected:
    """Compare a profile with a machine; nothing is loaded and nothing is measured here.

    Args:
        profile: its formats count, and the sizes of its checkpoint where it is here.
        context_tokens: longest conversation that memory is counted for.
        path: what computes, of ``choose_compute_path``.
        read_gb_s: of ``engine.machine.measure.read_bandwidth``; 0 where none was measured.
        free_bytes: of ``engine.machine.free_memory.available_bytes``; whoever would unload another
            model first adds what that holds.
        kv: format of keys and values; None takes what the profile and the settings say.
        data_dir: where prices that this machine measured are looked for; None looks for none.
    """
    need = need_of(profile, context_tokens, packed=path.is_packed, kv=kv)
    formats = held_formats(profile, packed=path.is_packed)
    weights = footprint.weight_bytes(need.config, formats, packed=path.is_packed)
    tokens = min(EARLY_TOKENS, need.context_tokens)
    moved = sum(footprint.moved_bytes(need.config, weights, tokens, kv=need.kv_format).values())
    moved += widened_bytes(need.config, formats, packed=path.is_packed)
    most = read_gb_s * 1e9 / moved
    served = Served.of(need.config, profile.formats, path.capability, need.kv_format)
    found = find_prices(served, data_dir)
    timed = _timed(found, profile, need.config)
    return Expected(
        need=need,
        state=_state(need, free_bytes),
        free_bytes=free_bytes,
        read_gb_s=read_gb_s,
        early_bytes=moved,
        early_tokens=tokens,
        most_tok_s=most,
        # a slower GPU of the same family reaches its own limit, not the timed one's
        timed_tok_s=min(1000 / timed.verify(1, tokens), most) if timed and most else None,
        source=timed.source if timed else "",
        notice="" if found.is_own else found.notice,
    )


def expect_here(settings: Settings, profiles: Iterable[Profile]) -> list[Expected]:
    """Measure this machine's read bandwidth once (below a second) and compare each profile.

    Args:
        settings: device, kernels and context are read.
        profiles: in the order of the result.

    Raises:
        SettingsError: the device is not there, or does not run the kernels that are asked for.
    """
    device = choose_device(settings.model.device)
    path = choose_compute_path(settings, device)
    read_gb_s, free_bytes = read_bandwidth(device).gb_s, available_bytes(device)
    return [
        expect(
            one,
            settings.model.context_tokens,
            path,
            read_gb_s=read_gb_s,
            free_bytes=free_bytes,
            kv=kv_format_set(settings),
            data_dir=settings.data_dir,
        )
        for one in profiles
    ]


def _state(need: Need, free_bytes: int) -> State:
    if need.problem:
        return "refused"
    if need.path is None:
        return "missing"
    return "ready" if need.total_bytes <= free_bytes else "too large"


def _timed(found: FoundPrices, profile: Profile, config: ModelConfig) -> PriceTable | None:
    """The table that tells a time: this machine's own, or a timed one of the very model."""
    formats = profile.formats
    is_of_one_kind = formats.mlp == formats.attention == formats.delta
    if found.table is None or not found.table.is_measured:
        return None
    return found.table if found.is_own or (_is_27b(config) and is_of_one_kind) else None


def _is_27b(config: ModelConfig) -> bool:
    return footprint.count_parameters(config) == footprint.count_parameters(SHAPE_27B)
