"""Let the program of one head write operands, print which eights of its token it wrote as JSON.

TRITON_INTERPRET=1 python one_head_script.py WIDTH

Programs run one after the other here, so that the next would hide what one writes beside its head.
"""

import json
import sys

import torch

from kernels.common import interpreter
from kernels.common.operands import new_operands, places

interpreter.install()

from kernels.norm.kernel import gated_rms_norm_kernel  # noqa: E402
from kernels.norm.tile import NormTile  # noqa: E402

UNTOUCHED, ORDER = -1, 32

width, heads = int(sys.argv[1]), 2
x = torch.ones((1, heads, width), dtype=torch.bfloat16)
operands = new_operands(1, heads * width, ORDER, "cpu")
operands.largest.fill_(UNTOUCHED)
tile = NormTile(num_warps=4, rows_per_program=1)
gated_rms_norm_kernel[(1,)](
    x, x, x[0, 0], torch.empty_like(x), *places(operands), heads, heads, *x.stride()[:2] * 3, 1e-6,
    **tile.constants(width), ROUND_PRODUCT=True, INPUTS=heads * width, ORDER=ORDER, OVERLAP=False,
    **tile.options(),
)  # fmt: skip
eights = operands.largest[0].t().flatten()  # even and odd ones in their order again
json.dump((eights != UNTOUCHED).nonzero().flatten().tolist(), sys.stdout)
