"""The 8-bit float of weights, scales and drafts; loads no torch."""

E4M3_MAX = 448.0
"""The largest value of e4m3 (fn): it has no infinity, and what is larger is clamped or NaN."""
