"""Every operation of a decode round and of a chunk of prefill, with the kernel that runs it.

Nothing is loaded: shapes and formats say what there is, `engine.dispatch` says what runs. Drafting
is not told: it runs the same operations on a layer of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.compute_path import facts_of, ready_kernels
from engine.dispatch import DeviceFacts, decoding_of, dispatch
from engine.explained_model import Product, Subject, matrices, subject_meant
from engine.graph_classes import CHUNK_ROWS
from engine.machine.device import choose_device
from engine.model.tensors import expected_tensors
from engine.operations import BETWEEN, Chosen, Operation
from engine.profile import WeightFormat
from engine.settings.declared import KernelSettings, Settings
from engine.tune.tiles import read_table
from kernels.common.round import MAX_ROWS
from kernels.linear.formats import STEP
from kernels.linear.tile_choice import lookup

Phase = Literal["round", "between", "chunk"]
ROWS: dict[Phase, tuple[int, ...]] = {
    "round": tuple(range(1, MAX_ROWS + 1)),
    "between": (MAX_ROWS,),
    "chunk": CHUNK_ROWS,
}
"""The rows that a call may have."""

_GATES = ("a | b", "bf16")
"""The product that a round computes where it is used: `engine.model.rows.plain_gates`."""

_GATE_AND_UP = "gate | up"
"""The product whose two halves silu x up makes one."""

_Of = Literal["once", "layer", "norm", "delta", "attention"]
"""What an operation is counted by."""

_OPERATIONS: dict[Phase, tuple[tuple[Operation, _Of], ...]] = {
    "round": (
        ("embed", "once"),
        ("norm", "norm"),
        ("convolve a round", "delta"),
        ("delta rule of a round", "delta"),
        ("gated norm of a round", "delta"),
        ("prepare heads of a round", "attention"),
        ("attention of a round", "attention"),
        ("silu x up", "layer"),
        ("choice of a round", "once"),
    ),
    "between": tuple((one, "once") for one in BETWEEN),
    "chunk": (
        ("embed", "once"),
        ("norm", "norm"),
        ("convolve a chunk", "delta"),
        ("delta rule of a chunk", "delta"),
        ("gated norm of a chunk", "delta"),
        ("prepare heads of a chunk", "attention"),
        ("widen keys of a chunk", "attention"),
        ("attention of a chunk", "attention"),
        ("gate attention of a chunk", "attention"),
        ("silu x up", "layer"),
    ),
}


@dataclass(frozen=True, slots=True)
class Here:
    """Where it would run: the device, the person's settings, the tile tables of ``linear``."""

    facts: DeviceFacts
    kernels: KernelSettings
    tile_rows: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    def choose(
        self, operation: Operation, num_rows: int, format_name: WeightFormat = "bf16"
    ) -> Chosen:
        """What runs an operation; see `dispatch`."""
        return dispatch(operation, self.facts, num_rows, self.kernels, format_name)

    @property
    def packs(self) -> bool:
        """Whether weights are held as stored, and joined, for kernels."""
        return self.choose("path", 1).kernel == "kernels"


@dataclass(frozen=True, slots=True)
class Explained:
    """One operation: how often it runs in a round or a chunk, by which kernel and why."""

    phase: Phase
    operation: str
    times: int
    kernel: str
    build: str
    reason: str


def explain_here(
    settings: Settings, shape: str | None = None
) -> tuple[Subject, Here, list[Explained]]:
    """Explain the model that chat would open on this machine, or a shape in a profile's formats.

    Args:
        settings: which model, device and kernels.
        shape: key of ``SHAPES``; None takes the model. See `subject_meant`.

    Raises:
        SettingsError: the device is not there.
        EngineError: as `subject_meant`.
    """
    device = choose_device(settings.model.device)
    ready_kernels(settings.kernels, device)
    facts = facts_of(device, probe=settings.kernels.linear != "reference")
    rows = read_table("linear", facts.capability) if facts.capability else ()
    subject = subject_meant(settings, shape)
    here = Here(facts, settings.kernels, rows)
    return subject, here, explain(subject, here)


def explain(subject: Subject, here: Here) -> list[Explained]:
    """Say what runs each operation of a round of 1 to 32 rows, between rounds, and of a chunk."""
    return [one for phase in ROWS for one in _phase(phase, subject, here)]


def decisions(here: Here) -> dict[str, Chosen]:
    """What stands above all operations: the path, graphs, overlap, what prompts multiply."""
    names: tuple[Operation, ...] = ("path", "launch", "overlap", "prefill")
    return {name: here.choose(name, 1) for name in names}


def _phase(phase: Phase, subject: Subject, here: Here) -> Iterator[Explained]:
    config = subject.config
    counts: dict[_Of, int] = {
        "once": 1,
        "layer": config.num_layers,
        "norm": 2 * config.num_layers,
        "delta": config.num_delta_layers,
        "attention": config.num_attention_layers,
    }
    products = list(matrices(subject, joined=here.packs)) if phase != "between" else []
    for product in products:
        yield from _product(phase, product, here)
    of_gates = _format_of_gates(products)
    for operation, of in _OPERATIONS[phase]:
        if operation == "widen keys of a chunk" and subject.kv == "bf16":
            continue
        if operation == "silu x up" and phase == "round":
            yield from _silu_x_up(products, counts[of], here)
            continue
        for one, told in _choices(operation, phase, here, of_gates if of == "delta" else "bf16"):
            name = f"{operation}{told}"
            yield Explained(phase, name, counts[of], one.name, one.build, one.reason)
    if phase == "round":
        yield _head(subject, here)


def _product(phase: Phase, product: Product, here: Here) -> Iterator[Explained]:
    """A product by each kernel that some number of rows gives it."""
    if phase == "round" and here.packs and (product.label, product.stored) == _GATES:
        for one, told in _choices("multiply gates of a round", phase, here):
            name = f"{product.title(packs=here.packs)}{told}"
            yield Explained(phase, name, product.times, one.name, one.build, one.reason)
        return
    for one, told in _choices("product", phase, here, product.stored):
        reason = _with_weight(one, product, here)
        name = f"{product.title(packs=here.packs)}{told}"
        yield Explained(phase, name, product.times, one.name, one.build, reason)


def _silu_x_up(products: Sequence[Product], num_layers: int, here: Here) -> Iterator[Explained]:
    """How gate and up of a round become one, by the format of both; apart they have none."""
    times: dict[WeightFormat, int] = {
        one.stored: one.times for one in products if one.label == _GATE_AND_UP
    }
    if apart := num_layers - sum(times.values()):
        times["bf16"] = times.get("bf16", 0) + apart
    for stored, count in times.items():
        of_which = f" ({stored})" if len(times) > 1 else ""
        for one, told in _choices("silu x up", "round", here, stored):
            name = f"silu x up{of_which}{told}"
            yield Explained("round", name, count, one.name, one.build, one.reason)


def _format_of_gates(products: Sequence[Product]) -> WeightFormat:
    """The format of a | b; where they are read one by one, any that is not plain."""
    for one in products:
        if one.label == _GATES[0]:
            return one.stored
    return "nvfp4"


def _choices(
    operation: Operation, phase: Phase, here: Here, stored: WeightFormat = "bf16"
) -> list[tuple[Chosen, str]]:
    """What runs an operation, with its rows in words where another number has another kernel.

    A product's weight has a format; a delta layer goes by that of its a | b.
    """
    ranges = _ranges(operation, ROWS[phase], stored, here)
    told = [f", {first} to {last} rows" for first, last in ranges] if len(ranges) > 1 else [""]
    return [
        (here.choose(operation, last, stored), words)
        for (_, last), words in zip(ranges, told, strict=True)
    ]


def _ranges(
    operation: Operation, rows: Sequence[int], stored: WeightFormat, here: Here
) -> list[tuple[int, int]]:
    """Ranges of ``rows`` that have one kernel; both ends count."""
    found: list[tuple[int, int]] = []
    before = ""
    for num_rows in rows:
        kernel = here.choose(operation, num_rows, stored).kernel
        start = found.pop()[0] if kernel == before else num_rows
        found.append((start, num_rows))
        before = kernel
    return found


def _head(subject: Subject, here: Here) -> Explained:
    config = subject.config
    name = "lm_head.weight"
    stored = "bf16"
    if not config.tie_word_embeddings:
        stored = subject.stored(name, expected_tensors(config)[name])
    product = Product("head", config.vocab_size, config.hidden_size, stored, 1)
    one = here.choose("head", MAX_ROWS)
    reason = _with_weight(one, product, here)
    return Explained("round", product.title(packs=here.packs), 1, one.name, one.build, reason)


def _with_weight(one: Chosen, product: Product, here: Here) -> str:
    """The reason; of the skinny kernel also how codes are read and where its tile comes from."""
    if one.name != "skinny_linear":
        return one.reason
    return "; ".join((one.reason, decoding_of(product.stored, here.facts), _tile(product, here)))


def _tile(product: Product, here: Here) -> str:
    """Where the launch choices of a skinny product come from."""
    padded = -(-product.K // STEP) * STEP
    try:
        found = lookup(here.tile_rows, product.N, padded, product.stored)
    except (ValueError, KeyError, TypeError):
        return "default tile: its table entry is damaged"
    return "tile of a table" if found else "default tile: no table holds it"
