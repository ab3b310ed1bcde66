"""Pack a model's matrices for a GPU's kernels while they arrive, and join those read together.

A matrix is packed at once and its source let go; what waits for the rest of its group is packed
already. So loading holds one copy of the weights, and a second one of the group being joined.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch

from engine.model.groups import GROUPS, group_of
from engine.model.matrix import E4m3Row, Fp8Block, Matrix, Nvfp4, Stored
from engine.model.packed import Member, Packed, Workspace, crossovers_of, fp8_rows_from
from kernels.linear.pack import (
    MEMBER_ROWS,
    fuse,
    pack_bf16,
    pack_e4m3_row,
    pack_fp8_block,
    pack_nvfp4,
)
from kernels.linear.skinny import wants_spread
from kernels.linear.tile import ROW_CLASSES, SkinnyTiles
from kernels.linear.tile_choice import PAIRED_FORMAT, defaults, lookup, paired_to
from kernels.linear.weight import (
    Weight,
    format_name,
    num_outputs,
    padded_inputs,
)

HEAD = "lm_head.weight"

ARITHMETIC = "linear-2"
"""How the kernels round and add; a change of any bit gets a new number."""


FP8_ARITHMETIC = "fp8-prefill-1"
"""The same of prompts multiplied by FP8 operands: what they round to, and how steps are added."""


UNUSED_BYTES = 256 << 20
"""Memory that torch may keep unused while weights arrive; the parts of a group pass through it."""


@dataclass(frozen=True, slots=True)
class Launching:
    """For which GPU weights are packed, and how its kernels are launched.

    Attributes:
        capability: compute capability whose choices the GPU makes, (major, minor).
        rows: of the tile tables, the first of a key serves.
        overlap: programmatic dependent launch.
        graphs: captured graphs in the place of single launches.
        commit_in_verify: accepted rows are folded into the state while the next round loads it.
        fp8_prefill: prompts are multiplied by FP8 operands, where rows and format make it pay.
        paired: let gate over up of `PAIRED_FORMAT` end in one output, which changes no bit.
        chip: compute capability of the GPU that is there; None is that of `capability`.
    """

    capability: tuple[int, int]
    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    overlap: bool = False
    graphs: bool = True
    commit_in_verify: bool = True
    fp8_prefill: bool = False
    paired: bool = True
    chip: tuple[int, int] | None = None


class Packer:
    """Takes a model's matrices in any order and gives them packed.

    Args:
        launching: the GPU, its tiles and switches.
    """

    def __init__(self, launching: Launching) -> None:
        self._launching = launching
        self._workspace = Workspace()
        self._crossovers = crossovers_of(launching.capability)
        self._waiting: dict[str, Weight] = {}
        self._fp8_rows: dict[str, int] = {}
        self._defaults: list[str] = []
        self._faults: list[str] = []
        self._packed: dict[str, Matrix] = {}

    @property
    def launching(self) -> Launching:
        """The GPU and its switches."""
        return self._launching

    def add(self, name: str, matrix: Stored) -> None:
        """Pack a matrix; its group is joined when the last member arrives.

        Args:
            name: canonical.
            matrix: as stored. Plain values are kept without a copy where the kernels can read them.

        Raises:
            ValueError: codes or scales are no numbers, or no launch fits; the message says which.
        """
        _release_unused()
        chip = self._launching.chip or self._launching.capability
        self._waiting[name] = pack(matrix, spread=wants_spread(chip))
        group = group_of(name)
        if all(one in self._waiting for one in group):
            self._join(group, [self._waiting.pop(one) for one in group])

    def finish(self, embedding: torch.Tensor, *, tied: bool) -> dict[str, Matrix]:
        """Give all matrices by canonical name.

        Args:
            embedding: bf16 [V, D].
            tied: it is the head too, and is packed as one; the memory is shared where it can be.
        """
        if tied:
            self.add(HEAD, embedding)
        return self.packed()

    def packed(self) -> dict[str, Matrix]:
        """Give the matrices that came, by name."""
        for name in list(self._waiting):  # of a group that the model has not whole
            self._join((name,), [self._waiting.pop(name)])
        return self._packed

    @property
    def arithmetic(self) -> str:
        """Name of what decides a product's bits: kernels and crossovers."""
        text = f"{self._crossovers}"
        own = ARITHMETIC
        if self._launching.fp8_prefill:
            rows = " ".join(f"{key}={first}" for key, first in sorted(self._fp8_rows.items()))
            text, own = f"{text} {rows}", f"{own}+{FP8_ARITHMETIC}"
        return f"{own}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def notice(self) -> str:
        """What a person should know about the tiles of these weights; empty when all are tuned."""
        said = [f"A tile table entry is not used: {one}." for one in dict.fromkeys(self._faults)]
        if self._defaults:
            shapes = ", ".join(dict.fromkeys(self._defaults))
            said.append(
                f"No tile table holds {shapes}: these products run with default tiles; "
                "'qwen38 tune --family linear' measures them."
            )
        return " ".join(said)

    def _join(self, names: Sequence[str], weights: list[Weight]) -> None:
        """Hold weights as one where they can be, else one by one."""
        if len(weights) > 1 and not can_fuse(weights):
            for name, weight in zip(names, weights, strict=True):
                self._packed[name] = self._held(weight, name)
            return
        ends = list(accumulate(num_outputs(one) for one in weights))
        whole = self._held(fuse(weights), *names)
        if len(names) == 1:
            self._packed[names[0]] = whole
            return
        for name, start, end in zip(names, (0, *ends), ends, strict=False):
            self._packed[name] = Member(whole, slice(start, end))

    def _held(self, weight: Weight, *names: str) -> Packed:
        if HEAD not in names:
            self._workspace.make_room_for(weight)
        pays = format_name(weight) == PAIRED_FORMAT
        is_pair = self._launching.paired and pays and _is_pair(names)
        return Packed(
            weight=weight,
            tiles=self._tiles(weight),
            crossovers=self._crossovers,
            workspace=self._workspace,
            overlap=self._launching.overlap,
            pair_tiles=self._tiles(weight, paired=True) if is_pair else None,
            paired_to=paired_to(self._launching.capability) if is_pair else 0,
            fp8_from=self._fp8_from(weight),
        )

    def _tiles(self, weight: Weight, *, paired: bool = False) -> SkinnyTiles:
        N, Kp, name = num_outputs(weight), padded_inputs(weight), format_name(weight)
        shape = f"{name} {N}x{Kp}{' in one output' if paired else ''}"
        found = None
        try:
            found = lookup(self._launching.rows, N, Kp, name, paired=paired)
        except (ValueError, TypeError) as problem:
            self._faults.append(f"{shape}: {problem}")
        if found is None:
            self._defaults.append(shape)
            found = defaults(N, Kp, name, self._launching.capability, paired=paired)
        return self._with_wide_pairs(found, shape, N, Kp, name) if paired else found

    def _with_wide_pairs(
        self, found: SkinnyTiles, shape: str, N: int, Kp: int, name: str
    ) -> SkinnyTiles:
        """Take defaults of 17 rows and more of a pair where a table is older than such launches."""
        capability = self._launching.capability
        if paired_to(capability) <= ROW_CLASSES[1] or (found.upto_24 and found.upto_32):
            return found
        self._defaults.append(f"{shape} of 17 rows and more")
        own = defaults(N, Kp, name, capability, paired=True)
        return replace(
            found, upto_24=found.upto_24 or own.upto_24, upto_32=found.upto_32 or own.upto_32
        )

    def _fp8_from(self, weight: Weight) -> int | None:
        if not self._launching.fp8_prefill:
            return None
        name = format_name(weight)
        first = fp8_rows_from(self._launching.capability, name)
        if first is not None:
            self._fp8_rows[name] = first
        return first


def _release_unused() -> None:
    """Hand what torch keeps for later back to the GPU where that is much.

    Else a weight settles in a part of a larger block that something short-lived left, and the rest
    of that block is lost for as long as the weight lives.
    """
    if not torch.cuda.is_initialized():
        return
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > UNUSED_BYTES:
        torch.cuda.empty_cache()


def pack(matrix: Stored, *, spread: bool) -> Weight:
    """Pack a matrix as it is stored; the errors are those of ``kernels.linear.pack``."""
    match matrix:
        case Fp8Block():
            return pack_fp8_block(matrix.codes, matrix.scales)
        case E4m3Row():
            return pack_e4m3_row(matrix.codes, matrix.scales)
        case Nvfp4():
            return pack_nvfp4(matrix.codes, matrix.scales, matrix.tensor_scale, spread=spread)
        case torch.Tensor():
            return pack_bf16(matrix)


def can_fuse(weights: Sequence[Weight]) -> bool:
    """Whether weights may be joined along N: one format, one K, no member ends inside a scale."""
    first = weights[0]
    alike = all((format_name(one), one.K) == (format_name(first), first.K) for one in weights)
    rows = MEMBER_ROWS.get(type(first), 1)
    return alike and all(num_outputs(one) % rows == 0 for one in weights[:-1])


def _is_pair(names: Sequence[str]) -> bool:
    return len(names) == 2 and names[0].endswith(GROUPS[0][0])
