"""A stop string inside a draft: rows behind it never reach the state, on the device path too."""

from dataclasses import replace

import pytest
import torch

from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats
from engine.turn.rows_verify import RowsVerifier
from engine.types import Request, Sampling
from kernels.sample.accept import MAX_STOP_IDS
from tests.fakes.model import local_engine, run, write_text_files

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
PROMPT = tuple(range(40, 60))
# ids that are printable bytes: any of them may begin a stop string
PRINTABLE = Sampling(temperature=0.0, logit_bias=tuple((one, 1e3) for one in range(33, 94)))


@pytest.fixture(scope="module", params=DEVICES)
def engine(request, tmp_path_factory):
    config = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=320)
    packer = Packer(Launching((9, 0)))
    model = random_model(config, Formats(*("bf16",) * 5), device=request.param, packer=packer)
    folder = write_text_files(tmp_path_factory.mktemp("text"))
    engine = local_engine(model, folder, verifier=RowsVerifier(model), max_context_tokens=512)
    yield engine
    engine.close()


def ask(engine, prompt, **options):
    options = {"sampling": PRINTABLE, "max_tokens": 16, "keep_logits": True, **options}
    return run(engine, Request(prompt_ids=prompt, **options))[-1].record


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_more_stop_ids_than_the_device_looks_for_end_a_turn_inside_a_round(
    engine, shape, monkeypatch
):
    """It knows the lowest of them; what is behind the one that it does not is not folded."""
    drawn = replace(PRINTABLE, temperature=0.8, seed=3)
    whole = ask(engine, PROMPT, drafter="off", sampling=drawn)
    # inside the first round that is drafted, of five tokens or more
    at = next(n for n in (4, 3, 2) if whole.token_ids[n] not in whole.token_ids[:n])
    few = engine._machine
    stops = frozenset({*range(MAX_STOP_IDS), whole.token_ids[at]})
    records = []
    for drafter in ("off", "replay"):
        ask(engine, (1, 2, 3), max_tokens=1)
        monkeypatch.setattr(engine, "_machine", replace(few, stop_ids=stops))
        stopped = ask(
            engine, PROMPT, drafter=drafter, draft_shape=shape, replay_ids=whole.token_ids,
            num_draft_tokens=7, sampling=drawn,
        )  # fmt: skip
        assert (stopped.finish_reason, stopped.token_ids) == ("stop", whole.token_ids[: at + 1])
        monkeypatch.setattr(engine, "_machine", few)
        records.append(ask(engine, (*PROMPT, *stopped.token_ids, 50, 51), drafter="off"))
    plain, drafted = records
    assert drafted.reused_tokens == plain.reused_tokens == len(PROMPT) + at
    assert torch.equal(drafted.logits, plain.logits)


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_what_follows_a_stop_string_is_as_if_nothing_had_been_drafted(engine, shape):
    whole = ask(engine, PROMPT, drafter="off")
    stop = whole.text[5:8]
    at = whole.text.index(stop) + len(stop)
    records = []
    for drafter in ("off", "replay"):
        ask(engine, (1, 2, 3), max_tokens=1)  # another conversation: nothing is left of this one
        stopped = ask(
            engine, PROMPT, drafter=drafter, draft_shape=shape, stop=(stop,),
            replay_ids=whole.token_ids, num_draft_tokens=7,
        )  # fmt: skip
        more = (*PROMPT, *stopped.token_ids, 50, 51)
        records.append((stopped, ask(engine, more, drafter="off")))
    (plain, then_plain), (drafted, then_drafted) = records
    assert (plain.finish_reason, plain.text) == ("stop_string", whole.text[: at - len(stop)])
    assert (drafted.text, drafted.token_ids) == (plain.text, plain.token_ids)
    num_rows = sum(one.rows for one in drafted.rounds)
    assert len(drafted.token_ids) - 1 < num_rows  # the first is of no round; some were behind it
    assert then_drafted.reused_tokens == then_plain.reused_tokens == len(PROMPT) + at - 1
    assert torch.equal(then_drafted.logits, then_plain.logits)
