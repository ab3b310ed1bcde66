"""Our forward pass against transformers' on random tiny models: equal bits, and the engine's path.

The first half uses the library products that transformers uses, with as many rows: bits must be
equal. The second half is what the engine runs (rows alone, fp32 logits, chunks of 64), within a
bound and with the same choice wherever the oracle's choice is clear.

Like is compared with like: the delta rule sums in another order in a prompt than token by token, so
the oracle reads a prompt at once where the engine does. Between those two orders no bound holds on
every machine: one BF16 step of one hidden value can move a logit by 1, and products of the library
step elsewhere on another CPU.

Last, the draft head against one composed of transformers' own layers.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.model.decoder import Model
from engine.model.loading import load_model
from engine.model.matrix import expanded
from kernels.common.compare import different_bits
from kernels.linear.reference import linear_reference
from tests.oracle.configs import CONFIGS

BOUND = 0.125
"""Largest distance of the engine's logits from the oracle's, whose standard deviation is near 3.

Measured over the three models, 2026-11-30: 0.031, the rounding of the oracle's logits to BF16,
half a step of 0.0625.
"""

MARGIN = 0.25
"""Drafts whose best two logits are closer may go either way; their standard deviation is near 3."""


@pytest.fixture(scope="module", params=list(CONFIGS))
def case(request, made) -> tuple[Model, dict[str, torch.Tensor]]:
    folder: Path = made[request.param]
    return load_model(folder), load_file(folder / "oracle.safetensors")


def split(oracle: dict[str, torch.Tensor]) -> tuple[list[int], list[int]]:
    ids = oracle["ids"].tolist()
    return ids[: len(oracle["prefill"])], ids[len(oracle["prefill"]) :]


def rounded_logits(model: Model, hidden: torch.Tensor) -> torch.Tensor:
    """The head as transformers computes it: one product, rounded to BF16."""
    return linear_reference(hidden, expanded(model.weights.head))


def test_prefill_has_the_bits_of_transformers(case):
    model, oracle = case
    prompt, _ = split(oracle)
    hidden = model.prefill(prompt, model.new_state(300))
    assert different_bits(rounded_logits(model, hidden), oracle["prefill"], "TV") is None


def test_64_decoded_tokens_have_the_bits_of_transformers(case):
    model, oracle = case
    prompt, decoded = split(oracle)
    state = model.new_state(300)
    model.prefill(prompt, state)
    hidden = torch.cat([model.step(one, state) for one in decoded])
    logits = torch.cat([rounded_logits(model, row) for row in hidden.split(1)])
    assert len(decoded) == 64
    assert state.length == len(prompt) + 64
    assert different_bits(logits, oracle["decode"], "TV") is None


def test_a_prefill_cut_at_multiples_of_64_has_the_bits_of_one_pass(case):
    model, oracle = case
    prompt, decoded = split(oracle)
    whole, cut = model.new_state(300), model.new_state(300)
    one_pass = model.prefill(prompt + decoded, whole)
    pieces = model.prefill(prompt + decoded, cut, chunk_tokens=64)
    assert different_bits(pieces, one_pass, "TD") is None
    assert torch.equal(cut.recurrent, whole.recurrent)
    assert torch.equal(cut.tails, whole.tails)


def engine_logits(model: Model, oracle: dict[str, torch.Tensor], num_prompt: int) -> torch.Tensor:
    """fp32 logits of all positions as the engine computes them."""
    ids, state = oracle["ids"].tolist(), model.new_state(300)
    hidden = [model.prefill(ids[:num_prompt], state, chunk_tokens=64)]
    hidden += [model.step(one, state) for one in ids[num_prompt:]]
    return model.logits(torch.cat(hidden))


@pytest.mark.parametrize("prompt", ["read in chunks", "of one token"])
def test_the_engines_path_stays_within_the_bound_and_chooses_alike(case, prompt: str):
    model, oracle = case
    if prompt == "of one token":
        ours, theirs = engine_logits(model, oracle, 1), oracle["alone"].float()
    else:
        ours = engine_logits(model, oracle, len(oracle["prefill"]))
        theirs = torch.cat((oracle["prefill"], oracle["decode"])).float()
    distance = (ours - theirs).abs().max().item()
    assert distance <= BOUND
    best = theirs.topk(2, -1).values
    clear = best[:, 0] - best[:, 1] > 2 * BOUND
    assert clear.float().mean() > 0.3, "the case must have positions whose choice is clear"
    assert torch.equal(ours.argmax(-1)[clear], theirs.argmax(-1)[clear])


def test_a_row_of_logits_has_the_bits_of_that_row_alone(case):
    model, oracle = case
    prompt, _ = split(oracle)
    hidden = model.prefill(prompt, model.new_state(300))[:33]
    together = model.logits(hidden)
    alone = torch.cat([model.logits(row) for row in hidden.split(1)])
    assert different_bits(together, alone, "TV") is None


def test_the_head_proposes_what_transformers_layers_propose(made):
    name = next(name for name, job in CONFIGS.items() if job.get("mtp"))
    model, oracle = load_model(made[name]), load_file(made[name] / "oracle.safetensors")
    assert model.mtp is not None
    ids, hidden = oracle["ids"].tolist(), oracle["hidden"]
    state = model.mtp.new_state(len(ids))
    proposals = []
    for row in range(len(ids) - 1):
        proposals += model.mtp.draft([hidden[row : row + 1]], ids[row + 1 : row + 2], state, 1)
        model.mtp.fill(hidden[row : row + 1], ids[row + 1 : row + 2], state)
    logits = oracle["draft"].float()
    best = logits.topk(2, -1).values
    clear = best[:, 0] - best[:, 1] > MARGIN
    assert clear.float().mean() > 0.7
    assert torch.equal(torch.tensor(proposals)[clear], logits.argmax(-1)[clear])
