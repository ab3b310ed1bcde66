"""In which format each layer's matrices are, told in as few words as they allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.model.checkpoint import match_checkpoint
from engine.model.config import ModelConfig
from engine.model.config_file import read_config
from engine.model.tensors import TensorSpec, expected_tensors
from engine.profile import WeightFormat

Stored = Callable[[str, TensorSpec], WeightFormat]
"""The format that a matrix is stored in, by canonical name."""


@dataclass(frozen=True, slots=True)
class LayerFormats:
    """Matrices of one name, or of one part where all of a layer agree.

    Attributes:
        matrices: "mlp", "attention.q", "head".
        runs: (format, first layer, last layer), each over the neighbours that have such matrices;
            both ends are None for what lies in no layer.
    """

    matrices: str
    runs: tuple[tuple[WeightFormat, int | None, int | None], ...]

    @property
    def sentence(self) -> str:
        """In words: ``mlp nvfp4 in layers 0 to 55, e4m3_row in layers 56 to 63``."""
        if len(self.runs) == 1:
            return f"{self.matrices} {self.runs[0][0]}"
        told = [f"{name} in {_layers(first, last)}" for name, first, last in self.runs]
        return f"{self.matrices} {', '.join(told)}"


def formats_by_layer(config: ModelConfig, stored: Stored) -> list[LayerFormats]:
    """Tell the formats of all matrices that a profile names a format for.

    Args:
        config: the model's numbers.
        stored: the format of each matrix.
    """
    parts: dict[str, dict[str, dict[int, WeightFormat]]] = {}
    found: list[LayerFormats] = []
    for name, spec in expected_tensors(config).items():
        if not spec.matrix or spec.part == "small":
            continue
        if name.startswith("layers."):
            layer, _, own = name.removeprefix("layers.").removesuffix(".weight").split(".")
            by_name = parts.setdefault(spec.part, {})
            by_name.setdefault(_short(own), {})[int(layer)] = stored(name, spec)
        elif spec.part == "head":
            found.append(LayerFormats("head", ((stored(name, spec), None, None),)))
    for part, by_name in reversed(parts.items()):
        found[:0] = _of_part(part, by_name)
    return found


def formats_of_folder(folder: Path) -> list[LayerFormats]:
    """Tell the formats of a checkpoint by its headers alone.

    Raises:
        CheckpointError: the files are refused.
    """
    config = read_config(folder)
    weights = match_checkpoint(folder, config).weights
    return formats_by_layer(config, lambda name, _: weights[name].format)


def _of_part(
    part: str, by_name: Mapping[str, Mapping[int, WeightFormat]]
) -> Sequence[LayerFormats]:
    first, *others = by_name.values()
    if all(one == first for one in others):
        return [LayerFormats(part, _runs(first))]
    return [LayerFormats(f"{part}.{own}", _runs(formats)) for own, formats in by_name.items()]


def _runs(formats: Mapping[int, WeightFormat]) -> tuple[tuple[WeightFormat, int, int], ...]:
    runs: list[tuple[WeightFormat, int, int]] = []
    for layer, name in formats.items():
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], layer)
        else:
            runs.append((name, layer, layer))
    return tuple(runs)


def _layers(first: int | None, last: int | None) -> str:
    return f"layer {first}" if first == last else f"layers {first} to {last}"


def _short(own: str) -> str:
    return own.removeprefix("in_proj_").removesuffix("_proj")
