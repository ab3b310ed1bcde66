"""Say how large a round is: the newest committed token and the drafts that are verified with it."""

MAX_ROWS = 32
"""Rows of a round at most, chain or tree: tables of a round have as many entries, and a row has the
same bits in a call of any number of rows up to it."""
