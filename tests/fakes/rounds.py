"""A small model whose rounds are computed together: what it is asked, and its state in bits."""

from dataclasses import replace

import torch

from engine.draft.price_table import PriceTable
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.kernel_model import KernelModel
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.round_state import RoundState
from engine.profile import Formats
from engine.types import Request, Sampling
from tests.fakes.model import run

PROMPT = tuple(range(40, 60))
# ids that are printable bytes: each is text at once
PRINTABLE = tuple((one, 1e3) for one in range(33, 94))
SAMPLINGS = {
    "greedy": Sampling(temperature=0.0, logit_bias=PRINTABLE),
    "penalised": Sampling(
        temperature=0.9, presence_penalty=0.7, repetition_penalty=1.1, seed=6, logit_bias=PRINTABLE
    ),
}
REPEATED = Sampling(temperature=0.0, logit_bias=tuple((one, 1e3 * one) for one in (40, 41)))
CHEAP_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 10.5),), (1, 2), (0.1, 0.2))


def small_model(device: str) -> KernelModel:
    """Four random layers on the path of a GPU: on a CPU by the kernels' references."""
    config = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=320)
    packer = Packer(Launching((9, 0), overlap=device == "cuda"))
    return random_model(config, Formats(*("bf16",) * 5), device=device, packer=packer)


def settled(state: RoundState) -> list[torch.Tensor]:
    """All that a state stands for, in its bits."""
    state.settle()
    kv = state.kv
    read = [one[:, :, : state.length].clone() for one in (kv.keys, kv.values)]
    return [state.recurrent.clone(), state.tails.clone(), *read, torch.tensor(state.length)]


def assert_equal(some, others) -> None:
    """The same bits, tensor by tensor."""
    assert all(map(torch.equal, some, others))


def requested(**options) -> Request:
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 16, "drafter": "off", **options}
    return Request(prompt_ids=PROMPT, keep_logits=True, **options)


def answered_alike(open_engine, walked, drafter, shape):
    """An answer with drafts, which is to the bit that without."""
    wanted, sampling = walked
    request = requested(
        sampling=sampling, max_tokens=32, drafter=drafter, draft_shape=shape, num_draft_tokens=6,
        replay_ids=wanted.token_ids,
    )  # fmt: skip
    got = run(open_engine(), request)[-1].record
    assert (got.token_ids, got.ranges) == (wanted.token_ids, wanted.ranges)
    assert torch.equal(got.logits, wanted.logits)
    return got
