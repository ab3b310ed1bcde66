"""`tune --family rounds` times proven rounds of every kind, and writes what they cost."""

from dataclasses import replace

import pytest

from engine.bench.replay import Replayed
from engine.compute_path import ComputePath, KernelError
from engine.errors import RequestError
from engine.model.config import SHAPE_27B, SHAPE_DEMO, hybrid_layers
from engine.model.packing import Launching
from engine.profile import load_profiles
from engine.tune import rounds
from engine.tune.rounds import USUAL, WALKED, Asked, contexts_of, measure_rounds
from engine.tune.user_prices import Served, find_prices, prices_path

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=512)
DEMO = load_profiles()["demo"]
PACKED = ComputePath(Launching((9, 0), graphs=False))
ASKED = Asked("small", SMALL, DEMO, "cpu", (8, 24), (1, 2, 4), "qwen38 tune")


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Measure with few rounds: ``measure(asked, path=..., dry_run=...)``."""
    monkeypatch.setattr(rounds, "NUM_PASSES", 2)
    monkeypatch.setattr(rounds, "ROUNDS_A_PASS", 1)
    monkeypatch.setattr(rounds, "NUM_DRAFTS", 1)

    def call(asked=ASKED, path=None, *, dry_run=False):
        return measure_rounds(
            asked, path or ComputePath(), tmp_path, dry_run=dry_run, progress=lambda _: None
        )

    return call


def test_every_kind_of_round_gets_a_price_that_then_serves(measure, tmp_path):
    found = measure()
    table = found.table
    assert (table.rows, table.context_tokens, table.steps) == ((1, 2, 4), (8, 24), (1, 3, 7))
    for ladders in (table.chain_ms, table.tree_ms):
        assert [len(one) for one in ladders] == [3, 3]
        assert all(ms > 0 for one in ladders for ms in one)
    for chain, tree in zip(table.chain_ms, table.tree_ms, strict=True):
        assert chain[:2] == tree[:2]  # two rows are a chain
        assert chain[2] != tree[2]
    assert table.draft_ms[0] < table.draft_ms[2]
    assert "CPU" in table.source
    assert table.source.endswith("qwen38 tune")
    assert found.path == prices_path(tmp_path, None)
    served = Served.of(SMALL, DEMO.formats, None, "bf16")
    assert find_prices(served, tmp_path).table == table
    assert {"date", "torch", "read_gb_s"} <= set(found.facts["measured"])


def test_the_first_pass_warms_up_and_the_others_alternate_their_order(monkeypatch):
    """One that every kind of round begins would charge it with what is drawn in meanwhile."""
    monkeypatch.setattr(rounds, "NUM_PASSES", 2)
    order, times = [], iter([900.0, 900.0, 3.0, 30.0, 50.0, 5.0])

    def run(replay, verifier, kind):
        order.append(kind.rows)
        yield Replayed(None, (), {"verify": next(times), "draft": 1e6})

    monkeypatch.setattr(rounds, "_rounds", run)
    one, eight = rounds._Kind(1), rounds._Kind(8)
    assert rounds._time_kinds(None, None, [one, eight]) == {one: 4.0, eight: 40.0}
    assert order == [8, 1, 1, 8, 8, 1]


def test_rows_that_are_computed_together_are_priced_for_their_gpu(measure, tmp_path):
    one = replace(ASKED, contexts=(8,), rows=(1, 3), config=replace(SMALL, num_mtp_layers=0))
    found = measure(one, PACKED)
    assert found.path == prices_path(tmp_path, (9, 0))
    assert (found.table.steps, found.table.draft_ms) == ((), ())
    assert find_prices(Served.of(one.config, DEMO.formats, (9, 0), "bf16"), tmp_path).is_own


def test_a_dry_run_and_a_wrong_round_write_nothing(measure, tmp_path, monkeypatch):
    assert measure(dry_run=True).path is None
    decode = rounds.Replay.decode

    def misread(replay, verifier):
        decode(replay, verifier)
        replay.truth[1] += 1

    monkeypatch.setattr(rounds.Replay, "decode", misread)
    with pytest.raises(KernelError, match="rows chose .* plain decode chose"):
        measure()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rows": (4, 1)}, "--rows is 4, 1, expected numbers that ascend"),
        ({"rows": (1, 33)}, "1 to 32 rows, not 33"),
        ({"rows": (0, 1)}, "1 to 32 rows, not 0"),
        ({"contexts": (16, 8)}, "--context is 16, 8, expected numbers that ascend"),
        ({"contexts": (0, 8)}, "--context is 0, 8, expected 1 to"),
        ({"contexts": (8, 5000)}, "expected 1 to 4,0"),
    ],
)
def test_what_cannot_be_timed_is_refused_in_a_sentence(measure, changed, words):
    with pytest.raises(RequestError, match=words):
        measure(replace(ASKED, **changed))


def test_a_gpu_whose_kernels_do_not_run_has_nothing_to_price(measure):
    path = ComputePath(why_not="The kernels need another GPU.")
    with pytest.raises(RequestError, match=r"nothing to price here.*The kernels need another GPU"):
        measure(replace(ASKED, device="cuda"), path)


def test_usual_contexts_are_those_that_a_conversation_may_have():
    assert contexts_of(SHAPE_27B, 262_144, USUAL) == USUAL.contexts
    assert contexts_of(SHAPE_27B, 32_768, USUAL) == (1024, 8192, 31_744)
    assert contexts_of(SHAPE_DEMO, 262_144, USUAL) == (1024, 3072)
    assert contexts_of(SHAPE_DEMO, 262_144, WALKED) == (1024,)
    assert len(contexts_of(SHAPE_DEMO, 600, USUAL)) == 1
    assert contexts_of(SHAPE_DEMO, 10, USUAL) == (1,)
