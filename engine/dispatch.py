"""Which kernel an operation runs, and why: one pure function of device, rows and settings.

What is decided while the program runs is decided here, or by what is called from here: the path
and its switches by `engine.compute_path`, a product's kernel by `engine.model.packed.way_of`, where
a round norms and gates by `kernels.delta.gate.GATED_FROM`. The other operations have one kernel a
path, whatever the rows; the names below are theirs, and a test watches the engine call them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from engine.model.packed import crossovers_of, fp8_rows_from, way_of
from engine.profile import WeightFormat
from engine.settings.declared import KernelSettings
from kernels.common.nvrtc import architecture
from kernels.common.round import MAX_ROWS
from kernels.delta.gate import GATED_FROM
from kernels.linear.skinny_launch import has_converter

Operation = Literal[
    "path", "launch", "overlap", "prefill",
    "embed", "norm", "product", "silu x up", "head",
    "multiply gates of a round", "convolve a round", "delta rule of a round",
    "gated norm of a round", "prepare heads of a round", "attention of a round",
    "choice of a round",
    "convolve a chunk", "delta rule of a chunk", "gated norm of a chunk",
    "prepare heads of a chunk", "widen keys of a chunk", "attention of a chunk",
    "gate attention of a chunk",
    "fold states", "fold tails", "close gaps of a tree",
]  # fmt: skip
"""The first four are decisions about all others, the last three run between rounds. Only keys that
are kept in 8 bits are widened."""

BETWEEN: tuple[Operation, ...] = ("fold states", "fold tails", "close gaps of a tree")
"""What a round leaves to be done; where rows are walked one by one it leaves nothing."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

Build = Literal["", "CUDA C++", "Triton", "library", "torch"]
"""What the kernel is written in; empty for a decision. "library" is torch's own GPU code for one
large operation, "torch" plain operations one after another."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a choice needs to know of the device.

    Attributes:
        device: "cpu" or "cuda".
        capability: compute capability of the GPU, (major, minor); None for a CPU.
        problem: why a kernel does not compile or run there, a clause; empty when it does.
    """

    device: str
    capability: tuple[int, int] | None = None
    problem: str = ""

    @property
    def target(self) -> str:
        """What kernels are compiled for, such as sm_121a; "cpu" without a GPU."""
        return architecture(self.capability) if self.capability else "cpu"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The function that runs, by its full name, or the word of a decision; and why."""

    kernel: str
    build: Build
    reason: str

    @property
    def name(self) -> str:
        """The last part of the name."""
        return self.kernel.rpartition(".")[2]


_ONE_ROUND = "the same for 1 to 32 rows, chain or tree, so that a row has its bits in any company"

_KERNELS: Mapping[Operation, Chosen] = MappingProxyType({
    "embed": Chosen("kernels.embed.op.embed", "Triton", "copies rows of the table"),
    "norm": Chosen(
        "kernels.norm.op.add_rms_norm", "Triton", "adds to the residual stream and norms at once"
    ),
    "silu x up": Chosen(
        "kernels.linear.silu_mul.silu_mul", "Triton", "between two products, in one pass"
    ),
    "head": Chosen(
        "kernels.linear.skinny.skinny_linear", "CUDA C++",
        "fp32 logits, 32 rows a launch: one order of sums for any number of rows",
    ),
    "multiply gates of a round": Chosen(
        "kernels.conv.op.conv_gates", "Triton",
        f"a | b of plain bf16 are multiplied in the launch that uses them; {_ONE_ROUND}",
    ),
    "convolve a round": Chosen(
        "kernels.conv.op.conv_gates", "Triton",
        f"convolution, unit lengths and gates in one launch, ancestors by index; {_ONE_ROUND}",
    ),
    "delta rule of a round": Chosen(
        "kernels.delta.walk.delta_walk", "CUDA C++",
        f"the state stays in registers and pending rows are folded in as it loads; {_ONE_ROUND}",
    ),
    "gated norm of a round": Chosen(
        "kernels.delta.walk.delta_walk", "CUDA C++",
        "the end of the delta rule's launch, where a head's outputs meet",
    ),
    "prepare heads of a round": Chosen(
        "kernels.attention.prep.attention_prep", "Triton",
        "norms, rotates and stores queries, keys and values in one launch",
    ),
    "attention of a round": Chosen(
        "kernels.attention.verify.attention_verify", "CUDA C++",
        f"all rows share one read of the context, cut at fixed positions; {_ONE_ROUND}",
    ),
    "choice of a round": Chosen(
        "kernels.sample.op.sample_rows", "Triton",
        f"penalties, filters and a draw keyed by position, on the device; {_ONE_ROUND}",
    ),
    "convolve a chunk": Chosen(
        "kernels.conv.prefill.conv_prefill", "Triton", "rows of one chain, behind the tail"
    ),
    "delta rule of a chunk": Chosen(
        "kernels.delta.prefill.delta_prefill", "Triton", "chunks of 64 rows as matrix products"
    ),
    "gated norm of a chunk": Chosen(
        "kernels.norm.op.gated_rms_norm", "Triton", "norm and gate in one pass"
    ),
    "prepare heads of a chunk": Chosen(
        "kernels.attention.prep.attention_prep", "Triton",
        "norms, rotates and stores queries, keys and values in one launch",
    ),
    "widen keys of a chunk": Chosen(
        "kernels.attention.widen.attention_widen", "Triton",
        "keys and values in 8 bits to the BF16 that the library attends to, a layer at a time",
    ),
    "attention of a chunk": Chosen(
        "kernels.attention.prefill.attention_prefill", "library",
        "flash attention, causal from the lower right",
    ),
    "gate attention of a chunk": Chosen(
        "kernels.attention.reference.gate_reference", "torch", "element by element"
    ),
    "fold states": Chosen(
        "kernels.delta.fold.delta_fold", "CUDA C++",
        "where a point is kept or a prompt follows; else the next round folds while it loads",
    ),
    "fold tails": Chosen(
        "kernels.conv.op.conv_fold", "Triton", "with the states: the last accepted inputs"
    ),
    "close gaps of a tree": Chosen(
        "kernels.attention.compact.attention_compact", "CUDA C++",
        "moves the keys and values of accepted rows together, behind a round that branches",
    ),
})  # fmt: skip

_GATED_APART = Chosen(
    "kernels.norm.op.gated_rms_norm", "Triton",
    "in a launch of its own, under which the next product loads; the bits are those of the walk's",
)  # fmt: skip

_REFERENCE: Mapping[Operation, str] = MappingProxyType({
    "embed": "torch.nn.functional.embedding",
    "norm": "kernels.norm.op.add_rms_norm",
    "product": "kernels.linear.reference.linear_reference",
    "silu x up": "kernels.linear.silu_mul.silu_mul",
    "head": "kernels.linear.reference.logits_reference",
    "multiply gates of a round": "kernels.linear.reference.linear_reference",
    "convolve a round": "kernels.conv.reference.conv_reference",
    "delta rule of a round": "kernels.delta.reference.delta_step_reference",
    "gated norm of a round": "kernels.norm.op.gated_rms_norm",
    "prepare heads of a round": "kernels.attention.reference.rotate_reference",
    "attention of a round": "kernels.attention.reference.attention_reference",
    "choice of a round": "kernels.sample.reference.sample_reference",
    "convolve a chunk": "kernels.conv.reference.conv_reference",
    "delta rule of a chunk": "kernels.delta.reference.delta_chunk_reference",
    "gated norm of a chunk": "kernels.norm.op.gated_rms_norm",
    "prepare heads of a chunk": "kernels.attention.reference.rotate_reference",
    "widen keys of a chunk": "kernels.attention.kv_codes.to_bf16",
    "attention of a chunk": "kernels.attention.reference.attention_reference",
    "gate attention of a chunk": "kernels.attention.reference.gate_reference",
})  # fmt: skip

_ON_BOTH_PATHS: Mapping[Operation, Operation] = MappingProxyType({
    "norm": "norm",
    "silu x up": "silu x up",
    "gated norm of a round": "gated norm of a chunk",
    "gated norm of a chunk": "gated norm of a chunk",
})  # fmt: skip
"""Kernels with the bits of their references, by what the reference path takes them for too."""

_PRODUCTS: Mapping[str, tuple[str, Build]] = MappingProxyType({
    "skinny": ("kernels.linear.skinny.skinny_linear", "CUDA C++"),
    "middle": ("kernels.linear.middle.middle_linear", "Triton"),
    "expand": ("kernels.linear.expand.expanded_linear", "library"),
    "fp8": ("kernels.linear.prefill_fp8.fp8_prefill_linear", "Triton"),
})  # fmt: skip


def dispatch(
    operation: Operation,
    facts: DeviceFacts,
    num_rows: int,
    kernels: KernelSettings,
    format_name: WeightFormat = "bf16",
) -> Chosen:
    """Choose what runs an operation.

    Args:
        operation: of a decode round or of a chunk of prefill.
        facts: the device.
        num_rows: rows of the call; those of a round are 1 to 32.
        kernels: the person's settings.
        format_name: of a product's weight.

    Raises:
        ValueError: there is no such operation, or a round has no such number of rows.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"dispatch: there is no operation '{operation}'")
    if num_rows < 1 or (operation.endswith("a round") and num_rows > MAX_ROWS):
        raise ValueError(f"dispatch: {operation} has 1 to {MAX_ROWS} rows, not {num_rows}")
    path = _path(facts, kernels)
    if operation == "path":
        return path
    if path.kernel == "reference":
        return _by_reference(operation, path, facts)
    if operation == "launch":
        return _launch(kernels)
    if operation == "overlap":
        return _overlap(facts, kernels)
    if operation == "prefill":
        return _prefill(kernels)
    if operation == "product":
        return _product(facts, num_rows, kernels, format_name)
    if operation == "gated norm of a round" and num_rows < GATED_FROM:
        return _GATED_APART
    return _KERNELS[operation]


def decoding_of(format_name: str, facts: DeviceFacts) -> str:
    """How the skinny kernel turns a weight's codes into numbers on a GPU."""
    if format_name == "bf16":
        return "bf16 as it is"
    if format_name != "nvfp4" or has_converter(facts.target):
        return f"{format_name} by the hardware's converter"
    return f"{format_name} by a portable decode to the same values, for want of a converter"


def _path(facts: DeviceFacts, kernels: KernelSettings) -> Chosen:
    """Kernels over packed weights, or the reference over BF16."""
    if facts.device == "cpu":
        return Chosen("reference", "", "The model runs on the CPU, where kernels do not.")
    if kernels.linear == "reference":
        return Chosen("reference", "", "The setting 'kernels.linear' is 'reference'.")
    if facts.problem:
        return Chosen("reference", "", f"The kernels are not used: {facts.problem}.")
    return Chosen("kernels", "", f"Kernels compile for {facts.target}.")


def _launch(kernels: KernelSettings) -> Chosen:
    if kernels.graphs:
        reason = "A round of a shape is captured once and launched as one graph."
        return Chosen("graph", "", reason)
    return Chosen("eager", "", "The setting 'kernels.graphs' is off.")


def _overlap(facts: DeviceFacts, kernels: KernelSettings) -> Chosen:
    if kernels.overlap is None:
        if facts.capability is not None and facts.capability[0] == 9:
            reason = "Kernels start before their predecessors end: measured to pay on an H200."
            return Chosen("on", "", reason)
        reason = "Nobody has measured it on this kind of GPU: 'qwen38 bench ab' does."
        return Chosen("off", "", reason)
    if kernels.overlap:
        reason = "The setting 'kernels.overlap' is on: kernels start before their predecessors end."
        return Chosen("on", "", reason)
    return Chosen("off", "", "The setting 'kernels.overlap' is off.")


def _product(
    facts: DeviceFacts, num_rows: int, kernels: KernelSettings, format_name: WeightFormat
) -> Chosen:
    assert facts.capability is not None
    is_fp8 = kernels.prefill == "fp8"
    first = fp8_rows_from(facts.capability, format_name) if is_fp8 else None
    way = way_of(num_rows, crossovers_of(facts.capability), first)
    kernel, build = _PRODUCTS[way.kernel]
    if way.kernel == "fp8" and facts.capability[0] == 9:
        build = "library"  # torch's FP8 product: prefill_fp8.library_is_faster
    return Chosen(kernel, build, way.reason)


def _prefill(kernels: KernelSettings) -> Chosen:
    if kernels.prefill == "fp8":
        reason = "The setting 'kernels.prefill' is 'fp8': prompts are read faster and less exactly."
        return Chosen("fp8", "", reason)
    return Chosen("bf16", "", "Prompts are multiplied in bf16, as their weights mean.")


def _by_reference(operation: Operation, path: Chosen, facts: DeviceFacts) -> Chosen:
    """What the reference path runs; on a GPU the norms and the gate are kernels there as well."""
    if operation == "launch":
        return Chosen("eager", "", f"Rows run one by one. {path.reason}")
    if operation == "overlap":
        return Chosen("off", "", f"There are no kernels to overlap. {path.reason}")
    if operation == "prefill":
        return Chosen("bf16", "", f"There are no kernels with FP8 operands. {path.reason}")
    if operation in BETWEEN:
        return Chosen("none", "", f"Rows run one by one, and none waits. {path.reason}")
    if operation in _ON_BOTH_PATHS and facts.device == "cuda":
        same = _KERNELS[_ON_BOTH_PATHS[operation]]
        return replace(same, reason=f"{same.reason}; the bits of its reference")
    return Chosen(_REFERENCE[operation], "torch", path.reason)
