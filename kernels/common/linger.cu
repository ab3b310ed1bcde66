// Let the next kernel of the stream start, and end only a while later: what that kernel reads before it has waited,
// it reads in this while, on any GPU and however quick the launches are.

#include "launch_order.cuh"

// `LingerArguments` of linger.py has the same field.
struct Linger {
  long long cycles;  // of a multiprocessor's clock
};

extern "C" __global__ void linger(const __grid_constant__ Linger p) {
  const long long begun = clock64();
  let_successor_start();
  while (clock64() - begun < p.cycles) __nanosleep(1000);
}
