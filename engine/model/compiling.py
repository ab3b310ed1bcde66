"""Compile a model's products in threads, before the first round waits for one after another.

A launch that was never compiled on this machine takes 0.3 s of one core; a model has some forty of
them, and what is compiled once is kept on disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import cast

from engine.model.packed import Member, Packed
from kernels.linear.ahead import Variant, compile_ahead
from kernels.linear.skinny import takes_operands
from kernels.linear.skinny_launch import SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem
from kernels.linear.weight import format_name, num_outputs, padded_inputs


def compile_products(weights: object, heads: Sequence[object], row_counts: Sequence[int]) -> None:
    """Compile what rounds multiply with, on the current GPU.

    Args:
        weights: holds packed matrices, in dataclasses and tuples.
        heads: those of them, or beside them, whose products are logits.
        row_counts: rows of the rounds.
    """
    compile_ahead(variants_in(weights, heads, row_counts))


def variants_in(
    weights: object, heads: Sequence[object], row_counts: Sequence[int]
) -> list[Variant]:
    """The launches of all products, each once; arguments as for `compile_products`."""
    parts = {id(one): one for one in packed_in((weights, tuple(heads)))}
    found: dict[object, Variant] = {}
    for one in parts.values():
        writes_logits = any(one is head for head in heads)
        for variant in _variants_of(one, row_counts, writes_logits=writes_logits):
            found[variant.choices] = variant
    return list(found.values())


def packed_in(part: object) -> Iterator[Packed]:
    """The packed matrices that something holds; one that several share comes several times."""
    if isinstance(part, Packed):
        yield part
    elif isinstance(part, Member):
        yield part.whole
    elif isinstance(part, tuple):
        for one in cast("tuple[object, ...]", part):
            yield from packed_in(one)
    elif is_dataclass(part) and not isinstance(part, type):
        for one in fields(part):
            yield from packed_in(getattr(part, one.name))


def _variants_of(
    part: Packed, row_counts: Sequence[int], *, writes_logits: bool
) -> Iterator[Variant]:
    weight = part.weight
    size = (num_outputs(weight), padded_inputs(weight), format_name(weight))
    for rows in row_counts:
        tiles, is_pair = part.tiles_for(rows), part.gates(rows)
        # the heads' rows, and those of some others, come as they are
        takes = not writes_logits and takes_operands(weight, tiles, rows)
        epilogue = SILU_PAIR if is_pair else STORE
        for prepared in (False, True) if takes else (False,):
            for count, tile in tiles.launches(rows):
                problem = SkinnyProblem(*size, rows=count, paired=is_pair)
                yield Variant(tile, problem, epilogue, writes_logits, part.overlap, prepared)
