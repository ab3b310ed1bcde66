"""How much shared memory a block may ask for on the GPUs that kernels are made for."""

MAX_SHARED_BYTES = {90: 232_448, 121: 101_376}
"""Bytes by compute capability: 227 KiB and 99 KiB."""
