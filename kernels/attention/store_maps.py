"""Describe stores of keys and values to the copy engine."""

from importlib import import_module

import torch

from kernels.common.cuda_kernel import TensorMap

BOX_BYTES = 128
"""Side by side in a fill of the ring: what the engine swizzles."""

_maps: dict[object, tuple[TensorMap, ...]] = {}


def store_maps(store: torch.Tensor, fills: tuple[int, ...]) -> tuple[TensorMap, ...]:
    """Describe a store [G, S, D] to the copy engine, once for each place in memory.

    Args:
        store: keys or values.
        fills: slots of a fill, for each of which there is a map.
    """
    key = (store.data_ptr(), store.dtype, store.shape, store.stride(), fills)
    found = _maps.get(key)
    if found is None:
        found = _maps[key] = tuple(_described(store, slots) for slots in fills)
    return found


def _described(store: torch.Tensor, fill: int) -> TensorMap:
    """Boxes of slots of one head, in blocks of 128 bytes, swizzled for loads of matrices."""
    driver = import_module("cuda.bindings.driver")
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    kinds = driver.CUtensorMapDataType
    groups, slots, width = store.shape
    size = store.itemsize
    columns = BOX_BYTES // size
    error, described = driver.cuTensorMapEncodeTiled(
        kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
        if size == 2
        else kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        4,
        store.data_ptr(),
        [wide(columns), wide(slots), wide(width // columns), wide(groups)],
        [wide(size * width), wide(BOX_BYTES), wide(size * store.stride(0))],
        [narrow(columns), narrow(fill), narrow(width // columns), narrow(1)],
        [narrow(1), narrow(1), narrow(1), narrow(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(
            f"the CUDA driver refused a map of keys or values {list(store.shape)} with strides "
            f"{list(store.stride())}: {error.name}"
        )
    return TensorMap(described)
