"""The path that computes on this machine: kernels over packed weights, or the reference."""

from dataclasses import dataclass
from functools import cache

from engine.dispatch import DeviceFacts, dispatch
from engine.errors import EngineError, SettingsError
from engine.machine.cores import num_physical_cores
from engine.machine.triton_part import what_triton_lacks
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.footprint import weight_bytes
from engine.model.kernel_model import KernelModel
from engine.model.packed import crossovers_of
from engine.model.packing import Launching, Packer
from engine.profile import Formats
from engine.rehearsal import choose_launches
from engine.settings.declared import KernelSettings, Settings
from engine.tune.tiles import read_table
from engine.turn.rows_verify import RowsVerifier
from engine.turn.traffic import RowsTraffic, Traffic, WalkTraffic
from engine.turn.verify import RowWalk, Verifier
from kernels.common import gpu, nvrtc
from kernels.common.chips import can_run_kernels
from kernels.common.nvrtc import CompileError
from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import defaults

HELD_FORMATS = Formats("bf16", "bf16", "bf16", "bf16", "bf16")
"""What the reference path holds and reads, whatever was stored: weights are expanded. The
kernels of a GPU hold and read them as stored."""

SMALL_MODEL_BYTES = 1 << 30
"""Below this, handing a product to a second thread costs more than it saves, and ten times more
when another program holds that core: the demo decodes 51 ms a token with one thread and 233 with
two on two busy cores."""


class KernelError(EngineError):
    """The kernels do not run on this machine as they must: refused, or with other results."""

    title = "Kernels"


@dataclass(frozen=True, slots=True)
class ComputePath:
    """The decision, once a load.

    Attributes:
        launching: for which GPU weights are packed; None holds them as BF16 for the reference.
        why_not: sentences that say why a GPU's kernels, or FP8 operands that were asked for, are
            not used; empty on a CPU where nobody asked.
        rehearsal: a sentence that says whose launches are rehearsed; empty where none are.
    """

    launching: Launching | None = None
    why_not: str = ""
    rehearsal: str = ""

    @property
    def is_packed(self) -> bool:
        """Whether weights are held as the kernels read them."""
        return self.launching is not None

    @property
    def capability(self) -> tuple[int, int] | None:
        """Compute capability whose choices kernels make; None for the reference."""
        return self.launching.capability if self.launching is not None else None

    @property
    def description(self) -> str:
        """The path in words, for figures."""
        if self.launching is None:
            return "reference: every row is a one-token step over weights held in BF16"
        overlap = ", overlapped" if self.launching.overlap else ""
        how = "one captured graph a round" if self.launching.graphs else "launched one by one"
        fp8 = ", prompts by FP8 operands" if self.launching.fp8_prefill else ""
        other = ", by another GPU's launch choices" if self.rehearsal else ""
        return f"kernels: a round's rows together, weights as stored, {how}{overlap}{fp8}{other}"

    def new_packer(self) -> Packer | None:
        """What packs the weights of one model; None for the reference."""
        return Packer(self.launching) if self.launching is not None else None

    def new_verifier(self, model: Model) -> Verifier:
        """What computes the rows of a round.

        Args:
            model: loaded for this path.
        """
        return RowsVerifier(model) if isinstance(model, KernelModel) else RowWalk(model)

    def traffic_of(self, model: Model) -> Traffic:
        """What counts a round's bytes."""
        kind = WalkTraffic if self.launching is None else RowsTraffic
        return kind(model.config, model.weights.part_bytes, model.kv_format)


def choose_compute_path(settings: Settings, device: str) -> ComputePath:
    """Decide which path computes; on a GPU compiled kernels are kept beside the sessions.

    Args:
        settings: the section ``kernels`` and the data folder are read.
        device: "cpu" or "cuda".

    Raises:
        SettingsError: the kernels are asked for by name and do not run here.
        KernelError: no kernel can be launched here, on either path.
    """
    wanted = settings.kernels.linear
    if device == "cuda":
        nvrtc.keep_in(settings.data_dir / "cubins")
    rehearsal = ready_kernels(settings.kernels, device)
    facts = facts_of(device, probe=wanted != "reference")
    path = dispatch("path", facts, 1, settings.kernels)
    if path.kernel == "reference":
        if wanted == "skinny":
            because = facts.problem or "the model runs on the CPU"
            other = "'reference'" if facts.capability else "model.device to 'cuda'"
            raise SettingsError(
                f"'kernels.linear' is 'skinny', but {because}.", f"Set it to 'auto', or {other}."
            )
        said = [path.reason] if device == "cuda" else []
        if settings.kernels.prefill == "fp8":
            said.append(
                "The setting 'kernels.prefill' is 'fp8', which needs the kernels of a GPU: "
                "prompts are read in BF16."
            )
        return ComputePath(why_not=" ".join(said), rehearsal=rehearsal)
    assert facts.capability is not None
    overlap = dispatch("overlap", facts, 1, settings.kernels).kernel == "on"
    graphs = dispatch("launch", facts, 1, settings.kernels).kernel == "graph"
    rows = read_table("linear", facts.capability)
    return ComputePath(
        Launching(
            facts.capability,
            rows,
            overlap=overlap,
            graphs=graphs,
            commit_in_verify=settings.kernels.commit_in_verify,
            fp8_prefill=dispatch("prefill", facts, 1, settings.kernels).kernel == "fp8",
            chip=facts.chip,
        ),
        rehearsal=rehearsal,
    )


def choose_threads(config: ModelConfig) -> int:
    """CPU threads of the products: one for a small model, all physical cores for a large one."""
    is_small = sum(weight_bytes(config, HELD_FORMATS).values()) < SMALL_MODEL_BYTES
    return 1 if is_small else num_physical_cores()


def ready_kernels(kernels: KernelSettings, device: str) -> str:
    """See to what must be before the first kernel: that Triton launches, and whose choices.

    Returns:
        A sentence that says whose launches are rehearsed; empty where none are.

    Raises:
        KernelError: Triton lacks something of this machine.
        SettingsError: as `choose_launches`.
    """
    if device == "cuda" and (lack := what_triton_lacks()):
        raise KernelError(lack.sentence, lack.mend)
    return choose_launches(kernels.launches, device)


def facts_of(device: str, *, probe: bool = True) -> DeviceFacts:
    """What `engine.dispatch` needs to know of this machine's device.

    Args:
        device: "cpu" or "cuda".
        probe: compile a small kernel, to know whether any compiles.
    """
    if device == "cpu":
        return DeviceFacts(device)
    choices, chip = gpu.choices(), gpu.chip()
    problem = why_kernels_do_not_run(choices, chip) if probe else ""
    return DeviceFacts(device, choices, problem, chip)


@cache
def why_kernels_do_not_run(choices: gpu.Capability, chip: gpu.Capability) -> str:
    """Why a GPU cannot run the kernels, by compiling a small product; empty when it can.

    Args:
        choices: compute capability whose launch choices it makes.
        chip: its own.
    """
    if not can_run_kernels(chip):
        own = ".".join(str(one) for one in chip)
        return f"they need a GPU of compute capability 9.0 or later, and this one has {own}"
    problem = SkinnyProblem(256, 1024, "bf16", 1)
    tile = defaults(problem.N, problem.Kp, problem.format, choices).upto_8
    try:
        skinny_launch.cubin(tile, problem, chip)
    except CompileError as refused:
        return str(refused).rstrip(".")
    return ""


def describe_paths(path: ComputePath) -> str:
    """Say which kernel multiplies how many rows, for `doctor`."""
    launching = path.launching
    if launching is None:
        return path.why_not or "Products run in plain torch, as they must on a CPU."
    at = crossovers_of(launching.capability)
    tuned = sum(row.get("op") == "skinny_linear" for row in launching.rows)
    tiles = f"{tuned} entries of tile tables" if tuned else "default tiles, none are measured"
    fp8 = "; long prompts by FP8 operands" if launching.fp8_prefill else ""
    return (
        f"Products: skinny up to {at.middle_from - 1} rows, middle up to {at.middle_to}, "
        f"expand above; {tiles}; overlap {'on' if launching.overlap else 'off'}{fp8}."
    )
