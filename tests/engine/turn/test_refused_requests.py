"""What cannot be answered is refused in a sentence, before anything happens."""

import math

import pytest

from engine.errors import RequestError, TemplateError
from engine.turn.check_request import check_prompt
from engine.types import Message, Sampling
from tests.engine.turn.asked import ask, counting
from tests.fakes.model import FakeModel, local_engine, write_text_files


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_tokens": 0}, "'max_tokens' is 0"),
        ({"num_draft_tokens": -1}, "'num_draft_tokens' is -1"),
        ({"stop": ("",)}, "stop string is empty"),
        ({"prompt_ids": None}, "nothing to answer"),
        ({"prompt_ids": ()}, "holds no token"),
        ({"prompt_ids": (1, 320)}, "holds the id 320"),
        ({"prompt_ids": (1,) * 4096}, "has 4,096 tokens and the context 4,096"),
        ({"prompt_ids": (1,) * 4096}, r"Raise model.context_tokens \(up to 1048576\)"),
        ({"drafter": "lokup"}, "no drafter 'lokup'. Did you mean 'lookup'"),
        ({"draft_shape": "chian"}, "no shape 'chian' of drafts. Did you mean 'chain'"),
        ({"drafter": "mtp"}, "has none"),
        ({"sampling": Sampling(temperature=-1)}, "'temperature' is -1"),
        ({"sampling": Sampling(top_p=math.nan)}, "'top_p' is nan"),
        ({"sampling": Sampling(seed=-1)}, "'seed' is -1"),
        ({"prompt_ids": None, "messages": (Message("user", "x"),), "effort": "much"}, "effort"),
    ],
)
def test_bad_requests_are_refused_before_anything_happens(folder, options, sentence):
    engine = local_engine(FakeModel(counting), folder)
    with pytest.raises(RequestError, match=sentence):
        ask(engine, **options)
    assert ask(engine, max_tokens=1)[1].token_ids == (50,)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sampling": Sampling(logit_bias=((319, 1.0),))}, "names the id 319, expected 0 to 30"),
        ({"sampling": Sampling(logit_bias=((5, math.nan),))}, "of the id 5 is nan, expected"),
        ({"thinking_budget": -1}, "'thinking_budget' is -1, expected 0 or more"),
    ],
)
def test_a_bias_or_budget_that_cannot_be_is_refused(folder, options, problem):
    with pytest.raises(RequestError, match=problem):
        ask(local_engine(FakeModel(counting), folder), **options)


def test_a_prompt_beyond_what_the_model_holds_names_no_setting():
    with pytest.raises(RequestError, match=r"holds no more.*a new conversation") as refused:
        check_prompt((1,) * 4096, 300, 4096, 4096)
    assert "model.context_tokens" not in str(refused.value)


def test_a_template_that_refuses_raises_before_the_first_event(tmp_path):
    write_text_files(tmp_path, "{{ raise_exception('I refuse') }}")
    engine = local_engine(FakeModel(counting), tmp_path)
    with pytest.raises(TemplateError, match="I refuse"):
        ask(engine, prompt_ids=None, messages=(Message("user", "hello"),))
    engine.close()


def test_a_closed_engine_says_so(folder):
    engine = local_engine(FakeModel(counting), folder)
    engine.close()
    with pytest.raises(RequestError, match="is closed"):
        ask(engine)
