"""Products of activations with weights in their storage formats."""
