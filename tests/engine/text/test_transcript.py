"""What was read or generated keeps its ids; only what is new is tokenised."""

import pytest

from engine.errors import RequestError
from engine.text.template import ChatTemplate, Thinking
from engine.text.tokenizer import Tokenizer
from engine.text.transcript import Transcript
from engine.types import Message
from tests.fakes.model import PLAIN_TEMPLATE, THINKING_TEMPLATE, write_text_files

ASK, MORE = Message("user", "what is ice?"), Message("user", "and a river?")


class Talk:
    """A transcript with a model that says what it is told."""

    def __init__(self, folder, template):
        write_text_files(folder, template)
        self.tokenizer = Tokenizer.load(folder, 320)
        self.template = ChatTemplate.load(folder, self.tokenizer)
        self.transcript = Transcript(self.tokenizer, self.template, 4096)

    def prompt(self, *messages, thinking=Thinking()):  # noqa: B008
        return self.transcript.prompt(messages, thinking)

    def answer(self, messages, ids, answer: Message):
        prompt = self.prompt(*messages)
        rendered = self.template.render((*messages, answer), Thinking(), prompt=False)
        self.transcript.answered(prompt, ids, rendered)
        return (*prompt.ids, *ids)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, control=True)


@pytest.fixture
def plain(tmp_path):
    return Talk(tmp_path, PLAIN_TEMPLATE)


@pytest.fixture
def thinking(tmp_path):
    return Talk(tmp_path, THINKING_TEMPLATE)


def test_the_first_prompt_is_its_renderings_ids(plain):
    prompt = plain.prompt(ASK)
    assert list(prompt.ids) == plain.ids(prompt.text)


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenised(plain, monkeypatch):
    monkeypatch.setattr(plain.tokenizer, "encode_guarded", None)
    with pytest.raises(RequestError, match=r"has at least 30,773 tokens and the context 4,096"):
        plain.prompt(Message("user", "ice " * 100_000))


def test_generated_ids_are_kept_even_if_the_text_has_other_ids(plain):
    letters = [plain.ids(one)[0] for one in "glacier"]
    assert letters != plain.ids("glacier")
    said = [*letters, *plain.ids("<|im_end|>")]
    held = plain.answer((ASK,), said, Message("assistant", "glacier"))
    prompt = plain.prompt(ASK, Message("assistant", "glacier"), MORE)
    assert prompt.ids[: len(held)] == held
    added = "\n<|im_start|>user\nand a river?<|im_end|>\n<|im_start|>assistant\n"
    assert list(prompt.ids[len(held) :]) == plain.ids(added)


def test_an_answer_that_the_template_trims_is_kept(plain):
    said = plain.ids(" hello \n\n<|im_end|>")
    held = plain.answer((ASK,), said, Message("assistant", " hello \n\n"))
    assert plain.prompt(ASK, Message("assistant", " hello \n\n"), MORE).ids[: len(held)] == held


def test_a_cancelled_answer_is_closed_by_the_template(plain):
    held = plain.answer((ASK,), plain.ids("a gla"), Message("assistant", "a gla"))
    prompt = plain.prompt(ASK, Message("assistant", "a gla"), MORE)
    assert prompt.ids[: len(held)] == held
    assert plain.tokenizer.decode(prompt.ids[len(held) :], control=True).startswith("<|im_end|>\n")


def test_thinking_is_kept(thinking):
    said = thinking.ids("It is cold.\n</think>\n\nFrozen water.<|im_end|>")
    answer = Message("assistant", "Frozen water.", "It is cold.")
    held = thinking.answer((ASK,), said, answer)
    assert thinking.prompt(ASK, answer, MORE).ids[: len(held)] == held


def test_cancelled_thinking_is_closed_by_the_template(thinking):
    answer = Message("assistant", "", "It is")
    held = thinking.answer((ASK,), thinking.ids("It is"), answer)
    prompt = thinking.prompt(ASK, answer, MORE)
    assert prompt.ids[: len(held)] == held
    rest = thinking.tokenizer.decode(prompt.ids[len(held) :], control=True)
    assert rest.startswith("\n</think>\n\n<|im_end|>\n")


def test_spelled_control_tokens_in_an_answer_stay_text(plain):
    said = [*plain.tokenizer.encode("say <|im_end|>", control=False), *plain.ids("<|im_end|>")]
    held = plain.answer((ASK,), said, Message("assistant", "say <|im_end|>"))
    assert plain.prompt(ASK, Message("assistant", "say <|im_end|>"), MORE).ids[: len(held)] == held


def test_another_conversation_is_tokenised_anew(plain):
    plain.answer((ASK,), plain.ids("hello<|im_end|>"), Message("assistant", "hello"))
    prompt = plain.prompt(MORE)
    assert (list(prompt.ids), prompt.num_seams) == (plain.ids(prompt.text), 0)


def test_an_answer_cut_at_a_stop_string_is_not_passed_off_as_whole(plain):
    plain.answer((ASK,), plain.ids("hello STOP"), Message("assistant", "hello "))
    assert plain.prompt(ASK, Message("assistant", "hello "), MORE).num_seams == 1


def test_asking_again_gives_the_same_prompt(plain):
    odd = [*(plain.ids(one)[0] for one in "ice"), *plain.ids("<|im_end|>")]
    answer = Message("assistant", "ice")
    plain.answer((ASK,), odd, answer)
    first = plain.prompt(ASK, answer, MORE)
    plain.answer((ASK, answer, MORE), plain.ids("hello<|im_end|>"), Message("assistant", "hello"))
    assert plain.prompt(ASK, answer, MORE).ids == first.ids
    edited = plain.prompt(ASK, answer, Message("user", "hello"))
    assert edited.num_seams == 2
    assert edited.ids[: len(first.ids) - 30] == first.ids[: len(first.ids) - 30]


def test_an_unfinished_answer_stands_behind_the_opening_of_its_turn(plain, thinking):
    begun = Message("assistant", "a glacier is")
    assert list(plain.prompt(ASK, begun).ids) == [
        *plain.prompt(ASK).ids,
        *plain.ids("a glacier is"),
    ]
    thought = thinking.prompt(ASK, Message("assistant", "cold", "hm"))
    assert thought.text == thinking.prompt(ASK).text + "hm\n</think>\n\ncold"
    still = thinking.prompt(ASK, Message("assistant", "", "hm"))
    assert still.text == thinking.prompt(ASK).text + "hm"


def test_an_unfinished_answer_cannot_speak_for_the_template(plain):
    begun = Message("assistant", "a<|im_end|>b")
    assert plain.tokenizer.control_ids["<|im_end|>"] not in plain.prompt(ASK, begun).ids[-4:]


@pytest.mark.parametrize("begun", ["a gla", "a gla ", " a gla", "\n a\n\ngla\n"])
def test_an_answer_that_went_on_is_held_again_by_another_process(plain, begun):
    """The template trims what was said before it, so that its text is not that of the ids."""
    first, whole = Message("assistant", " hello\n"), Message("assistant", begun + "cier")
    plain.answer((ASK,), plain.ids(" hello\n<|im_end|>"), first)
    asked = (ASK, first, MORE)
    plain.answer(asked, plain.ids(begun), Message("assistant", begun))
    prompt = plain.prompt(*asked, Message("assistant", begun))
    said = plain.ids("cier<|im_end|>")
    opening, rendered = (
        plain.template.render(messages, Thinking(), prompt=is_prompt)
        for messages, is_prompt in ((asked, True), ((*asked, whole), False))
    )
    plain.transcript.answered(prompt, said, rendered)
    wanted = plain.prompt(*asked, whole, ASK)
    assert wanted.ids[: len(prompt.ids) + len(said)] == (*prompt.ids, *said)

    plain.transcript = Transcript(plain.tokenizer, plain.template, 4096)
    plain.transcript.recall(prompt.ids, said, lambda: (opening, rendered))
    assert plain.prompt(*asked, whole, ASK).ids == wanted.ids
