"""List what the joined launch is checked by: laws, for its functions are those of two families.

`conv_gates` and `delta_walk` are proven against models and fp64 truths of their own; bit for bit
equality with the two of them carries all of that over.
"""

from kernels.common.family import Family
from kernels.mixer.laws import LAWS

FAMILY = Family(name="mixer", ops={}, cases=(), laws=LAWS)
