"""Which kernel an operation runs, and why: one pure function of device, rows and settings.

What is decided while the program runs is decided here, or by what is called from here: the path
and its switches by `engine.compute_path`, a product's kernel by `engine.model.packed.way_of`. The
other operations have one kernel a path, whatever the rows; the names below are theirs, and a test
watches the engine call them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from engine.model.packed import crossovers_of, way_of
from engine.settings.declared import KernelSettings
from kernels.common.nvrtc import architecture
from kernels.common.round import MAX_ROWS
from kernels.linear.skinny_launch import has_converter

Operation = Literal[
    "path", "launch", "overlap",
    "embed", "norm", "gated norm", "product", "silu x up", "head",
    "convolve a round", "delta rule of a round", "prepare heads of a round",
    "attention of a round", "choice of a round",
    "convolve a chunk", "delta rule of a chunk", "prepare heads of a chunk",
    "attention of a chunk", "gate attention of a chunk",
]  # fmt: skip
"""The first three are decisions about all others."""

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
    "gated norm": Chosen("kernels.norm.op.gated_rms_norm", "Triton", "norm and gate in one pass"),
    "silu x up": Chosen(
        "kernels.linear.silu_mul.silu_mul", "Triton", "between two products, in one pass"
    ),
    "head": Chosen(
        "kernels.linear.skinny.skinny_linear", "CUDA C++",
        "fp32 logits, 32 rows a launch: one order of sums for any number of rows",
    ),
    "convolve a round": Chosen(
        "kernels.conv.op.conv_gates", "Triton",
        f"convolution, unit lengths and gates in one launch, ancestors by index; {_ONE_ROUND}",
    ),
    "delta rule of a round": Chosen(
        "kernels.delta.walk.delta_walk", "CUDA C++",
        f"the state stays in registers and pending rows are folded in as it loads; {_ONE_ROUND}",
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
    "prepare heads of a chunk": Chosen(
        "kernels.attention.prep.attention_prep", "Triton",
        "norms, rotates and stores queries, keys and values in one launch",
    ),
    "attention of a chunk": Chosen(
        "kernels.attention.prefill.attention_prefill", "library",
        "flash attention, causal from the lower right",
    ),
    "gate attention of a chunk": Chosen(
        "kernels.attention.reference.gate_reference", "torch", "element by element"
    ),
})  # fmt: skip

_REFERENCE: Mapping[Operation, str] = MappingProxyType({
    "embed": "torch.nn.functional.embedding",
    "norm": "kernels.norm.op.add_rms_norm",
    "gated norm": "kernels.norm.op.gated_rms_norm",
    "product": "kernels.linear.reference.linear_reference",
    "silu x up": "kernels.linear.silu_mul.silu_mul",
    "head": "kernels.linear.reference.logits_reference",
    "convolve a round": "kernels.conv.reference.conv_reference",
    "delta rule of a round": "kernels.delta.reference.delta_step_reference",
    "prepare heads of a round": "kernels.attention.reference.rotate_reference",
    "attention of a round": "kernels.attention.reference.attention_reference",
    "choice of a round": "kernels.sample.reference.sample_reference",
    "convolve a chunk": "kernels.conv.reference.conv_reference",
    "delta rule of a chunk": "kernels.delta.reference.delta_chunk_reference",
    "prepare heads of a chunk": "kernels.attention.reference.rotate_reference",
    "attention of a chunk": "kernels.attention.reference.attention_reference",
    "gate attention of a chunk": "kernels.attention.reference.gate_reference",
})  # fmt: skip

_ON_BOTH_PATHS: frozenset[Operation] = frozenset({"norm", "gated norm", "silu x up"})
"""Their kernels have the bits of their references, so that the reference path takes them too."""

_PRODUCTS: Mapping[str, tuple[str, Build]] = MappingProxyType({
    "skinny": ("kernels.linear.skinny.skinny_linear", "CUDA C++"),
    "middle": ("kernels.linear.middle.middle_linear", "Triton"),
    "expand": ("kernels.linear.expand.expanded_linear", "library"),
})  # fmt: skip


def dispatch(
    operation: Operation, facts: DeviceFacts, num_rows: int, kernels: KernelSettings
) -> Chosen:
    """Choose what runs an operation.

    Args:
        operation: of a decode round or of a chunk of prefill.
        facts: the device.
        num_rows: rows of the call; those of a round are 1 to 32.
        kernels: the person's settings.

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
    if operation == "product":
        assert facts.capability is not None
        way = way_of(num_rows, crossovers_of(facts.capability))
        kernel, build = _PRODUCTS[way.kernel]
        return Chosen(kernel, build, way.reason)
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


def _by_reference(operation: Operation, path: Chosen, facts: DeviceFacts) -> Chosen:
    """What the reference path runs; on a GPU the norms and the gate are kernels there as well."""
    if operation == "launch":
        return Chosen("eager", "", f"Rows run one by one. {path.reason}")
    if operation == "overlap":
        return Chosen("off", "", f"There are no kernels to overlap. {path.reason}")
    if operation in _ON_BOTH_PATHS and facts.device == "cuda":
        same = _KERNELS[operation]
        return replace(same, reason=f"{same.reason}; the bits of its reference")
    return Chosen(_REFERENCE[operation], "torch", path.reason)
