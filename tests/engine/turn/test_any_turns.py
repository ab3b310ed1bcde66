"""Whatever a person does, turn after turn, each answer has the bits of plain single steps.

Turns are drawn: who drafts, how tokens are chosen, where an answer is stopped or left, which
message is answered again or anew, how many points to come back to are held, and when another
process goes on. The truth is computed from a turn's record alone. The model is small and real, on
the path of a GPU: here by the kernels' references.
"""

import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.draft.price_table import PriceTable
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.errors import RequestError
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats
from engine.turn.choice import TokenChooser
from engine.turn.rows_verify import RowsVerifier
from engine.types import Message, NoticeRaised, Request, Sampling, TurnEnded
from tests.engine.turn.test_failures import assert_trusted_rightly
from tests.fakes.model import local_engine, write_text_files

PRINTABLE = tuple((one, 1e3) for one in range(33, 94))
SAMPLINGS = (
    Sampling(temperature=0.0, logit_bias=PRINTABLE),
    # few ids, and what was said is likelier to be said again: lookup finds something
    Sampling(temperature=0.7, presence_penalty=-3.0, seed=3, logit_bias=PRINTABLE[:9]),
    Sampling(temperature=0.9, top_k=20, repetition_penalty=1.2, seed=4),
)
CHEAP_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 10.5),), (1, 2), (0.1, 0.2))
STEPS = st.fixed_dictionaries(
    {
        "what": st.sampled_from(["say", "say", "again", "edit", "edit", "go on", "resume"]),
        "drafter": st.sampled_from(["off", "mtp", "lookup", "auto", "half", "replay"]),
        "draft_shape": st.sampled_from(["chain", "tree"]),
        "sampling": st.sampled_from(SAMPLINGS),
        "stop": st.sampled_from([(), (), ("!!",), ("%", "&'")]),
        "leaves": st.sampled_from(["", "", "stops", "closes"]),
        "at": st.integers(1, 9),
    }
)


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    config = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(2, 2), vocab_size=320)
    packer = Packer(Launching((9, 0)))
    model = random_model(config, Formats(*("bf16",) * 5), device="cpu", packer=packer)
    return model, write_text_files(tmp_path_factory.mktemp("text")), RowsVerifier(model)


class Talk:
    """A conversation, and the engine that holds it."""

    def __init__(self, model, folder, verifier, most_marks: int) -> None:
        self.model = model
        self._parts = folder, verifier, most_marks
        self.messages: tuple[Message, ...] = ()
        self._resume()

    def take(self, *, what, leaves, at, **options) -> None:
        """Do what was drawn, and compare the answer with the truth."""
        if what == "resume":
            self._resume()
        elif what == "again" and self.messages[-1:] and self.messages[-1].role == "assistant":
            options["replay_ids"] = self.messages[-1].record.token_ids
            self.messages = self.messages[:-1]
        elif what == "edit":
            self.messages = self.messages[: at % (len(self.messages) + 1) // 2 * 2]
        goes_on = self.messages[-1:] and self.messages[-1].role == "assistant" and what == "go on"
        if not goes_on and (not self.messages or self.messages[-1].role == "assistant"):
            self.messages += (Message("user", f"what is {at % 3} of the ice?"),)
        request = Request(
            messages=self.messages, max_tokens=5, num_draft_tokens=5, keep_logits=True, **options
        )
        try:
            record = self._answered(request, leaves, at)
        except RequestError:  # the context is full
            self.messages = ()
            return
        if record is not None and record.token_ids:
            self._compare(record, request)
            begun = self.messages[-1].content if goes_on else ""
            said = Message("assistant", begun + record.text, "", record)
            self.messages = (*(self.messages[:-1] if goes_on else self.messages), said)

    def _resume(self) -> None:
        folder, verifier, most_marks = self._parts
        self.engine = local_engine(
            self.model, folder, verifier=verifier, max_context_tokens=128, most_marks=most_marks,
            routing=Routing(Prices(CHEAP_ROWS, learns=False), max_steps=3),
        )  # fmt: skip

    def _answered(self, request, leaves, at):
        stop = threading.Event()
        events = self.engine.generate(request, stop)
        number = 0
        for event in events:
            number += not isinstance(event, NoticeRaised)
            if isinstance(event, TurnEnded):
                return event.record
            if number == at and leaves == "closes":
                events.close()
                return None
            if number == at and leaves:
                stop.set()
        return None

    def _compare(self, record, request) -> None:
        assert record.error == ""
        ids, rows, state = (*record.prompt_ids, *record.token_ids), [], self.model.new_state(128)
        for one in record.ranges:
            part = ids[one.start : one.end]
            if one.how == "prefill":
                rows = [self.model.prefill(part, state, chunk_tokens=one.chunk_tokens)[-1:]]
            rows += [self.model.step(one_id, state) for one_id in part if one.how == "decode"]
        chooser = TokenChooser(request.sampling, self.engine._tokenizer.num_ids, record.prompt_ids)
        answer = zip(record.token_ids, rows[-len(record.token_ids) :], record.logits, strict=True)
        for at, (token_id, row, kept) in enumerate(answer, start=len(record.prompt_ids)):
            logits = self.model.logits(row)[0]
            assert torch.equal(logits, kept)
            assert chooser.choose(logits, at) == token_id
            chooser.note(token_id)


@settings(
    max_examples=10, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.reuse, Phase.generate),  # to shrink what fails would take minutes
)  # fmt: skip
@given(st.lists(STEPS, min_size=5, max_size=9), st.sampled_from([0, 1, 3, 8]))
def test_any_turns_have_the_bits_of_single_steps(talk, steps, most_marks):
    conversation = Talk(*talk, most_marks)
    for one in steps:
        conversation.take(**one)
    assert_trusted_rightly(conversation.engine._memory, conversation.model)
