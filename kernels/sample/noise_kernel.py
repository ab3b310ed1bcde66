"""Hold the device code of the noise: Philox4x32-10 words and the Gumbel variable made of them."""

import triton
import triton.language as tl


@triton.jit
def _high_word(product) -> tl.tensor:
    return product >> 32


@triton.jit
def _low_word(product) -> tl.tensor:
    return product & 0xFFFFFFFF


@triton.jit
def philox(seed, position, ids) -> tuple[tl.tensor, tl.tensor]:
    """Hash (id, position) under a seed; every word is an int64 of 0 to 2^32 - 1.

    Args:
        seed: int64, 0 or more: the key's two words, low first.
        position: int64, counter words 2 and 3, low first.
        ids: int32, counter word 0; word 1 is 0.

    Returns:
        The first two words of the block.

    Source:
        Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    # products of two words fill 64 bits, so words are unsigned
    c0 = ids.to(tl.uint32).to(tl.uint64)
    c2 = tl.zeros_like(c0) + _low_word(position).to(tl.uint64)
    c3 = tl.zeros_like(c0) + _high_word(position).to(tl.uint64)
    c1 = tl.zeros_like(c0)
    key0, key1 = _low_word(seed).to(tl.uint64), _high_word(seed).to(tl.uint64)
    for _ in tl.static_range(10):  # pyright: ignore[reportGeneralTypeIssues]
        product0, product1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0 = _high_word(product1) ^ c1 ^ key0
        c1 = _low_word(product1)
        c2 = _high_word(product0) ^ c3 ^ key1
        c3 = _low_word(product0)
        key0, key1 = _low_word(key0 + 0x9E3779B9), _low_word(key1 + 0xBB67AE85)
    return c0.to(tl.int64), c1.to(tl.int64)


@triton.jit
def gumbel(seed, position, ids) -> tl.tensor:
    """Draw fp64 Gumbel noise of int32 ids: -log(-log(u)), u of 52 bits and a half."""
    word0, word1 = philox(seed, position, ids)  # pyright: ignore[reportGeneralTypeIssues]
    bits = ((word0 >> 6) << 26) + (word1 >> 6)
    uniform = (bits.to(tl.float64) + 0.5) * 2.220446049250313e-16
    return -tl.log(-tl.log(uniform))
