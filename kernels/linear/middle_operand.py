"""Hold the device code that decodes a step of a weight to bf16 in registers, every format.

Each decoded operand is exact in bf16, except where `decoded` says so: e2m1 x e4m3 needs 6
significant bits. Numbers stay in pairs, two to a word, because a lane of the matrix instruction
holds neighbouring inputs in one register: no step packs or unpacks them.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def _multiply_pairs(left, right, NATIVE: constexpr) -> tl.tensor:
    """Multiply two bf16 numbers in each 32-bit word by two others.

    `NATIVE` is one instruction for both; it keeps the compiler from splitting and repacking pairs
    (88 permutes a step where none is needed). The other branch serves the interpreter.
    """
    if NATIVE:
        return tl.inline_asm_elementwise(  # pyright: ignore[reportReturnType]
            "mul.rn.bf16x2 $0, $1, $2;", "=r,r,r", [left, right],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
    low = (_low_half(left) * _low_half(right)).to(tl.uint16, bitcast=True)
    high = (_low_half(left >> 16) * _low_half(right >> 16)).to(tl.uint16, bitcast=True)
    return low.to(tl.uint32) | (high.to(tl.uint32) << 16)


@triton.jit
def _low_half(words) -> tl.tensor:
    """Read the low 16 bits of each word as a bf16 number."""
    return (words & 0xFFFF).to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def _group_scales(runs, TILE_N: constexpr, NATIVE: constexpr) -> tl.tensor:
    """Turn a step of scale runs into one word for each code byte: the scale x 2^118, twice.

    An e4m3 byte shifted left by 4 is a bf16 number 2^120 times too small, subnormals included. The
    factor 2^238 that mends it takes two multiplications, because bf16 ends at 2^127.

    Args:
        runs: uint8 [TILE_N / 16, 128], bytes of `Nvfp4Weight.scale_runs`.
        TILE_N: weight rows of the tile.
        NATIVE: see `_multiply_pairs`.

    Returns:
        uint32 [TILE_N, 64].
    """
    pairs = runs.to(tl.uint32) * 0x00100010
    two_127 = tl.full(pairs.shape, 0x7F007F00, tl.uint32)
    two_111 = tl.full(pairs.shape, 0x77007700, tl.uint32)
    pairs = _multiply_pairs(_multiply_pairs(pairs, two_127, NATIVE), two_111, NATIVE)
    pairs = tl.reshape(pairs, (TILE_N // 16, 8, 4, 2, 2))  # tile, g, t, half, pair
    pairs = tl.permute(pairs, (0, 3, 1, 2, 4))
    pairs = tl.reshape(pairs, (TILE_N, 8))
    return tl.reshape(tl.broadcast_to(pairs[:, :, None], (TILE_N, 8, 8)), (TILE_N, 64))


@triton.jit
def _turned(words, places, NATIVE: constexpr) -> tl.tensor:
    """Rotate each word to the left by 0 to 31 places; `NATIVE`: by one instruction, not two."""
    if NATIVE:
        return tl.inline_asm_elementwise(  # pyright: ignore[reportReturnType]
            "shf.l.wrap.b32 $0, $1, $1, $2;", "=r,r,r", [words, places],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
    return (words << places) | (words >> ((32 - places) & 31))


@triton.jit
def e2m1_pairs(
    codes, SPREAD: constexpr, NATIVE: constexpr, HALF: constexpr = False
) -> tl.tensor:  # fmt: skip
    """Decode e2m1 codes to pairs of bf16 numbers 2^126 times too small, exactly.

    Such a number is a code's sign at bit 15 and its magnitude at bits 8..6. As stored, both
    nibbles of a byte move to the halves of one word by two multiplications. Spread, a word holds
    four pairs whose codes lie in its halves already: pair p is the word shifted left by 0, 3, 1, 2
    for the signs and turned left by -3, 0, 3, 6 for the magnitudes. p is fixed for a lane of the
    matrix instruction, so a lane reads whole words and takes its pair of each.

    Args:
        codes: uint8 [R, B] as stored, the low nibble is the even input; spread, the words of
            `spread.py`, uint32 [R, B / 4].
        SPREAD: which of the two.
        NATIVE: see `_turned`.
        HALF: fp16 numbers 2^14 times too small: their magnitudes stand three to the left.

    Returns:
        uint32 [R, B]: the pairs in their order, the even input in the low half.
    """
    magnitude: constexpr = 0x0E000E00 if HALF else 0x01C001C0
    if SPREAD:
        pair = tl.arange(0, 4)[None, None, :]
        factor = (0x4281 >> (4 * pair)) & 15  # 1, 8, 2, 4
        turn = (3 * pair - 3 + (3 if HALF else 0)) & 31  # 29, 0, 3, 6
        words = codes[:, :, None]
        turned = _turned(words, turn, NATIVE) & magnitude
        pairs = ((words * factor) & 0x80008000) | turned
        pairs = tl.reshape(pairs, (codes.shape[0], 4 * codes.shape[1]))
    else:
        bytes_of = codes.to(tl.uint32)
        moved = bytes_of * (0x00200200 if HALF else 0x00040040)
        pairs = ((bytes_of * 0x01001000) & 0x80008000) | (moved & magnitude)
    return pairs


@triton.jit
def _nvfp4_operand(
    codes, runs, TILE_N: constexpr, SPREAD: constexpr, NATIVE: constexpr
) -> tl.tensor:  # fmt: skip
    """Decode a step of e2m1 codes and scales to bf16 products 2^8 times too small, exactly.

    Args:
        codes: a step of codes, see `e2m1_pairs`; B = 64.
        runs: uint8 [TILE_N / 16, 128].
        TILE_N: weight rows of the tile.
        SPREAD: see `e2m1_pairs`.
        NATIVE: see `_multiply_pairs`.

    Returns:
        bf16 [TILE_N, 128].
    """
    values = e2m1_pairs(codes, SPREAD, NATIVE)
    products = _multiply_pairs(values, _group_scales(runs, TILE_N, NATIVE), NATIVE)
    return _from_pairs(products, TILE_N)


@triton.jit
def _raised_bytes(words, NATIVE: constexpr) -> tl.tensor:
    """Move the two low bytes of each word to the upper bytes of its halves."""
    if NATIVE:
        return tl.inline_asm_elementwise(  # pyright: ignore[reportReturnType]
            "prmt.b32 $0, $1, 0, 0x1404;", "=r,r", [words],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
    return ((words & 0x00FF) << 8) | ((words & 0xFF00) << 16)


@triton.jit
def _e4m3_pairs(codes, NATIVE: constexpr) -> tl.tensor:
    """Decode two e4m3 codes in each 16-bit number to two bf16 numbers in a word, exactly.

    The codes go to the upper bytes of the halves; there, magnitude bits moved right by 4 are a
    bf16 number 2^120 times too small, subnormals included.

    Args:
        codes: int16, the low byte is the even input.
        NATIVE: see `_multiply_pairs`.
    """
    raised = _raised_bytes(codes.to(tl.uint16, bitcast=True).to(tl.uint32), NATIVE)
    values = (raised & 0x80008000) | ((raised >> 4) & 0x07F007F0)
    two_120 = tl.full(values.shape, 0x7B807B80, tl.uint32)
    return _multiply_pairs(values, two_120, NATIVE)


@triton.jit
def _twice(scale) -> tl.tensor:
    """Put an fp32 number that is exact in bf16 into both halves of a word."""
    bits = scale.to(tl.uint32, bitcast=True)
    return bits | (bits >> 16)


@triton.jit
def _from_pairs(words, TILE_N: constexpr) -> tl.tensor:
    """Read words of two bf16 numbers, [TILE_N, 64], as bf16 [TILE_N, 128]."""
    operand = tl.join(_low_half(words), _low_half(words >> 16))
    return tl.reshape(operand, (TILE_N, 128))


@triton.jit
def decoded(
    codes, scales, TILE_N: constexpr, FORMAT: constexpr, SPREAD: constexpr, NATIVE: constexpr
) -> tl.tensor:
    """Decode a step of a weight to bf16 [TILE_N, 128].

    Args:
        codes: a step of codes as the weight holds them.
        scales: what multiplies them before the product: bytes of scale runs (nvfp4), fp32
            [TILE_N, 1] that is exact in bf16 (fp8_block, folded: the one rounding), else None.
        TILE_N: weight rows of the tile.
        FORMAT: the weight's format.
        SPREAD: see `e2m1_pairs`; of nvfp4 alone.
        NATIVE: see `_multiply_pairs`.
    """
    if FORMAT == "bf16":
        operand = codes
    elif FORMAT == "nvfp4":
        operand = _nvfp4_operand(codes, scales, TILE_N, SPREAD, NATIVE)
    elif scales is None:
        operand = _from_pairs(_e4m3_pairs(codes, NATIVE), TILE_N)
    else:
        values = _e4m3_pairs(codes, NATIVE)
        values = _multiply_pairs(values, tl.broadcast_to(_twice(scales), values.shape), NATIVE)
        operand = _from_pairs(values, TILE_N)
    return operand
