"""The name of an arithmetic: under one name the same weights give the same bits."""

import torch

from engine.model.kv_scales import kv_arithmetic
from engine.model.rows import ARITHMETIC
from kernels.attention.kv_codes import KvScales


def arithmetic_id(device: str, products: str = "", scales: KvScales | None = None) -> str:
    """What decides the bits of a token's logits beside the weights.

    Args:
        device: "cpu" or "cuda".
        products: name of the matrix kernels' arithmetic (``Packer.arithmetic``), beside which the
            layers run by kernels too; empty for the reference.
        scales: of keys and values in 8 bits; None for BF16.
    """
    on_gpu = device == "cuda"
    chip = torch.cuda.get_device_name() if on_gpu else torch.backends.cpu.get_cpu_capability()
    place = f"{device} {chip} {torch.get_num_threads()}t"
    layers = ARITHMETIC if products else "reference-1"
    names = (f"{layers} torch-{torch.__version__} {place}", products, kv_arithmetic(scales))
    return " ".join(one for one in names if one)
