"""List the problems that the norm kernels are checked on, and the laws between them.

Shapes are the 27B's (hidden 5120, heads of 256 and 128), those of its siblings and of the demo
model, widths that fill no power of two, and every hostile domain.
"""

import torch

from kernels.common import domain, exact_torch
from kernels.common.capture import capture
from kernels.common.case import Case, Tensors
from kernels.common.compare import different_bits
from kernels.common.family import Family, Law, Op
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands
from kernels.norm.op import add_rms_norm, gated_rms_norm, rms_norm
from kernels.norm.problems import (
    EPS,
    add_case,
    gated_case,
    rms_case,
    run_add,
    run_gated,
    run_rms,
)
from kernels.norm.reference import (
    add_rms_norm_reference,
    gated_rms_norm_reference,
    mean_square_of_kernel,
    rms_norm_reference,
)
from kernels.norm.tile import candidates
from kernels.norm.timed import TUNABLES, timed

HIDDEN_WIDTHS = (256, 1024, 2048, 2560, 4096, 5120)
"""Hidden sizes: demo, siblings, 27B. 256 is also the width of an attention head."""

ODD_WIDTHS = (1, 3, 100, 129, 1000, 5119, 5121)
PREFILL_ROWS = (63, 100, 1500)


def _cases() -> tuple[Case, ...]:
    """Build all cases; those above about 100 programs are left to a GPU."""
    cases: list[Case] = []
    for width in HIDDEN_WIDTHS:
        for make in (rms_case, add_case):
            cases.append(make(1, width))
            cases.append(make(32, width, interpreted=width == 256))
    cases.extend(rms_case(5, width) for width in ODD_WIDTHS)
    for rows in (16, *PREFILL_ROWS):
        cases.append(rms_case(rows, 5120, interpreted=False))
        cases.append(add_case(rows, 5120, interpreted=False))
        cases.append(rms_case(24 * rows, 256, interpreted=False))
    for rows, heads in ((1, 48), (1, 3), (8, 3)):
        cases.append(gated_case(rows, heads))
        cases.append(gated_case(rows, heads, fp32_weight=True))
    cases.append(gated_case(32, 3, interpreted=False))
    cases.extend(gated_case(rows, 48, interpreted=False) for rows in (16, 32, *PREFILL_ROWS))
    for hostile in domain.HOSTILE:
        cases.append(rms_case(3, 5120, hostile))
        cases.append(add_case(3, 5120, hostile))
        cases.append(gated_case(3, 3, hostile))
    cases.append(rms_case(3, 5120, fp32_weight=True))
    return tuple(cases)


def _model_rms(inputs: Tensors) -> Tensors:
    out = rms_norm_reference(inputs["x"], inputs["weight"], EPS, mean_square_of_kernel)
    return {"out": out}


def _model_add(inputs: Tensors) -> Tensors:
    out, total = add_rms_norm_reference(
        inputs["x"], inputs["residual"], inputs["weight"], EPS, mean_square_of_kernel
    )
    return {"out": out, "residual_out": total}


def _model_gated(inputs: Tensors) -> Tensors:
    out = gated_rms_norm_reference(
        inputs["x"], inputs["gate"], inputs["weight"], EPS, mean_square_of_kernel, exact_torch.silu
    )
    return {"out": out}


def _truth_of_norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Compute x / sqrt(mean x^2 + eps) * scale in fp64 by vector norms: no step of the kernel's."""
    rms = torch.hypot(
        torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5,
        torch.tensor(EPS, dtype=torch.float64).sqrt(),
    )
    return x * scale / rms


def _truth_rms(inputs: Tensors) -> Tensors:
    return {"out": _truth_of_norm(inputs["x"].double(), 1.0 + inputs["weight"].double())}


def _truth_add(inputs: Tensors) -> Tensors:
    total = inputs["x"].double() + inputs["residual"].double()
    out = _truth_of_norm(total, 1.0 + inputs["weight"].double())
    return {"out": out, "residual_out": total}


def _truth_gated(inputs: Tensors) -> Tensors:
    gate = inputs["gate"].double()
    normed = _truth_of_norm(inputs["x"].double(), inputs["weight"].double())
    return {"out": normed * gate * torch.sigmoid(gate)}


def _fused_add_differs(device: str) -> str | None:
    """Compare add_rms_norm with an addition followed by rms_norm."""
    for case in (add_case(4, 5120, domain.OUTLIERS), add_case(5, 129)):
        inputs = case.draw(1, device)
        total = inputs["x"] + inputs["residual"]
        apart = rms_norm(total, inputs["weight"], EPS)
        fused, stored = add_rms_norm(inputs["x"], inputs["residual"], inputs["weight"], EPS)
        fault = different_bits(stored, total, "TD") or different_bits(fused, apart, "TD")
        if fault:
            return f"{case.label}: {fault}"
    return None


def _in_place_differs(device: str) -> str | None:
    """Compare outputs written over the inputs with outputs of their own."""
    inputs = add_case(4, 5120).draw(2, device)
    x, residual, weight = inputs["x"], inputs["residual"], inputs["weight"]
    apart, total = add_rms_norm(x, residual, weight, EPS)
    add_rms_norm(x, residual, weight, EPS, out=x, residual_out=residual)
    return different_bits(x, apart, "TD") or different_bits(residual, total, "TD")


def _strided_rows_differ(device: str) -> str | None:
    """Compare slices of wider rows, as fused products give them, with contiguous copies."""
    wide = rms_case(4, 512).draw(3, device)
    x, weight = wide["x"][:, 256:], wide["weight"][256:]
    fault = different_bits(
        rms_norm(x, weight, EPS), rms_norm(x.contiguous(), weight, EPS), ("T", "D")
    )
    heads = gated_case(4, 6).draw(4, device)
    x, gate, weight = heads["x"][:, 3:], heads["gate"][:, :3], heads["weight"]
    strided = gated_rms_norm(x, gate, weight, EPS)
    contiguous = gated_rms_norm(x.contiguous(), gate.contiguous(), weight, EPS)
    return fault or different_bits(strided, contiguous, ("T", "H", "D"))


def _tile_changes_bits(device: str) -> str | None:
    """Compare every candidate tile with the default."""
    for width in (256, 5120):
        inputs = rms_case(3, width).draw(5, device)
        default = rms_norm(inputs["x"], inputs["weight"], EPS)
        for tile in candidates(width):
            tiled = rms_norm(inputs["x"], inputs["weight"], EPS, tile=tile)
            if fault := different_bits(tiled, default, "TD"):
                return f"{tile} at D={width}: {fault}"
    return None


def _operands_differ(device: str) -> str | None:
    """Compare operands with those of the rows that are written beside them."""
    for rows, width, values in (
        (1, 256, domain.NORMAL), (9, 5120, domain.OUTLIERS), (19, 640, domain.WIDE_EXPONENTS),
    ):  # fmt: skip
        inputs = add_case(rows, width, values).draw(6, device)
        x, residual, weight = inputs["x"], inputs["residual"], inputs["weight"]
        x[0, 3], weight = torch.nan, weight * 3e4  # beyond fp16 in places

        def alone(
            operands: Operands, x: torch.Tensor = x, weight: torch.Tensor = weight
        ) -> torch.Tensor:
            return rms_norm(x, weight, EPS, operands=operands)

        def added(
            operands: Operands,
            x: torch.Tensor = x,
            residual: torch.Tensor = residual,
            weight: torch.Tensor = weight,
        ) -> torch.Tensor:
            return add_rms_norm(x, residual, weight, EPS, overlap=x.is_cuda, operands=operands)[0]

        for write in (alone, added):
            if fault := wrong_operands(write, rows, width, device):
                return f"{write.__name__} {rows} x {width}: {fault}"
    for rows, heads, width in ((1, 5, 128), (11, 2, 128), (3, 2, 384)):
        inputs = gated_case(rows, heads, domain.OUTLIERS, width=width).draw(7, device)
        x, gate, weight = inputs["x"], inputs["gate"], inputs["weight"] * 3e4
        x[0, 1, 3] = torch.nan

        def gated(
            operands: Operands,
            x: torch.Tensor = x,
            gate: torch.Tensor = gate,
            weight: torch.Tensor = weight,
        ) -> torch.Tensor:
            return gated_rms_norm(x, gate, weight, EPS, operands=operands).flatten(1)

        if fault := wrong_operands(gated, rows, width * heads, device):
            return f"gated {rows} x {heads} heads of {width}: {fault}"
    return None


def _few_rows_differ_from_many(device: str) -> str | None:
    """Compare rows of a round with the same rows among more, which another kernel takes.

    In bf16 the order of a sum shows in one of hundreds of rows, so there are many of 5,120.
    """
    drawn = *((width, 0) for width in (128, 640, 2560, 8192)), *((5120, seed) for seed in range(16))
    for width, seed in drawn:
        inputs = add_case(40, width, domain.WIDE_EXPONENTS).draw(seed, device)
        x, residual, weight = inputs["x"], inputs["residual"], inputs["weight"]
        many = add_rms_norm(x, residual, weight, EPS)
        for rows in (slice(0, 32), slice(7, 8)):
            few = add_rms_norm(x[rows], residual[rows], weight, EPS, overlap=True)
            for one, other in zip(few, many, strict=True):
                if fault := different_bits(one, other[rows], "TD"):
                    return f"rows {rows.start} to {rows.stop} of {width}: {fault}"
    return None


def _overlap_differs(device: str) -> str | None:
    """Compare norms of each other's rows in an overlapped graph with norms one after another."""
    inputs = add_case(16, 5120).draw(9, device)
    x, residual, weight = inputs["x"], inputs["residual"], inputs["weight"]
    places = [torch.empty_like(x) for _ in range(6)]

    def run(*, overlap: bool) -> None:
        for first, second, total in (places[:3], places[3:]):
            rms_norm(x, weight, EPS, out=first, overlap=overlap)
            add_rms_norm(
                first, residual, weight, EPS, out=second, residual_out=total, overlap=overlap
            )

    run(overlap=False)
    want = [one.clone() for one in places]
    graph = capture([lambda: run(overlap=True)])
    for _ in range(10):
        for one in places:
            one.fill_(torch.nan)
        graph.replay()
        for one, other in zip(places, want, strict=True):
            if fault := different_bits(one, other, "TD"):
                return fault
    return None


FAMILY = Family(
    name="norm",
    ops={
        "rms_norm": Op(run_rms, _truth_rms, _model_rms),
        "add_rms_norm": Op(run_add, _truth_add, _model_add),
        "gated_rms_norm": Op(run_gated, _truth_gated, _model_gated),
    },
    cases=_cases(),
    laws=(
        Law("add_rms_norm equals an addition then rms_norm", _fused_add_differs),
        Law("outputs may overwrite inputs", _in_place_differs),
        Law("strided rows have the bits of contiguous ones", _strided_rows_differ),
        Law("no tile changes a bit", _tile_changes_bits),
        Law("operands are those of the rows", _operands_differ),
        Law("few rows have the bits of many", _few_rows_differ_from_many, cuda_only=True),
        Law("overlap with the kernel before changes no bit", _overlap_differs, cuda_only=True),
    ),
    timed=timed,
    tunables=TUNABLES,
)
