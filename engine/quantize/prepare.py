"""Everything that could refuse a run, looked at before anything is written."""

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import RequestError
from engine.locate import meant_folder
from engine.machine.facts import version_of
from engine.model.checkpoint import Checkpoint
from engine.quantize.calibration import Calibration, read_calibration
from engine.quantize.folder import expect_ours
from engine.quantize.manifest import MANIFEST_NAME, Manifest, Recipe, hash_files
from engine.quantize.methods import needs_inputs
from engine.quantize.plan import Plan, expect_room, plan_run
from engine.quantize.source import open_source, source_files
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Options:
    """What a person chose.

    Attributes:
        method: one of ``methods.METHODS``.
        calibration: text; None is the one that ships.
        max_tokens: of the calibration.
        sequence_tokens: tokens that are read from one empty state.
        device: "cpu" or "cuda".
    """

    method: str = "gptq"
    calibration: Path | None = None
    max_tokens: int = 1 << 18
    sequence_tokens: int = 2048
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin; ``calibration`` is None where the method needs none."""

    checkpoint: Checkpoint
    out: Path
    options: Options
    calibration: Calibration | None
    plan: Plan


def prepare(source: Path, out: Path, options: Options) -> Prepared:
    """Look at source, result and machine.

    Args:
        source: folder of a BF16 or FP8 release, as `meant_folder` takes it.
        out: folder of the result: new, empty, or begun by an earlier run.
        options: what was chosen.

    Raises:
        CheckpointError: the source does not open or is in 4 bits already.
        RequestError: the method is unknown, a number is too small, the folder of the result holds
            something else, the calibration's text is none, or the disk has too little room.
        MemoryPlanError: memory is too small; the sentence has the numbers.
    """
    source = meant_folder(source)
    calibrates = needs_inputs(options.method)
    checkpoint = open_source(source)
    _expect_apart(source, out)
    expect_ours(out)
    config = checkpoint.config
    calibration, num_tokens, longest = None, 0, 0
    if calibrates:
        calibration = read_calibration(
            options.calibration,
            Tokenizer.load(source, config.vocab_size),
            max_tokens=options.max_tokens,
            sequence_tokens=min(
                options.sequence_tokens, options.max_tokens, config.max_position_embeddings
            ),
        )
        num_tokens = calibration.num_tokens
        longest = max(len(one) for one in calibration.sequences)
    plan = plan_run(config, options.method, num_tokens, longest)
    expect_room(plan, options.device, out, _num_written(out))
    return Prepared(checkpoint, out, options, calibration, plan)


def recipe_of(prepared: Prepared) -> Recipe:
    """What the result will be made of; reads every byte of the source.

    Raises:
        CheckpointError: a file of the source does not read.
    """
    options, calibration = prepared.options, prepared.calibration
    device = options.device
    if device == "cuda":
        device = f"cuda {torch.cuda.get_device_name()}"
    return Recipe(
        method=options.method,
        source=hash_files(source_files(prepared.checkpoint)),
        source_name=prepared.checkpoint.folder.absolute().name,
        calibration=calibration.sha256 if calibration else "",
        calibration_name=calibration.name if calibration else "",
        tokens=calibration.num_tokens if calibration else 0,
        sequence=max(map(len, calibration.sequences)) if calibration else 0,
        program=f"qwen38 {version_of('qwen38') or 'not installed'}",
        torch=torch.__version__,
        device=device,
    )


def _expect_apart(source: Path, out: Path) -> None:
    here, there = source.resolve(), out.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise RequestError(
            f"{out} and {source} lie within each other.",
            "Give a folder beside the source for the result.",
        )


def _num_written(out: Path) -> int:
    """Bytes of parts that an earlier run left."""
    if not (out / MANIFEST_NAME).is_file():
        return 0
    return sum(one.num_bytes for one in Manifest.read(out).parts.values())
