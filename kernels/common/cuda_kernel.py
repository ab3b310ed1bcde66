"""Load compiled CUDA kernels and launch them, with tensor maps for the copy engine.

Launches go to a stream of torch's, so they order with torch's own work and are captured in its
graphs.
"""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from kernels.common import gpu

FREE_SHARED_BYTES = 48 << 10
"""Shared memory that a block has without asking, static and dynamic together."""


@dataclass(frozen=True)
class Launch:
    """Shape of one launch.

    Attributes:
        blocks: blocks of the grid, a multiple of `cluster`.
        threads: threads of a block.
        shared_bytes: dynamic shared memory of a block.
        cluster: blocks of a cluster.
        overlap: let the kernel start before its predecessor ends (programmatic dependent launch);
            the kernel waits by itself before it reads what the predecessor writes.
    """

    blocks: int
    threads: int
    shared_bytes: int
    cluster: int = 1
    overlap: bool = False


class TensorMap:
    """Tell the copy engine where a matrix lies and how large its boxes are."""

    def __init__(self, described: Any) -> None:  # noqa: ANN401  the bindings carry no types
        """Keep the driver's object, whose address a launch passes on."""
        self._described = described
        self.address = int(described.getPtr())


def byte_map(
    address: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> TensorMap:
    """Describe bytes in up to five dimensions; a box that leaves them reads zeros there.

    Args:
        address: first byte, 16-byte aligned.
        sizes: bytes of the innermost dimension, whose bytes lie side by side, then places of each
            further one.
        strides: bytes from place to place of each dimension but the innermost, multiples of 16.
            Dimensions may lie within each other.
        box: places of each dimension in one copy, at most 256; innermost a multiple of 16. They
            come to lie without gaps, in the same order.

    Raises:
        RuntimeError: the driver refuses, because a number is not as described; names its error.
    """
    driver = import_module("cuda.bindings.driver")
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    error, described = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        len(sizes),
        address,
        [wide(one) for one in sizes],
        [wide(one) for one in strides],
        [narrow(one) for one in box],
        [narrow(1)] * len(sizes),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the CUDA driver refused a tensor map: {error.name}")
    return TensorMap(described)


class CudaKernel:
    """One kernel of a cubin, loaded on torch's current device."""

    def __init__(self, cubin: bytes, name: str) -> None:
        """Load machine code.

        Args:
            cubin: from `compile_cubin`, for this device.
            name: the kernel's C name.

        Raises:
            RuntimeError: the driver refuses: code for another GPU, or no kernel of that name.
        """
        driver = import_module("cuda.bindings.driver")
        torch.cuda.current_stream()  # makes torch's context current in this thread
        self._driver = driver
        self._success = driver.CUresult.CUDA_SUCCESS
        self._configs: dict[Launch, Any] = {}
        self._lock = threading.Lock()
        self._module = self._done(driver.cuModuleLoadData(cubin))
        self._function = self._done(driver.cuModuleGetFunction(self._module, name.encode()))
        static = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        own = self._done(driver.cuFuncGetAttribute(static, self._function))
        self._own_bytes = own
        self._shared_bytes = FREE_SHARED_BYTES - own  # dynamic bytes that need no leave

    def launch(self, shape: Launch, *arguments: "ctypes.Structure | TensorMap") -> None:
        """Launch on torch's current stream.

        Args:
            shape: grid, block, shared memory and launch attributes. What the driver wants of it is
                built at its first launch: building it takes longer than launching.
            arguments: the kernel's parameters in order, each a struct of the same layout.

        Raises:
            RuntimeError: the driver refuses; the message holds its error and the shape.
        """
        config = self._configs.get(shape)
        if config is None:
            self.allow_shared(shape.shared_bytes)
            config = self._configs[shape] = self._config(shape)
        places = [
            one.address if isinstance(one, TensorMap) else ctypes.addressof(one)
            for one in arguments
        ]
        pointers = (ctypes.c_void_p * len(places))(*places)
        with self._lock:
            config.hStream = torch.cuda.current_stream().cuda_stream
            launched = self._driver.cuLaunchKernelEx(
                config, self._function, ctypes.addressof(pointers), 0
            )
        if launched[0] != self._success:
            raise RuntimeError(f"launch of {shape} failed: {launched[0].name}")

    def allow_shared(self, num_bytes: int) -> None:
        """Raise the kernel's limit of dynamic shared memory where a launch needs more.

        Threads raise it one at a time: a lower limit that came behind a higher one would stay, and
        a shape that is known asks no more.

        Raises:
            RuntimeError: the driver refuses, or a rehearsed GPU's would.
        """
        other = gpu.rehearsed()
        if other and self._own_bytes + num_bytes > other.shared_bytes:
            raise RuntimeError(
                f"a block of {other.name} has {other.shared_bytes} bytes of shared memory, and "
                f"this launch wants {self._own_bytes + num_bytes}"
            )
        with self._lock:
            if num_bytes > self._shared_bytes:
                attribute = self._driver.CUfunction_attribute
                limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._done(self._driver.cuFuncSetAttribute(self._function, limit, num_bytes))
                self._shared_bytes = num_bytes

    def _config(self, shape: Launch) -> Any:  # noqa: ANN401  the bindings carry no types
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.threads, 1, 1
        config.sharedMemBytes = shape.shared_bytes
        attributes: list[Any] = []
        if shape.cluster > 1:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x = shape.cluster
            attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
            attributes.append(attribute)
        if shape.overlap:
            attribute = driver.CUlaunchAttribute()
            identity = driver.CUlaunchAttributeID
            attribute.id = identity.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def _done(self, result: tuple[Any, ...]) -> Any:  # noqa: ANN401  the bindings carry no types
        error, *values = result
        if error != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the CUDA driver refused a kernel: {error.name}")
        return values[0] if values else None
