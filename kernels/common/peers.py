"""Time what a person would use instead: library products, copies, other engines' kernels.

A peer is data like a problem: a name, its bytes and how to make calls on fresh tensors. What it
imports is imported when its calls are made, so a package that is missing costs nothing until then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Peer:
    """Something else that does the work of a problem.

    Attributes:
        name: as tables and bars show it.
        num_bytes: bytes that one of its calls must move, by which its copies are counted.
        make_calls: (number of copies, device) -> one call a copy, each on tensors of its own.
        package: distribution that must be installed; empty where torch is enough.
        version: version of the package that bars were stated against.
        devices: where it runs.
    """

    name: str
    num_bytes: int
    make_calls: Callable[[int, str], Sequence[Callable[[], object]]]
    package: str = ""
    version: str = ""
    devices: tuple[str, ...] = ("cuda",)


def library_copy(num_bytes: int) -> Peer:
    """Make the peer that moves as many bytes and computes nothing: torch's copy.

    Args:
        num_bytes: bytes read and written together.
    """
    return Peer("copy", num_bytes, partial(_copies, num_bytes), devices=("cuda", "cpu"))


def library_product(N: int, K: int, rows: int) -> Peer:
    """Make the peer that keeps weights in BF16: torch's product, cuBLAS on a GPU.

    Args:
        N: outputs.
        K: inputs.
        rows: activation rows.
    """
    num_bytes = 2 * (N * K + rows * (N + K))
    return Peer("bf16", num_bytes, partial(_products, N, K, rows), devices=("cuda", "cpu"))


def humming_product(format_name: str, N: int, K: int, rows: int) -> Peer:
    """Make the peer that vLLM uses: a layer of humming-kernels with random weights.

    Args:
        format_name: "nvfp4" or "fp8_block".
        N: outputs.
        K: inputs.
        rows: activation rows.

    Raises:
        KeyError: the format is neither; humming is not stated against it.
    """
    bytes_a_weight = {"nvfp4": 0.5 + 1 / 16, "fp8_block": 1.0}[format_name]
    num_bytes = int(N * K * bytes_a_weight) + 2 * rows * (N + K)
    make = partial(_humming_products, format_name, N, K, rows)
    return Peer("humming", num_bytes, make, "humming-kernels", "0.1.20")


def _copies(num_bytes: int, num_copies: int, device: str) -> list[Callable[[], object]]:
    shape = max(1, num_bytes // 2 // torch.bfloat16.itemsize)
    make = partial(torch.zeros, shape, dtype=torch.bfloat16, device=device)
    return [partial(make().copy_, make()) for _ in range(num_copies)]


def _products(
    N: int, K: int, rows: int, num_copies: int, device: str
) -> list[Callable[[], object]]:
    make = partial(torch.randn, dtype=torch.bfloat16, device=device)
    x = make(rows, K)
    return [partial(functional.linear, x, make(N, K)) for _ in range(num_copies)]


def _humming_products(
    format_name: str, N: int, K: int, rows: int, num_copies: int, device: str
) -> list[Callable[[], object]]:
    x = torch.randn(rows, K, dtype=torch.bfloat16, device=device)
    make = {"nvfp4": _humming_nvfp4, "fp8_block": _humming_fp8}[format_name]
    return [partial(_without_gradient, make(N, K, device), x) for _ in range(num_copies)]


def _humming_nvfp4(N: int, K: int, device: str) -> Any:  # noqa: ANN401  a foreign layer
    layer = _humming_layer(N, K, {"quant_method": "modelopt", "quant_algo": "nvfp4"}, device)
    layer.weight.data.copy_(
        torch.randint(0, 256, layer.weight.shape, dtype=torch.uint8, device=device)
    )
    scales = torch.rand(layer.weight_scale.shape, device=device) + 0.5
    layer.weight_scale.data.copy_(scales.to(torch.float8_e4m3fn))
    layer.weight_scale_2.data.fill_(0.01)
    layer.transform()
    return layer


def _humming_fp8(N: int, K: int, device: str) -> Any:  # noqa: ANN401  a foreign layer
    layer = _humming_layer(N, K, {"quant_method": "fp8", "weight_block_size": [128, 128]}, device)
    layer.weight.data.copy_(torch.randn(N, K, device=device).to(torch.float8_e4m3fn))
    layer.weight_scale_inv.data.fill_(0.01)
    layer.transform()
    return layer


def _humming_layer(N: int, K: int, config: dict[str, Any], device: str) -> Any:  # noqa: ANN401
    make = import_module("humming.layer").HummingLayer
    layer = make(shape_n=N, shape_k=K, weight_config=config, torch_dtype=torch.bfloat16)
    return layer.to(device)


def _without_gradient(layer: Callable[[torch.Tensor], object], x: torch.Tensor) -> object:
    with torch.no_grad():
        return layer(x)
