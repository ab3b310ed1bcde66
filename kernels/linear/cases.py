"""List the problems that the products are checked on, and the laws between them.

On a GPU every matrix of the 27B in every format, those of its siblings and of the demo, outputs and
inputs that fill no tile and no step, and every hostile domain, all at 32 rows, so that every call
of 1 to 32 is tried. On a CPU real K with few outputs (the order of a sum does not depend on N).
"""

from collections.abc import Iterator

from kernels.common import domain, exact_torch, gpu
from kernels.common.case import Case, Tensors
from kernels.common.family import Family, Op
from kernels.linear.ahead import compile_ahead, variants_of
from kernels.linear.launch_laws import LAUNCH_LAWS
from kernels.linear.laws import LAWS
from kernels.linear.problems import (
    FORMATS,
    FORMATS_OF_8_BITS_AT_MOST,
    expand_case,
    product_case,
    run_expand,
    run_middle,
    run_pair,
    run_prefill,
    run_prefill_kernel,
    run_silu_mul,
    run_skinny,
    silu_mul_case,
    weight_parts,
)
from kernels.linear.reference import (
    e4m3_row_dequantise,
    fp8_block_dequantise,
    nvfp4_dequantise,
)
from kernels.linear.streamed_laws import STREAMED_LAWS
from kernels.linear.timed import timed
from kernels.linear.truth import (
    truth_expand,
    truth_middle,
    truth_pair,
    truth_prefill,
    truth_silu_mul,
    truth_skinny,
)
from kernels.linear.tuned import TUNABLES

PLAIN = ((34816, 5120), (16384, 5120), (14336, 5120), (12288, 5120), (10240, 5120), (6144, 5120),
         (1024, 5120))  # fmt: skip
"""Groups of the 27B and their members: [N, K]."""

WITH_RESIDUAL = ((5120, 17408), (5120, 6144))
VOCABULARY = 248_320

SIBLINGS = ((1024, 3584), (2048, 6144), (2560, 9216), (4096, 12288), (256, 768))
"""Hidden and MLP widths of the siblings, and of the demo."""

RAGGED_OUTPUTS = (1, 7, 100, 1000)
RAGGED_INPUTS = (16, 48, 160, 5000)
HOSTILE_PAIR = (domain.OUTLIERS, domain.ZERO_ROWS, domain.TINY)
"""A pair of two huge sums is beyond bf16."""


def _skinny_on_gpu() -> Iterator[Case]:
    """Every shape at 32 rows."""
    for name in FORMATS:
        for shape in PLAIN:
            yield product_case("skinny_linear", name, 32, *shape)
        for shape in WITH_RESIDUAL:
            yield product_case("skinny_linear", name, 32, *shape)
            yield product_case("skinny_residual", name, 32, *shape)
        yield product_case("skinny_pair", name, 32, 34816, 5120)
        for hidden, wide in SIBLINGS:
            yield product_case("skinny_pair", name, 32, 2 * wide, hidden)
            yield product_case("skinny_residual", name, 32, hidden, wide)
        for num_outputs in RAGGED_OUTPUTS:
            yield product_case("skinny_linear", name, 32, num_outputs, 384)
        for num_inputs in RAGGED_INPUTS:
            if name != "nvfp4" or num_inputs % 16 == 0:
                yield product_case("skinny_linear", name, 32, 100, num_inputs)
        for values in domain.HOSTILE:
            yield product_case("skinny_residual", name, 32, 200, 5120, values)
            yield product_case("skinny_logits", name, 32, 200, 5120, values)
        for values in HOSTILE_PAIR:
            yield product_case("skinny_pair", name, 32, 224, 5120, values)
    yield product_case("skinny_linear", "bf16", 32, 96, 5120)
    yield product_case("skinny_logits", "e4m3_row", 32, VOCABULARY, 5120)
    yield product_case("skinny_logits", "bf16", 32, VOCABULARY, 5120)


def _skinny_on_cpu() -> Iterator[Case]:
    """Few outputs and rows."""
    for name in FORMATS:
        for num_inputs in (5120, 6144, 17408):
            yield product_case("skinny_linear", name, 4, 48, num_inputs, cuda_only=False)
        yield product_case("skinny_residual", name, 3, 100, 640, cuda_only=False)
        yield product_case("skinny_pair", name, 3, 64, 640, cuda_only=False)
        yield product_case("skinny_logits", name, 3, 256, 256, cuda_only=False)
        yield product_case("skinny_linear", name, 3, 7, 48, cuda_only=False)
        for values in domain.HOSTILE:
            yield product_case("skinny_linear", name, 3, 21, 1024, values, cuda_only=False)


def _others() -> Iterator[Case]:
    """Many rows and expansion; the small ones in the interpreter too."""
    for name in FORMATS:
        for rows, shape in ((5, (75, 272)), (40, (64, 384))):
            yield product_case(
                "middle_linear", name, rows, *shape, interpreted=True, cuda_only=False
            )
        for values in (domain.OUTLIERS, domain.TINY, domain.WIDE_EXPONENTS):
            yield product_case(
                "middle_linear", name, 3, 64, 256, values, interpreted=True, cuda_only=False
            )
        for rows in (32, 200):
            yield product_case("middle_linear", name, rows, 1024, 5120)
        for shape in ((75, 304), (16, 128), (1, 16)):
            yield expand_case(name, *shape, interpreted=True)
        yield expand_case(name, 256, 5120)


def _fp8_option() -> Iterator[Case]:
    """The FP8 option by its kernel, and as it is chosen."""
    for name in FORMATS_OF_8_BITS_AT_MOST:
        for rows, shape in ((3, (75, 304)), (5, (140, 256))):
            yield product_case(
                "fp8_prefill_kernel", name, rows, *shape, interpreted=True, cuda_only=False
            )
        for rows in (32, 300):
            yield product_case("fp8_prefill_kernel", name, rows, 1024, 5120)
        yield product_case("fp8_prefill_linear", name, 300, 1024, 5120)
        for values in domain.HOSTILE:
            for op in ("fp8_prefill_kernel", "fp8_prefill_linear"):
                yield product_case(op, name, 3, 64, 384, values, cuda_only=False)


def _dequantised(inputs: Tensors) -> Tensors:
    """Decode the checkpoint's own tensors; `expand` starts from packed ones."""
    parts = weight_parts(inputs)
    if len(parts) == 1:
        return {"out": parts[0]}
    if len(parts) == 3:
        return {"out": nvfp4_dequantise(*parts)}
    by_row = parts[1].dim() == 1
    return {"out": e4m3_row_dequantise(*parts) if by_row else fp8_block_dequantise(*parts)}


def _silu_mul() -> Iterator[Case]:
    """One row and several, a ragged width, a feed-forward layer of the 27B, hostile gates."""
    for rows, width in ((1, 17408), (3, 1027), (16, 1024), (300, 17408)):
        yield silu_mul_case(rows, width)
    for values in domain.HOSTILE:
        yield silu_mul_case(3, 1040, values)


def _silu_mul_model(inputs: Tensors) -> Tensors:
    """Compute silu_mul in the kernel's own steps."""
    gated = exact_torch.silu(inputs["gate"].float()).bfloat16()
    return {"out": gated * inputs["up"]}


CASES = (*_skinny_on_cpu(), *_skinny_on_gpu(), *_others(), *_fp8_option(), *_silu_mul())


def _compile() -> None:
    """Compile the skinny launches of the cases, those too large to be run ahead among them."""
    capability = gpu.choices()
    compile_ahead(one for case in CASES for one in variants_of(case, capability))


FAMILY = Family(
    name="linear",
    ops={
        "skinny_linear": Op(run_skinny, truth_skinny),
        "skinny_residual": Op(run_skinny, truth_skinny),
        "skinny_logits": Op(run_skinny, truth_skinny),
        "skinny_pair": Op(run_pair, truth_pair),
        "middle_linear": Op(run_middle, truth_middle),
        "fp8_prefill_linear": Op(run_prefill, truth_prefill, rows_alone=False),
        "fp8_prefill_kernel": Op(run_prefill_kernel, truth_prefill),
        "expand": Op(run_expand, truth_expand, _dequantised),
        "silu_mul": Op(run_silu_mul, truth_silu_mul, _silu_mul_model),
    },
    cases=CASES,
    laws=(*LAWS, *LAUNCH_LAWS, *STREAMED_LAWS),
    timed=timed,
    tunables=TUNABLES,
    compile=_compile,
)
