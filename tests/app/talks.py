"""Conversations with a scripted engine."""

from dataclasses import replace
from threading import Event

from engine.types import Message, Request, TurnEnded
from tests.fakes.engine import Script, ScriptedEngine


def a_record(**changes):
    engine = ScriptedEngine([Script(thinking="let me see")])
    request = Request(messages=(Message("user", "hello"),))
    last = list(engine.generate(request, Event()))[-1]
    assert isinstance(last, TurnEnded)
    return replace(last.record, **changes)


def talk(session, question="What is a volcano?", record=None):
    session.add_message("user", question)
    writer = session.start_answer()
    writer.append("thinking", "let me")
    writer.append("answer", "A volcano")
    return writer.finish(record or a_record())


def words(session):
    return [
        (one.id, one.parent, one.content, one.reasoning, one.state, one.reason)
        for one in session.path_messages()
    ]
