"""What a sweep gained, over problems of any length alike."""

import pytest

from engine.tune.entries import Outcome, entries_of, ratio
from tests.fakes import family as fake


def test_no_problem_counts_more_for_being_longer():
    assert ratio((1.0, 400.0), (2.0, 200.0)) == pytest.approx(1.0)
    assert ratio((3.0,), (4.0,)) == pytest.approx(0.75)
    with pytest.raises(ValueError, match="shorter|longer"):
        ratio((1.0,), (1.0, 2.0))


def test_a_gain_is_the_share_of_the_time_that_is_saved():
    (entry,) = entries_of(fake.family(fake.Ran()), [None], ())
    assert Outcome(entry, fake.FAST, (10.0, 40.0), (5.0, 5.0)).gain == pytest.approx(0.75)
    assert Outcome(entry, fake.PRESENT).gain == 0.0


def test_two_models_with_the_same_product_have_one_entry_of_it_and_time_it_once():
    (entry,) = entries_of(fake.family(fake.Ran()), [None, None], ())
    assert [one.sizes["T"] for one in entry.problems] == [1, 16]
