"""Causal depthwise convolution of a few taps with SiLU."""
