"""Hold the kernel families: device code, plain references, cases.

Kernels know no model, no profile and no setting, read no file and no environment: everything
reaches them as an argument. `axes.md` lists the letters that name axes; `common/family.py` says
what a family is.
"""

FAMILY_MODULES = {
    "norm": "kernels.norm.cases",
    "linear": "kernels.linear.cases",
    "attention": "kernels.attention.cases",
    "conv": "kernels.conv.cases",
    "embed": "kernels.embed.cases",
    "delta": "kernels.delta.cases",
    "head": "kernels.head.cases",
    "sample": "kernels.sample.cases",
    "mixer": "kernels.mixer.cases",
}
"""Module that defines `FAMILY` for each family name; a new family is one line here.

Names and not objects, so that importing this package loads neither torch nor Triton.
"""
