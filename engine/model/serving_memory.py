"""Everything that serving allocates beside a model's weights, in bytes, from its numbers alone.

Two lists. What is *kept* is made once, when the engine opens, and does not grow: its tensors are
counted to the byte, and a test adds up the real ones. What *passes* is made and given back within a
round or a chunk of prefill; it is counted by its largest moment.
"""

from engine.graph_classes import MAX_LATER_GRAPHS, GraphClasses, context_class
from engine.model.chunk import CHUNK_TOKENS_ON_KERNELS
from engine.model.config import ModelConfig
from engine.model.decoder import PREFILL_CHUNK_TOKENS
from engine.model.footprint import (
    kv_bytes_per_token,
    kv_scale_bytes,
    mtp_kv_bytes_per_token,
    record_bytes,
    state_bytes,
    tail_bytes,
    wide_head_bytes,
    workspace_bytes,
)
from engine.model.kernel_mtp import MAX_STEPS
from engine.model.mtp import MAX_WAITING_ROWS
from engine.model.rope import BLOCK_TOKENS
from engine.types import KvFormat
from kernels.attention.verify import scratch_elements
from kernels.common.logit_rows import num_chunks, num_groups
from kernels.common.operands import PART
from kernels.common.round import MAX_ROWS
from kernels.common.tree import TREE_SIZE
from kernels.delta.prefill_tile import PREPARED_BYTES
from kernels.delta.reference import CHUNK
from kernels.sample.accept import MAX_STOP_IDS, RESULT_SIZE

GRAPH_LAYER_BYTES = 40 << 10
"""What the driver keeps of a layer of a captured round beside its tensors, about: 2.1 to 2.8 MB of
the 27B's 64 on an H200."""

LIBRARY_BYTES = 96 << 20
"""Code of the kernels and workspaces of the libraries on a GPU, about; among it are 2 MB where
blocks of a product meet."""


def kept_bytes(
    config: ModelConfig,
    max_tokens: int,
    *,
    packed: bool,
    with_mtp: bool,
    kv: KvFormat = "bf16",
) -> dict[str, int]:
    """Bytes that stay for as long as the engine is open, by part.

    Args:
        config: the model's numbers.
        max_tokens: longest conversation.
        packed: rounds run by kernels.
        with_mtp: the checkpoint brings a head to draft with.
        kv: format of keys and values.
    """
    kept = {
        "context": kv_bytes_per_token(config, kv) * max_tokens + kv_scale_bytes(config, kv),
        "state": state_bytes(config) + tail_bytes(config),
        "positions": _rope_bytes(config, max_tokens),
    }
    if with_mtp:
        kept["context"] += mtp_kv_bytes_per_token(config) * max_tokens
    if packed:
        kept["rounds"] = record_bytes(config) + _tables_bytes() + _choice_bytes(config)
        kept["chunks"] = _chunk_bytes(config)
        if kv == "fp8":
            # of the layer at hand, what its codes stand for: the library attends to BF16
            kept["context"] += 2 * 2 * config.kv_dim * max_tokens
        if with_mtp:
            kept["drafts"] = _draft_bytes(config)
    else:
        kept["wide head"] = wide_head_bytes(config)
    return kept


def passing_bytes(
    config: ModelConfig,
    max_tokens: int,
    *,
    packed: bool,
    kv: KvFormat = "bf16",
    graphs: GraphClasses | None = None,
) -> dict[str, int]:
    """Bytes that come and go while a turn runs, by part.

    Args:
        config: the model's numbers.
        max_tokens: longest conversation.
        packed: rounds run by kernels, as captured graphs.
        kv: format of keys and values.
        graphs: what is captured while the model opens; None as where a profile says nothing.
    """
    chunk_tokens = CHUNK_TOKENS_ON_KERNELS if packed else PREFILL_CHUNK_TOKENS
    waiting = 2 * (MAX_WAITING_ROWS + chunk_tokens) if config.num_mtp_layers else 0
    if packed:
        waiting += 3 * MAX_ROWS  # of the rounds on their way, and of the one before them
    passing = {
        "prefill": chunk_tokens * _row_bytes(config),
        "waiting rows": waiting * 2 * config.hidden_size,
    }
    if kv == "fp8" and not packed:
        # the reference widens keys and values of the layer at hand: both, and a step on the way
        passing["keys and values"] = (2 * 2 + 4 + 2) * config.kv_dim * max_tokens
    if packed:
        # once beside the graphs, where all is launched before it is captured, and once in them
        passing["prefill"] *= 2
        passing["widening"] = workspace_bytes(config)
        rounds = MAX_ROWS * (_row_bytes(config) + _operand_bytes(config))
        rounds += _partials_bytes(config, max_tokens)
        named = (graphs or GraphClasses()).within(max_tokens)
        num_layers = (named.num_graphs + MAX_LATER_GRAPHS) * config.num_layers
        passing["graphs"] = 2 * rounds + num_layers * GRAPH_LAYER_BYTES
        passing["libraries"] = LIBRARY_BYTES
    return passing


def snapshot_bytes(config: ModelConfig, *, packed: bool) -> int:
    """Bytes of a point of a conversation to come back to, with the hidden row that ends it."""
    tails = (2 if packed else 1) * tail_bytes(config)
    return state_bytes(config) + tails + 2 * config.hidden_size


def _rope_bytes(config: ModelConfig, max_tokens: int) -> int:
    """Cosines and sines in BF16, and the fp32 frequencies."""
    return 4 * config.rotary_dim * max(max_tokens, BLOCK_TOKENS) + 2 * config.rotary_dim


def _tables_bytes() -> int:
    """A round's numbers and its tree with two pages, a turn's stop ids with one that they leave."""
    return 3 * 4 * ((2 * MAX_ROWS + 4) + TREE_SIZE) + 2 * 4 * (MAX_STOP_IDS + 1)


def _chunk_bytes(config: ModelConfig) -> int:
    """A chunk's numbers with the page that they leave from, and its hidden rows."""
    rows = CHUNK_TOKENS_ON_KERNELS
    return 2 * 4 * (rows + 5) + 2 * rows * config.hidden_size


def _choice_bytes(config: ModelConfig) -> int:
    """What choosing tokens on the device needs (`kernels.sample`), and what comes of a round.

    That is the chosen ids, the result on the device and on the two pages that it goes to, and the
    newest ids that penalties count with their page.
    """
    vocab = config.vocab_size
    chunks, groups = num_chunks(vocab), num_groups(vocab)
    maxima, sums = 8 * MAX_ROWS * groups, 8 * 2 * MAX_ROWS * chunks * 16
    search = 8 * MAX_ROWS * (2 * 3 + 2 + 1)
    best = (8 + 4) * MAX_ROWS * chunks
    params, marks, bias = 2 * 8 * 16, 2 * vocab, 4 * vocab
    came = 4 * (MAX_ROWS + 5 * RESULT_SIZE)
    return maxima + sums + search + best + params + marks + bias + came


def _draft_bytes(config: ModelConfig) -> int:
    """What a chain of proposals reads and writes at fixed addresses."""
    vocab = config.vocab_size
    rows = 2 * (MAX_ROWS + 1) * config.hidden_size
    tables = 2 * 4 * (MAX_ROWS + 3 + MAX_STEPS + TREE_SIZE + MAX_STEPS)
    scratch = 8 * num_groups(vocab) + 4 * num_chunks(vocab)
    return rows + tables + scratch


def _row_bytes(config: ModelConfig) -> int:
    """At most what a row's activations take at one moment.

    The stream and its norms, and the widest layer's products; those of one that is cut along K
    stand in fp32 beside them. Of FP8 operands the codes of a row and their scales, 33/32 of a byte
    for each input, stand where those sums would: no product has both.
    """
    stream = 2 * 4 * config.hidden_size
    fed = (2 * 3 + 4 * 2) * config.intermediate_size
    delta = (2 + 2 + 4) * config.conv_dim + (2 + 2 + 2) * config.value_dim
    chunked = -(-PREPARED_BYTES // CHUNK) * config.num_value_heads
    attended = 2 * 4 * config.query_dim + 4 * 2 * config.kv_dim
    return stream + max(fed, delta + chunked, attended)


def _operand_bytes(config: ModelConfig) -> int:
    """A round's row as operands of the products behind norms, mixers and silu(gate) * up.

    They are fp16, with a magnitude of 16 bits for each 8 inputs (`kernels.common.operands`).
    """
    mixed = max(config.value_dim, config.query_dim)
    width = config.hidden_size + config.intermediate_size + mixed
    return 2 * width + 2 * width // PART


def _partials_bytes(config: ModelConfig, max_tokens: int) -> int:
    """Partial results of one attention layer."""
    return 4 * scratch_elements(MAX_ROWS, config.num_heads, context_class(max_tokens))
