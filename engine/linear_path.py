"""How matrix products run on this machine: the kernels over packed weights, or the reference."""

from dataclasses import dataclass
from functools import cache

import torch

from engine.errors import EngineError, SettingsError
from engine.model.decoder import Model
from engine.model.packed import crossovers_of
from engine.model.packing import Launching, Packer
from engine.settings.declared import Settings
from engine.tiles import read_table
from kernels.common import nvrtc
from kernels.common.nvrtc import CompileError
from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import defaults


class KernelError(EngineError):
    """The matrix kernels do not run on this machine, although they were expected to."""

    title = "Kernels"


@dataclass(frozen=True, slots=True)
class LinearPath:
    """The decision, once a load.

    Attributes:
        launching: for which GPU weights are packed; None holds them as BF16 for the reference.
        why_not: a sentence that says why a GPU's kernels are not used; empty on a CPU.
    """

    launching: Launching | None = None
    why_not: str = ""

    @property
    def is_packed(self) -> bool:
        """Whether weights are held as the kernels read them."""
        return self.launching is not None

    @property
    def description(self) -> str:
        """The path in words, for figures."""
        if self.launching is None:
            return "reference: every row is a one-token step over weights held in BF16"
        overlap = ", overlapped" if self.launching.overlap else ""
        return (
            f"kernels: every row is a one-token step, its products skinny{overlap} over weights as "
            "stored; attention and delta rule are the reference's"
        )

    def new_packer(self) -> Packer | None:
        """What packs the weights of one model; None for the reference."""
        return Packer(self.launching) if self.launching is not None else None


def choose_linear_path(settings: Settings, device: str) -> LinearPath:
    """Decide how products run; on a GPU compiled kernels are kept beside the sessions.

    Args:
        settings: the section ``kernels`` and the data folder are read.
        device: "cpu" or "cuda".

    Raises:
        SettingsError: the kernels are asked for by name and do not run here.
    """
    wanted = settings.kernels.linear
    if device == "cpu":
        if wanted == "skinny":
            raise SettingsError(
                "'kernels.linear' is 'skinny', but the model runs on the CPU.",
                "Set it to 'auto', or model.device to 'cuda'.",
            )
        return LinearPath()
    nvrtc.keep_in(settings.data_dir / "cubins")
    if wanted == "reference":
        return LinearPath(why_not="The setting 'kernels.linear' is 'reference'.")
    capability = torch.cuda.get_device_capability()
    if problem := why_kernels_do_not_run(capability):
        if wanted == "skinny":
            raise SettingsError(
                f"'kernels.linear' is 'skinny', but {problem}.", "Set it to 'auto' or 'reference'."
            )
        return LinearPath(why_not=f"The matrix kernels are not used: {problem}.")
    rows = read_table("linear", capability)
    return LinearPath(Launching(capability, rows, overlap=settings.kernels.overlap))


@cache
def why_kernels_do_not_run(capability: tuple[int, int]) -> str:
    """Why a GPU cannot run the matrix kernels, by compiling a small one; empty when it can."""
    if capability[0] < 9:
        own = ".".join(str(one) for one in capability)
        return f"they need a GPU of compute capability 9.0 or later, and this one has {own}"
    problem = SkinnyProblem(256, 1024, "bf16", 1)
    tile = defaults(problem.N, problem.Kp, problem.format, capability).upto_8
    try:
        skinny_launch.cubin(tile, problem, nvrtc.architecture(capability))
    except CompileError as refused:
        return str(refused).rstrip(".")
    return ""


def warm_up(model: Model) -> None:
    """Compile and load what a first round needs, so that no answer waits for it.

    Raises:
        KernelError: a kernel does not compile, or the driver refuses it.
    """
    try:
        hidden = model.step(0, model.new_state(64))
        model.logits(hidden)
        if model.mtp is not None:
            state = model.mtp.new_state(64)
            model.mtp.fill(hidden, (0,), state)
            model.mtp.draft(hidden, 0, state, 1)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
    except (RuntimeError, ValueError) as problem:
        raise KernelError(
            f"The matrix kernels do not run here: {str(problem).splitlines()[0]}.",
            "Set kernels.linear to 'reference', and tell us what 'qwen38 check' says.",
        ) from None


def describe_paths(path: LinearPath) -> str:
    """Say which kernel multiplies how many rows, for `doctor`."""
    launching = path.launching
    if launching is None:
        return path.why_not or "Products run in plain torch, as they must on a CPU."
    at = crossovers_of(launching.capability)
    tuned = sum(row.get("op") == "skinny_linear" for row in launching.rows)
    tiles = f"{tuned} entries of tile tables" if tuned else "default tiles, none are measured"
    return (
        f"Products: skinny up to {at.middle_from - 1} rows, middle up to {at.middle_to}, "
        f"expand above; {tiles}; overlap {'on' if launching.overlap else 'off'}."
    )
