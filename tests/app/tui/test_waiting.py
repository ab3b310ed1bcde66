"""Messages that wait: one is queued at a time, and none that was refused replaces another."""

from app.tui.waiting import Waiting


def test_a_second_message_does_not_take_the_place_of_the_first():
    waiting = Waiting()
    assert waiting.queue("first")
    assert not waiting.queue("second", is_urgent=True)
    assert (waiting.queued, waiting.is_urgent) == ("first", False)


def test_a_message_that_is_taken_back_is_urgent_no_more():
    waiting = Waiting()
    waiting.queue("now", is_urgent=True)
    assert waiting.take_queued() == "now"
    assert (waiting.queued, waiting.is_urgent) == ("", False)


def test_what_is_refused_twice_before_it_is_taken_is_given_back_whole():
    waiting = Waiting()
    for text in ("one", "", "two"):
        waiting.refuse(text)
    assert waiting.take_refused() == "one\ntwo"
    assert waiting.take_refused() == ""
