"""Bytes that a round's kernels must move, by part."""

from collections.abc import Callable, Mapping

from engine.model.config import ModelConfig
from engine.model.footprint import moved_bytes
from engine.records import BYTE_PARTS
from engine.types import KvFormat

Traffic = Callable[[int, int, int, int], dict[str, int]]
"""(context_tokens, num_rows, num_read, num_drafted) -> bytes by ``engine.records.BYTE_PARTS``:
positions held before the round, its rows, rows that were taken in, tokens that the MTP head
proposed."""


class WalkTraffic:
    """Traffic of ``RowWalk``: every row is a call of its own that reads the weights again.

    Bytes grow linearly with the context, so that two contexts, looked at once, tell all others.

    Args:
        config: the model's numbers.
        weights: bytes of its weights by part, as they are held and read.
        kv: format of keys and values.
    """

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, int], kv: KvFormat = "bf16"
    ) -> None:
        empty, one = (
            moved_bytes(config, weights, length, num_drafted=1, kv=kv) for length in (0, 1)
        )
        self._fixed = empty
        self._per_token = {part: one[part] - empty[part] for part in BYTE_PARTS}

    def __call__(
        self,
        context_tokens: int,
        num_rows: int,  # noqa: ARG002  rows that are not taken in are not computed
        num_read: int,
        num_drafted: int,
    ) -> dict[str, int]:
        """Bytes by part; see ``Traffic``."""
        # rows see context_tokens, context_tokens + 1, ...
        num_seen = num_read * context_tokens + num_read * (num_read - 1) // 2
        moved = {
            part: num_read * self._fixed[part] + num_seen * self._per_token[part]
            for part in BYTE_PARTS
        }
        per_draft = self._fixed["drafter"] + context_tokens * self._per_token["drafter"]
        return {**moved, "drafter": num_drafted * per_draft}


class RowsTraffic:
    """Traffic of ``RowsVerifier``: a round reads weights, states and context once for all rows.

    Args:
        config: the model's numbers.
        weights: bytes of its weights by part, as they are held and read.
        kv: format of keys and values.
    """

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, int], kv: KvFormat = "bf16"
    ) -> None:
        self._config = config
        self._kv: KvFormat = kv
        self._weights = dict(weights)

    def __call__(
        self,
        context_tokens: int,
        num_rows: int,
        num_read: int,  # noqa: ARG002  all rows are computed
        num_drafted: int,
    ) -> dict[str, int]:
        """Bytes by part; see ``Traffic``."""
        return moved_bytes(
            self._config, self._weights, context_tokens, rows=num_rows, num_drafted=num_drafted,
            kv=self._kv,
        )  # fmt: skip
