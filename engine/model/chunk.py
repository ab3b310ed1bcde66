"""A chunk of prefill through all layers by the kernels.

Prefill has its own arithmetic: products of many rows, the delta rule in chunks of 64, the library's
attention. Its cut points are a function of where the reading began, so a range of a text can always
be read again to the same bits.
"""

from collections.abc import Sequence

import torch

from engine.graph_classes import CHUNK_ROWS
from engine.model.config import ModelConfig
from engine.model.layers import Mixers, run_layers
from engine.model.matrix import product, products
from engine.model.norms import gated_rms_norm
from engine.model.round_state import RoundState
from engine.model.rows import delta_products
from engine.model.state import LayerStore
from engine.model.taps import Taps
from engine.model.weights import AttentionWeights, DeltaWeights, ModelWeights
from kernels.attention.prefill import attention_prefill
from kernels.attention.prep import attention_prep
from kernels.attention.reference import gate_reference
from kernels.attention.widen import attention_widen
from kernels.common.staged import StagedTable
from kernels.conv.prefill import conv_prefill
from kernels.delta.prefill import delta_prefill
from kernels.embed.op import embed

CHUNK_TOKENS_ON_KERNELS = CHUNK_ROWS[-1]
"""Tokens of a prefill chunk by the kernels: from here on more rows gain a product some percent, and
a person who stops waits for the end of a chunk."""


class ChunkInputs:
    """The numbers of a chunk in device memory, at fixed addresses: one copy brings them all.

    Attributes:
        ids: int32 [1024], the token of each row; any behind the text.
        start: int32 [1], positions before the chunk.
        length: int32 [1], its tokens.
        rows: int32 [2], 0 and ``length``.
        positions: int32 [2], 0 and the positions behind the chunk.
    """

    def __init__(self, device: torch.device) -> None:
        self._table = StagedTable(CHUNK_TOKENS_ON_KERNELS + 5, device)
        values = self._table.values
        numbers, self.ids = values[:5], values[5:]
        self.start, self.rows, self.positions = numbers[:1], numbers[1:3], numbers[3:]
        self.length = self.rows[1:]

    def load(self, ids: Sequence[int], start: int) -> None:
        """Bring a chunk's numbers to the device, in the order of the current stream."""
        self._table.load((start, 0, len(ids), 0, start + len(ids), *ids))


def num_rows_for(num_tokens: int) -> int:
    """Rows that a chunk of ``num_tokens`` is computed with: the fewest there are graphs for."""
    return next(one for one in CHUNK_ROWS if one >= num_tokens)


def run_chunk(
    config: ModelConfig,
    weights: ModelWeights,
    tables: tuple[torch.Tensor, torch.Tensor],
    state: RoundState,
    inputs: ChunkInputs,
    out: torch.Tensor,
    taps: Taps | None,
) -> None:
    """Read tokens that follow a state's; safe in graph capture.

    Rows behind the text are computed and leave nothing: their keys lie behind those of the text,
    where the next rows write theirs, and zeros meet the recurrent state.

    Args:
        config: the model's numbers.
        weights: packed.
        tables: cosines and sines of all positions, bf16 [positions, R].
        state: settled; its tensors are advanced by the text, its length is the caller's to move.
        inputs: of the chunk.
        out: bf16 [T, D] to write: rows after the final norm, T one of ``CHUNK_ROWS``.
        taps: written to, where some layers are tapped.
    """
    eps = config.rms_norm_eps
    stream = torch.empty_like(out)
    embed(inputs.ids[: len(out)], weights.embedding, out=stream)
    mixers = Mixers(
        attend=lambda x, _, layer, place: _attend(
            x, layer, config, inputs, tables, state.kv.layer(place), state.wide
        ),
        advance=lambda x, _, layer, place: _advance(x, layer, config, inputs, state, place),
    )
    run_layers(weights, stream, eps, mixers, taps=taps, out=out)


def _attend(
    x: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    inputs: ChunkInputs,
    tables: tuple[torch.Tensor, torch.Tensor],
    store: LayerStore,
    wide: torch.Tensor | None,
) -> torch.Tensor:
    """Run an attention layer over normed rows, and write their keys and values into the store.

    The library attends to BF16: of a store of codes, to all that they stand for, in ``wide``.
    """
    num_rows, width = x.shape[0], config.head_dim
    both, key, value = products(x, weights.q, weights.k, weights.v)
    query = x.new_empty((num_rows, config.num_heads, width))
    attention_prep(
        both, key, value, weights.q_norm, weights.k_norm, *tables, inputs.start, None,
        store.keys, store.values, out=query, eps=config.rms_norm_eps, scales=store.scales,
    )  # fmt: skip
    keys, values = store.keys, store.values
    if store.scales is not None:
        assert wide is not None
        attention_widen(keys, values, store.scales, inputs.positions, wide)
        keys, values = wide[0], wide[1]
    mixed = attention_prefill(query, keys, values, inputs.rows, inputs.positions)
    gate = both.view(num_rows, -1, 2 * width)[..., width:]
    return product(gate_reference(mixed, gate).view(num_rows, -1), weights.o)


def _advance(
    x: torch.Tensor,
    weights: DeltaWeights,
    config: ModelConfig,
    inputs: ChunkInputs,
    state: RoundState,
    index: int,
) -> torch.Tensor:
    """Run a gated delta layer over normed rows: bf16 [T, D] -> bf16 [T, D]."""
    num_rows = x.shape[0]
    raw, z, ab = delta_products(x, weights)
    mixed = x.new_empty((num_rows, config.conv_dim))
    keys = config.key_dim
    q = mixed[:, :keys].view(num_rows, -1, config.key_head_dim)
    k = mixed[:, keys : 2 * keys].view(num_rows, -1, config.key_head_dim)
    v = mixed[:, 2 * keys :].view(num_rows, -1, config.value_head_dim)
    g = x.new_empty((num_rows, config.num_value_heads), dtype=torch.float32)
    beta = x.new_empty(g.shape)
    tails = state.tails[index]
    conv_prefill(
        raw, ab, weights.conv, weights.decay_rate, weights.dt_bias, tails[0],
        q=q, k=k, v=v, g=g, beta=beta, tail_out=tails[0], length=inputs.length,
    )  # fmt: skip
    tails[1] = tails[0]
    out = delta_prefill(q, k, v, g, beta, state.recurrent[index])
    z = z.view(num_rows, -1, config.value_head_dim)
    normed = gated_rms_norm(out, z, weights.norm, config.rms_norm_eps)
    return product(normed.view(num_rows, -1), weights.out)
