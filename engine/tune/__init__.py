"""What ``tune`` measures, and the tables that hold it (``own_table.py``).

Launch tiles: ``run.py`` sweeps them, ``tiles.py`` and ``user_tiles.py`` read their tables. Prices
of rounds: ``rounds.py`` measures them, ``user_prices.py`` reads theirs.
"""
