"""Full attention with grouped heads, partial rotation and an output gate."""
