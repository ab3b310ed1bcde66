"""Put together how tokens are drawn: the settings where they speak, else the checkpoint."""

from dataclasses import replace
from typing import TypeVar

from engine.settings.declared import SamplingSettings
from engine.types import Sampling

_T = TypeVar("_T")


def drawn_by(ours: SamplingSettings, theirs: Sampling) -> Sampling:
    """The filters and penalties of both; seed and bias are those of ``theirs``."""
    return replace(
        theirs,
        temperature=_either(ours.temperature, theirs.temperature),
        top_k=_either(ours.top_k, theirs.top_k),
        top_p=_either(ours.top_p, theirs.top_p),
        min_p=_either(ours.min_p, theirs.min_p),
        presence_penalty=_either(ours.presence_penalty, theirs.presence_penalty),
        repetition_penalty=_either(ours.repetition_penalty, theirs.repetition_penalty),
    )


def _either(first: _T | None, second: _T) -> _T:
    return second if first is None else first
