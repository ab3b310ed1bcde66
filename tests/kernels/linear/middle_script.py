"""Run the products of many rows in the interpreter and print a verdict for each property."""

import json
import sys

import torch
from middle_checks import (
    FORMATS,
    WIDTHS,
    prove_expanded,
    prove_expansion,
    prove_prefill,
    prove_product,
    prove_rounding,
    rows_of,
)

from kernels.common import interpreter
from kernels.common.compare import different_bits
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.prefill_fp8 import PrefillTile
from kernels.linear.quantise import quantise_rows, quantise_steps

interpreter.install()
verdicts: dict[str, str | None] = {}


def note(label: str, proofs: dict[str, str | None]) -> None:
    """Keep the verdicts of one case under its label."""
    verdicts.update({f"{label}: {proof}": fault for proof, fault in proofs.items()})


def check_quantiser(quantise, T: int, K: int, group: int) -> None:
    x = rows_of(T, K)
    x[1] = 0.0
    x[3, :16] *= 2.0**-140
    codes, scales = quantise(x)
    interpreter._state["installed"] = False
    plain_codes, plain_scales = quantise(x)
    interpreter._state["installed"] = True
    label = f"quantiser {T}x{K} by {group}"
    same = different_bits(codes.view(torch.uint8), plain_codes.view(torch.uint8), ("T", "K"))
    verdicts[f"{label} has the bits of plain torch"] = (
        None if torch.equal(scales, plain_scales) else "scales differ"
    ) or same
    wide = scales.view(-1, T).t().double().repeat_interleave(group, 1)
    seen = (codes.double() * wide)[:, :K]
    step = torch.maximum(2.0**-4 * x.double().abs(), 2.0**-10 * wide[:, :K])
    off = (seen - x.double()).abs() > 1.0001 * step
    verdicts[f"{label} moves an element by its bound"] = "beyond" if off.any() else None


SMALL = MiddleTile(64, 16, 4, 2)
SPLIT = MiddleTile(64, 16, 4, 2, splits=3)
for name in FORMATS:
    width = WIDTHS[name]
    note(f"middle {name} tails", prove_product(name, 21, 75, width, SMALL))
    note(f"middle {name} split", prove_product(name, 6, 64, 384, SPLIT))
    for N, K in ((75, width), (16, 128)):
        note(f"expand {name} {N}x{K}", prove_expansion(name, N, K))
        note(f"expanded {name} {N}x{K}", prove_expanded(name, N, K))
PART = MiddleTile(64, 16, 4, 2, splits=2, whole=64)
BY_SUM = MiddleTile(128, 16, 4, 2, fold_scale=False)
MAPPED = MiddleTile(64, 16, 4, 2, tensor_map=True)
TALL = MiddleTile(256, 16, 8, 2)
note("middle fp8_block two blocks", prove_product("fp8_block", 5, 200, 256, TALL))
note("middle fp8_block sums scaled", prove_product("fp8_block", 5, 140, 300, BY_SUM))
note("middle nvfp4 part whole", prove_product("nvfp4", 20, 140, 384, PART))
note("middle nvfp4_spread default", prove_product("nvfp4_spread", 70, 70, 272))
note("middle bf16 mapped", prove_product("bf16", 21, 75, 296, MAPPED))
check_quantiser(quantise_steps, 21, 300, 128)
check_quantiser(quantise_rows, 21, 300, 384)
for name in ("nvfp4", "nvfp4_spread"):
    for N, K in ((75, 336), (16, 128), (1, 16), (20, 2320)):
        note(f"rounded {name} {N}x{K}", prove_rounding(name, N, K))
for name in FORMATS[:-1]:
    width = WIDTHS[name]
    note(f"prefill {name} tails", prove_prefill(name, 21, 75, width, PrefillTile(16, 64, 4, 2)))
    note(f"prefill {name} two", prove_prefill(name, 5, 140, 256, PrefillTile(16, 128, 4, 2)))
json.dump(verdicts, sys.stdout)
