"""The gated delta rule: gates, the one-token step, the chunked prefill form."""
