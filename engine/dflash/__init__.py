"""DFlash2: a drafter with weights of its own that proposes a block of tokens at once."""
