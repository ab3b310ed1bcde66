"""Tile tables: measured launch choices, data beside their kernel family, read here and passed in.

A kernel reads no file. A tile changes no bit of a result where its family says so, so a missing
table or row costs time only: the family's default is taken, and a missing table is a notice.
"""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

TABLES = {(9, 0): "sm_90", (12, 0): "sm_121", (12, 1): "sm_121"}
"""Compute capability -> table; the RTX 50 family shares the GB10's."""


@cache
def read_table(family: str, capability: tuple[int, int]) -> tuple[dict[str, Any], ...]:
    """The rows of a family's table for a GPU; empty when there is none.

    Args:
        family: folder of ``kernels``, e.g. "norm".
        capability: the GPU's compute capability, (major, minor).
    """
    name = TABLES.get(capability)
    if name is None:
        return ()
    path = resources.files("kernels") / family / "tiles" / f"{name}.toml"
    return tuple(tomllib.loads(path.read_text(encoding="utf-8"))["tile"])


def tile_notice(capability: tuple[int, int]) -> str:
    """What a person should know about the tiles of this GPU; empty when a table serves it."""
    if capability in TABLES:
        return ""
    major, minor = capability
    return f"No tile table was measured for sm_{major}{minor}: kernels run with default tiles."
