"""The timing trace: recorded beside each session, exported for Perfetto, summed up, replayed.

``record`` writes lines while the engine answers, ``read`` turns a file back into ``TracedTurn``s,
and ``chrome``, ``summary`` and ``replay`` each do one thing with those.
"""
