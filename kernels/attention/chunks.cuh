// Cut the positions of a context into chunks, by absolute position alone. chunks.py is the same.
//
// A chunk is 64 << growth positions. The growth of an octave [2^e, 2^(e+1)) is 0 below 1,024, then
// (e - 7) / 2, up to 5. Chunk `number` begins at (number - earlier) * size, where `earlier` makes up
// for the smaller chunks before.
#pragma once

constexpr int TILE = 64;  // positions of one step of the online softmax; a chunk is whole tiles
constexpr int MOST_GROWTH = 5;

struct Span {
  int low, high;
};

__device__ __forceinline__ int earlier(int growth) { return growth == 0 ? 0 : 4 << growth; }

__device__ __forceinline__ int chunk_of(int position) {
  int growth = 0;
  if (position >= 1024) growth = 1;
  while (growth > 0 && growth < MOST_GROWTH && position >= 512 << 2 * growth) ++growth;
  return position / (TILE << growth) + earlier(growth);
}

__device__ __forceinline__ Span chunk_span(int number) {
  int growth = number < 16 ? 0 : 1;
  while (growth > 0 && growth < MOST_GROWTH && number >= 12 << growth) ++growth;
  const int size = TILE << growth, low = (number - earlier(growth)) * size;
  return {low, low + size};
}
