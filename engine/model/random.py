"""Full-size random weights in a profile's formats, so that everything runs without a download.

Scales are chosen so that activations stay near one through the depth, decays are those of trained
models, and logits are peaked enough for a greedy choice to mean something.
"""

import math

import torch

from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.generation import Generation
from engine.model.kernel_model import KernelModel
from engine.model.matrix import E4m3Row, Fp8Block, Matrix, Nvfp4, Stored
from engine.model.packing import Packer
from engine.model.tensors import TensorSpec, expected_tensors, format_of
from engine.model.weights import assemble
from engine.profile import Formats, WeightFormat
from engine.types import Sampling
from kernels.common.e4m3 import E4M3_MAX
from kernels.linear.formats import E2M1_VALUES, FP8_BLOCK, NVFP4_GROUP

CODE_RMS = 96.0
"""Root mean square of e4m3 codes: +-4.6 standard deviations reach 448, the largest code."""

NIBBLE_RMS = math.sqrt(sum(value * value for value in E2M1_VALUES) / len(E2M1_VALUES))
"""Root mean square of e2m1 values when all sixteen codes are equally frequent."""

ROWS_PER_BLOCK = 4096
"""Rows drawn at a time: bounds the fp32 values that exist beside the codes."""


def random_model(
    config: ModelConfig,
    formats: Formats,
    *,
    device: str,
    seed: int = 0,
    expand: bool = True,
    packer: Packer | None = None,
) -> Model:
    """Build a model of a shape with random weights, directly on the device.

    Args:
        config: the shape, e.g. ``SHAPE_27B``.
        formats: storage format of each part.
        device: "cpu" or "cuda".
        seed: of the draws; the same seed gives the same weights on the same kind of device.
        expand: hold every matrix as the BF16 it stands for; False keeps codes and scales, and
            each product expands its matrix anew.
        packer: a fresh one; packs every matrix in its format, whatever ``expand`` says.

    Returns:
        The model; it has no stop ids and samples greedily by default.
    """
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    tensors: dict[str, Matrix] = {}
    for name, spec in expected_tensors(config).items():
        matrix = draw_tensor(name, spec, format_of(spec, formats), config, generator)
        if packer is not None and spec.matrix:
            packer.add(name, matrix)
            continue
        plain = isinstance(matrix, torch.Tensor) or not expand
        tensors[name] = matrix if plain else matrix.expand()
    if packer is not None:
        embedding = tensors["embed_tokens.weight"]
        assert isinstance(embedding, torch.Tensor)
        tensors |= packer.finish(embedding, tied=config.tie_word_embeddings)
    weights, greedy = assemble(config, tensors), Generation((), Sampling(temperature=0.0))
    if packer is None:
        return Model(config, weights, greedy)
    return KernelModel(config, weights, greedy, packer.launching)


def draw_tensor(
    name: str,
    spec: TensorSpec,
    stored: WeightFormat,
    config: ModelConfig,
    generator: torch.Generator,
) -> Stored:
    """Draw one tensor.

    Args:
        name: canonical; decides how the values are distributed.
        spec: its shape and part.
        stored: format of a matrix.
        config: the model's numbers.
        generator: of the draws, on the device of the tensor.
    """
    if spec.matrix:
        return _matrix(spec, stored, _deviation(name, spec, config), generator)
    if name == "embed_tokens.weight":
        # in BF16 at once: the fp32 form of the 27B's embedding would be 5 GB
        table = torch.empty(spec.shape, dtype=torch.bfloat16, device=generator.device)
        return table.normal_(0.0, 1.0, generator=generator)
    out = torch.empty(spec.shape, dtype=torch.float32, device=generator.device)
    if name.endswith("A_log"):
        out.uniform_(1.0, 16.0, generator=generator).log_()
    elif name.endswith("dt_bias"):
        # the inverse softplus of time steps from 0.001 to 0.1, equally frequent in the logarithm
        out.uniform_(math.log(1e-3), math.log(0.1), generator=generator).exp_()
        out += torch.log(-torch.expm1(-out))
    elif name.endswith("conv1d.weight"):
        out.uniform_(-0.5, 0.5, generator=generator)
    elif name.endswith("linear_attn.norm.weight"):
        out.normal_(0.87, 0.05, generator=generator)
    else:
        out.normal_(0.0, 0.1, generator=generator)
    return out.to(torch.bfloat16)


def _deviation(name: str, spec: TensorSpec, config: ModelConfig) -> float:
    """Standard deviation of a matrix: unit outputs for unit inputs, less where layers add up."""
    plain = spec.shape[1] ** -0.5
    if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
        return plain * (2 * config.num_layers) ** -0.5
    return 3.0 * plain if name == "lm_head.weight" else plain


def _matrix(
    spec: TensorSpec, stored: WeightFormat, deviation: float, generator: torch.Generator
) -> Stored:
    device, (num_rows, width) = generator.device, spec.shape
    if stored == "bf16":
        out = torch.empty(spec.shape, dtype=torch.bfloat16, device=device)
        return out.normal_(0.0, deviation, generator=generator)
    if stored == "nvfp4":
        size = (num_rows, width // 2)
        codes = torch.randint(0, 256, size, dtype=torch.uint8, device=device, generator=generator)
        scales = torch.ones((num_rows, width // NVFP4_GROUP), device=device)
        tensor_scale = torch.tensor(deviation / NIBBLE_RMS, device=device)
        return Nvfp4(codes, scales.to(torch.float8_e4m3fn), tensor_scale)
    codes = torch.empty(spec.shape, dtype=torch.float8_e4m3fn, device=device)
    for start in range(0, num_rows, ROWS_PER_BLOCK):
        block = codes[start : start + ROWS_PER_BLOCK]
        values = torch.empty(block.shape, dtype=torch.float32, device=device)
        block.copy_(values.normal_(0.0, CODE_RMS, generator=generator).clamp_(-E4M3_MAX, E4M3_MAX))
    if stored == "e4m3_row":
        return E4m3Row(codes, torch.full((num_rows,), deviation / CODE_RMS, device=device))
    blocks = (-(-num_rows // FP8_BLOCK), -(-width // FP8_BLOCK))
    scales = torch.full(blocks, deviation / CODE_RMS, dtype=torch.bfloat16, device=device)
    return Fp8Block(codes, scales)
