"""Live instruments: what the engine does while it does it, in figures that its records give."""
