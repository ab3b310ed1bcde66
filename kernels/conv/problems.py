"""Make the problems of the convolution: cases with their bounds, and the calls that run them.

The rows of a call have the letter `R` here: a row reads the rows before it, so the proofs of rows
that stand alone (letter `T`) mean nothing, and `laws.py` proves what holds instead.
"""

import math

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.common.round import MAX_ROWS
from kernels.conv.arguments import GateInputs
from kernels.conv.op import conv_fold, conv_gates
from kernels.conv.prefill import conv_prefill

BF16, FP32, INT32 = torch.bfloat16, torch.float32, torch.int32

TOLERANCE = Tolerance(
    2.0**-19,
    1e-34,
    "at most 30 fp32 roundings of half a unit each in the length, the softplus and the "
    "exponentials; below -88.7 fp32 SiLU is -0; what bf16 rounding adds is the truth's slack",
)


def _negative(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return -torch.randn(shape, generator=generator).exp()


def _chain(shape: tuple[int, ...], _generator: torch.Generator) -> torch.Tensor:
    return torch.arange(-1, shape[0] - 1, dtype=FP32)


def _tree(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw a tree whose rows follow one of the four rows before them."""
    back = torch.randint(1, 5, shape, generator=generator)
    return (torch.arange(shape[0]) - back).clamp(min=0).index_fill(0, torch.tensor([0]), -1).float()


def _shuffled(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randperm(shape[0], generator=generator).float()


CHAIN, TREE = Domain("chain", _chain), Domain("tree", _tree)
RATE, BIAS = Domain("rate", _negative), domain.normal("bias", 2.0)
GATES, STEEP_GATES = domain.normal("gates", 4.0), domain.normal("steep gates", 40.0)
WEIGHTS = domain.normal("weights", 0.02)
TAPS = domain.normal("taps", 0.5)
ROWS = Domain("rows", _shuffled)


def constant(value: int) -> Domain:
    """Make a domain of one integer."""
    return Domain(str(value), lambda shape, _generator: torch.full(shape, float(value)))


def sizes_of(rows: int, key_heads: int, value_heads: int, width: int) -> dict[str, int]:
    """Number the axes of a layer's convolution."""
    return {
        "R": rows,
        "G": key_heads,
        "H": value_heads,
        "D": width,
        "C/D": (2 * key_heads + value_heads) * width,
        "H/ab": 2 * value_heads,
        "C/taps": 4,
        "C/kept": 3,
        "C/nodes": MAX_ROWS,
        "one/": 1,
    }


def _layer(
    x: Domain, gates: Domain, width: int, *, multiplies: bool = False
) -> tuple[TensorSpec, ...]:
    """Specify the inputs of a layer; `width` of a head tells a truth what the tensors do not."""
    product = (
        TensorSpec("rows", ("R", "K"), BF16, x),
        TensorSpec("ab_weight", ("H/ab", "K"), BF16, WEIGHTS),
    )
    return (
        TensorSpec("x", ("R", "C/D"), BF16, x),
        *(product if multiplies else (TensorSpec("ab", ("R", "H/ab"), BF16, gates),)),
        TensorSpec("weight", ("C/D", "C/taps"), BF16, TAPS),
        TensorSpec("decay_rate", ("H",), FP32, RATE),
        TensorSpec("dt_bias", ("H",), FP32, BIAS),
        TensorSpec("tail", ("C/kept", "C/D"), BF16, x),
        TensorSpec("width", ("one/",), INT32, constant(width)),
    )


def gates_case(
    rows: int,
    heads: tuple[int, int],
    x: Domain = domain.NORMAL,
    *,
    width: int = 128,
    shape: Domain = TREE,
    num_pending: int = 2,
    parity: int = 0,
    gates: Domain = GATES,
    num_inputs: int = 0,
    interpreted: bool = True,
) -> Case:
    """Make a case of conv_gates: (key heads, value heads) of a width, after pending rows.

    With `num_inputs` a | b are multiplied in the launch, from rows of so many inputs.
    """
    sizes = sizes_of(rows, *heads, width)
    return Case(
        "conv_gates",
        sizes | ({"K": num_inputs} if num_inputs else {}),
        (
            *_layer(x, gates, width, multiplies=bool(num_inputs)),
            TensorSpec("raw", ("C/nodes", "C/D"), BF16, x),
            TensorSpec("parity", ("one/",), INT32, constant(parity)),
            TensorSpec("num_pending", ("one/",), INT32, constant(num_pending)),
            TensorSpec("pending_rows", ("C/nodes",), INT32, ROWS),
            TensorSpec("parents", ("C/nodes",), INT32, shape),
        ),
        (
            TensorSpec("q", ("R", "G", "D"), FP32),
            TensorSpec("k", ("R", "G", "D"), FP32),
            TensorSpec("v", ("R", "H", "D"), BF16),
            TensorSpec("beta", ("R", "H"), FP32),
            TensorSpec("decay", ("R", "H"), FP32),
            TensorSpec("raw_written", ("R", "C/D"), BF16),
            TensorSpec("tail_written", ("C/kept", "C/D"), BF16),
        ),
        TOLERANCE,
        interpreted,
        note=f"{shape.name}, {num_pending} pending, half {parity}, {gates.name}",
    )


def prefill_case(
    rows: int,
    heads: tuple[int, int],
    x: Domain = domain.NORMAL,
    *,
    width: int = 128,
    gates: Domain = GATES,
    interpreted: bool = True,
) -> Case:
    """Make a case of conv_prefill."""
    return Case(
        "conv_prefill",
        sizes_of(rows, *heads, width),
        _layer(x, gates, width),
        (
            TensorSpec("q", ("R", "G", "D"), BF16),
            TensorSpec("k", ("R", "G", "D"), BF16),
            TensorSpec("v", ("R", "H", "D"), BF16),
            TensorSpec("g", ("R", "H"), FP32),
            TensorSpec("beta", ("R", "H"), BF16),
            TensorSpec("tail_written", ("C/kept", "C/D"), BF16),
        ),
        TOLERANCE,
        interpreted,
        note=gates.name,
    )


def fold_case(layers: int, channels: int, num_pending: int, parity: int) -> Case:
    """Make a case of conv_fold."""
    return Case(
        "conv_fold",
        {"L": layers, "C": channels, "C/halves": 2, "C/kept": 3, "C/nodes": MAX_ROWS, "one/": 1},
        (
            TensorSpec("tails", ("L", "C/halves", "C/kept", "C"), BF16, domain.NORMAL),
            TensorSpec("raw", ("L", "C/halves", "C/nodes", "C"), BF16, domain.NORMAL),
            TensorSpec("parity", ("one/",), INT32, constant(parity)),
            TensorSpec("num_pending", ("one/",), INT32, constant(num_pending)),
            TensorSpec("pending_rows", ("C/nodes",), INT32, ROWS),
        ),
        (TensorSpec("tails_written", ("L", "C/halves", "C/kept", "C"), BF16),),
        Tolerance(0.0, 0.0, "rows are moved: every element is exact"),
        interpreted=layers * channels <= 20_000,
        note=f"{num_pending} pending, half {parity}",
    )


def _half_read(values: torch.Tensor, parity: torch.Tensor) -> torch.Tensor:
    """Put what is read into its half and NaN into the other: [...] -> [2, ...]."""
    halves = torch.arange(2, device=values.device).view(2, *(1 for _ in values.shape))
    return torch.where(halves == 1 - parity, values, math.nan).contiguous()


def gates_of(inputs: Tensors) -> torch.Tensor | GateInputs:
    """Return a | b of a case, or what they are the product of."""
    if "ab" in inputs:
        return inputs["ab"]
    return GateInputs(inputs["rows"], inputs["ab_weight"])


def run_gates(inputs: Tensors, outputs: Tensors, *, overlap: bool = False) -> None:
    """Call conv_gates on a case's tensors, with the half that is written full of NaN."""
    parity, num_rows = inputs["parity"], inputs["x"].shape[0]
    k, decay = outputs["k"], outputs["decay"]
    tails, raw = _half_read(inputs["tail"], parity), _half_read(inputs["raw"], parity)
    record_k = k.new_full((2, 32, *k.shape[1:]), math.nan)
    record_decay = decay.new_full((2, 32, *decay.shape[1:]), math.nan)
    conv_gates(
        inputs["x"], gates_of(inputs), inputs["weight"], inputs["decay_rate"], inputs["dt_bias"],
        tails, raw, record_k, record_decay, parity, inputs["num_pending"], inputs["pending_rows"],
        inputs["parents"], q=outputs["q"], v=outputs["v"], beta=outputs["beta"], overlap=overlap,
    )  # fmt: skip
    k.copy_(record_k.index_select(0, parity)[0, :num_rows])
    decay.copy_(record_decay.index_select(0, parity)[0, :num_rows])
    outputs["raw_written"].copy_(raw.index_select(0, parity)[0, :num_rows])
    outputs["tail_written"].copy_(tails.index_select(0, parity)[0])


def run_prefill(inputs: Tensors, outputs: Tensors) -> None:
    """Call conv_prefill on a case's tensors."""
    conv_prefill(
        inputs["x"], inputs["ab"], inputs["weight"], inputs["decay_rate"], inputs["dt_bias"],
        inputs["tail"], q=outputs["q"], k=outputs["k"], v=outputs["v"], g=outputs["g"],
        beta=outputs["beta"], tail_out=outputs["tail_written"],
    )  # fmt: skip


def run_fold(inputs: Tensors, outputs: Tensors) -> None:
    """Call conv_fold on a copy of a case's tails."""
    tails = outputs["tails_written"]
    tails.copy_(inputs["tails"])
    conv_fold(tails, inputs["raw"], inputs["parity"], inputs["num_pending"], inputs["pending_rows"])
