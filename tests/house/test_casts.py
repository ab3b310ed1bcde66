"""E4M3 ends at 448: every cast to it is known, with what keeps it below.

What torch casts while texts are read is counted as well (`engine.quality.casts`); this looks at
the sources, kernels' too.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "engine")
CAST = re.compile(
    r"\.to\((torch\.float8_e4m3fn|E4M3|tl\.float8e4nv)(?!, bitcast)|cvt\.\w+(\.\w+)*\.e4m3x2\.f32"
)

SCALED = {
    "kernels/linear/quantise.py": "a row, or each 128 inputs of it, over the largest / 448",
    "kernels/linear/quantise_kernel.py": "the same on the GPU",
    "kernels/linear/requantise.py": "a row's largest group scale is below 64: products end at 360",
    "kernels/linear/requantise_kernel.py": "the same on the GPU",
    "kernels/attention/kv_codes.py": "over a calibrated scale, then cut at 448",
    "kernels/attention/prep_kernel.py": "the same on the GPU",
    "kernels/common/peers.py": "weights drawn for another program's kernels",
    "engine/quantize/scales.py": "the scales themselves, cut at 448 of the matrix's own scale",
    "engine/quantize/head.py": "over a scale of the row's largest, or one whose cut costs less",
    "engine/model/random.py": "group scales of one; random codes are clamped to 448",
}
"""Files with casts, and what keeps each below 448."""


def test_no_cast_to_e4m3_is_without_a_scale():
    found = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".cu", ".cuh") and CAST.search(path.read_text("utf-8"))
    }
    assert found <= SCALED.keys()
    assert "kernels/linear/quantise.py" in found, "the pattern still finds what it looks for"
