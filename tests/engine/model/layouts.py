"""Small random checkpoints in the exact layouts that quantised releases have on disk.

Also what such a tensor means, in fp64, by the layout's own definition and apart from our loader.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.model.config import ModelConfig
from engine.model.tensors import expected_tensors
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint

Tensors = dict[str, torch.Tensor]
E4M3 = torch.float8_e4m3fn
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class Maker:
    """Makes the tensors of one matrix after another; every matrix has scales of its own."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(11)

    def modelopt_nvfp4(self, module: str, shape: tuple[int, int]) -> Tensors:
        """NVIDIA modelopt: ``weight`` U8, ``weight_scale`` e4m3, ``weight_scale_2`` multiplies."""
        return {
            f"{module}.weight": self._bytes(shape[0], shape[1] // 2),
            f"{module}.weight_scale": self._groups(shape),
            f"{module}.weight_scale_2": self._scale(shape),
            f"{module}.input_scale": torch.tensor(0.01),
        }

    def modelopt_fp8(self, module: str, shape: tuple[int, int]) -> Tensors:
        """NVIDIA modelopt: ``weight`` e4m3 and one ``weight_scale``."""
        return {
            f"{module}.weight": self._codes(shape),
            f"{module}.weight_scale": self._scale(shape) / 64,
            f"{module}.input_scale": torch.tensor(0.01),
        }

    def packed_nvfp4(self, module: str, shape: tuple[int, int]) -> Tensors:
        """compressed-tensors ``nvfp4-pack-quantized``: both global scales are divisors, [1]."""
        return {
            f"{module}.weight_packed": self._bytes(shape[0], shape[1] // 2),
            f"{module}.weight_scale": self._groups(shape),
            f"{module}.weight_global_scale": (1 / self._scale(shape)).reshape(1),
            f"{module}.input_global_scale": torch.tensor([300.0]),
        }

    def block_fp8(self, module: str, shape: tuple[int, int]) -> Tensors:
        """Qwen's FP8 releases: ``weight_scale_inv`` BF16 a block of 128 x 128, which multiplies."""
        size = tuple(-(-one // 128) for one in shape)
        scales = torch.rand(size, generator=self._generator) + 0.5
        return {
            f"{module}.weight": self._codes(shape),
            f"{module}.weight_scale_inv": (scales / 96 * shape[1] ** -0.5).bfloat16(),
        }

    def row_fp8(self, module: str, shape: tuple[int, int]) -> Tensors:
        """compressed-tensors ``float-quantized`` by channel: ``weight_scale`` BF16 [N, 1]."""
        scales = torch.rand((shape[0], 1), generator=self._generator) + 0.5
        return {
            f"{module}.weight": self._codes(shape),
            f"{module}.weight_scale": (scales / 96 * shape[1] ** -0.5).bfloat16(),
        }

    def row_fp8_f32(self, module: str, shape: tuple[int, int]) -> Tensors:
        """The same with the scales in F32."""
        made = self.row_fp8(module, shape)
        scales = made[f"{module}.weight_scale"].float() * 1.0001
        return made | {f"{module}.weight_scale": scales}

    def _bytes(self, num_rows: int, width: int) -> torch.Tensor:
        size = (num_rows, width)
        return torch.randint(0, 256, size, dtype=torch.uint8, generator=self._generator)

    def _codes(self, shape: tuple[int, int]) -> torch.Tensor:
        values = torch.randn(shape, generator=self._generator) * 96
        return values.clamp(-448, 448).to(E4M3)

    def _groups(self, shape: tuple[int, int]) -> torch.Tensor:
        size = (shape[0], shape[1] // 16)
        return (torch.rand(size, generator=self._generator) * 3 + 0.1).to(E4M3)

    def _scale(self, shape: tuple[int, int]) -> torch.Tensor:
        return (torch.rand((), generator=self._generator) + 0.5) * shape[1] ** -0.5 / 4


Make = Callable[[str, tuple[int, int]], Tensors]
Choose = Callable[[Maker, str, str], Make | None]
"""How a matrix is stored, by its canonical name and part; None keeps BF16."""


def _modelopt(make: Maker, name: str, part: str) -> Make | None:
    """nvidia/ and RadixArk/: NVFP4 feed-forward and head, FP8 mixers per tensor, BF16 MTP."""
    if part in ("mlp", "head"):
        return make.modelopt_nvfp4
    return make.modelopt_fp8 if part in ("attention", "delta") else None


def _compressed(make: Maker, name: str, part: str) -> Make | None:
    """unsloth/: NVFP4 in the feed-forward of all layers but the last, FP8 a row elsewhere."""
    if part == "mlp" and not name.startswith("layers.3."):
        return make.packed_nvfp4
    return make.row_fp8 if part != "mtp" else None


def _whole_nvfp4(make: Maker, name: str, part: str) -> Make | None:
    """Everything in NVFP4, the MTP layer too, and an e4m3 head with scales in F32."""
    return make.row_fp8_f32 if part == "head" else make.modelopt_nvfp4


def _rows(make: Maker, name: str, part: str) -> Make | None:
    """huginnfork/: FP8 a row in everything, here the MTP layer too."""
    return make.row_fp8


def _qwen_fp8(make: Maker, name: str, part: str) -> Make | None:
    """Qwen's FP8 release: every projection in blocks, a BF16 head."""
    return make.block_fp8 if part != "head" and name != "mtp.fc.weight" else None


def _plain(make: Maker, name: str, part: str) -> Make | None:
    """Qwen's BF16 release."""
    return None


CHOICES: dict[str, Choose] = {
    "qwen bf16": _plain,
    "qwen fp8": _qwen_fp8,
    "modelopt": _modelopt,
    "compressed": _compressed,
    "nvfp4": _whole_nvfp4,
    "rows": _rows,
}


def layout_tensors(layout: str, config: ModelConfig = TINY) -> Tensors:
    """Every tensor of a checkpoint in one of `CHOICES`, under its name on disk."""
    make, choose = Maker(), CHOICES[layout]
    tensors = random_tensors(config)
    for short, spec in expected_tensors(config).items():
        if not spec.matrix or spec.part == "small":
            continue
        made = choose(make, short, spec.part)
        if made is not None:
            name = on_disk(short)
            del tensors[name]
            tensors |= made(name.removesuffix(".weight"), (spec.shape[0], spec.shape[1]))
    if layout == "compressed":
        prefix = on_disk("layers.3.self_attn.")
        tensors |= {prefix + f"{one}_scale": torch.ones(1).bfloat16() for one in "kv"}
    return tensors


def on_disk(short: str) -> str:
    """The name on disk of a canonical one."""
    return short if short.startswith(("mtp.", "lm_head.")) else f"model.language_model.{short}"


def write_layout(folder: Path, layout: str, config: ModelConfig = TINY) -> Path:
    """Write a checkpoint; the compressed one keeps its draft head in a file of its own."""
    tensors = layout_tensors(layout, config)
    if layout != "compressed":
        return write_checkpoint(folder, config, tensors=tensors)
    mtp = {name: one for name, one in tensors.items() if name.startswith("mtp.")}
    trunk = {name: one for name, one in tensors.items() if name not in mtp}
    write_checkpoint(folder, config, tensors=trunk, num_shards=1)
    save_file(mtp, folder / "model_mtp.safetensors")
    return folder


def meaning(tensors: Tensors, short: str) -> torch.Tensor:
    """A matrix by the definition of its layout: fp64 [N, K], without any rounding."""
    module = on_disk(short).removesuffix(".weight")
    found = {
        name.removeprefix(f"{module}."): one
        for name, one in tensors.items()
        if name.startswith(f"{module}.")
    }
    codes = found["weight_packed"] if "weight_packed" in found else found["weight"]
    if codes.dtype == torch.uint8:
        values = torch.empty((codes.shape[0], 2 * codes.shape[1]), dtype=torch.float64)
        for offset, nibbles in enumerate((codes % 16, codes // 16)):
            magnitudes = torch.tensor(MAGNITUDES, dtype=torch.float64)[(nibbles % 8).long()]
            values[:, offset::2] = torch.where(nibbles >= 8, -magnitudes, magnitudes)
        values *= found["weight_scale"].double().repeat_interleave(16, dim=1)
        if "weight_global_scale" in found:
            return values / found["weight_global_scale"].double()
        return values * found["weight_scale_2"].double()
    if "weight_scale_inv" in found:
        scales = found["weight_scale_inv"].double().repeat_interleave(128, 0)
        scales = scales.repeat_interleave(128, 1)[: codes.shape[0], : codes.shape[1]]
        return codes.double() * scales
    scales = found.get("weight_scale", torch.ones(()))
    return codes.double() * scales.double()
