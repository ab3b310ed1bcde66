"""Choose tokens: penalties, filters, and draws keyed by (seed, position).

`reference.py` is plain torch, so importing this package does not load it.
"""
