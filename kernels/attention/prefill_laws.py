"""State the laws of the prefill's attention: its definition, and that lengths alone decide."""

import torch

from kernels.attention.prefill import attention_prefill
from kernels.common.capture import capture
from kernels.common.compare import different_bits
from kernels.common.family import Law

BOUND = 2.0**-6
"""Scores of order 1 and weights below 1, each rounded to bf16 (2^-9), then the output."""

SIZES = ((1, 1), (1, 37), (20, 20), (17, 90), (64, 64))
LARGE = ((64, 1000), (200, 5000), (1024, 1024))
"""Rows and positions of a text; the large ones on a GPU."""


def sizes_for(device: str) -> tuple[tuple[int, int], ...]:
    """Return the rows and positions that are tried."""
    return SIZES + LARGE if device == "cuda" else SIZES


class Text:
    """Rows at the end of a text, in a store and a block of rows that hold NaN behind them."""

    def __init__(self, num_rows: int, num_positions: int, device: str) -> None:
        heads, groups, width = (24, 4, 256) if device == "cuda" else (6, 2, 32)
        draw = torch.Generator(device).manual_seed(num_rows * num_positions)
        q = torch.randn(num_rows + 9, heads, width, generator=draw, device=device)
        store = torch.randn(2, groups, num_positions + 30, width, generator=draw, device=device)
        q[num_rows:], store[:, :, num_positions:] = torch.nan, torch.nan
        self.num_rows, self.num_positions = num_rows, num_positions
        self.q, (self.keys, self.values) = q.bfloat16(), store.bfloat16()
        self.rows = torch.tensor([0, num_rows], dtype=torch.int32, device=device)
        self.positions = torch.tensor([0, num_positions], dtype=torch.int32, device=device)

    def attend(self) -> torch.Tensor:
        """Call attention_prefill: bf16 [T, H, D]."""
        return attention_prefill(self.q, self.keys, self.values, self.rows, self.positions)

    def truth(self) -> torch.Tensor:
        """Compute the definition in fp64, a head at a time: [n, H, D]."""
        rows, positions = self.num_rows, self.num_positions
        q = self.q[:rows].double()
        share = q.shape[1] // len(self.keys)
        later = torch.ones(rows, positions, dtype=torch.bool, device=q.device)
        later = later.triu(positions - rows + 1)
        heads = []
        for head in range(q.shape[1]):
            keys, values = (
                one[head // share, :positions].double() for one in (self.keys, self.values)
            )
            scores = (q[:, head] @ keys.T) * q.shape[2] ** -0.5
            heads.append(scores.masked_fill(later, -torch.inf).softmax(1) @ values)
        return torch.stack(heads, 1)


def _differs_from_its_definition(device: str) -> str | None:
    """Compare with fp64, with NaN behind the rows and behind the positions."""
    for sizes in sizes_for(device):
        text = Text(*sizes, device)
        got = text.attend()[: text.num_rows].double()
        error = (got - text.truth()).abs()
        if not bool((error <= BOUND).all()):  # NaN is no smaller
            return f"{sizes[0]} rows of {sizes[1]} positions: off by {float(error.max()):.3g}"
    return None


def _blocks_change_bits(device: str) -> str | None:
    """Compare rows in a block that is larger than they are with the rows alone."""
    for sizes in sizes_for(device):
        text = Text(*sizes, device)
        padded = text.attend()[: text.num_rows]
        text.q = text.q[: text.num_rows]
        if fault := different_bits(text.attend(), padded, ("row", "head", "d")):
            return f"{sizes[0]} rows of {sizes[1]} positions: {fault}"
    return None


def _captured_lengths_differ(device: str) -> str | None:
    """Replay one graph for texts of many lengths."""
    text = Text(200, 5000, device)
    written = torch.empty_like(text.q)
    graph = capture([lambda: written.copy_(text.attend())])
    for num_rows, num_positions in ((200, 5000), (1, 1), (77, 400), (150, 4097)):
        text.rows[1], text.positions[1] = num_rows, num_positions
        graph.replay()
        want = text.attend()[:num_rows]
        if fault := different_bits(written[:num_rows], want, ("row", "head", "d")):
            return f"{num_rows} rows of {num_positions} positions: {fault}"
    return None


LAWS = (
    Law("a prefill's attention is its definition", _differs_from_its_definition),
    Law("rows beside a prefill's attention change nothing", _blocks_change_bits),
    Law("a captured prefill's attention serves every length", _captured_lengths_differ, True),
)
