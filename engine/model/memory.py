"""What a model will occupy, part by part, against what the machine has; asked before loading."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from engine.errors import MemoryPlanError
from engine.model.checkpoint import Checkpoint
from engine.model.footprint import (
    draft_head_bytes,
    kv_bytes_per_token,
    mtp_kv_bytes_per_token,
    packed_bytes,
    record_bytes,
    state_bytes,
    stored_bytes,
    tail_bytes,
    tied_head_bytes,
    workspace_bytes,
)
from engine.model.layouts import StoredWeight
from engine.model.streaming import STAGING_BYTES
from engine.model.tensors import keeps_fp32

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by part.

    ``stored`` are the weights as on disk, ``expanded`` what the form they are held in adds, and
    ``workspace`` what joining or widening one of them takes for a while.
    """

    stored: int
    expanded: int
    state: int
    kv: int
    staging: int
    available: int
    workspace: int = 0

    @property
    def needed(self) -> int:
        """Bytes of all parts."""
        weights = self.stored + self.expanded + self.workspace
        return weights + self.state + self.kv + self.staging

    def expect_fit(self) -> None:
        """Raise `MemoryPlanError` with the numbers unless everything fits."""
        if self.needed > self.available:
            raise MemoryPlanError(
                f"The model needs {self.needed / 1e9:.1f} GB (weights {self.stored / 1e9:.1f}, "
                f"held wider {self.expanded / 1e9:.1f}, state {self.state / 1e9:.2f}, "
                f"context {self.kv / 1e9:.2f}, "
                f"loading {(self.staging + self.workspace) / 1e9:.2f}) and "
                f"{self.available / 1e9:.1f} GB are free.",
                "Close other programs, lower model.context_tokens, or give a smaller checkpoint.",
            )


def plan_memory(
    checkpoint: Checkpoint,
    device: str,
    *,
    expand: bool = True,
    packed: bool = False,
    context_tokens: int = 0,
) -> MemoryPlan:
    """Count what loading will occupy on a device; allocates nothing.

    Args:
        checkpoint: what is loaded.
        device: "cpu" or "cuda".
        expand: 8-bit and 4-bit matrices are held as the BF16 they stand for.
        packed: matrices are packed for the kernels; ``expand`` does not matter then.
        context_tokens: context that is left room for.
    """
    stored, config = checkpoint.num_bytes, checkpoint.config
    held = sum(
        _held_bytes(name, one, expand=expand, packed=packed)
        for name, one in checkpoint.weights.items()
    )
    per_token = kv_bytes_per_token(config)
    if checkpoint.has_mtp:
        per_token += mtp_kv_bytes_per_token(config)
    if packed:
        held += tied_head_bytes(config)
        if checkpoint.has_mtp:
            held += draft_head_bytes(config, checkpoint.head_format)
    return MemoryPlan(
        stored=stored,
        expanded=max(0, held - stored),
        state=state_bytes(config) + tail_bytes(config) + (record_bytes(config) if packed else 0),
        kv=per_token * context_tokens,
        staging=STAGING_BYTES,
        available=available_bytes(device),
        workspace=max(workspace_bytes(config), _reordered_bytes(checkpoint)) if packed else 0,
    )


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


def available_bytes(device: str) -> int:
    """Bytes that can be had on a device, within this process's control group."""
    if device == "cpu":
        return _host_bytes()
    properties = cast("Any", torch.cuda).get_device_properties(device)
    if properties.is_integrated:
        # one memory for both: the driver counts reclaimable page cache as used, the kernel not
        return _host_bytes()
    return torch.cuda.mem_get_info(device)[0]


def _host_bytes() -> int:
    return min(_meminfo_bytes(), _control_group_bytes())


def _meminfo_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 62


def _control_group_bytes() -> int:
    """What the control group still allows; unlimited where there is none."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = (CGROUP / "memory.current").read_text().strip()
        return (1 << 62) if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return 1 << 62
