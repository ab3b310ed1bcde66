"""Build NVFP4 weights and an e4m3 head from a BF16 or FP8 release, layer by layer."""
