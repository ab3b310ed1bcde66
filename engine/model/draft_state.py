"""What a drafter holds of a conversation: keys and values of its own layers."""

from engine.model.state import KeyValueStore


class DraftState:
    """Keys and values of a drafter's layers for the first ``length`` rows.

    Args:
        kv: of its layers; reserved whole, so it never moves.
    """

    def __init__(self, kv: KeyValueStore) -> None:
        self.length = 0
        self.kv = kv

    @property
    def num_bytes(self) -> int:
        """Bytes reserved."""
        return self.kv.num_bytes

    @property
    def addresses(self) -> tuple[int, ...]:
        """What captured launches hold."""
        return self.kv.addresses

    def truncate(self, length: int) -> None:
        """Forget the rows from ``length`` on, as after a restored snapshot of the trunk.

        Raises:
            ValueError: fewer rows are held.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"truncate: {length} is not within the {self.length} rows held")
        self.length = length
