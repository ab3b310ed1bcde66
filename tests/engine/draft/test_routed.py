"""The routed drafter in a turn: rounds say who drafted, and teach what drafting is worth."""

from types import SimpleNamespace

import pytest

from engine.compute_path import ComputePath
from engine.draft.calibration import Calibration
from engine.draft.lookup import LookupDrafter
from engine.draft.market import Proposal
from engine.draft.ngrams import NgramIndex
from engine.draft.price_table import PriceTable, shipped_prices
from engine.draft.prices import Prices
from engine.draft.routed import RoutedDrafter, Routing
from engine.model.packing import Launching
from engine.profile import load_profiles
from engine.routing import routing_of
from engine.settings.declared import DraftSettings
from engine.types import Request, Sampling
from tests.fakes.model import FakeModel, local_engine, run, write_text_files

CHEAP_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 11.0),), (1, 2), (0.5, 1.0))
PROMPT = tuple(range(40, 50))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_files(tmp_path_factory.mktemp("text"))


def counting(context) -> int:
    """Each token is one more than the last, within the printable bytes; comes round after 90."""
    return 33 + (context[-1] - 32) % 90


def ask(engine, prompt=PROMPT, **options):
    options = {"max_tokens": 60, "sampling": Sampling(temperature=0.0), **options}
    return run(engine, Request(prompt_ids=prompt, **options))[-1].record


def routed_engine(folder, guess, *, learns=False):
    routing = Routing(Prices(CHEAP_ROWS, learns=learns), max_steps=7)
    return local_engine(FakeModel(counting, guess=guess), folder, routing=routing)


def test_a_round_says_who_drafted_and_what_the_head_read(folder):
    rounds = ask(routed_engine(folder, counting)).rounds
    assert {one.drafter for one in rounds[:-1]} == {"mtp"}
    assert all(one.accepted == one.rows - 1 for one in rounds)
    for one in rounds[:-1]:
        assert one.num_bytes["drafter"] == 10 * (one.rows - 1)


def test_a_round_without_room_is_plain(folder):
    (only,) = ask(routed_engine(folder, counting), max_tokens=2).rounds
    assert (only.rows, only.drafter) == (1, "off")


def test_a_copy_needs_no_head(folder):
    """The prompt holds what will be said, and the head knows nothing."""
    prompt = tuple(range(33, 120))
    record = ask(routed_engine(folder, lambda _: 0), (*prompt, *prompt[:20]))
    assert record.rounds[-2].drafter == "lookup"
    assert sum(one.accepted for one in record.rounds if one.drafter == "lookup") > 20


def test_a_limit_that_is_asked_for_is_kept(folder):
    record = ask(routed_engine(folder, counting), num_draft_tokens=2)
    assert max(one.rows for one in record.rounds) == 3


def test_without_a_head_lookup_is_routed(folder):
    routing = Routing(Prices(CHEAP_ROWS, learns=False), max_steps=7)
    engine = local_engine(FakeModel(counting), folder, routing=routing)
    prompt = tuple(range(33, 120))
    names = {one.drafter for one in ask(engine, (*prompt, *prompt[:20])).rounds}
    assert "lookup" in names
    assert names <= {"lookup", "off"}


def test_what_was_learned_is_forgotten_with_its_conversation(folder):
    """What is drafted never depends on an earlier conversation."""
    engine = routed_engine(folder, lambda _: 0)
    fresh = [(one.rows, one.drafter) for one in ask(engine).rounds]
    assert engine._memory.calibration.chain_chances("mtp") != Calibration({"mtp": 7}).chain_chances(
        "mtp"
    )
    ask(engine, (90, 80, 70))
    assert [(one.rows, one.drafter) for one in ask(engine).rounds] == fresh


def test_prices_are_those_of_the_context_that_is_held(folder):
    asked: list[int] = []

    class Spied(Prices):
        def verify_ms(self, context_tokens, *, branches=False, **how):
            asked.extend([] if branches else [context_tokens])
            return super().verify_ms(context_tokens, branches=branches, **how)

    routing = Routing(Spied(CHEAP_ROWS, learns=False), max_steps=7)
    rounds = ask(local_engine(FakeModel(counting, guess=counting), folder, routing=routing)).rounds
    held = [one.context_tokens for one in rounds]
    # looked up while the round before runs, when that is known to commit one token
    assert asked[:4] == [held[0], *(one + 1 for one in held[:3])]
    assert set(asked) <= {*held, *(one + 1 for one in held)}


def test_routed_rounds_correct_the_machines_prices_and_others_do_not(folder):
    """A scripted drafter that looks ahead would pass for a slow machine."""
    engine = routed_engine(folder, counting, learns=True)
    prices = engine._machine.routing.prices
    for drafter in ("off", "mtp", "replay"):
        ask(engine, drafter=drafter)
    assert prices.verify_ms(0) == Prices(CHEAP_ROWS).verify_ms(0)
    ask(engine, drafter="auto")
    assert prices.verify_ms(0) != Prices(CHEAP_ROWS).verify_ms(0)


def test_the_first_round_of_an_answer_is_no_price(folder, monkeypatch):
    """It indexes the prompt, and reads the rows that waited for the head."""
    engine, observed = routed_engine(folder, counting, learns=True), []
    monkeypatch.setattr(Prices, "observe", lambda _, rows, *rest, **__: observed.append(rows))
    rounds = ask(engine).rounds
    assert observed == [one.rows for one in rounds[1:]]


def test_what_is_prepared_fits_behind_what_is_foreseen():
    """A copy that goes on leaves less room than a token does."""
    prepared = []
    router = SimpleNamespace(
        is_prepared=False, expects_no_copy=False,
        propose=lambda endings, *_: Proposal(
            endings[0].continuation[:3], (0, 1, 2), "lookup", 0, False, 4.0, 1.0
        ),
        prepare=lambda context_tokens, num_tokens, _: prepared.append((context_tokens, num_tokens)),
    )  # fmt: skip
    prompt, answer = (1, 2, 3, 4, 5) * 4, [1, 2]
    lookup = LookupDrafter(NgramIndex(), prompt, answer, branches=False)
    drafter = RoutedDrafter(router, lookup, None, None, len(prompt), answer)
    assert drafter.propose(2, 2, 9).token_ids == (3, 4, 5)
    drafter.prepare(2, lambda num_committed: 9 - num_committed)
    assert prepared == [(len(prompt) + 2, 9 - 4)]


def routed_here(launching, *, router=True, table="shipped"):
    table = shipped_prices("sm_90", "fp8_block") if table == "shipped" else table
    profile = load_profiles()["fp8"]
    return routing_of(DraftSettings(router=router), ComputePath(launching), profile, table)


def test_rounds_are_routed_where_rows_are_computed_together_at_known_prices():
    hopper = Launching((9, 0), ())
    routing = routed_here(hopper)
    assert routing is not None
    assert routing.max_steps == 7
    assert routing.prices.table == shipped_prices("sm_90", "fp8_block")
    assert routed_here(hopper, router=False) is None
    assert routed_here(hopper, table=None) is None
    assert routed_here(None) is None
