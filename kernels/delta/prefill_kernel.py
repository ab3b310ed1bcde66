"""Hold the device code of the chunked delta rule: what a chunk knows of itself, and the walk.

Keys and queries stay the bf16 numbers that came in: their lengths are divided out of the results,
row by row, in fp32. So every product with a raw key or query has one operand that bf16 holds
exactly, and only the other one is split.

With S the state before a chunk, c the running sum of g, k and q of length one, and A the strictly
lower triangle of beta_i (k_i . k_j) exp(c_i - c_j), the chunk's writes are
U = (I + A)^-1 beta (V - exp(c) K S). The first kernel computes, for all chunks at once,

    write = exp(c_last - c_i) / |k_i| * (I + A)^-1 * beta_j
    mix   = (Q K' exp(c_i - c_j), j <= i) * (I + A)^-1 * beta_j / sqrt(D)

and the second goes through the chunks with R = V - exp(c) K S:
O = exp(c) Q S / sqrt(D) + mix R and S <- exp(c_last) S + K_raw' (write R). Keys and queries lie
under one another, and so do write and mix: one product serves two rows of formulas, and the walk,
which nothing can run beside, has fewer of them.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def _head_and_tail(x) -> tuple[tl.tensor, tl.tensor]:
    """Split fp32 into two bf16 numbers whose sum is within 2^-18 of it."""
    head = x.to(tl.bfloat16)
    return head, (x - head.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _product(x, y) -> tl.tensor:
    """Multiply fp32 matrices by three bf16 products, smallest first; about 17 bits."""
    x_head, x_tail = _head_and_tail(x)  # pyright: ignore[reportGeneralTypeIssues]
    y_head, y_tail = _head_and_tail(y)  # pyright: ignore[reportGeneralTypeIssues]
    return tl.dot(x_head, y_head, tl.dot(x_head, y_tail, tl.dot(x_tail, y_head)))


@triton.jit
def _inverse(lower, CHUNK: constexpr, BLOCK: constexpr, COUNT: constexpr) -> tl.tensor:
    """Invert I + lower by forward substitution.

    Blocks on the diagonal go column by column, all blocks together: once row j of the inverse is
    final, its multiples leave the rows below. Two neighbours [[B, 0], [C, D]] then become one by
    -D^-1 C B^-1. No power of `lower` is formed: powers overflow when keys repeat.

    Args:
        lower: fp32 [CHUNK, CHUNK], strictly lower.
        CHUNK: rows.
        BLOCK: rows of a block on the diagonal.
        COUNT: blocks, four.
    """
    mine = tl.arange(0, COUNT)[:, None, None, None] == tl.arange(0, COUNT)[None, None, :, None]
    blocks = tl.reshape(lower, (COUNT, BLOCK, COUNT, BLOCK))
    blocks = tl.sum(tl.where(mine, blocks, 0.0), axis=2)
    row = tl.arange(0, BLOCK)[None, :, None]
    col = tl.arange(0, BLOCK)[None, None, :]
    inverse = tl.where(row == col, 1.0, 0.0) + tl.zeros((COUNT, BLOCK, BLOCK), tl.float32)
    for j in tl.static_range(BLOCK - 1):  # pyright: ignore[reportGeneralTypeIssues]
        below = tl.sum(tl.where(col == j, blocks, 0.0), axis=2)
        final = tl.sum(tl.where(row == j, inverse, 0.0), axis=1)
        inverse -= below[:, :, None] * final[:, None, :]
    inverse = tl.reshape(tl.where(mine, inverse[:, :, None, :], 0.0), (CHUNK, CHUNK))
    inverse = _merge(inverse, lower, CHUNK, BLOCK)
    return _merge(inverse, lower, CHUNK, 2 * BLOCK)


@triton.jit
def _merge(inverse, lower, CHUNK: constexpr, SIZE: constexpr) -> tl.tensor:
    """Make inverses of twice the size from the inverses of diagonal blocks of `SIZE` rows."""
    i = tl.arange(0, CHUNK)[:, None]
    j = tl.arange(0, CHUNK)[None, :]
    neighbours = (i // SIZE != j // SIZE) & (i // (2 * SIZE) == j // (2 * SIZE))
    between = tl.where(neighbours, lower, 0.0)
    return inverse - _product(_product(inverse, between), inverse)


@triton.jit
def _running_sum(values_ptr, first, num_rows, stride, CHUNK: constexpr) -> tl.tensor:
    """Add up a column from row `first` on, one by one: fp32 [CHUNK]; rows past the end add 0."""
    at = tl.arange(0, CHUNK)
    total = 0.0
    sums = tl.zeros((CHUNK,), tl.float32)
    for part in tl.range(0, CHUNK, 16):
        # sixteen loads in flight: one at a time would wait for memory at each
        for i in tl.static_range(16):  # pyright: ignore[reportGeneralTypeIssues]
            row = first + part + i
            here = values_ptr + row.to(tl.int64) * stride
            total += tl.load(here, mask=row < num_rows, other=0.0)
            sums = tl.where(at == part + i, total, sums)
    return sums


@triton.jit
def _decay(faded, CHUNK: constexpr) -> tl.tensor:
    """Compute what token i still sees of token j <= i, and 0 for later ones."""
    i = tl.arange(0, CHUNK)
    # masked before exp: towards later tokens the exponent is positive and may overflow
    seen = i[:, None] >= i[None, :]
    return tl.exp(tl.where(seen, faded[:, None] - faded[None, :], float("-inf")))


@triton.jit(do_not_specialize=["num_rows", "num_chunks"])
def delta_chunk_kernel(
    q_ptr,  # bf16 [T, G, WIDTH]
    k_ptr,  # bf16 [T, G, WIDTH]
    g_ptr,  # fp32 [T, H]
    beta_ptr,  # bf16 [T, H]
    pairs_ptr,  # bf16 [G, chunks, 2, CHUNK, WIDTH]: raw keys, raw queries; zeros past the end
    matrices_ptr,  # bf16 [H, chunks, 2, 2, CHUNK, CHUNK]: heads of write and mix, then tails
    factors_ptr,  # fp32 [H, chunks, 3, CHUNK]: of K S, of -Q S, and of S
    num_rows,
    num_chunks,
    stride_q_row,
    stride_q_head,
    stride_k_row,
    stride_k_head,
    stride_g_row,
    stride_beta_row,
    scale,
    EPS: constexpr,
    PART: constexpr,
    HEADS_A_KEY: constexpr,
    WIDTH: constexpr,
    CHUNK: constexpr,
    BLOCK: constexpr,
) -> None:
    """Write what one chunk of one head needs of the walk: its two matrices and row factors."""
    head, chunk = tl.program_id(0), tl.program_id(1)
    first = chunk * CHUNK
    i = tl.arange(0, CHUNK)
    rows = (first + i).to(tl.int64)
    live = first + i < num_rows
    key = (head // HEADS_A_KEY).to(tl.int64)
    k_rows = k_ptr + rows[:, None] * stride_k_row + key * stride_k_head
    q_rows = q_ptr + rows[:, None] * stride_q_row + key * stride_q_head
    place = head.to(tl.int64) * num_chunks + chunk
    square_ptr = matrices_ptr + place * (4 * CHUNK * CHUNK) + i[:, None] * CHUNK + i[None, :]
    pair_ptr = pairs_ptr + (key * num_chunks + chunk) * (2 * CHUNK * WIDTH) + i[:, None] * WIDTH
    first_head = head % HEADS_A_KEY == 0
    beta = tl.load(beta_ptr + rows * stride_beta_row + head, mask=live, other=0.0).to(tl.float32)
    faded = _running_sum(g_ptr + head, first, num_rows, stride_g_row, CHUNK)
    last = tl.sum(tl.where(i == CHUNK - 1, faded, 0.0), axis=0)

    alike = tl.zeros((CHUNK, CHUNK), tl.float32)
    k_square = tl.zeros((CHUNK,), tl.float32)
    for start in tl.range(0, WIDTH, PART):
        cols = start + tl.arange(0, PART)[None, :]
        k = tl.load(k_rows + cols, mask=live[:, None], other=0.0)
        if first_head:
            tl.store(pair_ptr + cols, k)
        k_square += tl.sum(k.to(tl.float32) * k.to(tl.float32), axis=1)
        alike = tl.dot(k, tl.trans(k), alike)
    k_scale = tl.rsqrt(k_square + EPS)
    alike = alike * (beta * k_scale)[:, None] * _decay(faded, CHUNK) * k_scale[None, :]
    inverse = _inverse(tl.where(i[:, None] > i[None, :], alike, 0.0), CHUNK, BLOCK, CHUNK // BLOCK)
    write = inverse * (k_scale * tl.exp(last - faded))[:, None] * beta[None, :]
    write_head, write_tail = _head_and_tail(write)
    tl.store(square_ptr, write_head)
    tl.store(square_ptr + 2 * CHUNK * CHUNK, write_tail)

    asked = tl.zeros((CHUNK, CHUNK), tl.float32)
    q_square = tl.zeros((CHUNK,), tl.float32)
    for start in tl.range(0, WIDTH, PART):
        cols = start + tl.arange(0, PART)[None, :]
        k = tl.load(k_rows + cols, mask=live[:, None], other=0.0)
        q = tl.load(q_rows + cols, mask=live[:, None], other=0.0)
        if first_head:
            tl.store(pair_ptr + CHUNK * WIDTH + cols, q)
        q_square += tl.sum(q.to(tl.float32) * q.to(tl.float32), axis=1)
        asked = tl.dot(q, tl.trans(k), asked)
    q_scale = tl.rsqrt(q_square + EPS) * scale
    asked = asked * q_scale[:, None] * _decay(faded, CHUNK) * k_scale[None, :]
    mix_head, mix_tail = _head_and_tail(_product(asked, inverse) * beta[None, :])
    tl.store(square_ptr + CHUNK * CHUNK, mix_head)
    tl.store(square_ptr + 3 * CHUNK * CHUNK, mix_tail)
    factor_ptr = factors_ptr + place * (3 * CHUNK) + i
    tl.store(factor_ptr, tl.exp(faded) * k_scale)
    tl.store(factor_ptr + CHUNK, -tl.exp(faded) * q_scale)
    tl.store(factor_ptr + 2 * CHUNK, tl.exp(last) + 0.0 * faded)


@triton.jit
def _first_half(x) -> tl.tensor:
    """Take the first half of a block's rows: [2 * n, m] -> [n, m]."""
    halves = tl.reshape(x, (2, x.shape[0] // 2, x.shape[1]))
    return tl.sum(tl.where(tl.arange(0, 2)[:, None, None] == 0, halves, 0.0), axis=0)


@triton.jit(do_not_specialize=["num_rows", "num_chunks"])
def delta_scan_kernel(
    v_ptr,  # bf16 [T, H, WIDTH]
    pairs_ptr,  # bf16 [G, chunks, 2, CHUNK, WIDTH]
    matrices_ptr,  # bf16 [H, chunks, 2, 2, CHUNK, CHUNK]
    factors_ptr,  # fp32 [H, chunks, 3, CHUNK]
    state_ptr,  # fp32 [H, WIDTH, WIDTH], in place
    out_ptr,  # bf16 [T, H, WIDTH]
    num_rows,
    num_chunks,
    stride_v_row,
    stride_v_head,
    stride_state_head,
    stride_out_row,
    stride_out_head,
    HEADS_A_KEY: constexpr,
    WIDTH: constexpr,
    CHUNK: constexpr,
    VALUES: constexpr,
    STAGES: constexpr,
) -> None:
    """Walk the chunks of one head with `VALUES` columns of its state in registers."""
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    key = head // HEADS_A_KEY
    keys = tl.arange(0, WIDTH)
    values = block * VALUES + tl.arange(0, VALUES)
    state_at = state_ptr + head * stride_state_head + keys[:, None] * WIDTH + values[None, :]
    state = tl.load(state_at)
    # rows of a chunk's keys, then rows of its queries: one product reads the state for both
    pair = tl.arange(0, 2 * CHUNK)
    asks = pair >= CHUNK
    square = pair[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    for chunk in tl.range(0, num_chunks, num_stages=STAGES):  # pyright: ignore[reportGeneralTypeIssues]
        rows = (chunk * CHUNK + pair % CHUNK).to(tl.int64)
        live = rows < num_rows
        both_at = pairs_ptr + (key * num_chunks + chunk) * (2 * CHUNK * WIDTH)
        both = tl.load(both_at + pair[:, None] * WIDTH + keys[None, :])
        v_at = v_ptr + (rows * stride_v_row + head * stride_v_head)[:, None] + values[None, :]
        v = tl.load(v_at, mask=(live & (pair < CHUNK))[:, None], other=0.0).to(tl.float32)
        place = head * num_chunks + chunk
        square_ptr = matrices_ptr + place * (4 * CHUNK * CHUNK) + square
        matrix_head = tl.load(square_ptr)
        matrix_tail = tl.load(square_ptr + 2 * CHUNK * CHUNK)
        factors = tl.load(factors_ptr + place * (3 * CHUNK) + pair)
        fade = tl.load(factors_ptr + place * (3 * CHUNK) + 2 * CHUNK)

        state_head, state_tail = _head_and_tail(state)  # pyright: ignore[reportGeneralTypeIssues]
        met = v - factors[:, None] * tl.dot(both, state_head, tl.dot(both, state_tail))
        rest_head, rest_tail = _head_and_tail(_first_half(met))  # pyright: ignore[reportGeneralTypeIssues]
        met = tl.where(asks[:, None], met, 0.0)
        met = tl.dot(matrix_tail, rest_head, tl.dot(matrix_head, rest_tail, met))
        met = tl.dot(matrix_head, rest_head, met)
        out_at = out_ptr + (rows * stride_out_row + head * stride_out_head)[:, None]
        tl.store(out_at + values[None, :], met.to(tl.bfloat16), mask=(live & asks)[:, None])
        written_head, written_tail = _head_and_tail(tl.where(asks[:, None], 0.0, met))
        across = tl.trans(both)
        state = tl.dot(across, written_tail, state * fade)
        state = tl.dot(across, written_head, state)
    tl.store(state_at, state)
