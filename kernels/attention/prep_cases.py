"""Make the problems of attention's preparation: cases, calls, truth, model and laws.

The rows of a call have the letter `R` here: a query row's outputs and a key row's are apart, so
the general proofs of rows (letter `T`) do not fit, and laws prove what holds instead.
"""

from functools import partial

import torch

from kernels.attention.kv_cases import scale_specs, scales_of, without_numbers
from kernels.attention.kv_codes import E4M3, to_bf16, to_codes, widened
from kernels.attention.prep import attention_prep
from kernels.attention.prep_reference import mean_square_of_kernel, prepared_heads_reference
from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import BF16_ROUNDING, Tolerance
from kernels.common.domain import Domain
from kernels.common.e4m3 import E4M3_MAX
from kernels.common.family import Op

BF16, FP32, INT32 = torch.bfloat16, torch.float32, torch.int32

EPS = 1e-6
"""rms_norm_eps of every Qwen3.5 to 3.8 model."""

TOLERANCE = Tolerance(
    2.0**-19,
    2.0**-132,
    "the fp32 norm: a tree of 8 additions, halved by the root, and six more roundings; half a "
    "subnormal step below; what bf16 rounding adds is the truth's slack",
)


def _angles(shape: tuple[int, ...]) -> torch.Tensor:
    """Compute angles as the model's tables hold them: both halves alike."""
    half = shape[1] // 2
    rates = 1e7 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(shape[0], dtype=torch.float64)[:, None] * rates
    return torch.cat((angles, angles), dim=-1)


def _depths(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw the depths of a tree whose rows follow one of the four rows before them."""
    depths = [0]
    for back in torch.randint(1, 5, shape, generator=generator).tolist()[1:]:
        depths.append(depths[max(0, len(depths) - back)] + 1)
    return torch.tensor(depths, dtype=FP32)


COS = Domain("cos", lambda shape, _generator: _angles(shape).cos().float())
SIN = Domain("sin", lambda shape, _generator: _angles(shape).sin().float())
DEPTHS = Domain("depths", _depths)
WEIGHT = domain.normal("weight", 0.3)


def prep_case(
    rows: int,
    heads: tuple[int, int],
    x: Domain = domain.NORMAL,
    *,
    width: int = 256,
    turned: int = 64,
    start: int = 5,
    positions: int = 64,
    tree: bool = True,
    fp32_weight: bool = False,
    coded: bool = False,
    interpreted: bool = True,
) -> Case:
    """Make a case of (query heads, key heads) of a width, some dimensions of which are turned.

    `coded`: keys and values are stored as e4m3 codes, and put out as what those stand for.
    """
    scales = scale_specs(domain.NORMAL) if coded else ()
    weight = FP32 if fp32_weight else BF16
    depths = (TensorSpec("depths", ("R",), INT32, DEPTHS),) if tree else ()
    return Case(
        "attention_prep",
        {
            "R": rows,
            "H": heads[0],
            "G": heads[1],
            "D": width,
            "S": positions,
            "H/q": 2 * heads[0] * width,
            "G/k": heads[1] * width,
            "D/turned": turned,
            "one/": 1,
        },
        (
            TensorSpec("q", ("R", "H/q"), BF16, x),
            TensorSpec("k", ("R", "G/k"), BF16, x),
            TensorSpec("v", ("R", "G/k"), BF16, x),
            TensorSpec("q_norm", ("D",), weight, WEIGHT),
            TensorSpec("k_norm", ("D",), weight, WEIGHT),
            TensorSpec("cos", ("S", "D/turned"), BF16, COS),
            TensorSpec("sin", ("S", "D/turned"), BF16, SIN),
            TensorSpec("start", ("one/",), INT32, Domain("start", _constant(start))),
            *depths,
            *scales,
        ),
        (
            TensorSpec("out", ("R", "H", "D"), BF16),
            TensorSpec("key", ("R", "G", "D"), BF16),
            TensorSpec("value", ("R", "G", "D"), BF16),
        ),
        TOLERANCE,
        interpreted,
        note=f"{turned} turned, {'tree' if tree else 'in order'} from {start}"
        + (" e4m3" if coded else ""),
    )


def _constant(value: int) -> domain.Draw:
    return lambda shape, _generator: torch.full(shape, float(value))


def prepare(
    inputs: Tensors,
    keys: torch.Tensor,
    values: torch.Tensor,
    out: torch.Tensor,
    *,
    overlap: bool = False,
) -> None:
    """Call attention_prep on a case's tensors and a store of one layer."""
    attention_prep(
        inputs["q"], inputs["k"], inputs["v"], inputs["q_norm"], inputs["k_norm"], inputs["cos"],
        inputs["sin"], inputs["start"], inputs.get("depths"), keys, values, out=out, eps=EPS,
        scales=scales_of(inputs), overlap=overlap,
    )  # fmt: skip


def empty_store(inputs: Tensors) -> torch.Tensor:
    """Allocate the keys or values of one layer, full of NaN: bf16 or e4m3 [G, S, D]."""
    width, capacity = inputs["k_norm"].shape[0], inputs["cos"].shape[0]
    dtype = BF16 if scales_of(inputs) is None else E4M3
    shape = (inputs["k"].shape[1] // width, capacity, width)
    return without_numbers(inputs["k"].new_empty(shape, dtype=dtype))


def run_prep(inputs: Tensors, outputs: Tensors) -> None:
    """Call attention_prep on a store full of NaN and gather the slots it should have written."""
    keys, values = empty_store(inputs), empty_store(inputs)
    prepare(inputs, keys, values, outputs["out"])
    keys, values = widened(keys, values, scales_of(inputs))
    rows = torch.arange(len(inputs["q"]), device=keys.device)
    slots = inputs["start"] + rows
    for store, name in ((keys, "key"), (values, "value")):
        outputs[name].copy_(store.index_select(1, slots).transpose(0, 1))


def _positions(inputs: Tensors) -> torch.Tensor:
    depths = inputs.get("depths")
    depths = torch.arange(len(inputs["q"]), device=inputs["q"].device) if depths is None else depths
    return inputs["start"] + depths.long()


def _query(inputs: Tensors) -> torch.Tensor:
    """View the query values as heads, without the gates."""
    width = inputs["q_norm"].shape[0]
    return inputs["q"].unflatten(1, (-1, 2 * width))[..., :width]


def _truth_of_heads(x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor):
    """Normalise and rotate in fp64 as complex numbers; also the error bf16 rounding may add."""
    x, weight = x.double(), weight.double()
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    normed = x * (1.0 + weight) / torch.hypot(norm, torch.tensor(EPS, dtype=torch.float64).sqrt())
    half = cos.shape[-1] // 2
    one, two, rest = normed.split((half, half, x.shape[-1] - 2 * half), dim=-1)
    turn = torch.complex(cos.double(), sin.double())[:, None]
    near = (torch.complex(one, two) * turn[..., :half]).real
    far = (torch.complex(one, two) * turn[..., half:]).imag
    # two roundings of each term, the norm's and the product's, then one of the sum.
    terms = [
        one.abs() * turn[..., :half].real.abs() + two.abs() * turn[..., :half].imag.abs(),
        two.abs() * turn[..., half:].real.abs() + one.abs() * turn[..., half:].imag.abs(),
    ]
    truth = torch.cat((near, far, rest), dim=-1)
    error = torch.cat(
        (*(2.01 * BF16_ROUNDING * term for term in terms), torch.zeros_like(rest)), dim=-1
    )
    return truth, error + 1.001 * BF16_ROUNDING * (truth.abs() + error)


def truth_of_prep(inputs: Tensors) -> Tensors:
    """Compute the outputs of attention_prep in fp64."""
    width, at = inputs["q_norm"].shape[0], _positions(inputs)
    angles = inputs["cos"][at], inputs["sin"][at]
    key, value = (inputs[name].unflatten(1, (-1, width)) for name in ("k", "v"))
    out, out_slack = _truth_of_heads(_query(inputs), inputs["q_norm"], *angles)
    key, key_slack = _truth_of_heads(key, inputs["k_norm"], *angles)
    key, key_slack = _truth_of_codes(key, key_slack, inputs.get("key_scales"))
    value = value.double()
    value, value_slack = _truth_of_codes(value, value * 0, inputs.get("value_scales"))
    return {
        "out": out,
        "out_slack": out_slack,
        "key": key,
        "key_slack": key_slack,
        "value": value,
        "value_slack": value_slack,
    }


def _truth_of_codes(
    x: torch.Tensor, slack: torch.Tensor, scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bound [R, G, D] by the largest code; add half a step of the code, or of the smallest."""
    if scale is None:
        return x, slack
    scale = scale.double()[:, None]
    bounded = torch.maximum(torch.minimum(x, E4M3_MAX * scale), -E4M3_MAX * scale)
    step = torch.maximum(2.0**-4 * (bounded.abs() + slack), 2.0**-10 * scale)
    return bounded, slack + step


def model_of_prep(inputs: Tensors) -> Tensors:
    """Predict the kernel's bits."""
    width, at = inputs["q_norm"].shape[0], _positions(inputs)
    angles = inputs["cos"][at], inputs["sin"][at], EPS, mean_square_of_kernel
    key, value = (inputs[name].unflatten(1, (-1, width)) for name in ("k", "v"))
    key, scales = prepared_heads_reference(key, inputs["k_norm"], *angles), scales_of(inputs)
    if scales is not None:
        key, value = (
            to_bf16(to_codes(x, scale[:, None]), scale[:, None])
            for x, scale in ((key, scales.keys), (value, scales.values))
        )
    return {
        "out": prepared_heads_reference(_query(inputs), inputs["q_norm"], *angles),
        "key": key,
        "value": value,
    }


def _cases() -> tuple[Case, ...]:
    """Build all cases: heads of the 27B, its siblings and the demo model, then narrow ones."""
    cases = [
        prep_case(1, (6, 1)),
        prep_case(9, (6, 1)),
        prep_case(9, (6, 1), tree=False),
        prep_case(40, (2, 1), tree=False),
        prep_case(5, (4, 2), width=64, turned=16),
        prep_case(5, (2, 2), width=64, turned=64, fp32_weight=True),
        prep_case(1500, (24, 4), start=300, positions=2048, tree=False, interpreted=False),
        *(prep_case(4, (6, 1), hostile) for hostile in domain.HOSTILE),
        prep_case(4, (3, 2), coded=True),
        prep_case(40, (2, 1), tree=False, coded=True),
        prep_case(5, (4, 2), width=64, turned=16, coded=True),
        prep_case(
            1500, (24, 4), start=300, positions=2048, tree=False, coded=True, interpreted=False
        ),
        *(prep_case(2, (2, 1), hostile, coded=True) for hostile in domain.HOSTILE),
    ]
    far = partial(prep_case, positions=40_000, start=39_000, interpreted=False)
    for heads in ((24, 4), (16, 4), (16, 2), (8, 2)):
        cases.extend(far(rows, heads) for rows in (1, 16, 32))
    cases.extend(far(rows, (24, 4), coded=True) for rows in (1, 16, 32))
    return tuple(cases)


OPS = {"attention_prep": Op(run_prep, truth_of_prep, model_of_prep)}
CASES = _cases()
