"""Describe what is timed and what is tuned: problems, bars and launch choices, as data.

A family gives `qwen38 bench kernels` its problems and `qwen38 tune` its tunables; both commands
know nothing else of it. A tile is a family's own value, which only the family looks into.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernels.common.case import Case, Tensors
from kernels.common.peers import Peer

Tile = Any
"""A launch choice of a family, hashable and equal by value; None means the function's default."""

Row = Mapping[str, Any]
"""Fields of a row of a tile table."""

Run = Callable[[Tensors, Tensors, Tile], None]
"""(inputs, outputs, tile): calls a function, writing into the given outputs."""


@dataclass(frozen=True)
class ModelSizes:
    """Numbers of one model that the sizes of its problems follow from; elements and heads.

    `formats` are the storage formats of its projections.
    """

    name: str
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_width: int
    formats: tuple[str, ...]
    num_delta_layers: int
    num_attention_layers: int

    @property
    def num_layers(self) -> int:
        """Layers of the trunk."""
        return self.num_delta_layers + self.num_attention_layers


@dataclass(frozen=True)
class Measured:
    """What a bar is judged by.

    Attributes:
        us: median time of a call.
        share: share, 0 to 1, of the read bandwidth measured in the same run.
        floor_us: an empty launch and the problem's bytes at that bandwidth.
        peer_us: median time of each peer that ran.
        us_by_rows: median time of the same problem at each row count of the run.
    """

    us: float
    share: float
    floor_us: float
    peer_us: Mapping[str, float] = field(default_factory=dict)
    us_by_rows: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bar:
    """What a problem must reach; every limit that is given counts.

    Attributes:
        min_share: share of read bandwidth.
        max_us: microseconds.
        max_times_floor: times an empty launch plus the bytes.
        min_speed_up: times faster than a peer, by the peer's name.
        max_times_rows: (rows, factor): at most this many times the time at that row count.
        gpu: part of the name of the GPU that it was stated for; empty for any.
    """

    min_share: float | None = None
    max_us: float | None = None
    max_times_floor: float | None = None
    min_speed_up: Mapping[str, float] = field(default_factory=dict)
    max_times_rows: tuple[int, float] | None = None
    gpu: str = ""

    def judge(self, seen: Measured) -> tuple[tuple[str, bool | None], ...]:
        """Say each limit in words, and whether it is met; None where the run cannot tell."""
        found: list[tuple[str, bool | None]] = []
        if self.min_share is not None:
            found.append((f">= {self.min_share:.0%} of bandwidth", seen.share >= self.min_share))
        if self.max_us is not None:
            found.append((f"<= {self.max_us:g} us", seen.us <= self.max_us))
        if self.max_times_floor is not None:
            met = seen.us <= self.max_times_floor * seen.floor_us
            found.append((f"<= {self.max_times_floor:g} x floor", met))
        for peer, factor in self.min_speed_up.items():
            met = seen.peer_us[peer] >= factor * seen.us if peer in seen.peer_us else None
            found.append((f">= {factor:g} x {peer}", met))
        if self.max_times_rows is not None:
            rows, factor = self.max_times_rows
            base = seen.us_by_rows.get(rows)
            met = None if base is None else seen.us <= factor * base
            found.append((f"<= {factor:g} x T={rows}", met))
        return tuple(found)


@dataclass(frozen=True)
class Problem:
    """One thing to time: a function at the sizes of a model, for a number of tokens.

    Attributes:
        name: what it is in the model, such as "gate and up"; the same at every row count.
        op: key of its family's `ops`.
        rows: tokens of the call.
        sizes: number of each axis letter.
        num_bytes: bytes that one call must move.
        make_calls: (number of copies, device) -> one call a copy, each on tensors of its own; a
            call takes the tile.
        case: what is proven before it is timed; None asks for the family's whole check.
        format_name: storage format of its weights, where it has any.
        bar: what it must reach.
        peers: what it is compared with.
        calls: of a round of the model; 0 where a round has it as a part of another problem.
    """

    name: str
    op: str
    rows: int
    sizes: Mapping[str, int]
    num_bytes: int
    make_calls: Callable[[int, str], Sequence[Callable[[Tile], object]]]
    case: Case | None = None
    format_name: str = ""
    bar: Bar | None = None
    peers: tuple[Peer, ...] = ()
    calls: int = 1


@dataclass(frozen=True)
class Tunable:
    """A function whose launch is chosen by a table, and how to sweep the choices.

    A table's row holds `op`, the fields of the key and those of the tile. What a key leads to may
    depend on nothing but the key, so that a row can be read without its problem. A tile changes
    time alone: all tiles of all keys give a row of a product the same bits.

    Attributes:
        op: key of its family's `ops`, and the `op` of its rows.
        rows: numbers of tokens at which entries are timed; they reach every entry of a shape (one
            of 1 to 16 and one of 17 to 32, say).
        key: the fields that name a problem's entry: {"width": 5120}.
        key_fields: their names.
        candidates: key -> tiles worth timing; a table's tile must be one of them. One that does
            not launch on a GPU drops out there.
        default: key -> the tile where no table holds the key.
        case: problem -> what its entry's tiles are proven on, with as many rows `T` as the entry
            serves of 1 to 32; a few more where it serves none of these.
        run: calls the function with a tile.
        to_row: tile -> fields of a row.
        from_row: row -> tile; may raise KeyError, TypeError or ValueError.
        compile: (problem, tiles): compiles them at one time, before the first is timed; None where
            each compiles at its launch.
    """

    op: str
    rows: tuple[int, ...]
    key: Callable[[Problem], Row]
    key_fields: tuple[str, ...]
    candidates: Callable[[Row], Sequence[Tile]]
    default: Callable[[Row], Tile]
    case: Callable[[Problem], Case]
    run: Run
    to_row: Callable[[Tile], Row]
    from_row: Callable[[Row], Tile]
    compile: Callable[[Problem, Sequence[Tile]], None] | None = None

    def find(self, rows: Iterable[Row], key: Row) -> Tile:
        """Return the tile of the first row with this key, else the default."""
        wanted = {"op": self.op, **key}
        for row in rows:
            if all(row.get(name) == value for name, value in wanted.items()):
                return self.from_row(row)
        return self.default(key)


def case_calls(
    case: Case, run: Run, num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    """Make calls on copies of a case's tensors, for a problem that is fully told by its case.

    Args:
        case: its inputs are drawn once and copied.
        run: what a call runs.
        num_copies: calls to make, each on inputs and outputs of its own.
        device: where the tensors go.
    """
    drawn = case.draw(0, device)
    return [
        partial(
            run,
            {name: tensor.clone() for name, tensor in drawn.items()},
            case.poisoned_outputs(device).tensors,
        )
        for _ in range(num_copies)
    ]
