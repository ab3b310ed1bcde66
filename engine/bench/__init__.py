"""Timing kernels, rounds, prompts and drafts: what is timed is proven first.

``model.py`` draws a full-size model with random weights, ``replay.py`` replays what plain decode
chose, ``ab.py`` compares two values of one of ``switches.py``, ``launches.py`` counts kernels.
"""
