"""A cache of graphs keeps what it was told to keep, and of all others the newest."""

import pytest

from engine.graph_classes import MAX_LATER_GRAPHS
from engine.model.graphs import GraphCache


class Graph:
    def __init__(self, launch):
        self.replay = launch


@pytest.fixture
def cache(monkeypatch):
    found = GraphCache(captures=False, refused=lambda _: None, captured=lambda *_: None)
    monkeypatch.setattr(found, "_captures", True)
    monkeypatch.setattr(found, "_capture", Graph)
    return found


def test_named_graphs_stay_and_of_the_others_the_one_not_used_for_longest_goes(cache):
    for number in range(100):
        cache.run(("named", number), lambda: None, "a round", lasts=True)
    for number in range(MAX_LATER_GRAPHS):
        cache.run(number, lambda: None, "a round")
    cache.run(0, lambda: None, "a round")  # used again
    cache.run("one more", lambda: None, "a round")
    assert not any(cache.lacks(("named", number)) for number in range(100))
    assert cache.lacks(1)
    assert not cache.lacks(0)
    assert not cache.lacks("one more")


def test_what_has_moved_is_captured_again(cache):
    launched = []
    cache.serve((1,))
    cache.run("a", lambda: launched.append(1), "a round", lasts=True)
    cache.serve((1,))
    assert not cache.lacks("a")
    cache.serve((2,))
    assert cache.lacks("a")
