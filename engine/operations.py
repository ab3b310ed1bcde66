"""Every operation of a decode round and of a chunk of prefill, and the function that runs it.

One table a path: what the engine calls on a GPU's kernels, and on the reference. A test watches
the engine call them; `engine.dispatch` chooses between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Operation = Literal[
    "path", "launch", "overlap", "prefill",
    "embed", "norm", "product", "silu x up", "head",
    "multiply gates of a round", "convolve a round", "delta rule of a round",
    "gated norm of a round", "prepare heads of a round", "attention of a round",
    "choice of a round",
    "convolve a chunk", "delta rule of a chunk", "gated norm of a chunk",
    "prepare heads of a chunk", "widen keys of a chunk", "attention of a chunk",
    "gate attention of a chunk",
    "fold states", "fold tails", "close gaps of a tree",
]  # fmt: skip
"""The first four are decisions about all others, the last three run between rounds. Only keys that
are kept in 8 bits are widened."""

BETWEEN: tuple[Operation, ...] = ("fold states", "fold tails", "close gaps of a tree")
"""What a round leaves to be done; where rows are walked one by one it leaves nothing."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

Build = Literal["", "CUDA C++", "Triton", "library", "torch"]
"""What the kernel is written in; empty for a decision. "library" is torch's own GPU code for one
large operation, "torch" plain operations one after another."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The function that runs, by its full name, or the word of a decision; and why."""

    kernel: str
    build: Build
    reason: str

    @property
    def name(self) -> str:
        """The last part of the name."""
        return self.kernel.rpartition(".")[2]


_ONE_ROUND = "the same for 1 to 32 rows, chain or tree, so that a row has its bits in any company"

KERNELS: Mapping[Operation, Chosen] = MappingProxyType({
    "embed": Chosen("kernels.embed.op.embed", "Triton", "copies rows of the table"),
    "norm": Chosen(
        "kernels.norm.op.add_rms_norm", "Triton",
        "adds to the residual stream and norms at once; writes rows as products take them too",
    ),
    "silu x up": Chosen(
        "kernels.linear.silu_mul.silu_mul", "Triton", "between two products, in one pass"
    ),
    "head": Chosen(
        "kernels.linear.skinny.skinny_linear", "CUDA C++",
        "fp32 logits, 32 rows a launch: one order of sums for any number of rows",
    ),
    "multiply gates of a round": Chosen(
        "kernels.conv.op.conv_gates", "Triton",
        f"a | b of plain bf16 are multiplied in the launch that uses them; {_ONE_ROUND}",
    ),
    "convolve a round": Chosen(
        "kernels.conv.op.conv_gates", "Triton",
        f"convolution, unit lengths and gates in one launch, ancestors by index; {_ONE_ROUND}",
    ),
    "delta rule of a round": Chosen(
        "kernels.delta.walk.delta_walk", "CUDA C++",
        f"the state stays in registers and pending rows are folded in as it loads; {_ONE_ROUND}",
    ),
    "gated norm of a round": Chosen(
        "kernels.delta.walk.delta_walk", "CUDA C++",
        "the end of the delta rule's launch, where a head's outputs meet",
    ),
    "prepare heads of a round": Chosen(
        "kernels.attention.prep.attention_prep", "Triton",
        "norms, rotates and stores queries, keys and values in one launch",
    ),
    "attention of a round": Chosen(
        "kernels.attention.verify.attention_verify", "CUDA C++",
        f"all rows share one read of the context, cut at fixed positions; {_ONE_ROUND}",
    ),
    "choice of a round": Chosen(
        "kernels.sample.op.sample_rows", "Triton",
        f"penalties, filters and a draw keyed by position, on the device; {_ONE_ROUND}",
    ),
    "convolve a chunk": Chosen(
        "kernels.conv.prefill.conv_prefill", "Triton", "rows of one chain, behind the tail"
    ),
    "delta rule of a chunk": Chosen(
        "kernels.delta.prefill.delta_prefill", "CUDA C++",
        "chunks of 64 rows as matrix products, walked with the state in registers",
    ),
    "gated norm of a chunk": Chosen(
        "kernels.norm.op.gated_rms_norm", "Triton", "norm and gate in one pass"
    ),
    "prepare heads of a chunk": Chosen(
        "kernels.attention.prep.attention_prep", "Triton",
        "norms, rotates and stores queries, keys and values in one launch",
    ),
    "widen keys of a chunk": Chosen(
        "kernels.attention.widen.attention_widen", "Triton",
        "keys and values in 8 bits to the BF16 that the library attends to, a layer at a time",
    ),
    "attention of a chunk": Chosen(
        "kernels.attention.prefill.attention_prefill", "library",
        "flash attention, causal from the lower right",
    ),
    "gate attention of a chunk": Chosen(
        "kernels.attention.reference.gate_reference", "torch", "element by element"
    ),
    "fold states": Chosen(
        "kernels.delta.fold.delta_fold", "CUDA C++",
        "where a point is kept or a prompt follows; else the next round folds while it loads",
    ),
    "fold tails": Chosen(
        "kernels.conv.op.conv_fold", "Triton", "with the states: the last accepted inputs"
    ),
    "close gaps of a tree": Chosen(
        "kernels.attention.compact.attention_compact", "CUDA C++",
        "moves the keys and values of accepted rows together, behind a round that branches",
    ),
})  # fmt: skip

GATED_APART = Chosen(
    "kernels.norm.op.gated_rms_norm", "Triton",
    "in a launch of its own, under which the next product loads; the bits are those of the walk's",
)  # fmt: skip

JOINED = Chosen(
    "kernels.mixer.op.mixer_rows", "CUDA C++",
    "convolution, gates, delta rule and the norm behind it, of few rows in one launch, where a | b "
    "are plain bf16; the bits are those of one after another",
)  # fmt: skip

IN_ONE_OUTPUT = Chosen(
    "kernels.linear.skinny.skinny_linear", "CUDA C++",
    "the end of gate | up's launch, which writes one output; the bits are those of two launches",
)  # fmt: skip

JOINED_OPERATIONS: frozenset[Operation] = frozenset(
    (
        "multiply gates of a round",
        "convolve a round",
        "delta rule of a round",
        "gated norm of a round",
    )
)

REFERENCE: Mapping[Operation, str] = MappingProxyType({
    "embed": "torch.nn.functional.embedding",
    "norm": "kernels.norm.op.add_rms_norm",
    "product": "kernels.linear.reference.linear_reference",
    "silu x up": "kernels.linear.silu_mul.silu_mul",
    "head": "kernels.linear.reference.logits_reference",
    "multiply gates of a round": "kernels.linear.reference.linear_reference",
    "convolve a round": "kernels.conv.reference.conv_reference",
    "delta rule of a round": "kernels.delta.reference.delta_step_reference",
    "gated norm of a round": "kernels.norm.op.gated_rms_norm",
    "prepare heads of a round": "kernels.attention.reference.rotate_reference",
    "attention of a round": "kernels.attention.reference.attention_reference",
    "choice of a round": "kernels.sample.reference.sample_reference",
    "convolve a chunk": "kernels.conv.reference.conv_reference",
    "delta rule of a chunk": "kernels.delta.reference.delta_chunk_reference",
    "gated norm of a chunk": "kernels.norm.op.gated_rms_norm",
    "prepare heads of a chunk": "kernels.attention.reference.rotate_reference",
    "widen keys of a chunk": "kernels.attention.kv_codes.to_bf16",
    "attention of a chunk": "kernels.attention.reference.attention_reference",
    "gate attention of a chunk": "kernels.attention.reference.gate_reference",
})  # fmt: skip

ON_BOTH_PATHS: Mapping[Operation, Operation] = MappingProxyType({
    "norm": "norm",
    "silu x up": "silu x up",
    "gated norm of a round": "gated norm of a chunk",
    "gated norm of a chunk": "gated norm of a chunk",
})  # fmt: skip
"""Kernels with the bits of their references, by what the reference path takes them for too."""

PRODUCTS: Mapping[str, tuple[str, Build]] = MappingProxyType({
    "skinny": ("kernels.linear.skinny.skinny_linear", "CUDA C++"),
    "middle": ("kernels.linear.middle.middle_linear", "Triton"),
    "expand": ("kernels.linear.expand.expanded_linear", "library"),
    "fp8": ("kernels.linear.prefill_fp8.fp8_prefill_linear", "Triton"),
})  # fmt: skip
"""Kernels of a product by the way that its rows take."""
