"""The gated delta rule: the walk of a round, the fold of its accepted rows, the chunked form."""
