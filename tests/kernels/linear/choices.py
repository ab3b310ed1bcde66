"""Say what a skinny launch is compiled with, for whoever compiles a changed source."""

from kernels.linear.skinny_launch import SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem, SkinnyTile, macros


def choices(tile: SkinnyTile, problem: SkinnyProblem) -> dict[str, int]:
    """Macros of a launch that overlaps and whose activations may come as operands."""
    epilogue = SILU_PAIR if problem.paired else STORE
    told = {"EPILOGUE": epilogue, "OUT_FP32": 0, "OVERLAP": 1, "PREPARED": 1}
    return {**macros(tile, problem), **told}
