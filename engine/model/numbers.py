"""Whether plain weights are numbers: looked at where they lie, and told when all have been read.

Codes and scales are looked at where they are read and packed; a plain weight that is NaN or
infinite would show in answers alone.
"""

import torch

from engine.errors import CheckpointError
from engine.model.layouts import StoredWeight

MOST_ON_A_CPU = 1 << 20
"""Elements of a weight that a CPU looks at: norms and such. To look at the matrices of a release in
BF16 took it a third of the time that it reads them in; a GPU looks faster than bytes arrive."""


class NumberCheck:
    """Looks at weights as they arrive. A GPU is waited for once, at the end.

    On a CPU larger weights than ``MOST_ON_A_CPU`` are trusted: the answer says what is wrong.
    """

    def __init__(self) -> None:
        self._looked_at: list[StoredWeight] = []
        self._are_numbers: list[torch.Tensor] = []

    def look(self, one: StoredWeight, values: torch.Tensor) -> None:
        """Look at a plain weight.

        Args:
            one: of the checkpoint.
            values: bf16 or fp32, its values on any device.
        """
        if values.device.type == "cpu" and values.numel() > MOST_ON_A_CPU:
            return
        self._looked_at.append(one)
        extremes = torch.stack(values.aminmax())  # NaN where one value is; nothing large is made
        self._are_numbers.append(extremes.isfinite().all())

    def expect_numbers(self) -> None:
        """Refuse a weight that is none.

        Raises:
            CheckpointError: it holds NaN or an infinity; the sentence names it.
        """
        if not self._looked_at:
            return
        are_numbers = torch.stack(self._are_numbers)
        if bool(are_numbers.all()):
            return
        wrong = self._looked_at[int(are_numbers.int().argmin())].weight
        raise CheckpointError(
            f"{wrong.path}: '{wrong.name[:200]}' holds a value that is not a finite number.",
            "Download the checkpoint again.",
        )
