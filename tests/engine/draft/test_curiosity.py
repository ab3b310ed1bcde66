"""When rows that nobody has timed are tried: seldom, and for a share of the time."""

from engine.draft.curiosity import LONGEST_GAP, SHARE, Curiosity


def test_nothing_is_tried_before_a_round_has_run():
    curiosity = Curiosity()
    assert not curiosity.is_due
    curiosity.save(10.0)
    assert curiosity.is_due


def test_a_dear_try_is_made_and_paid_for():
    curiosity = Curiosity()
    curiosity.save(10.0)
    curiosity.tries(20.0)
    num_rounds = 0
    while not curiosity.is_due:
        curiosity.save(10.0)
        num_rounds += 1
    assert num_rounds * SHARE * 10.0 >= 20.0 - SHARE * 10.0
    assert num_rounds <= 1 + 20.0 / (SHARE * 10.0)


def test_a_try_that_costs_nothing_earns_nothing():
    curiosity = Curiosity()
    curiosity.save(10.0)
    curiosity.tries(-1000.0)
    curiosity.tries(SHARE * 10.0)
    assert not curiosity.is_due


def test_where_nothing_is_found_it_looks_ever_more_rarely_until_it_tries():
    curiosity, gaps = Curiosity(), []
    for _ in range(9):
        num_rounds = 0
        while not curiosity.is_due:
            curiosity.save(10.0)
            num_rounds += 1
        gaps.append(num_rounds)
        curiosity.finds_nothing()
    assert gaps == [1, 2, 4, 8, 16, 32, LONGEST_GAP, LONGEST_GAP, LONGEST_GAP]
    curiosity.tries(0.0)
    for _ in range(LONGEST_GAP):
        curiosity.save(10.0)
    curiosity.finds_nothing()
    for _ in range(2):
        curiosity.save(10.0)
    assert curiosity.is_due
