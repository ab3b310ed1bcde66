"""Proofs of the kernel families, run on this machine."""
