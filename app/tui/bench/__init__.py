"""What the screen costs: measured on this machine, with an engine that only keeps time."""
