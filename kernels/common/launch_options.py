"""How a Triton kernel of exact arithmetic is launched, in one place."""


def launch_options(num_warps: int, *, overlap: bool = False) -> dict[str, int | bool]:
    """Return Triton's launch options; contraction stays off, as `common/exact.py` requires.

    Args:
        num_warps: of a program.
        overlap: begin before the kernel before has ended.
    """
    return {"num_warps": num_warps, "enable_fp_fusion": False, "launch_pdl": overlap}
