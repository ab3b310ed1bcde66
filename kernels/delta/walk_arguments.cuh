// What a walk is told, by one kind of warps (walk.cu) or by two (team.cu).
#pragma once

#include "walk_gate.cuh"

// `WalkArguments` of walk_launch.py has the same fields in the same order.
struct Walk {
  const float* q;          // [T, G, D]
  const __nv_bfloat16* v;  // [T, H, E]
  const float* beta;       // [T, H]
  float* state;            // [H, D, E]
  __nv_bfloat16* out;      // [T, H, E]
  const int* saves;        // [32]
  const int* restores;     // [32]
  Record record;
  Gate gate;               // not read without GATED
  int rows, key_heads, value_heads, slots, overlap;
};
