"""Alias `constexpr` so that a type checker and Triton both read device code.

Triton ships no types: annotated with its own `tl.constexpr`, arithmetic on a compile-time constant
is an error to pyright. The checker sees `int`, Triton sees its own class.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    constexpr = int
else:
    from triton.language import constexpr

__all__ = ["constexpr"]
