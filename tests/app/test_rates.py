"""The figures of a turn are counted from the engine's rounds, live and later alike."""

from dataclasses import replace

import pytest

from app.rates import COURSE_CELLS, TurnRates, rates_of
from engine.records import PHASES
from tests.app.records import a_round, a_turn


def rates_with(*rounds):
    rates = TurnRates()
    for one in rounds:
        rates.take_round(one)
    return rates


def test_phases_add_up_to_the_round_and_bytes_are_the_declared_ones():
    rounds = [a_round(n) for n in range(30)]
    recent = rates_with(*rounds).recent
    assert sum(recent.phase_ms[name] for name in PHASES) == pytest.approx(recent.round_ms)
    assert recent.round_ms == pytest.approx(rounds[0].round_ms)
    assert recent.round_bytes == sum(rounds[0].num_bytes.values())
    assert recent.gb_s == pytest.approx(rounds[0].gb_s)


def test_now_is_the_steady_rate_whatever_the_second_cuts_through():
    for ms in (90.0, 130.0, 333.0, 700.0):
        rounds = [
            a_round(n, start_s=n * ms / 1e3, ms={**dict.fromkeys(PHASES, 0.0), "verify": ms})
            for n in range(60)
        ]
        rates = rates_with(*rounds)
        assert rates.now_tok_s == pytest.approx(3 / (ms / 1e3))
        assert rates.recent.rounds_s == pytest.approx(1e3 / ms)
        assert rates.peak_tok_s == pytest.approx(rates.now_tok_s)


def test_peak_is_never_below_now_and_outlives_it():
    fast = [a_round(n, accepted=3) for n in range(20)]
    slow = [a_round(n, accepted=0) for n in range(20, 60)]
    rates = rates_with(*fast, *slow)
    assert rates.peak_tok_s == pytest.approx(4 / 0.09)
    assert rates.now_tok_s == pytest.approx(1 / 0.09)


@pytest.mark.parametrize("num_rounds", range(1, 30))
def test_peak_is_never_below_the_mean(num_rounds):
    """An answer of about a second is all mean and hardly any whole second."""
    rounds = [a_round(n, accepted=3 if n in (0, num_rounds - 1) else 0) for n in range(num_rounds)]
    rates = rates_with(*rounds)
    assert rates.peak_tok_s >= rates.mean_tok_s
    later = rates_of(replace(a_turn(rounds), decode_tok_s=99.0))
    assert later.peak_tok_s == 99.0


@pytest.mark.parametrize("num_rounds", [1, 9, 40, 500, 900])
def test_the_course_loses_no_token(num_rounds):
    rates = rates_with(*(a_round(n) for n in range(num_rounds)))
    course = rates.course
    assert sum(course.bins.values()) == pytest.approx(rates.num_tokens)
    assert 1 <= len(course.values) <= COURSE_CELLS
    assert max(course.values) == pytest.approx(3 / 0.09)


def test_rounds_out_of_order_and_without_end_keep_a_bounded_course():
    endless = {**dict.fromkeys(PHASES, 0.0), "verify": 1e15}
    rates = rates_with(
        a_round(0, start_s=5.0), a_round(1, start_s=0.0), a_round(2, start_s=1e12),
        a_round(3, start_s=6.0, ms=endless),
    )  # fmt: skip
    assert len(rates.course.bins) < 3000
    assert 1 <= len(rates.course.values) <= COURSE_CELLS


def test_positions_and_drafters_are_counted_from_rounds():
    rates = rates_with(
        a_round(0, accepted=2, tested=3),
        a_round(1, accepted=0, tested=1),
        a_round(2, accepted=7, tested=7, drafter="lookup"),
    )
    assert rates.positions.shares == (2 / 3, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0)
    assert rates.by_drafter["lookup"].num_tokens == 8
    assert rates.by_drafter["mtp"].num_rounds == 2


def test_a_record_has_the_figures_that_its_rounds_had_live():
    rounds = [a_round(n, accepted=n % 4) for n in range(50)]
    live = rates_with(*rounds)
    later = rates_of(replace(a_turn(rounds), decode_tok_s=live.mean_tok_s))
    assert (later.now_tok_s, later.peak_tok_s) == (live.now_tok_s, live.peak_tok_s)
    assert later.course.values == live.course.values
    assert later.mean_tok_s == later.record.decode_tok_s
    assert later.ttft_s == later.record.ttft_s
    assert later.prefill_tok_s == later.record.prefill_tok_s
