// What a block of a verify brings before it computes: barriers, queries, depths and paths.
#pragma once

#include "verify_tail.cuh"

// Copy 16 bytes to shared memory, or zeros, without a register.
__device__ __forceinline__ void copy_16(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void store_16(unsigned to, const uint4& four) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w)
               : "memory");
}

// Bring the queries of the block's rows: row r * SHARE + h of the matrix unit is head h of row r. Their
// columns lie as those of the keys come: of 16 of codes, the first two of each four, then the others.
__device__ __forceinline__ void fetch_queries(const Problem& p, const Rows& rows, unsigned q) {
  constexpr int COLUMNS = 16 / KV_BYTES;  // taken at a time
#pragma unroll
  for (int i = threadIdx.x; i < BLOCK_ROWS * (D / COLUMNS); i += WORKERS) {
    const int row = i / (D / COLUMNS), column = i % (D / COLUMNS) * COLUMNS;
    const bool there = row_of(row) < rows.count;
    const __nv_bfloat16* const from = p.q + static_cast<long long>(rows.row0 + (there ? row_of(row) : 0)) * p.q_stride +
                                      (rows.group * SHARE + row % SHARE) * D + column;
    const UnitRow to = {q + row * BOX_ROW, Q_BOX_BYTES, row & 7};
    if constexpr (KV_BYTES == 2) {
      copy_16(to.piece(column / 8), from, there);
    } else {
      const uint4 none = {0, 0, 0, 0}, *const both = reinterpret_cast<const uint4*>(from);
      const uint4 a = there ? both[0] : none, b = there ? both[1] : none;
      store_16(to.piece(column / 8), {a.x, a.z, b.x, b.z});
      store_16(to.piece(column / 8 + 1), {a.y, a.w, b.y, b.w});
    }
  }
}

// Bring paths, all asked for at once, and say whether the rows are a chain as far as this thread looks.
__device__ __forceinline__ bool fetch_paths(const Problem& p, const Rows& rows, unsigned char* paths) {
  constexpr int EACH = (BLOCK_ROWS / SHARE * MAX_ROWS + WORKERS - 1) / WORKERS;
  int depth[EACH], node[EACH];
  bool chain = true;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int place = threadIdx.x + i * WORKERS, row = place / MAX_ROWS;
    if (row >= rows.count) continue;
    depth[i] = p.depths[rows.row0 + row];
    node[i] = p.paths[(rows.row0 + row) * MAX_ROWS + place % MAX_ROWS];
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int place = threadIdx.x + i * WORKERS, at = place % MAX_ROWS, row = place / MAX_ROWS;
    if (row >= rows.count) continue;
    paths[place] = node[i];
    chain = chain && depth[i] == rows.row0 + row && (at > depth[i] || node[i] == at);
  }
  return chain;
}

// Make the barriers of all rings; by all threads of a block.
__device__ __forceinline__ void set_up_rings(unsigned shared) {
  if (threadIdx.x < STREAMS) ring_of(shared, threadIdx.x).set_up();
  if (threadIdx.x < 32) show_barriers();
  __syncthreads();
}

// Wait for the predecessor and bring all that rows have of their own; by all threads that compute. Says
// whether the rows are a chain.
__device__ __forceinline__ bool begin(const Problem& p, const Rows& rows, unsigned char* shared) {
  Work& work = *reinterpret_cast<Work*>(shared + WORK_AT);
  static_assert(sizeof(Work) <= 32);
  if (threadIdx.x == 0) work = work_of(p);
  if constexpr (OVERLAP) await_predecessor();
  fetch_queries(p, rows, shared_address(shared) + Q_AT);
  const int depth = depth_of(p, rows, threadIdx.x & 31);
  const bool in_order = fetch_paths(p, rows, shared + PATHS_AT);
  const int deepest = __reduce_max_sync(~0u, depth);
  if (threadIdx.x == 0) work.last = work.start + deepest;
  if (threadIdx.x < MAX_ROWS) {
    reinterpret_cast<int*>(shared + DEPTHS_AT)[threadIdx.x] = depth;
    reinterpret_cast<int*>(shared + ZERO_AT)[threadIdx.x] = 0;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  if constexpr (WIDE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // queries, for products
  return meet_all(in_order);
}
