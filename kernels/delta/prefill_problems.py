"""Make the problems of the chunked delta rule: cases, and the call that runs them."""

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.delta.prefill import delta_prefill

TOLERANCE = Tolerance(
    1.001 * 2.0**-8,
    1e-30,
    "one rounding to bf16 for the output; the truth's slack holds the rest: 2^-14 of the longest "
    "that the column of the state has been, the error of products that keep 17 bits",
)


def _draw_repeated(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn((1, *shape[1:]), generator=generator).expand(shape).clone()


def _draw_alike(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return _draw_repeated(shape, generator) + 0.1 * torch.randn(shape, generator=generator)


def _draw_gates(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return -torch.exp(2.0 * torch.randn(shape, generator=generator) - 3.0)


def _draw_steep(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    choices = torch.tensor([0.0, -0.01, -4.0, -80.0, -1000.0])
    return choices[torch.randint(0, len(choices), shape, generator=generator)]


def _draw_betas(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.sigmoid(2.0 * torch.randn(shape, generator=generator))


def constant(name: str, value: float) -> Domain:
    """Make a domain of one number."""
    return Domain(name, lambda shape, _: torch.full(shape, value))


REPEATED = Domain("repeated", _draw_repeated)
"""One vector for all tokens: the triangular system is as full as it can be."""

ALIKE = Domain("alike", _draw_alike)
"""Vectors within a tenth of one another, as the keys of real text are."""

GATES = Domain("gates", _draw_gates)
"""Log decays of a model: a twentieth in the middle, a few near none and a few near all."""

STEEP = Domain("steep", _draw_steep)
"""No decay, and decays that leave nothing in fp32, side by side."""

BETAS = Domain("betas", _draw_betas)
NO_DECAY, WHOLE, NOTHING = constant("no-decay", 0.0), constant("ones", 1.0), constant("zeros", 0.0)


def prefill_case(
    num_rows: int,
    key_heads: int,
    heads: int,
    *,
    keys: Domain = domain.NORMAL,
    values: Domain = domain.NORMAL,
    gates: Domain = GATES,
    betas: Domain = BETAS,
    cuda_only: bool = False,
) -> Case:
    """Make a case of delta_prefill.

    Args:
        num_rows: T. The rows' axis is named R: a row that follows another does not stand alone.
        key_heads: G.
        heads: H.
        keys: of q and k.
        values: of v and the state.
        gates: of g.
        betas: of beta.
        cuda_only: too large for a CPU.
    """
    bf16, fp32 = torch.bfloat16, torch.float32
    return Case(
        "delta_prefill",
        {"R": num_rows, "G": key_heads, "H": heads, "D": 128, "E": 128},
        (
            TensorSpec("k", ("R", "G", "D"), bf16, keys),
            TensorSpec("q", ("R", "G", "D"), bf16, keys),
            TensorSpec("v", ("R", "H", "E"), bf16, values),
            TensorSpec("g", ("R", "H"), fp32, gates),
            TensorSpec("beta", ("R", "H"), bf16, betas),
            TensorSpec("state", ("H", "D", "E"), fp32, values),
        ),
        (
            TensorSpec("out", ("R", "H", "E"), bf16),
            TensorSpec("state_out", ("H", "D", "E"), fp32),
        ),
        TOLERANCE,
        interpreted=False,
        cuda_only=cuda_only,
        note=f"keys {keys.name}, values {values.name}, {gates.name}, beta {betas.name}",
    )


def run_prefill(inputs: Tensors, outputs: Tensors) -> None:
    """Call delta_prefill on a case's tensors, on a copy of its state."""
    outputs["state_out"].copy_(inputs["state"])
    advance(inputs, outputs["state_out"], slice(None), out=outputs["out"])


def advance(
    inputs: Tensors,
    state: torch.Tensor,
    rows: slice,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Call delta_prefill on some rows of a case and a state of its own."""
    q, k, v, g, beta = (inputs[name][rows] for name in ("q", "k", "v", "g", "beta"))
    return delta_prefill(q, k, v, g, beta, state, out=out)
