"""A kernel that lingers lets the next one start first; compiled without a GPU."""

import pytest

from kernels.common import nvrtc
from kernels.common.compile import disassembly_of, mnemonics_of
from kernels.common.linger import SOURCE
from tests.kernels.compiling import bases


@pytest.mark.parametrize("capability", [(9, 0), (12, 1)], ids=str)
def test_the_next_kernel_may_start_before_the_while_begins(capability):
    code = nvrtc.compile_file(SOURCE, capability, {})
    counts, text = bases(mnemonics_of(code)), disassembly_of(code)
    assert counts["PREEXIT"] == 1
    assert counts["NANOSLEEP"] >= 1
    assert counts["ACQBULK"] == 0
    assert text.index("PREEXIT") < text.index("NANOSLEEP")
