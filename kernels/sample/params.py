"""Hold the numbers of a sampling in device memory, and say which launches they need."""

from typing import Literal, NamedTuple

import torch

from kernels.common.logit_rows import MAX_TOP
from kernels.sample.reference import Filters


class Method(NamedTuple):
    """Which kernels a sampling launches; a captured graph serves every sampling of one method.

    Attributes:
        choice: "greedy" takes the largest logit; "top" draws among at most 32 sorted ids; "whole"
            draws from the vocabulary without sorting it.
        penalised: penalties change some logits.
        counts: "whole" searches for the cut of a top_k above 32.
        weighs: "whole" searches for the cut of a top_p below 1.
    """

    choice: Literal["greedy", "top", "whole"]
    penalised: bool = False
    counts: bool = False
    weighs: bool = False


def method_of(filters: Filters, presence_penalty: float, repetition_penalty: float) -> Method:
    """Choose the launches for a sampling.

    Args:
        filters: as `sample_reference` takes them.
        presence_penalty: 0 is off.
        repetition_penalty: 1 is off.
    """
    penalised = presence_penalty != 0.0 or repetition_penalty != 1.0
    if filters.temperature == 0.0:
        return Method("greedy", penalised)
    if 1 <= filters.top_k <= MAX_TOP:
        return Method("top", penalised)
    return Method("whole", penalised, filters.top_k > 0, filters.top_p < 1.0)


class SampleParams:
    """A sampling's numbers at one address, so that a captured graph serves every one of its method.

    Attributes:
        floats: fp64 [8]: temperature, top_p, min_p, presence penalty, repetition penalty, 3 unused.
        ints: int64 [8]: top_k, seed, number of token ids, 5 unused.
    """

    def __init__(self, device: torch.device | str) -> None:
        """Allocate; nothing is set."""
        device = torch.device(device)
        self._all = torch.zeros(16, dtype=torch.int64, device=device)
        self._staged = torch.zeros(16, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.floats, self.ints = self._all[:8].view(torch.float64), self._all[8:]

    def write(
        self,
        filters: Filters,
        seed: int,
        num_ids: int,
        presence_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
    ) -> Method:
        """Copy a sampling to the device, in the order of the current stream.

        The caller has waited for the copy before.

        Args:
            filters: as `sample_reference` takes them.
            seed: 0 to 2^63 - 1.
            num_ids: token ids from here on are never chosen; at most 2^20.
            presence_penalty: subtracted from the logits of ids in the answer; 0 is off.
            repetition_penalty: above 0; divides a positive logit of an id that was seen, multiplies
                a negative one; 1 is off.

        Returns:
            The method to launch.

        Raises:
            ValueError: the seed or the number of ids is out of its range.
        """
        if not 0 <= seed < 1 << 63:
            raise ValueError(f"SampleParams: seed is {seed}; give 0 to 2^63 - 1")
        if not 1 <= num_ids <= 1 << 20:
            raise ValueError(f"SampleParams: num_ids is {num_ids}; give 1 to 2^20")
        numbers = (filters.temperature, filters.top_p, filters.min_p)
        floats = torch.tensor(
            [*numbers, presence_penalty, repetition_penalty, 0.0, 0.0, 0.0], dtype=torch.float64
        )
        self._staged[:8].copy_(floats.view(torch.int64))
        self._staged[8:11].copy_(torch.tensor([filters.top_k, seed, num_ids]))
        self._all.copy_(self._staged, non_blocking=True)
        return method_of(filters, presence_penalty, repetition_penalty)

    def read(self) -> tuple[Filters, int, int, float, float]:
        """Read back what was written: filters, seed, number of ids, both penalties."""
        temperature, top_p, min_p, presence, repetition = self.floats[:5].tolist()
        top_k, seed, num_ids = self.ints[:3].tolist()
        return Filters(temperature, top_k, top_p, min_p), seed, num_ids, presence, repetition
