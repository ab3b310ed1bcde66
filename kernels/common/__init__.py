"""Hold what every kernel family shares: cases, proofs, exact arithmetic, timing, compiling."""
