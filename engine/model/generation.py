"""How a checkpoint wants to be sampled and what ends its answers: generation_config.json."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError
from engine.model.config import ModelConfig
from engine.model.config_file import MAX_CONFIG_BYTES
from engine.model.strict_json import read_object
from engine.types import Sampling


@dataclass(frozen=True, slots=True)
class Generation:
    """Stop ids (of both config files together, in that order) and the sampling defaults."""

    stop_ids: tuple[int, ...]
    sampling: Sampling


def read_generation(folder: Path, config: ModelConfig) -> Generation:
    """Read ``generation_config.json``; a folder without one gets the config's ids and defaults.

    The chat models end a turn with an id that only this file names, so both lists count.

    Raises:
        CheckpointError: the file is broken, or a value is of a wrong type or out of range.
    """
    path = folder / "generation_config.json"
    if not path.exists():
        return Generation(config.eos_ids, Sampling())
    data = read_object(path, MAX_CONFIG_BYTES)
    raw = data.get("eos_token_id")
    ids = cast("list[Any]", raw) if isinstance(raw, list) else [] if raw is None else [raw]
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < config.vocab_size:
            raise CheckpointError(
                f"{path}: 'eos_token_id' names {str(one)[:80]!r}, expected ids below the "
                f"vocabulary's {config.vocab_size}.",
                "Download it again.",
            )
    plain = Sampling()
    sampling = Sampling(
        temperature=_number(path, data, "temperature", plain.temperature, 10.0),
        top_k=int(_number(path, data, "top_k", plain.top_k, 1e6)),
        top_p=_number(path, data, "top_p", plain.top_p, 1.0),
        min_p=_number(path, data, "min_p", plain.min_p, 1.0),
        repetition_penalty=_number(path, data, "repetition_penalty", 1.0, 10.0, 0.01),
    )
    if data.get("do_sample") is False:
        sampling = Sampling(temperature=0.0)
    return Generation(tuple(dict.fromkeys((*config.eos_ids, *ids))), sampling)


def _number(
    path: Path, data: dict[str, Any], name: str, default: float, high: float, low: float = 0.0
) -> float:
    value = data.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise CheckpointError(
            f"{path}: '{name}' is {str(value)[:80]!r}, expected a number from {low:g} to {high:g}.",
            "Download it again.",
        )
    return float(value)
