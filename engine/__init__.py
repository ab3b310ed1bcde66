"""The inference engine: checkpoints, the model, decoding. It knows no screen, colour or key."""
