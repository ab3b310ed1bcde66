"""State is kept between turns: only what is new is read, and going back is told or cheap."""

import pytest

from engine.errors import MemoryPlanError
from engine.types import Message, NoticeRaised, Request, Sampling, TextArrived
from tests.fakes.model import THINKING_TEMPLATE, FakeModel, local_engine, run, write_text_files

GREEDY = Sampling(temperature=0.0)


class Talk:
    """A conversation with a model that says fixed sentences, by number of user messages."""

    def __init__(self, folder, answers, **options):
        self.model = FakeModel(lambda _: 0, guess=lambda _: 0)
        self.engine = local_engine(self.model, folder, **options)
        tokenizer = self.engine._machine.tokenizer
        said = [tokenizer.encode(one, control=True) for one in answers]
        begin = tokenizer.encode("<|im_start|>assistant\n", control=True)

        def follow(context):
            starts = [
                at for at in range(len(context)) if list(context[at : at + len(begin)]) == begin
            ]
            answer = said[min(len(starts), len(said)) - 1]
            num_said = len(context) - starts[-1] - len(begin)
            return answer[min(num_said, len(answer) - 1)]

        self.model.follow = follow

    def ask(self, *messages, **options):
        request = Request(
            messages=tuple(messages), **{"sampling": GREEDY, "drafter": "off", **options}
        )
        events = run(self.engine, request)
        notices = [one.text for one in events if isinstance(one, NoticeRaised)]
        return events[-1].record, notices


@pytest.fixture
def folder(tmp_path):
    return write_text_files(tmp_path)


def user(text):
    return Message("user", text)


def said_by(record):
    return Message("assistant", record.text, record.reasoning)


ANSWERS = (" ice. \n<|im_end|>", "a river<|im_end|>", "the end<|im_end|>")


def test_the_second_turn_reads_only_what_is_new(folder):
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"))
    assert (first.text, first.finish_reason) == (" ice. \n", "stop")
    second, notices = talk.ask(user("hello"), said_by(first), user("more?"))
    assert (second.text, notices) == ("a river", [])
    assert second.reused_tokens == first.prompt_tokens + len(first.token_ids) - 1
    ranges = [(one.start, one.end, one.how) for one in second.ranges]
    end = second.prompt_tokens
    assert ranges == [
        (0, first.prompt_tokens, "prefill"),
        (first.prompt_tokens, second.reused_tokens, "decode"),
        (second.reused_tokens, end, "prefill"),
        (end, end + len(second.token_ids) - 1, "decode"),
    ]
    assert len(talk.model.prefilled) == 2


@pytest.mark.parametrize("drafter", ["mtp", "replay", "wrong", "half"])
def test_drafting_in_any_turn_keeps_the_state_usable(folder, drafter):
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"), drafter=drafter)
    second, _ = talk.ask(user("hello"), said_by(first), user("more?"), drafter="mtp")
    third, notices = talk.ask(
        user("hello"), said_by(first), user("more?"), said_by(second), user("?"), drafter=drafter
    )
    assert (first.text, second.text, third.text) == (" ice. \n", "a river", "the end")
    assert notices == []
    assert third.reused_tokens == second.prompt_tokens + len(second.token_ids) - 1


def test_a_cancelled_answer_goes_on_in_the_next_turn(folder):
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"), max_tokens=2)
    second, notices = talk.ask(user("hello"), said_by(first), user("more?"))
    assert (notices, second.reused_tokens) == ([], first.prompt_tokens + 1)


def test_regenerating_reads_nothing_again(folder):
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"))
    messages = (user("hello"), said_by(first), user("more?"))
    second, _ = talk.ask(*messages)
    again, notices = talk.ask(*messages)
    assert (again.text, again.token_ids, notices) == (second.text, second.token_ids, [])
    assert again.reused_tokens == again.prompt_tokens
    assert len(talk.model.prefilled) == 2


def test_editing_the_last_message_keeps_what_lies_before_it(folder):
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"))
    second, _ = talk.ask(user("hello"), said_by(first), user("more?"))
    edited, notices = talk.ask(user("hello"), said_by(first), user("less!"), drafter="mtp")
    assert (edited.text, notices, edited.reused_tokens) == ("a river", [], second.reused_tokens)
    assert [one.how for one in edited.ranges] == ["prefill", "decode", "prefill", "decode"]


def test_an_early_message_is_edited_without_reading_what_lies_before_it(folder):
    talk = Talk(folder, ANSWERS, most_marks=8)
    messages, records = (), []
    for text in ("hello", "more?", "and?"):
        messages = (*messages, user(text))
        records.append(talk.ask(*messages)[0])
        messages = (*messages, said_by(records[-1]))
    edited, notices = talk.ask(*messages[:2], user("less!"))
    assert (edited.text, notices, edited.reused_tokens) == ("a river", [], records[1].reused_tokens)
    assert 0 < edited.reread_tokens < 10  # the opening of the message


def test_a_branch_without_a_point_close_by_says_what_is_read_again(folder):
    talk = Talk(folder, ANSWERS, most_marks=1)
    first, _ = talk.ask(user("hello " * 300))
    second, _ = talk.ask(user("hello " * 300), said_by(first), user("more?"))
    branch, notices = talk.ask(user("hello " * 300), said_by(first), user("less!"))
    assert (branch.reused_tokens, len(notices)) == (0, 1)
    assert branch.reread_tokens > 256
    assert branch.reread_tokens <= second.prompt_tokens


def test_history_that_the_template_writes_anew_is_told_with_its_tokens(tmp_path):
    """Thinking of earlier turns is left out: what follows it must be read again."""
    forgets = THINKING_TEMPLATE.replace(
        "{%- if message.role == 'assistant' %}", "{%- if message.role == 'assistant' and false %}"
    )
    talk = Talk(
        write_text_files(tmp_path, forgets),
        ["<think>\nice\n</think>\n\ncold<|im_end|>", "a river<|im_end|>"],
    )
    long = user("hello " * 300)
    first, _ = talk.ask(long)
    second, notices = talk.ask(long, said_by(first), user("more?"))
    num_held = first.prompt_tokens + len(first.token_ids) - 1
    assert second.reused_tokens == (first.prompt_tokens - 1) // 256 * 256 > 0
    assert second.reread_tokens == num_held - second.reused_tokens
    assert [f"{second.reread_tokens} tokens are read again" in one for one in notices] == [True]


def test_another_conversation_is_read_whole_with_a_notice(folder):
    talk = Talk(folder, ANSWERS)
    talk.ask(user("hello"))
    said = Message("assistant", "a mass of ice", "")
    other, notices = talk.ask(user("what is a glacier?"), said, user("and a fjord?"))
    assert other.reused_tokens == 0
    assert notices == [
        (
            "The conversation does not go on from the one that is held: "
            f"all {other.prompt_tokens} tokens are read again."
        )
    ]


def test_a_new_conversation_is_read_without_a_word(folder):
    talk = Talk(folder, ANSWERS)
    talk.ask(user("hello"))
    new, notices = talk.ask(user("what is a glacier?"))
    assert (new.reused_tokens, notices) == (0, [])


def test_a_way_back_that_broke_off_is_read_again(folder, monkeypatch):
    talk = Talk(folder, ANSWERS)
    talk.ask(user("hello"), drafter="mtp")

    def refuse(*_):
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(talk.engine._memory.mtp, "rewind", refuse)
        with pytest.raises(MemoryPlanError, match="There is no memory for a conversation: CUDA"):
            talk.ask(user("hello"), drafter="mtp")
    again, _ = talk.ask(user("hello"), drafter="mtp")
    assert (again.text, again.reused_tokens) == (" ice. \n", 0)


def test_reasoning_is_split_off_and_kept(tmp_path):
    folder = write_text_files(tmp_path, THINKING_TEMPLATE)
    # the opening tag stands in the prompt, and the model goes on behind it
    talk = Talk(folder, ["<think>\nice\n</think>\n\ncold<|im_end|>", "a river<|im_end|>"])
    request = Request(messages=(user("hello"),), sampling=GREEDY, drafter="off")
    events = run(talk.engine, request)
    record = events[-1].record
    assert (record.reasoning, record.text) == ("ice", "cold")
    assert {one.channel for one in events if isinstance(one, TextArrived)} == {"thinking", "answer"}
    second, notices = talk.ask(user("hello"), said_by(record), user("more?"))
    assert notices == []
    assert second.reused_tokens == record.prompt_tokens + len(record.token_ids) - 1


def test_counting_tokens_is_what_the_prompt_will_have(folder):
    talk = Talk(folder, ANSWERS)
    count = talk.engine.count_tokens((user("hello"),))
    record, _ = talk.ask(user("hello"))
    assert record.prompt_tokens == count
    assert isinstance(talk.engine.info.model, str)


def test_an_unfinished_answer_goes_on_where_it_stopped(folder):
    talk = Talk(folder, ANSWERS)
    whole, _ = talk.ask(user("hello"))
    talk = Talk(folder, ANSWERS)
    first, _ = talk.ask(user("hello"), max_tokens=2)
    rest, notices = talk.ask(user("hello"), said_by(first))
    assert notices == []
    assert first.token_ids + rest.token_ids == whole.token_ids
    assert first.text + rest.text == whole.text
    assert rest.reused_tokens == first.prompt_tokens + 1
    said = Message("assistant", first.text + rest.text)
    second, notices = talk.ask(user("hello"), said, user("more?"))
    assert (second.text, notices) == ("a river", [])


@pytest.mark.parametrize("num_tokens", [1, 2, 4, 7, 8, 9, 12])
def test_thinking_and_answer_that_were_cut_off_go_on(tmp_path, num_tokens):
    answers = ("one two</think>\n\nice is cold<|im_end|>",)
    folder = write_text_files(tmp_path, THINKING_TEMPLATE)
    whole, _ = Talk(folder, answers).ask(user("hello"))
    talk = Talk(folder, answers)
    first, _ = talk.ask(user("hello"), max_tokens=num_tokens)
    rest, notices = talk.ask(user("hello"), said_by(first))
    assert notices == []
    assert first.token_ids + rest.token_ids == whole.token_ids
    assert (first.reasoning + rest.reasoning, first.text + rest.text) == (
        whole.reasoning,
        whole.text,
    )
