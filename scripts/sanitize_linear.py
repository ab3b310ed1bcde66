"""Run each product once on small problems, for compute-sanitizer to watch. Needs a GPU.

    for tool in memcheck racecheck synccheck initcheck; do
        PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
            compute-sanitizer --tool $tool --error-exitcode 1 python scripts/sanitize_linear.py
    done

Without torch's memory cache every tensor is an allocation of its own, so that a read or write
beside one is seen. `qwen38 check` proves the results; this looks at nothing but memory.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels.common.proofs import SEED
from kernels.linear.cases import FAMILY
from kernels.linear.problems import FORMATS, expand_case, product_case, run_skinny, weight_of
from kernels.linear.skinny import skinny_linear

SHAPES = ((1, 5120), (100, 384), (200, 5120), (48, 17408), (40, 160))
"""One output, outputs that fill no tile, clusters of two and four blocks, a step cut short."""


def main() -> None:
    """Run plain, residual, fp32, paired and overlapped launches, then the paths of many rows."""
    if not torch.cuda.is_available():
        sys.exit("sanitize_linear: no CUDA device is here; run it on a machine with a GPU")
    cases = [
        product_case(op, name, rows, *shape)
        for name in FORMATS
        for op, rows, shape in (
            *(("skinny_linear", 9, shape) for shape in SHAPES),
            ("skinny_residual", 17, (100, 384)),
            ("skinny_logits", 3, (100, 384)),
            ("skinny_pair", 8, (224, 640)),
            ("middle_linear", 40, (75, 272)),
        )
    ]
    cases += [expand_case(name, 75, 304) for name in FORMATS]
    cases.append(product_case("fp8_prefill_linear", "fp8_block", 21, 140, 300))
    for case in cases:
        inputs, outputs = case.draw(SEED, "cuda"), case.poisoned_outputs("cuda")
        if case.op in ("skinny_linear", "skinny_residual", "skinny_logits"):
            run_skinny(inputs, outputs.tensors)
        elif case.op == "skinny_pair":
            skinny_linear(
                inputs["x"], weight_of(inputs), paired=True, overlap=True,
                out=outputs.tensors["out"],
            )  # fmt: skip
        else:
            FAMILY.ops[case.op].run(inputs, outputs.tensors)
        torch.cuda.synchronize()
        if fault := outputs.written_outside():
            sys.exit(f"{case.op} {case.label}: {fault}")
        print(case.op, case.label, flush=True)


if __name__ == "__main__":
    main()
