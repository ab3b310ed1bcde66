"""Which kernel an operation runs, and why: one pure function of device, rows and settings.

What is decided while the program runs is decided here, or by what is called from here:

- the path and its switches: `engine.compute_path`;
- a product's kernel: `engine.model.packed.way_of`; an FP8 product of a prompt by torch:
  `kernels.linear.prefill_fp8.has_library`;
- where gate and up end in one output: `kernels.linear.tile_choice`;
- where a round norms and gates: `kernels.delta.gate.GATED_FROM`;
- which rounds go through a delta layer in one launch: `kernels.mixer.tile.takes`;
- which are convolved, or added and normed, by another build: `kernels.conv.rows_launch.serves`,
  `kernels.norm.rows_launch.takes`.

The other operations have one kernel a path, whatever the rows: `engine.operations` names them.
"""

from dataclasses import dataclass, replace

from engine.model.packed import crossovers_of, fp8_rows_from, way_of
from engine.operations import (
    BETWEEN,
    GATED_APART,
    IN_ONE_OUTPUT,
    JOINED,
    JOINED_OPERATIONS,
    KERNELS,
    ON_BOTH_PATHS,
    OPERATIONS,
    PRODUCTS,
    REFERENCE,
    Chosen,
    Operation,
)
from engine.profile import WeightFormat
from engine.settings.declared import KernelSettings
from kernels.common.chips import measured_like
from kernels.common.nvrtc import architecture
from kernels.common.round import MAX_ROWS
from kernels.conv import rows_launch
from kernels.delta.gate import GATED_FROM
from kernels.linear import prefill_fp8
from kernels.linear.skinny_launch import has_converter
from kernels.linear.tile_choice import PAIRED_FORMAT, paired_to
from kernels.mixer.tile import MOST_ROWS


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a choice needs to know of the device.

    Attributes:
        device: "cpu" or "cuda".
        capability: compute capability whose choices the GPU makes, (major, minor); None for a CPU.
        problem: why a kernel does not compile or run there, a clause; empty when it does.
        chip: compute capability of the GPU that is there; None is that of `capability`.
    """

    device: str
    capability: tuple[int, int] | None = None
    problem: str = ""
    chip: tuple[int, int] | None = None

    @property
    def target(self) -> str:
        """What kernels are compiled for, such as sm_121a; "cpu" without a GPU."""
        chip = self.chip or self.capability
        return architecture(chip) if chip else "cpu"


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
        format_name: of a product's weight; of a | b where a round convolves and walks; of gate | up
            where silu x up follows them as one product.

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
    chosen = _by_rows(operation, facts, num_rows, format_name)
    if _has_build_of_a_round(chosen, facts, num_rows, kernels, format_name):
        return replace(chosen, build="CUDA C++")
    return chosen


def _has_build_of_a_round(
    chosen: Chosen,
    facts: DeviceFacts,
    num_rows: int,
    kernels: KernelSettings,
    format_name: WeightFormat,
) -> bool:
    """Whether rows of a round go through another build of a kernel, of the same bits."""
    if chosen is KERNELS["norm"]:
        return num_rows <= MAX_ROWS and _overlap(facts, kernels).kernel == "on"
    if chosen.name == "conv_gates" and format_name == "bf16" and facts.capability is not None:
        return rows_launch.serves(num_rows, facts.capability)
    return False


def _by_rows(
    operation: Operation, facts: DeviceFacts, num_rows: int, format_name: WeightFormat
) -> Chosen:
    """A kernel; few rows of a round go by other ones, of the same bits."""
    if operation in JOINED_OPERATIONS and num_rows <= MOST_ROWS and format_name == "bf16":
        return JOINED
    if operation == "gated norm of a round" and num_rows < GATED_FROM:
        return GATED_APART
    if operation == "silu x up" and format_name == PAIRED_FORMAT:
        assert facts.capability is not None
        return IN_ONE_OUTPUT if num_rows <= paired_to(facts.capability) else KERNELS[operation]
    return KERNELS[operation]


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
        if facts.capability is not None and measured_like(facts.capability) == 90:
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
    kernel, build = PRODUCTS[way.kernel]
    if way.kernel == "fp8" and prefill_fp8.has_library(facts.capability):
        build = "library"
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
    if operation in ON_BOTH_PATHS and facts.device == "cuda":
        same = KERNELS[ON_BOTH_PATHS[operation]]
        return replace(same, reason=f"{same.reason}; the bits of its reference")
    return Chosen(REFERENCE[operation], "torch", path.reason)
