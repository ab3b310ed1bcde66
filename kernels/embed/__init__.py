"""Rows of the embedding table by token id."""

from kernels.embed.op import embed

__all__ = ["embed"]
