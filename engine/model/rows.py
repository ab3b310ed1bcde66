"""The rows of a round through all layers by the kernels: the one arithmetic of decode.

Everything that changes from round to round is read from device memory, so a captured graph of these
launches serves every round of as many rows. A row's bits are those of a round with its path alone.
"""

from typing import NamedTuple

import torch

from engine.model.config import ModelConfig
from engine.model.layers import Mixers, run_layers
from engine.model.matrix import operands_for, product, products
from engine.model.norms import gated_rms_norm
from engine.model.packed import Member
from engine.model.round_state import RoundState
from engine.model.taps import Taps
from engine.model.weights import AttentionWeights, DeltaWeights, ModelWeights
from kernels.attention.prep import attention_prep
from kernels.attention.verify import attention_verify
from kernels.common.operands import STEP, Operands
from kernels.conv.arguments import GateInputs
from kernels.conv.op import conv_gates
from kernels.delta.gate import GATED_FROM, OutputGate
from kernels.delta.walk import delta_walk
from kernels.embed.op import embed
from kernels.linear.weight import Bf16Weight
from kernels.mixer.op import mixer_rows
from kernels.mixer.tile import takes

ARITHMETIC = "rows-4"
"""How layers of rounds and of chunks compute beside their products; a change of any bit gets a new
number."""


class RowsShape(NamedTuple):
    """What decides the launches of a round: a part of the key of its graph.

    Attributes:
        num_rows: 1 to 32.
        max_context: at least the positions held before the round and its rows; more launches chunks
            that are empty and changes no bit.
        overlap: kernels start before their predecessors end.
        is_tapped: the outputs of some layers are copied.
    """

    num_rows: int
    max_context: int
    overlap: bool = False
    is_tapped: bool = False


def run_rows(
    config: ModelConfig,
    weights: ModelWeights,
    tables: tuple[torch.Tensor, torch.Tensor],
    state: RoundState,
    shape: RowsShape,
    hidden: torch.Tensor,
    taps: Taps | None,
) -> None:
    """Run a round's rows, which `RoundState.begin` brought to the device.

    Args:
        config: the model's numbers.
        weights: packed.
        tables: cosines and sines of all positions, bf16 [positions, R].
        state: its records, tails and keys are written; nothing is accepted.
        shape: of the round.
        hidden: bf16 [T, D], written: the rows after the final norm.
        taps: written to, where some layers are tapped.
    """
    eps, inputs, overlap = config.rms_norm_eps, state.inputs, shape.overlap
    ids = inputs.row_ids[: shape.num_rows]
    stream = hidden.new_empty(hidden.shape)
    # never overlapped: the kernels behind it read states, tables and scalars early
    embed(ids, weights.embedding, out=stream)
    mixers = Mixers(
        attend=lambda x, ready, layer, place: _attend(
            x, ready, layer, config, tables, state, place, shape
        ),
        advance=lambda x, ready, layer, place: _walk(x, ready, layer, config, state, place, shape),
    )
    run_layers(weights, stream, eps, mixers, taps=taps, overlap=overlap, out=hidden)


def _walk(
    x: torch.Tensor,
    operands: Operands | None,
    weights: DeltaWeights,
    config: ModelConfig,
    state: RoundState,
    index: int,
    shape: RowsShape,
) -> torch.Tensor:
    """Run a gated delta layer over normed rows, which may come as operands too: bf16 [T, D]."""
    inputs, tree, record = state.inputs, state.inputs.tree, state.record.layer(index)
    num_rows, heads, width = x.shape[0], config.num_value_heads, config.value_head_dim
    pending = inputs.parity, inputs.num_pending, inputs.pending_rows
    raw, z = products(x, weights.qkv, weights.z, operands=operands)
    plain = plain_gates(weights)
    ready = operands_for(weights.out, num_rows) if width % STEP == 0 else None
    gate = OutputGate(z.view(num_rows, -1, width), weights.norm, config.rms_norm_eps, ready)
    out = x.new_empty((num_rows, heads, width))
    gated = num_rows >= GATED_FROM
    if plain is not None and takes(num_rows, config.key_head_dim, width, x.shape[1]):
        gated = True
        mixer_rows(
            raw, GateInputs(x, plain), weights.conv, weights.decay_rate, weights.dt_bias,
            state.tails[index], record, state.recurrent[index], *pending, tree,
            out=out, gate=gate, overlap=shape.overlap,
        )  # fmt: skip
    else:
        ab = gates_product(x, weights) if plain is None else GateInputs(x, plain)
        q = x.new_empty((num_rows, config.num_key_heads, config.key_head_dim), dtype=torch.float32)
        v = torch.empty_like(out)
        beta = x.new_empty((num_rows, heads), dtype=torch.float32)
        conv_gates(
            raw, ab, weights.conv, weights.decay_rate, weights.dt_bias, state.tails[index],
            record.raw, record.k, record.decay, *pending, tree.parents,
            q=q, v=v, beta=beta, overlap=shape.overlap,
        )  # fmt: skip
        delta_walk(
            q, v, beta, state.recurrent[index], record, *pending, tree.saves, tree.restores,
            out=out, gate=gate if gated else None, overlap=shape.overlap,
        )  # fmt: skip
    if not gated:
        out = gated_rms_norm(
            out, gate.z, gate.weight, gate.eps, overlap=shape.overlap, operands=ready
        )
    return product(out.view(num_rows, -1), weights.out, ready)


def delta_products(
    x: torch.Tensor, weights: DeltaWeights
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Multiply rows to raw channels, the output's gate, and a | b beside each other."""
    raw, z = products(x, weights.qkv, weights.z)
    return raw, z, gates_product(x, weights)


def gates_product(x: torch.Tensor, weights: DeltaWeights) -> torch.Tensor:
    """Multiply rows to a | b beside each other: bf16 [T, D] -> bf16 [T, 2 H]."""
    a, b = products(x, weights.a, weights.b)
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return torch.cat((a, b), -1)
    return a.as_strided((a.shape[0], a.shape[1] + b.shape[1]), a.stride())


def plain_gates(weights: DeltaWeights) -> torch.Tensor | None:
    """Return a over b as bf16 [2 H, D or wider] where they are held so, else None.

    So small a product is computed where its result is used: a launch of its own reads a megabyte
    and takes longer to start than to read.
    """
    a, b = weights.a, weights.b
    if not (isinstance(a, Member) and isinstance(b, Member) and a.whole is b.whole):
        return None
    whole = a.whole.weight
    return whole.values if isinstance(whole, Bf16Weight) else None


def _attend(
    x: torch.Tensor,
    operands: Operands | None,
    weights: AttentionWeights,
    config: ModelConfig,
    tables: tuple[torch.Tensor, torch.Tensor],
    state: RoundState,
    index: int,
    shape: RowsShape,
) -> torch.Tensor:
    """Run an attention layer over normed rows, which may come as operands too: bf16 [T, D]."""
    inputs, tree, width = state.inputs, state.inputs.tree, config.head_dim
    store = state.kv.layer(index)
    both, key, value = products(x, weights.q, weights.k, weights.v, operands=operands)
    query = x.new_empty((x.shape[0], config.num_heads, width))
    attention_prep(
        both, key, value, weights.q_norm, weights.k_norm, *tables, inputs.start, tree.depths,
        store.keys, store.values, out=query, eps=config.rms_norm_eps, scales=store.scales,
        overlap=shape.overlap,
    )  # fmt: skip
    gate = both.view(x.shape[0], -1, 2 * width)[..., width:]
    ready = operands_for(weights.o, x.shape[0])
    mixed = attention_verify(
        query, store.keys, store.values, gate, inputs.start, tree.depths, tree.paths,
        max_context=shape.max_context, scales=store.scales, overlap=shape.overlap, operands=ready,
    )  # fmt: skip
    return product(mixed, weights.o, ready)
