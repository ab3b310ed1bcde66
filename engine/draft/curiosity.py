"""When rows that nobody has timed are tried. No tensors.

A table of prices may be wrong about rounds that nobody runs because of it. So a class of rows
beside one that was timed is tried where it would pay at the lowest price that it can have.
"""

SHARE = 0.01
"""Of the time, which tries may cost more than the rounds in their place."""

LONGEST_GAP = 64
"""Rounds between two looks for something to try, where nothing is found."""


class Curiosity:
    """Saves a share of the time and spends it on tries; looks seldom where there is none to make.

    A try that is thought to be dear is made as well, and paid for later.
    """

    def __init__(self) -> None:
        self._saved_ms = 0.0
        self._gap = 1
        self._num_waiting = 0

    @property
    def is_due(self) -> bool:
        """Whether to look for something to try."""
        return self._saved_ms > 0 and self._num_waiting <= 0

    def save(self, round_ms: float) -> None:
        """Take in that a round has run."""
        self._saved_ms += SHARE * round_ms
        self._num_waiting -= 1

    def tries(self, more_ms: float) -> None:
        """A round is tried.

        Args:
            more_ms: that it is thought to take beyond what its tokens usually do.
        """
        self._saved_ms -= max(more_ms, 0.0)
        self._gap = 1

    def finds_nothing(self) -> None:
        """There was nothing to try: look again after twice as many rounds."""
        self._gap = min(2 * self._gap, LONGEST_GAP)
        self._num_waiting = self._gap
