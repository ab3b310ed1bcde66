// Move the keys and values of accepted rows to the slots of their positions, in all layers.
//
// A warp owns one layer, KV head and kind, each lane 8 numbers of every slot, so no other warp sees
// what it moves. KV_BYTES is the size of a number. Rows ascend and rows[j] >= j, so slot `to` is never one that is still to be read
// once the loads of its batch are done.

#include "../common/launch_order.cuh"

constexpr int MAX_ROWS = 32, AHEAD = 8, LANES = 32;  // a slot is 256 numbers

template <int BYTES>
struct Eight {
  using Numbers = uint4;
};
template <>
struct Eight<1> {
  using Numbers = uint2;
};
using Numbers = Eight<KV_BYTES>::Numbers;

struct Problem {
  Numbers* keys;    // [layers, G, slots, D], strides layer, head in eights
  Numbers* values;  // likewise
  const int* start;
  const int* num;
  const int* rows;  // [32]
  long long key_layer, key_head, value_layer, value_head;
  int layers, groups, advanced;
};

extern "C" __global__ void __launch_bounds__(32) compact(const __grid_constant__ Problem p) {
  const int lane = threadIdx.x, kind = blockIdx.x & 1;
  const int group = blockIdx.x / 2 % p.groups, layer = blockIdx.x / 2 / p.groups;
  if constexpr (OVERLAP) {
    let_successor_start();
    await_predecessor();
  }
  const int num = *p.num, first = *p.start - (p.advanced ? num : 0);
  const int row = lane < num ? p.rows[lane] : lane;
  if (__all_sync(~0u, row == lane)) return;  // a chain
  Numbers* const store = (kind ? p.values + layer * p.value_layer + group * p.value_head
                             : p.keys + layer * p.key_layer + group * p.key_head) +
                       first * static_cast<long long>(LANES) + lane;
  for (int j = 0; j < num; j += AHEAD) {
    Numbers held[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int from = __shfl_sync(~0u, row, (j + i) & (MAX_ROWS - 1));
      if (j + i < num) held[i] = store[from * LANES];
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
      if (j + i < num) store[(j + i) * LANES] = held[i];
  }
}
