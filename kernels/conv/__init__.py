"""Causal depthwise convolution of a few taps with SiLU, and the delta layer's gates."""

from kernels.conv.op import conv_fold, conv_gates
from kernels.conv.prefill import conv_prefill

__all__ = ["conv_fold", "conv_gates", "conv_prefill"]
