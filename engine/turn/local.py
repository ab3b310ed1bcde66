"""The engine in this process: one loaded model that answers one request at a time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import torch

from engine.draft.choose import num_proposals, resolve_drafter, shape_notice
from engine.errors import RequestError, TemplateError
from engine.machine.measure import measure_again
from engine.model.memory import LEAST_SNAPSHOTS
from engine.profile import Drafting
from engine.text.template import ChatTemplate, Thinking
from engine.text.transcript import Prompt, Transcript
from engine.turn.ahead import common_beginning, next_requests, read_ahead
from engine.turn.check_request import check_prompt, check_request
from engine.turn.machine import Machine, Reading
from engine.turn.memory import Memory
from engine.turn.reading import Past, past_of, read_how
from engine.turn.release import give_back_memory
from engine.turn.turn import Turn
from engine.types import (
    EngineInfo,
    Event,
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    TurnEnded,
)


class LocalEngine:
    """Answers requests; keeps the state between turns (``engine.types.ChatEngine``).

    Args:
        info: what is loaded.
        machine: the parts that outlive a turn.
        template: of the checkpoint.
        drafting: the profile's choice and its limit.
        most_marks: points of the conversation to come back to that are held at once.
    """

    def __init__(
        self,
        info: EngineInfo,
        machine: Machine,
        template: ChatTemplate,
        drafting: Drafting,
        *,
        most_marks: int = LEAST_SNAPSHOTS,
    ) -> None:
        self._info = info
        self._machine: Machine | None = machine
        self._tokenizer = machine.tokenizer
        self._template = template
        self._drafting = drafting
        self._told_of_shape = ""
        self._transcript = Transcript(machine.tokenizer, template, info.max_context_tokens)
        self._memory: Memory | None = Memory(
            machine.model, info.max_context_tokens, most_marks, machine.dflash
        )
        self._said: tuple[Message, ...] = ()
        self._busy = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        return self._info

    def warm_up(self, run: Callable[[Machine, Memory], None]) -> None:
        """Let something run over the empty conversation, whose memory then is as before.

        Args:
            run: what shall run; its errors are handed on.
        """
        assert self._machine is not None
        assert self._memory is not None
        run(self._machine, self._memory)
        self._memory.forget()

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer ``request``; see ``engine.types.ChatEngine``.

        Raises:
            RequestError: before the first event: the request cannot be answered, another one is
                being answered, or the engine is closed.
            TemplateError: before the first event: the template refuses the conversation.
            MemoryPlanError: before the first event: there is no memory for a new conversation.
        """
        if not self._busy.acquire(blocking=False):
            raise RequestError("The engine is still answering.", "Stop that answer first.")
        try:
            yield from self._answer(request, stop)
        finally:
            self._busy.release()

    def read_ahead(
        self, request: Request, stop: threading.Event
    ) -> Iterator[PromptProgressed | NoticeRaised]:
        """Read a conversation before its next message; see ``engine.types.ChatEngine``.

        Raises:
            RequestError: another one is being answered, the engine is closed, or the conversation
                cannot be read.
            TemplateError: the template refuses the conversation.
            MemoryPlanError: there is no memory for it.
            EngineError: the device failed; what is held is read anew then.
        """
        if not self._busy.acquire(blocking=False):
            raise RequestError("The engine is still answering.", "Stop that answer first.")
        try:
            yield from self._read_ahead(request, stop)
        finally:
            self._busy.release()

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Number of prompt tokens that ``messages`` render to.

        Raises:
            RequestError: the engine is closed, or the messages cannot fit into the context.
            TemplateError: the template refuses the conversation.
        """
        return len(self.prompt_ids(messages))

    def prompt_ids(
        self, messages: tuple[Message, ...], *, thinking: bool = True
    ) -> tuple[int, ...]:
        """Prompt tokens that ``messages`` render to; errors as in `count_tokens`."""
        if self._machine is None:
            raise RequestError("The engine is closed.", "Open the model again.")
        return self._transcript.prompt(messages, Thinking(thinking)).ids

    def text_tokens(self, text: str) -> int:
        """Number of tokens that a text is by itself; see ``engine.types.ChatEngine``."""
        return len(self._tokenizer.encode(text, control=False))

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """What each id spells by itself; see ``engine.types.ChatEngine``."""
        return [self._tokenizer.decode([one], control=True) for one in token_ids]

    def measure_again(self) -> None:
        """Measure the read bandwidth once more; see ``engine.types.ChatEngine``.

        On a GPU the first figure stands: reading needs memory that is planned for the conversation.
        """
        if self._machine is None or self._info.device != "cpu":
            return
        torch.set_num_threads(self._machine.num_threads)  # as in an answer
        try:
            found = measure_again(self._info.device)
        except (MemoryError, RuntimeError):  # no memory to read: what was measured stands
            return
        self._info = replace(self._info, read_gb_s=found.gb_s, read_measured_at=found.measured_at)

    def close(self) -> None:
        """Free the weights and the state, and give their memory back to the machine."""
        self._machine = self._memory = None
        self._template.close()
        give_back_memory()

    def _answer(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        began_s = time.perf_counter()
        machine, memory = self._opened()
        check_request(request, machine.tokenizer.num_ids)
        drafter = resolve_drafter(
            request.drafter,
            self._drafting.drafter,
            has_mtp=machine.model.has_mtp,
            has_dflash=machine.dflash is not None,
            routes=machine.routing is not None,
        )
        thinking = Thinking(request.thinking, request.effort)
        past = past_of(request, machine.model)
        prompt = self._prompt(request, thinking, past)
        _check(prompt.ids, machine)
        reading, told = self._read_how(memory, prompt.ids, past, request)
        notices = (told, self._on_shape(drafter, request.draft_shape))
        num_draft_tokens = num_proposals(
            drafter, request.num_draft_tokens, self._drafting.max_tokens
        )
        turn = Turn(machine, memory, reading, request, drafter, num_draft_tokens, began_s)
        try:
            yield from (NoticeRaised(one) for one in notices if one)
            with closing(turn.events(stop)) as events:
                for event in events:
                    if isinstance(event, TurnEnded):
                        self._remember(prompt, turn, request, thinking)
                        record = replace(event.record, arithmetic=self._info.computes_as)
                        yield TurnEnded(record)
                    else:
                        yield event
        except GeneratorExit:
            raise  # closed between two events, where memory is whole or given up
        except BaseException:
            memory.spoil()
            raise

    def _read_ahead(
        self, request: Request, stop: threading.Event
    ) -> Iterator[PromptProgressed | NoticeRaised]:
        machine, memory = self._opened()
        thinking = Thinking(request.thinking, request.effort)
        past = past_of(request, machine.model)
        prompts = [self._prompt(one, thinking, past) for one in next_requests(request)]
        ids = common_beginning([one.ids for one in prompts])
        if past is not None and past.arithmetic == self._info.computes_as:
            # where the next turn began to read, had the conversation never stopped
            ids = ids[: past.num_recorded(ids)] or ids
        _check(ids, machine)
        reading, told = self._read_how(memory, ids, past, request)
        if told:
            yield NoticeRaised(told)
        with closing(read_ahead(machine, memory, reading, stop)) as pieces:
            yield from pieces

    def _opened(self) -> tuple[Machine, Memory]:
        """What a conversation is read with, by the thread that asks."""
        if self._machine is None or self._memory is None:
            raise RequestError("The engine is closed.", "Open the model again.")
        # torch keeps this number for each thread that calls it
        torch.set_num_threads(self._machine.num_threads)
        return self._machine, self._memory

    def _on_shape(self, drafter: str, shape: str) -> str:
        """What is to say of a shape that was asked for; once, until it changes."""
        notice, told = shape_notice(drafter, shape), self._told_of_shape
        self._told_of_shape = notice
        return "" if notice == told else notice

    def _prompt(self, request: Request, thinking: Thinking, past: Past | None) -> Prompt:
        if request.prompt_ids is not None:
            return Prompt("", request.prompt_ids)
        if past is not None:
            render = partial(self._rendered_past, past, thinking)
            self._transcript.recall(past.prompt_ids, past.token_ids, render)
        return self._transcript.prompt(request.messages, thinking)

    def _read_how(
        self, memory: Memory, ids: tuple[int, ...], past: Past | None, request: Request
    ) -> tuple[Reading, str]:
        """How the ids of a request are read, and what a person should know of it."""
        said = self._said
        return read_how(
            memory, ids, past, self._info.computes_as,
            goes_on=bool(said) and request.messages[: len(said)] == said,
            is_new=all(one.role != "assistant" for one in request.messages),
        )  # fmt: skip

    def _remember(self, prompt: Prompt, turn: Turn, request: Request, thinking: Thinking) -> None:
        """Note in the transcript what was generated."""
        if request.prompt_ids is not None:
            self._said = ()
        if request.prompt_ids is not None or not turn.token_ids:
            return
        self._said = _with_answer(request.messages, turn.stream.answer, turn.stream.reasoning)
        self._transcript.answered(
            prompt, turn.token_ids, self._rendered(self._said, thinking, prompt=False)
        )

    def _rendered_past(self, past: Past, thinking: Thinking) -> tuple[str, str]:
        """The prompt of a recorded answer, and the conversation with that answer."""
        prompt = self._rendered(past.messages[:-1], thinking, prompt=True)
        return prompt, self._rendered(past.messages, thinking, prompt=False)

    def _rendered(self, messages: tuple[Message, ...], thinking: Thinking, *, prompt: bool) -> str:
        """A conversation as the template writes it; empty where it refuses it.

        The next prompt then says itself what is wrong.
        """
        try:
            return self._template.render(messages, thinking, prompt=prompt)
        except TemplateError:
            return ""


def _check(ids: tuple[int, ...], machine: Machine) -> None:
    config = machine.model.config
    check_prompt(ids, config.vocab_size, machine.max_context_tokens, config.max_position_embeddings)


def _with_answer(
    messages: tuple[Message, ...], content: str, reasoning: str
) -> tuple[Message, ...]:
    """A conversation with its answer; one that was unfinished goes on with it."""
    if messages[-1].role != "assistant":
        return (*messages, Message("assistant", content, reasoning))
    begun = messages[-1]
    whole = Message("assistant", begun.content + content, begun.reasoning + reasoning)
    return (*messages[:-1], whole)
