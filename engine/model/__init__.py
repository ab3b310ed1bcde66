"""The model: its numbers, its files, its weights, and the forward pass in plain torch.

``config.py`` reads config.json, ``checkpoint.py`` and ``loading.py`` bring the weights in,
``decoder.py`` is the model from token ids to hidden states, ``mtp.py`` the head that drafts.
"""
