"""Which device computes."""

import torch

from engine.errors import SettingsError


def choose_device(wanted: str) -> str:
    """The device that the setting means: ``auto`` is the GPU where there is one.

    Args:
        wanted: ``model.device``: "auto", "cpu" or "cuda".

    Returns:
        "cpu" or "cuda".

    Raises:
        SettingsError: a GPU is asked for and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if wanted == "cuda" and not has_gpu:
        raise SettingsError(
            "'model.device' is 'cuda', but torch finds no GPU.", "Set it to 'auto' or 'cpu'."
        )
    return ("cuda" if has_gpu else "cpu") if wanted == "auto" else wanted
