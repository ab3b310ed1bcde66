"""Chances are learned from what the target chose, and from nothing that it did not look at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.calibration import (
    CHAIN_DEPTH_PRIOR,
    CHAIN_PRIOR,
    FIRST_GAPS,
    FORGETTING,
    LONGEST_ENDING,
    LONGEST_GAP,
    LOOKUP_PRIORS,
    PRIOR_TESTS,
    Calibration,
    Chance,
    Probe,
)
from engine.draft.ngrams import Ending

FIRST_GAP = FIRST_GAPS["mtp"]


def test_a_prior_is_believed_before_the_first_test():
    assert Chance().given(0.3) == pytest.approx(0.3)


def test_one_hit_weighs_one_against_the_priors_tests():
    chance = Chance()
    chance.note(hit=True)
    prior = PRIOR_TESTS * FORGETTING
    assert chance.given(0.5) == pytest.approx((1 + 0.5 * prior) / (1 + prior))


@pytest.mark.parametrize("hit", [False, True])
def test_a_prior_is_forgotten(hit):
    chance = Chance()
    for _ in range(400):
        chance.note(hit=hit)
    assert chance.given(0.5) == pytest.approx(float(hit), abs=1e-5)


def test_recent_tests_weigh_more():
    chance = Chance()
    for hit in [True] * 50 + [False] * 50:
        chance.note(hit=hit)
    assert chance.given(0.5) < 0.25


@given(st.lists(st.booleans(), max_size=200), st.floats(0, 1))
def test_a_chance_is_one(hits, prior):
    chance = Chance()
    for hit in hits:
        chance.note(hit=hit)
    assert 0 <= chance.given(prior) <= 1 + 1e-12


def test_a_depth_that_was_not_tested_goes_by_the_depth_before():
    calibration = Calibration({"mtp": 3})
    assert calibration.chain_chances("mtp") == pytest.approx(
        [CHAIN_PRIOR, CHAIN_PRIOR * CHAIN_DEPTH_PRIOR, CHAIN_PRIOR * CHAIN_DEPTH_PRIOR**2]
    )
    for _ in range(400):
        calibration.learn_chain("mtp", [7], [7, 8])
    first, second, third = calibration.chain_chances("mtp")
    assert first == pytest.approx(1, abs=1e-4)
    assert second == pytest.approx(first * CHAIN_DEPTH_PRIOR)
    assert third == pytest.approx(second * CHAIN_DEPTH_PRIOR)


def test_nothing_behind_a_wrong_token_is_tested():
    """At 2 the head was wrong, so 3 was never compared, though the numbers agree."""
    calibration = Calibration({"mtp": 3})
    calibration.learn_chain("mtp", [1, 9, 3], [1, 2, 3])
    assert [one._tests for one in calibration._chains["mtp"]] == [1, 1, 0]
    assert [one._hits for one in calibration._chains["mtp"]] == [1, 0, 0]


def test_nothing_beyond_what_was_committed_is_tested():
    calibration = Calibration({"mtp": 3})
    calibration.learn_chain("mtp", [1, 2, 3], [1])
    assert [one._tests for one in calibration._chains["mtp"]] == [1, 0, 0]


def test_drafters_are_scored_apart_and_told_how_far_they_were_right():
    calibration = Calibration({"mtp": 3, "dflash2": 7})
    assert calibration.learn_chain("dflash2", [1, 2, 9], [1, 2, 3]) == 2
    assert calibration.learn_chain("dflash2", [1, 2], [1]) == 1
    assert calibration.learn_chain("dflash2", [1], [1, 2]) == 1
    assert calibration.chain_chances("mtp") == Calibration({"mtp": 3}).chain_chances("mtp")
    assert calibration.chain_chances("dflash2")[0] > CHAIN_PRIOR
    assert set(calibration.probes) == {"mtp", "dflash2"}


def lookup_tests(calibration) -> dict[int, tuple[float, float]]:
    return {
        length: (one._tests, one._hits)
        for length, one in zip(LOOKUP_PRIORS, calibration._lookup, strict=True)
        if one._tests
    }


def test_a_copy_is_scored_by_the_length_it_continues():
    """Three tokens in common, two right ones and a wrong one: lengths 3, 4 and 5 were tested."""
    calibration = Calibration({})
    calibration.learn_lookup([Ending(3, (10, 11, 12))], (10, 11, 99))
    four = (1 + FORGETTING, FORGETTING)  # 4 and 5 are of one class
    assert lookup_tests(calibration) == {3: (1, 1), 4: pytest.approx(four)}


def test_any_ending_may_be_the_right_one():
    calibration = Calibration({})
    endings = [Ending(16, (1, 2)), Ending(2, (5, 6)), Ending(2, (5, 7))]
    calibration.learn_lookup(endings, (5, 7, 1))
    assert lookup_tests(calibration) == {16: (1, 1), 3: (1, 1)}


def test_an_ending_that_ran_out_was_right_to_its_end():
    calibration = Calibration({})
    calibration.learn_lookup([Ending(2, (5,))], (5, 7))
    assert lookup_tests(calibration) == {2: (1, 1)}


def test_chances_of_lookup_go_by_tokens_in_common():
    chances = Calibration({}).lookup_chances()
    assert len(chances) == LONGEST_ENDING + 1
    assert chances == sorted(chances)
    assert (chances[5], chances[LONGEST_ENDING]) == (LOOKUP_PRIORS[4], LOOKUP_PRIORS[32])


def rounds_between(probe: Probe, num_rounds: int) -> list[int]:
    tried: list[int] = []
    for at in range(1, num_rounds + 1):
        if probe.is_due:
            probe.is_tried()
            tried.append(at)
        else:
            probe.rests()
    return [one - before for before, one in zip([0, *tried], tried, strict=False)]


def test_tries_grow_rarer():
    gaps = rounds_between(Probe(FIRST_GAP), 3000)
    assert gaps[:7] == [FIRST_GAP * 2**one for one in range(7)]
    assert max(gaps) == LONGEST_GAP


def test_a_try_that_went_well_is_followed_by_another_at_once():
    probe = Probe(FIRST_GAP)
    rounds_between(probe, 100)
    probe.was_right()
    assert rounds_between(probe, 7) == [1, 2, 4]


def test_a_drafter_that_paid_is_soon_tried_again():
    probe = Probe(FIRST_GAP)
    rounds_between(probe, 100)
    probe.pays()
    assert rounds_between(probe, FIRST_GAP) == [FIRST_GAP]
