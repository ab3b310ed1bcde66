"""Order logits with their token ids: one int64 key each, so that a maximum is never ambiguous.

The upper bits hold the logit's place on the real line, the lower 20 bits the id counted down: of
two equal logits the lower id has the larger key. All keys of a row differ, so its largest key, or
its k largest, are the same whichever way the row is cut into blocks.

A key of -1 stands for an id that may not win. NaN lies above +inf: a row that holds one shows it in
its maximum.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def _signed_place_of(x) -> tl.tensor:
    """Map fp32 to int32 in the order of the real line; both zeros are one place, and all NaN."""
    bits = tl.where(x == 0.0, 0, x.to(tl.int32, bitcast=True))
    signed = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x != x, 0x7FFFFFFF, signed)  # noqa: PLR0124  a NaN alone


@triton.jit
def place_of(x) -> tl.tensor:
    """Map fp32 to int64 0 to 2^32 - 1 in the order of the real line; both zeros are one place."""
    return _signed_place_of(x).to(tl.int64) + 2147483648


@triton.jit
def key_of(x, ids, allowed) -> tl.tensor:
    """Make the keys of fp32 logits and int32 ids; -1 where not `allowed`, and for -inf."""
    key = (place_of(x) << 20) | (1048575 - ids).to(tl.int64)
    return tl.where(allowed & (x != float("-inf")), key, -1)


@triton.jit
def largest_key(x, ids, axis: constexpr) -> tl.tensor:
    """Find the largest key of fp32 logits and int32 ids along an axis; -inf may not win.

    What `key_of` and a maximum find, in 32 bits up to the last step: first the best logit, then the
    lowest id that has it.
    """
    places = _signed_place_of(x)
    best = tl.max(places, axis)
    ties = places == tl.expand_dims(best, axis)
    first = tl.min(tl.where(ties, ids, 1048575), axis)
    key = ((best.to(tl.int64) + 2147483648) << 20) | (1048575 - first).to(tl.int64)
    return tl.where(best > -2139095041, key, -1)  # the place of -inf


@triton.jit
def id_of(key) -> tl.tensor:
    """Read the int32 id of a key; meaningless for -1."""
    return (1048575 - (key & 1048575)).to(tl.int32)


@triton.jit
def logit_of(key) -> tl.tensor:
    """Read the fp32 logit of a key, a zero as +0; meaningless for -1 and NaN."""
    signed = ((key >> 20) - 2147483648).to(tl.int32)
    bits = signed ^ ((signed >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def is_finite(key) -> tl.tensor:
    """Say whether a key is that of a finite logit: neither -1 nor +inf nor NaN."""
    return (key >= 0) & ((key >> 20) < 4286578688)  # the place of +inf


@triton.jit
def largest_keys(keys, count, LANES: constexpr) -> tl.tensor:
    """Take the `count` largest of int64 keys [any], descending, into LANES lanes; -1 behind them.

    Keys other than -1 differ. One maximum a round: `count` is small, and a maximum of a block costs
    less than a sort.
    """
    lanes = tl.arange(0, LANES)
    found = tl.full((LANES,), -1, tl.int64)
    for index in range(count):
        best = tl.max(keys, 0)
        found = tl.where(lanes == index, best, found)
        keys = tl.where(keys == best, -1, keys)
    return found
