"""Giving memory back to the machine, so that another model finds room."""

import contextlib
import ctypes
import gc

import torch


def give_back_memory() -> None:
    """Free what nobody holds any more, and hand it on: on a GPU to the driver, else to the system.

    Captured graphs and layers refer to each other, so that only the collector frees them; both
    torch's allocator and the C library's keep freed memory for themselves until they are told.
    """
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)
