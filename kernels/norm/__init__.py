"""Normalise rows: RMS with (1 + w), residual add + RMS, gated RMS per head."""

from kernels.norm.op import add_rms_norm, gated_rms_norm, rms_norm
from kernels.norm.tile import NormTile

__all__ = ["NormTile", "add_rms_norm", "gated_rms_norm", "rms_norm"]
