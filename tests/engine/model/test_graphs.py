"""Launches are captured in the pieces that they are cut into, and replayed in their order."""

from contextlib import contextmanager

import pytest
import torch

from engine.model.graphs import GraphCache


@pytest.fixture
def log(monkeypatch):
    """What a GPU would be asked for, in order."""
    said: list[str] = []

    class Piece:
        def __init__(self):
            self.name = f"piece {sum(one.startswith('begin') for one in said)}"

        def replay(self):
            said.append(self.name)

    @contextmanager
    def capture(graph, **_):
        said.append(f"begin {graph.name}")
        yield
        said.append(f"end {graph.name}")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Piece)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    return said


def cache(captured=None) -> GraphCache:
    told = captured if captured is not None else []
    return GraphCache(captures=True, refused=pytest.fail, captured=lambda *one: told.append(one))


def test_launches_are_captured_in_the_pieces_they_are_cut_into(log):
    def launches():
        log.append("first")
        yield
        log.append("rest")

    captured: list = []
    graphs = cache(captured)
    graphs.run("key", launches, "a round")
    begun = ["first", "rest", "begin piece 0", "first", "end piece 0", "begin piece 1", "rest",
             "end piece 1"]  # fmt: skip
    assert log == begun
    graphs.run("key", launches, "a round")
    assert log == [*begun, "piece 0", "piece 1"]
    assert [what for what, _ in captured] == ["a round"]


def test_launches_without_a_cut_are_one_piece(log):
    graphs = cache()
    graphs.run("key", lambda: log.append("all"), "a chunk")
    graphs.run("key", lambda: log.append("all"), "a chunk")
    assert log == ["all", "begin piece 0", "all", "end piece 0", "piece 0"]
