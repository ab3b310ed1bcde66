"""Kernel families as `bench kernels` and `tune` take them: by name, at a model's sizes, proven."""

from collections.abc import Sequence
from dataclasses import replace

from engine.check.run import Build, check_family
from engine.errors import EngineError, RequestError, nearest
from engine.model.config import ModelConfig
from kernels import FAMILY_MODULES
from kernels.common.case import Case, Tensors
from kernels.common.family import Family, load_families
from kernels.common.problem import ModelSizes, Run, Tile
from kernels.common.verdict import Finding

USUAL_FORMATS = ("nvfp4", "fp8_block")
"""Formats that projections are timed in where no model says its own."""


class RedKernelError(EngineError):
    """A kernel whose check is red was to be timed."""

    title = "Check"


def choose_families(names: Sequence[str] | None, beside: Sequence[str] = ()) -> tuple[Family, ...]:
    """Load families by name, each once; all of them for None.

    Args:
        names: what a person wrote.
        beside: what they might have meant that is none, and could have been written.

    Raises:
        RequestError: there is no family of that name.
    """
    for name in names or ():
        if name not in FAMILY_MODULES:
            raise RequestError(
                f"There is no kernel family '{name}'.", nearest(name, [*FAMILY_MODULES, *beside])
            )
    return load_families(dict.fromkeys(names) if names else None)


def sizes_of(name: str, config: ModelConfig, formats: Sequence[str] = USUAL_FORMATS) -> ModelSizes:
    """The numbers of a model that kernels may know, and the formats of its projections."""
    return ModelSizes(
        name=name,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        num_key_heads=config.num_key_heads,
        num_value_heads=config.num_value_heads,
        key_head_dim=config.key_head_dim,
        value_head_dim=config.value_head_dim,
        conv_width=config.conv_width,
        formats=tuple(formats),
        num_delta_layers=config.num_delta_layers,
        num_attention_layers=config.num_attention_layers,
    )


def build_of(device: str) -> Build:
    """What runs on a device when the engine serves from it."""
    return "cuda" if device == "cuda" else "torch"


def prove(family: Family, case: Case, device: str, run: Run, tile: Tile) -> tuple[Finding, ...]:
    """Run a family's proofs on one case with one tile."""

    def run_tile(inputs: Tensors, outputs: Tensors) -> None:
        run(inputs, outputs, tile)

    op = replace(family.ops[case.op], run=run_tile)
    alone = replace(family, ops={case.op: op}, cases=(case,), laws=(), compile=None)
    return tuple(check_family(alone, build_of(device)))


def first_fault(findings: Sequence[Finding]) -> str | None:
    """The first red proof in words; None when all are green."""
    red = next((one for one in findings if one.fault), None)
    return f"{red.subject}: {red.proof}: {red.fault}" if red else None
