// What cuTensorMapEncodeTiled writes.
#pragma once

struct alignas(64) TensorMap {
  unsigned char bytes[128];  // opaque
};
