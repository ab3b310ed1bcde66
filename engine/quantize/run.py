"""From a release to a folder of NVFP4 weights: part by part, and on from where a run was stopped.

The calibration's rows stay on the device while one layer's weights come and go. A run that goes on
sends the rows through the layers that are done, which takes a fraction of making them and gives the
same bits; so no rows are kept on disk.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from engine.errors import CheckpointError
from engine.model.config import LayerKind
from engine.model.layouts import StoredWeight
from engine.model.matrix import E4m3Row, Nvfp4
from engine.model.rope import RopeTable
from engine.quantize.finish import finish
from engine.quantize.folder import Folder, open_folder
from engine.quantize.head import quantise_rows
from engine.quantize.layer import Rows, pass_layer, quantise_layer
from engine.quantize.manifest import Manifest
from engine.quantize.methods import Loss, widened
from engine.quantize.prepare import Prepared, recipe_of
from engine.quantize.rows import embedded, joined_for_mtp
from engine.quantize.source import (
    EMBEDDING,
    HEAD,
    MTP,
    from_disk,
    on_disk,
    part_names,
    part_of,
    read_part,
)

Tensors = dict[str, torch.Tensor]
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class PartEnded:
    """A part is on disk.

    Attributes:
        name: of the part.
        num_done: parts on disk.
        num_parts: of the whole.
        losses: of its matrices, by canonical name.
        seconds: that it took.
        seconds_left: expected for the parts to come; None before the first layer is made.
        was_there: an earlier run made it.
        peak_bytes: most that the GPU held so far; 0 on a CPU.
    """

    name: str
    num_done: int
    num_parts: int
    losses: dict[str, Loss]
    seconds: float
    seconds_left: float | None
    was_there: bool
    peak_bytes: int


def quantize(prepared: Prepared, on_part: Callable[[PartEnded], None]) -> Manifest:
    """Make the result, or the parts of it that are missing.

    Args:
        prepared: of ``prepare.prepare``.
        on_part: called when a part is on disk.

    Returns:
        The finished manifest.

    Raises:
        CheckpointError: the source does not read, or holds weights that are no numbers.
        RequestError: the folder was begun by another recipe, or another run is at work in it.
        OutputError: the disk refuses; finished parts are kept.
    """
    with open_folder(prepared.out, recipe_of(prepared)) as folder:
        _Run(prepared, folder, on_part).make_all()
        finish(prepared.checkpoint.folder, folder)
        return folder.manifest


class _Run:
    def __init__(
        self, prepared: Prepared, folder: Folder, on_part: Callable[[PartEnded], None]
    ) -> None:
        self._checkpoint = prepared.checkpoint
        self._config = prepared.checkpoint.config
        self._method = prepared.options.method
        self._device = torch.device(prepared.options.device)
        self._calibration = prepared.calibration
        self._folder = folder
        self._on_part = on_part
        self._rope = RopeTable(self._config, self._device)
        self._rows: Rows = []

    def make_all(self) -> None:
        """Make every part that is not there, in order."""
        names = part_names(self._checkpoint)
        there = {name for name in names if self._folder.has(name)}
        missing = [name for name in names if name not in there]
        pace = _Pace(self._checkpoint.weights)
        for index, name in enumerate(names):
            start = time.perf_counter()
            if name not in there:
                missing.remove(name)
                self._make(name, start)
                pace.count(name, time.perf_counter() - start)
            elif missing:
                self._pass(name)
            part = self._folder.manifest.parts[name]
            seconds = time.perf_counter() - start
            told = (dict(part.matrices), seconds, pace.seconds_for(missing), name in there)
            peak = torch.cuda.max_memory_allocated() if self._device.type == "cuda" else 0
            self._on_part(PartEnded(name, index + 1, len(names), *told, peak))

    def _make(self, name: str, start: float) -> None:
        tensors = read_part(self._checkpoint, name, CPU if name == EMBEDDING else self._device)
        made: dict[str, torch.Tensor | Nvfp4 | E4m3Row] = {**tensors}
        losses: dict[str, Loss] = {}
        if name == EMBEDDING:
            self._embed(tensors)
        elif name == HEAD:
            ((head, weight),) = tensors.items()
            made[head], lost = quantise_rows(weight)
            losses[head] = Loss(lost, None)
        else:
            self._enter(name, tensors)
            found = quantise_layer(
                self._config, *_place(name, self._config.layer_kinds), tensors, self._rows,
                method=self._method, rope=self._rope,
            )  # fmt: skip
            for one, (matrix, loss) in found.items():
                made[one], losses[one] = matrix, loss
        self._expect_numbers(losses)
        self._folder.save(name, on_disk(made), losses, time.perf_counter() - start)

    def _pass(self, name: str) -> None:
        """Send the rows through a part that an earlier run made."""
        if self._calibration is None or name == HEAD:
            return
        if name == EMBEDDING:
            self._embed(read_part(self._checkpoint, name, CPU))
            return
        stored = {key: one.to(self._device) for key, one in self._folder.load(name).items()}
        tensors = {
            key: widened(one) if isinstance(one, Nvfp4) else one
            for key, one in from_disk(stored).items()
        }
        place = _place(name, self._config.layer_kinds)
        pass_layer(self._config, *place, tensors, self._rows, self._rope)

    def _embed(self, outside: Tensors) -> None:
        if self._calibration is not None:
            self._rows = embedded(self._calibration, outside["embed_tokens.weight"], self._device)

    def _enter(self, name: str, tensors: Tensors) -> None:
        """Give the MTP head's layer the rows that it reads; the trunk's have theirs."""
        if name == MTP and self._calibration is not None:
            outside = read_part(self._checkpoint, EMBEDDING, CPU)
            self._rows = joined_for_mtp(
                self._calibration, self._config, outside, tensors, self._rows
            )

    def _expect_numbers(self, losses: dict[str, Loss]) -> None:
        for name, loss in losses.items():
            if not math.isfinite(loss.weight + (loss.output or 0.0)):
                raise CheckpointError(
                    f"{self._checkpoint.folder}: '{name}' holds weights that are no finite "
                    "numbers, or makes outputs that are none.",
                    "Download the checkpoint again.",
                )


class _Pace:
    """Seconds a parameter, from the layers made so far; embedding and head count for nothing."""

    def __init__(self, weights: Mapping[str, StoredWeight]) -> None:
        self._sizes: dict[str, int] = {}
        for name, one in weights.items():
            part = part_of(name)
            if part not in (EMBEDDING, HEAD):
                self._sizes[part] = self._sizes.get(part, 0) + one.spec.num_elements
        self._parameters, self._seconds = 0, 0.0

    def count(self, part: str, seconds: float) -> None:
        if part in self._sizes:
            self._parameters += self._sizes[part]
            self._seconds += seconds

    def seconds_for(self, parts: list[str]) -> float | None:
        if not self._parameters:
            return None
        to_come = sum(self._sizes.get(one, 0) for one in parts)
        return self._seconds * to_come / self._parameters


def _place(part: str, kinds: tuple[LayerKind, ...]) -> tuple[str, LayerKind]:
    """Prefix and kind of the layer in a part."""
    if part == MTP:
        return "mtp.layers.0.", "full_attention"
    index = int(part.removeprefix("layers-"))
    return f"layers.{index}.", kinds[index]
