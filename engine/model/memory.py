"""What a model will occupy, part by part, against what the machine has; asked before loading."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.errors import MemoryPlanError
from engine.graph_classes import GraphClasses
from engine.machine.free_memory import available_bytes
from engine.model.checkpoint import Checkpoint
from engine.model.config import ModelConfig
from engine.model.footprint import (
    draft_head_bytes,
    packed_bytes,
    stored_bytes,
    tied_head_bytes,
    workspace_bytes,
)
from engine.model.layouts import StoredWeight
from engine.model.serving_memory import kept_bytes, passing_bytes, snapshot_bytes
from engine.model.staging import STAGING_BYTES
from engine.model.tensors import keeps_fp32
from engine.sizes import size_text
from engine.types import KvFormat

MOST_SNAPSHOT_BYTES, MOST_SNAPSHOTS = 4 << 30, 64
"""Where nobody says how much, points to come back to get a quarter of what is left, and at most so
many bytes, 27 of them at 27B, and so many points."""

LEAST_SNAPSHOTS = 3
"""Points that every turn has: before its prompt, before the last chunk of it, and behind it."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by part, for everything that loading and serving allocate.

    Attributes:
        stored: weights as on disk.
        expanded: what the form they are held in adds.
        kept: made when the engine opens, by part (`engine.model.serving_memory`).
        passing: come and go while a turn runs, by part.
        staging: pieces of a file on their way.
        workspace: what joining or widening a matrix takes for a while.
        snapshot: one point to come back to.
        asked_snapshots: bytes that are asked for all of them; None leaves it to what is free.
        context_tokens: longest conversation.
        available: bytes that can be had.
    """

    stored: int
    expanded: int
    kept: Mapping[str, int]
    passing: Mapping[str, int]
    staging: int
    workspace: int
    snapshot: int
    asked_snapshots: int | None
    context_tokens: int
    available: int

    @property
    def weights(self) -> int:
        """Bytes of the weights as they are held."""
        return self.stored + self.expanded

    @property
    def num_snapshots(self) -> int:
        """Points to come back to that are held at once."""
        return self.snapshots // self.snapshot

    @property
    def snapshots(self) -> int:
        """Bytes for them: as asked, else a share of what is left; whole ones."""
        if self.asked_snapshots is not None:
            return self.asked_snapshots // self.snapshot * self.snapshot
        left = self.available - self._peak
        share = min(MOST_SNAPSHOT_BYTES, max(0, left) // 4) // self.snapshot
        return min(MOST_SNAPSHOTS, max(LEAST_SNAPSHOTS, share)) * self.snapshot

    @property
    def needed(self) -> int:
        """Bytes at the worst moment, which is one of loading or of serving."""
        return self._peak + self.snapshots

    @property
    def parts(self) -> dict[str, int]:
        """What serving holds at its worst moment, by part."""
        return {"weights": self.weights, **self.kept, "snapshots": self.snapshots, **self.passing}

    @property
    def sentence(self) -> str:
        """The plan in words."""
        told = ", ".join(f"{name} {size_text(size)}" for name, size in self.parts.items())
        return (
            f"{size_text(self.needed)} for {self.context_tokens:,} tokens of context and "
            f"{self.num_snapshots} points to come back to: {told}."
        )

    def expect_fit(self) -> None:
        """Raise `MemoryPlanError` with the numbers, and what would fit, unless everything does."""
        if self.needed > self.available:
            raise MemoryPlanError(
                f"The model needs {self.sentence} {size_text(self.available)} are free.",
                self._mend(),
            )

    @property
    def _peak(self) -> int:
        serving = sum(self.kept.values()) + sum(self.passing.values())
        return self.weights + max(serving, self.staging + self.workspace)

    def _mend(self) -> str:
        """What would make it fit: fewer points, a shorter context, or another machine."""
        missing = self.needed - self.available
        if missing <= self.snapshots - LEAST_SNAPSHOTS * self.snapshot:
            most = (self.snapshots - missing) // 1_000_000
            return f"Lower model.snapshot_mb to {most}, or free {size_text(missing)}."
        per_token = self.kept["context"] // max(self.context_tokens, 1)
        fewer = -(-missing // max(per_token, 1))
        fitting = (self.context_tokens - fewer) // 1024 * 1024
        if fitting >= 1024:
            return (
                f"A context of {fitting:,} tokens fits: set model.context_tokens to {fitting}, or "
                f"free {size_text(missing)}."
            )
        return (
            f"No context fits beside {size_text(self.weights)} of weights: give a smaller "
            f"checkpoint, or free {size_text(missing)}."
        )


@dataclass(frozen=True, slots=True)
class DrafterBytes:
    """What a drafter with weights of its own adds to a plan; fields as in `MemoryPlan`.

    ``held`` is its weights as they are held.
    """

    held: int
    kept: Mapping[str, int]
    passing: Mapping[str, int]
    workspace: int


def plan_memory(
    checkpoint: Checkpoint,
    device: str,
    *,
    expand: bool = True,
    packed: bool = False,
    context_tokens: int = 0,
    snapshot_mb: int | None = None,
    drafter: DrafterBytes | None = None,
    kv: KvFormat = "bf16",
    graphs: GraphClasses | None = None,
) -> MemoryPlan:
    """Count what loading and serving will occupy on a device; allocates nothing.

    Args:
        checkpoint: what is loaded.
        device: "cpu" or "cuda".
        expand: 8-bit and 4-bit matrices are held as the BF16 they stand for.
        packed: matrices are packed for the kernels; ``expand`` does not matter then.
        context_tokens: the longest conversation.
        snapshot_mb: for points to come back to; None takes a share of what is free.
        drafter: what one with weights of its own adds.
        kv: format of keys and values.
        graphs: what is captured while the model opens; None as where a profile says nothing.
    """
    stored, config = checkpoint.num_bytes, checkpoint.config
    held = sum(
        _held_bytes(name, one, expand=expand, packed=packed)
        for name, one in checkpoint.weights.items()
    )
    if packed:
        held += tied_head_bytes(config)
        if checkpoint.has_mtp:
            held += draft_head_bytes(config, checkpoint.head_format)
    plan = plan_serving(
        config, held, device, packed=packed, with_mtp=checkpoint.has_mtp,
        context_tokens=context_tokens, snapshot_mb=snapshot_mb, kv=kv, graphs=graphs,
    )  # fmt: skip
    plan = replace(
        plan,
        stored=stored,
        expanded=max(0, held - stored),
        staging=STAGING_BYTES,
        workspace=max(plan.workspace, _reordered_bytes(checkpoint)) if packed else 0,
    )
    return plan if drafter is None else _with_drafter(plan, drafter)


def plan_serving(
    config: ModelConfig,
    weight_bytes: int,
    device: str,
    *,
    packed: bool,
    with_mtp: bool,
    context_tokens: int,
    snapshot_mb: int | None = None,
    kv: KvFormat = "bf16",
    graphs: GraphClasses | None = None,
) -> MemoryPlan:
    """Count what serving weights of so many bytes will occupy on a device.

    Args:
        config: the model's numbers.
        weight_bytes: of all weights as they are held.
        device: "cpu" or "cuda".
        packed: matrices are packed for the kernels.
        with_mtp: there is a head to draft with.
        context_tokens: the longest conversation.
        snapshot_mb: for points to come back to; None takes a share of what is free.
        kv: format of keys and values.
        graphs: what is captured while the model opens; None as where a profile says nothing.
    """
    return MemoryPlan(
        stored=weight_bytes,
        expanded=0,
        kept=kept_bytes(config, context_tokens, packed=packed, with_mtp=with_mtp, kv=kv),
        passing=passing_bytes(config, context_tokens, packed=packed, kv=kv, graphs=graphs),
        staging=0,
        workspace=workspace_bytes(config) if packed else 0,
        snapshot=snapshot_bytes(config, packed=packed),
        asked_snapshots=None if snapshot_mb is None else snapshot_mb * 1_000_000,
        context_tokens=context_tokens,
        available=available_bytes(device),
    )


def _with_drafter(plan: MemoryPlan, drafter: DrafterBytes) -> MemoryPlan:
    return replace(
        plan,
        stored=plan.stored + drafter.held,
        kept=_sums(plan.kept, drafter.kept),
        passing=_sums(plan.passing, drafter.passing),
        workspace=max(plan.workspace, drafter.workspace),
    )


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}


def _held_bytes(name: str, one: StoredWeight, *, expand: bool, packed: bool) -> int:
    if packed and one.spec.matrix:
        return packed_bytes(one.spec, one.format)
    if one.format != "bf16" and not expand:
        return stored_bytes(one.spec, one.format)
    size = 4 if keeps_fp32(name, one.spec.shape, one.weight.dtype) else 2
    return size * one.spec.num_elements


def _reordered_bytes(checkpoint: Checkpoint) -> int:
    """Codes of the largest 4-bit matrix: while it is packed they may stand in both orders."""
    every = checkpoint.weights.values()
    return max((one.weight.num_bytes for one in every if one.format == "nvfp4"), default=0)
