"""Tile tables: ``tiles.py`` and ``user_tiles.py`` read them, ``run.py`` sweeps tiles for a GPU."""
