"""Text and ids: the checkpoint's tokenizer and chat template, and the way back as a stream."""
