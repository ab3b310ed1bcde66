"""Run the launches of a GPU that is not here on the one that is, so that they have run before.

A rehearsal makes every choice of `kernels.common.gpu.choices` as the other GPU would. Kernels are
compiled for the chip that is here, so that bits and refusals mean something and times do not: the
person's own tile tables and prices are neither read nor written.
"""

import torch

from engine.errors import RequestError, SettingsError
from kernels.common import gpu

END = "Set 'kernels.launches' to 'auto' to end it."


def choose_launches(wanted: str, device: str) -> str:
    """Rehearse another GPU, where one is wanted, until the process ends; asked before all else.

    Args:
        wanted: the setting ``kernels.launches``.
        device: "cpu" or "cuda".

    Returns:
        A sentence that says so; empty where launches are this GPU's own.

    Raises:
        SettingsError: there is no GPU to rehearse on, or this process launched its own before.
    """
    if wanted == "auto":
        return sentence()
    if device == "cpu":
        raise SettingsError(
            f"'kernels.launches' is '{wanted}', which is rehearsed on a GPU, and the model runs on "
            "the CPU.",
            END,
        )
    if gpu.chip() == gpu.GB10.capability:
        return ""
    try:
        gpu.rehearse(gpu.GB10)
    except ValueError as problem:
        raise SettingsError(
            f"'kernels.launches' is '{wanted}', but {problem}.", "Give it to a process of its own."
        ) from None
    return sentence()


def sentence() -> str:
    """What a person must know while another GPU is rehearsed; empty where none is."""
    one = gpu.rehearsed()
    if one is None:
        return ""
    return (
        f"A rehearsal: {torch.cuda.get_device_name()} makes the launch choices of {one.name} "
        f"({one.num_sms} multiprocessors, {one.shared_bytes:,} bytes of shared memory a block). "
        "Bits hold, times say nothing of that GPU; own tables are neither read nor written."
    )


def expect_own_launches() -> None:
    """Refuse to keep what was timed while another GPU is rehearsed.

    Raises:
        RequestError: one is.
    """
    if one := gpu.rehearsed():
        raise RequestError(
            f"What is timed while {one.name} is rehearsed serves no GPU, and is not written.",
            f"Add --dry-run. {END}",
        )
