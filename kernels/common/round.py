"""Say how large a round is: the newest committed token and the drafts that are verified with it."""

MAX_ROWS = 32
"""Rows of a round, a chain or a tree: one captured graph holds any of them, tables have as many
entries, and a row's bits are the same in a call of any number up to it."""
