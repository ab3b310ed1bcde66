"""The layouts in which checkpoints store a matrix, told apart by the tensors that lie together.

The layout is decided matrix by matrix, from names, dtypes and shapes, never from a list in the
config: one file may hold several. A scale is read only as what its layout says it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.errors import CheckpointError
from engine.model.safetensors_header import StoredTensor
from engine.model.tensors import TensorSpec
from engine.profile import WeightFormat
from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP

PLAIN_DTYPES = ("BF16", "F16", "F32")

GIVE = (
    "Give one of the Qwen releases in BF16 or FP8, or an NVFP4 checkpoint of modelopt or "
    "compressed-tensors."
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor of a layout: its name within the module, its dtypes, its shapes for [N, K]."""

    name: str
    dtypes: tuple[str, ...]
    shapes: Callable[[int, int], tuple[tuple[int, ...], ...]]

    def told(self, num_rows: int, width: int) -> str:
        """The tensor as it should be, for a sentence."""
        shapes = " or ".join(str(list(one)) for one in self.shapes(num_rows, width))
        return f"{self.name} {'/'.join(self.dtypes)} {shapes}"


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to store a matrix [N, K]: w = codes x scales x tensor_scale, each where it is given.

    Attributes:
        title: for a person.
        format: how the matrix is held.
        codes: the values, or the codes that scales multiply.
        scales: multipliers of blocks, groups, rows or the whole.
        tensor_scale: one more number for the whole.
        divides: ``tensor_scale`` is a divisor, not a multiplier.
    """

    title: str
    format: WeightFormat
    codes: Piece
    scales: Piece | None = None
    tensor_scale: Piece | None = None
    divides: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All of its tensors."""
        every = (self.codes, self.scales, self.tensor_scale)
        return tuple(one for one in every if one is not None)

    def told(self, num_rows: int, width: int) -> str:
        """The layout of a matrix [N, K], for a sentence."""
        ragged = self.format == "nvfp4" and width % NVFP4_GROUP
        rule = f"; K = {width} is no multiple of {NVFP4_GROUP}" if ragged else ""
        return f"{self.title} ({', '.join(one.told(num_rows, width) for one in self.pieces)}{rule})"

    def differences(self, found: Mapping[str, StoredTensor], num_rows: int, width: int) -> int:
        """How far tensors are from this layout; 0 where they are it."""
        names = {one.name for one in self.pieces}
        total = 2 * len(names ^ found.keys())
        total += self.format == "nvfp4" and width % NVFP4_GROUP != 0
        for piece in self.pieces:
            if (tensor := found.get(piece.name)) is not None:
                total += 4 * (tensor.dtype not in piece.dtypes)
                total += tensor.shape not in piece.shapes(num_rows, width)
        return total


def _whole(num_rows: int, width: int) -> tuple[tuple[int, ...], ...]:
    return ((num_rows, width),)


def _pairs(num_rows: int, width: int) -> tuple[tuple[int, ...], ...]:
    return ((num_rows, width // 2),)


def _groups(num_rows: int, width: int) -> tuple[tuple[int, ...], ...]:
    return ((num_rows, width // NVFP4_GROUP),)


def _blocks(num_rows: int, width: int) -> tuple[tuple[int, ...], ...]:
    return ((-(-num_rows // FP8_BLOCK), -(-width // FP8_BLOCK)),)


def _rows(num_rows: int, _width: int) -> tuple[tuple[int, ...], ...]:
    # a vector of one number would as well be the whole's
    return ((num_rows, 1), (num_rows,)) if num_rows > 1 else ((num_rows, 1),)


def _one(_num_rows: int, _width: int) -> tuple[tuple[int, ...], ...]:
    return ((), (1,))


E4M3_CODES = Piece("weight", ("F8_E4M3",), _whole)

PLAIN = Layout("plain values", "bf16", Piece("weight", PLAIN_DTYPES, _whole))

QWEN_FP8 = Layout(
    f"Qwen FP8 in blocks of {FP8_BLOCK} x {FP8_BLOCK}",
    "fp8_block",
    E4M3_CODES,
    scales=Piece("weight_scale_inv", ("BF16",), _blocks),
)
"""The Qwen3.5 to 3.8 FP8 releases: in spite of its name the scale is a multiplier."""

ROW_FP8 = Layout(
    "compressed-tensors FP8 per row",
    "e4m3_row",
    E4M3_CODES,
    scales=Piece("weight_scale", ("BF16", "F32"), _rows),
)
"""compressed-tensors ``float-quantized`` with the strategy ``channel`` (unsloth, RedHat); without
the axis of one in e4m3 heads that are laid over a release."""

TENSOR_FP8 = Layout(
    "modelopt FP8 per tensor",
    "e4m3_row",
    E4M3_CODES,
    scales=Piece("weight_scale", ("F32", "BF16"), _one),
)
"""NVIDIA modelopt ``FP8``, and compressed-tensors with the strategy ``tensor``: one multiplier."""

MODELOPT_NVFP4 = Layout(
    "modelopt NVFP4",
    "nvfp4",
    Piece("weight", ("U8",), _pairs),
    scales=Piece("weight_scale", ("F8_E4M3",), _groups),
    tensor_scale=Piece("weight_scale_2", ("F32",), _one),
)
"""NVIDIA modelopt ``NVFP4`` (nvidia, RadixArk, r0b0tlab); scales are not swizzled on disk."""

PACKED_NVFP4 = Layout(
    "compressed-tensors NVFP4",
    "nvfp4",
    Piece("weight_packed", ("U8",), _pairs),
    scales=Piece("weight_scale", ("F8_E4M3",), _groups),
    tensor_scale=Piece("weight_global_scale", ("F32",), _one),
    divides=True,
)
"""compressed-tensors ``nvfp4-pack-quantized`` (unsloth, RedHat): the global scale divides."""

LAYOUTS = (PLAIN, QWEN_FP8, ROW_FP8, TENSOR_FP8, MODELOPT_NVFP4, PACKED_NVFP4)

FOREIGN_NAMES = ("qweight", "qzeros", "scales", "g_idx")
"""Names of AWQ and GPTQ tensors; all other layouts' names begin with ``weight``."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """One expected tensor: its layout, and where values or codes and their scales lie."""

    spec: TensorSpec
    weight: StoredTensor
    layout: Layout = PLAIN
    scales: StoredTensor | None = None
    tensor_scale: StoredTensor | None = None

    @property
    def format(self) -> WeightFormat:
        """How it is held."""
        return self.layout.format

    @property
    def pieces(self) -> tuple[StoredTensor, ...]:
        """Every tensor on disk that it is read from."""
        every = (self.weight, self.scales, self.tensor_scale)
        return tuple(one for one in every if one is not None)

    @property
    def num_bytes(self) -> int:
        """Bytes on disk."""
        return sum(one.num_bytes for one in self.pieces)


def belongs_to_weight(leaf: str) -> bool:
    """Whether a tensor of this name within its module takes part in storing the matrix."""
    return leaf == "weight" or leaf.startswith("weight_") or leaf in FOREIGN_NAMES


def match_matrix(module: str, spec: TensorSpec, found: Mapping[str, StoredTensor]) -> StoredWeight:
    """Find the layout that a matrix is stored in.

    Args:
        module: canonical name without ``.weight``.
        spec: of the matrix [N, K].
        found: its tensors by their names within the module (`belongs_to_weight`), one or more.

    Raises:
        CheckpointError: together they are no layout that is read. The sentence says what was
            found, and how the nearest layout would look.
    """
    num_rows, width = spec.shape
    nearest = min(LAYOUTS, key=lambda one: one.differences(found, num_rows, width))
    if nearest.differences(found, num_rows, width):
        first = next(iter(found.values()))
        got = ", ".join(
            f"{leaf[:80]} {one.dtype} {list(one.shape)}" for leaf, one in sorted(found.items())
        )
        raise CheckpointError(
            f"{first.path}: '{module[:200]}' is stored as {got[:800]}, which is no layout that is "
            f"read; the nearest is {nearest.told(num_rows, width)}.",
            f"{_foreign(found)}{GIVE}",
        )
    parts = (found[one.name] if one else None for one in (nearest.scales, nearest.tensor_scale))
    return StoredWeight(spec, found[nearest.codes.name], nearest, *parts)


def _foreign(found: Mapping[str, StoredTensor]) -> str:
    """Name a layout that is known but not read, in a sentence; empty for another."""
    dtypes = {leaf: one.dtype for leaf, one in found.items()}
    name = ""
    if any(leaf in FOREIGN_NAMES for leaf in found):
        name = "an AWQ or GPTQ export"
    elif dtypes.get("weight_packed") == "I32":
        name = "compressed-tensors pack-quantized integers"
    elif dtypes.get("weight_scale") in ("U8", "F8_E8M0"):
        name = "an MX format (MXFP4 or MXFP8), whose scales are powers of two"
    elif dtypes.get("weight") in ("F8_E5M2", "F8_E8M0"):
        name = f"{dtypes['weight']} codes, which no release of this model has"
    return f"This is {name}. " if name else ""
