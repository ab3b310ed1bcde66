"""Run the proofs of widening in this process, print what is red.

python widen_script.py torch; TRITON_INTERPRET=1 python widen_script.py interpreter
"""

import json
import sys

from engine.check.run import check_family
from kernels.attention.widen_cases import CASES, OPS
from kernels.common import interpreter
from kernels.common.family import Family

build = sys.argv[1]
if build == "interpreter":
    interpreter.install()
found = list(check_family(Family("attention", OPS, CASES), build))
red = [f"{one.subject}: {one.proof}: {one.fault}" for one in found if one.fault]
json.dump({"num_proofs": len(found), "red": red}, sys.stdout)
