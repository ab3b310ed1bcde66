"""Hold a weight as the kernels read it: its codes, and its scales laid out for the lanes.

A weight is packed once at load (`pack.py`) and every path reads the same tensors: skinny, middle
and expand. K is padded with zero codes to `Kp`, a multiple of 128; N is never padded, except in
`scale_runs`, whose rows come in blocks of 16.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Bf16Weight:
    """Plain values.

    Attributes:
        values: bf16 [N, Kp], contiguous.
        K: inputs before padding.
    """

    values: torch.Tensor
    K: int

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return (self.values,)

    @property
    def codes(self) -> torch.Tensor:
        """The matrix that a product streams."""
        return self.values


@dataclass(frozen=True, slots=True)
class Fp8BlockWeight:
    """e4m3 codes and one multiplier a block of 128 x 128.

    Attributes:
        codes: e4m3 [N, Kp], contiguous.
        scales: fp32 [ceil(N/128), Kp/128]; exact copies of the checkpoint's BF16.
        K: inputs before padding.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    K: int

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.scales


@dataclass(frozen=True, slots=True)
class E4m3RowWeight:
    """e4m3 codes and one multiplier a row.

    Attributes:
        codes: e4m3 [N, Kp], contiguous.
        row_scales: fp32 [N].
        K: inputs before padding.
    """

    codes: torch.Tensor
    row_scales: torch.Tensor
    K: int

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.row_scales


@dataclass(frozen=True, slots=True)
class Nvfp4Weight:
    """e2m1 codes, an e4m3 multiplier for 16 inputs and an fp32 multiplier a row.

    Attributes:
        codes: uint8 [N, Kp/2], contiguous; the low nibble is the even input, or, `spread`, words
            of eight codes in the order of `spread.py`.
        scale_runs: e4m3 [ceil(N/16), Kp/128, 8, 4, 2, 2]: for tile, step, g, t, half, pair the
            scale of row 16 tile + 8 half + g and inputs 128 step + 32 t + 16 pair onwards. So a
            lane (g, t) finds its four scales of a step in one word, and a warp reads 128 bytes in
            a row. Rows beyond N hold zero.
        row_scales: fp32 [N]: the tensor's one multiplier, or that of each fused member's rows.
        K: inputs before padding.
        spread: how `codes` are ordered: as stored, for GPUs with a converter, or spread.
    """

    codes: torch.Tensor
    scale_runs: torch.Tensor
    row_scales: torch.Tensor
    K: int
    spread: bool = False

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.scale_runs, self.row_scales


Weight = Bf16Weight | Fp8BlockWeight | E4m3RowWeight | Nvfp4Weight


def num_outputs(weight: Weight) -> int:
    """N of a weight."""
    return weight.codes.shape[0]


def padded_inputs(weight: Weight) -> int:
    """Kp of a weight: K rounded up to whole steps."""
    width = weight.codes.shape[1]
    return 2 * width if isinstance(weight, Nvfp4Weight) else width


def num_bytes(weight: Weight) -> int:
    """Bytes that a product must read of a weight, which are the bytes it holds."""
    return sum(tensor.nbytes for tensor in weight.tensors())


def format_name(weight: Weight) -> str:
    """Name of a weight's format: "bf16", "fp8_block", "e4m3_row" or "nvfp4"."""
    return NAMES[type(weight)]


NAMES: dict[type, str] = {
    Bf16Weight: "bf16",
    Fp8BlockWeight: "fp8_block",
    E4m3RowWeight: "e4m3_row",
    Nvfp4Weight: "nvfp4",
}
