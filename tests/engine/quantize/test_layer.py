"""A layer is the model's own, and what its matrices lose falls from method to method."""

from functools import cache
from itertools import pairwise

import pytest
import torch

from engine.model.config_file import read_config
from engine.model.decoder import PREFILL_CHUNK_TOKENS
from engine.model.loading import load_model
from engine.model.norms import rms_norm
from engine.model.rope import RopeTable
from engine.quantize.calibration import Calibration
from engine.quantize.halves import Layer, halves_of
from engine.quantize.layer import Rows, pass_layer, quantise_layer
from engine.quantize.methods import METHODS
from engine.quantize.rows import embedded, joined_for_mtp
from engine.quantize.source import EMBEDDING, MTP, open_source, read_part
from tests.engine.quantize.demo import DEMO, SEQUENCE, exchanges, held_out

CPU = torch.device("cpu")
CONFIG = read_config(DEMO)
SOURCE = open_source(DEMO)
ROPE = RopeTable(CONFIG, CPU)
LAYERS = [(f"layers.{index}.", CONFIG.layer_kinds[index]) for index in range(4)]


def tensors_of(prefix: str) -> dict[str, torch.Tensor]:
    return read_part(SOURCE, prefix.removesuffix(".").replace(".", "-"), CPU)


@cache
def calibration_ids() -> tuple[tuple[int, ...], ...]:
    from engine.text.tokenizer import Tokenizer

    ids = Tokenizer.load(DEMO, CONFIG.vocab_size).encode(exchanges(held_out=False), control=True)
    return tuple(tuple(ids[at : at + SEQUENCE]) for at in range(0, 12 * SEQUENCE, SEQUENCE))


def rows_of(sequences) -> Rows:
    embedding = read_part(SOURCE, EMBEDDING, CPU)["embed_tokens.weight"]
    return embedded(Calibration("", "", tuple(map(tuple, sequences))), embedding, CPU)


def test_rows_go_through_the_layers_as_through_the_model():
    """Bit for bit, in one chunk of prefill."""
    ids = held_out(1)[0][:PREFILL_CHUNK_TOKENS]
    rows = rows_of([ids])
    for index, kind in enumerate(CONFIG.layer_kinds):
        pass_layer(CONFIG, f"layers.{index}.", kind, tensors_of(f"layers.{index}."), rows, ROPE)
    model = load_model(DEMO)
    want = model.prefill(ids, model.new_state(len(ids)))
    assert torch.equal(rms_norm(rows[0], model.weights.norm, CONFIG.rms_norm_eps), want)


@pytest.mark.parametrize("place", [LAYERS[0], LAYERS[3]], ids=["delta", "attention"])
def test_the_last_matrix_of_each_half_is_given_what_is_watched(place):
    """Multiplied by the matrix, it is what the half adds."""
    prefix, kind = place
    (rows,) = rows_of(held_out(1))
    tensors = tensors_of(prefix)
    layer = Layer(CONFIG, prefix, kind, tensors, ROPE)
    for half in halves_of(kind):
        inputs = layer.before_output(half, rows)
        added = torch.nn.functional.linear(inputs, tensors[prefix + half.output])
        assert torch.equal(layer.add(half, rows), rows + added)


def test_the_mtp_head_reads_each_hidden_state_with_the_token_after_it():
    """As the head's own keys are filled."""
    ids = held_out(1)[0][:PREFILL_CHUNK_TOKENS]
    model = load_model(DEMO)
    hidden = model.prefill(ids, model.new_state(len(ids)))
    rows = rows_of([ids])
    for index, kind in enumerate(CONFIG.layer_kinds):
        pass_layer(CONFIG, f"layers.{index}.", kind, tensors_of(f"layers.{index}."), rows, ROPE)
    outside, mtp = read_part(SOURCE, EMBEDDING, CPU), read_part(SOURCE, MTP, CPU)
    text = Calibration("", "", (tuple(ids),))
    (joined,) = joined_for_mtp(text, CONFIG, outside, mtp, rows)
    state = model.mtp.new_state(len(ids))
    model.mtp.fill(hidden[:-1], ids[1:], state)
    layer = Layer(CONFIG, "mtp.layers.0.", "full_attention", mtp, ROPE)
    attention, _ = halves_of("full_attention")
    values = torch.nn.functional.linear(
        layer.normed(attention, joined), mtp["mtp.layers.0.self_attn.v_proj.weight"]
    )
    assert torch.equal(state.kv.values[0, 0, : len(ids) - 1], values)


def distance(some: Rows, others: Rows) -> float:
    pairs = zip(some, others, strict=True)
    return sum(float((a.float() - b.float()).square().sum()) for a, b in pairs)


@cache
def originals() -> tuple[Rows, ...]:
    """Unseen rows as the original model gives them to each layer, and those behind the last."""
    found = [rows_of(held_out(4))]
    for prefix, kind in LAYERS:
        rows = list(found[-1])
        pass_layer(CONFIG, prefix, kind, tensors_of(prefix), rows, ROPE)
        found.append(rows)
    return tuple(found)


def output_errors(method: str) -> float:
    """Squared error of every layer's output on unseen rows, over what the layer adds; summed.

    Each layer is given the rows of the original model, so that layers are judged one by one.
    """
    rows = rows_of(calibration_ids()) if method != "nearest" else []
    total = 0.0
    for (prefix, kind), (given, right) in zip(LAYERS, pairwise(originals()), strict=True):
        tensors, wrong = tensors_of(prefix), list(given)
        quantise_layer(CONFIG, prefix, kind, tensors, rows, method=method, rope=ROPE)
        pass_layer(CONFIG, prefix, kind, tensors, wrong, ROPE)
        total += distance(right, wrong) / distance(right, given)
    return total


def test_layers_lose_less_from_method_to_method():
    """On exchanges of the demo that no calibration saw: GPTQ < clip < nearest, by a margin."""
    nearest, clip, gptq = (output_errors(method) for method in METHODS)
    assert clip < 0.85 * nearest
    assert gptq < 0.85 * clip
