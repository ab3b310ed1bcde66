"""List the problems that the embedding is checked on, and its laws."""

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance, different_bits
from kernels.common.domain import Domain
from kernels.common.family import Family, Law, Op
from kernels.embed.op import embed
from kernels.embed.reference import embed_reference


def embed_case(rows: int, num_ids: int, width: int, *, interpreted: bool = True) -> Case:
    """Make a case whose ids reach three past both ends of the table."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        return torch.randint(-3, num_ids + 3, shape, generator=generator).float()

    return Case(
        "embed",
        {"R": rows, "V": num_ids, "D": width},
        (
            TensorSpec("ids", ("R",), torch.int32, Domain("ids", draw)),
            TensorSpec("table", ("V", "D"), torch.bfloat16, domain.NORMAL),
        ),
        (TensorSpec("out", ("R", "D"), torch.bfloat16),),
        Tolerance(0.0, 0.0, "rows are copied: every element is exact"),
        interpreted,
    )


def _run(inputs: Tensors, outputs: Tensors) -> None:
    embed(inputs["ids"], inputs["table"], out=outputs["out"])


def _truth(inputs: Tensors) -> Tensors:
    """Multiply by the ids' one-hot rows; an id that is not held has none."""
    held = torch.arange(inputs["table"].shape[0], device=inputs["ids"].device)
    chosen = (inputs["ids"][:, None] == held).double()
    return {"out": chosen @ inputs["table"].double()}


def _model(inputs: Tensors) -> Tensors:
    return {"out": embed_reference(inputs["ids"], inputs["table"])}


def _hostile_ids_read(device: str) -> str | None:
    """Look up ids far outside the table, and rows of a strided one."""
    wide = torch.randn(7, 300, generator=torch.Generator().manual_seed(1)).bfloat16().to(device)
    table = wide[:, 100:]
    ids = torch.tensor([2**31 - 1, -(2**31), 7, -1, 6, 0], dtype=torch.int32, device=device)
    out = table.new_full((6, 200), torch.nan)
    embed(ids, table, out=out)
    want = torch.zeros_like(out)
    want[4], want[5] = table[6], table[0]
    return different_bits(out, want, "TD")


FAMILY = Family(
    name="embed",
    ops={"embed": Op(_run, _truth, _model)},
    cases=(
        embed_case(1, 50, 256),
        embed_case(9, 50, 300),
        embed_case(5, 20, 1025),
        embed_case(32, 400, 5120, interpreted=False),
        embed_case(300, 400, 5120, interpreted=False),
    ),
    laws=(Law("an id outside the table gives zeros and reads nothing", _hostile_ids_read),),
)
