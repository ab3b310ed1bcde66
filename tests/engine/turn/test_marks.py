"""As many points to come back to as fit; the least useful goes first."""

from types import SimpleNamespace

from engine.turn.marks import Mark, Marks


def marks_at(lengths, most):
    marks = Marks(most)
    for one in lengths:
        if marks.make_room():
            marks.add(Mark(SimpleNamespace(length=one), None))
    return marks


def lengths_of(marks):
    return [one.length for one in marks]


def test_all_that_fit_are_kept():
    assert lengths_of(marks_at((10, 20, 30), 3)) == [10, 20, 30]


def test_the_point_that_saves_least_for_its_age_goes_first():
    # 10 tokens lie between the first two; the others save hundreds
    assert lengths_of(marks_at((500, 510, 900, 1400), 3)) == [500, 900, 1400]
    # equal steps: the oldest goes
    assert lengths_of(marks_at((100, 200, 300, 400), 3)) == [200, 300, 400]
    # an old point behind a long text outlives newer ones behind short texts
    assert lengths_of(marks_at((9000, 9050, 9100, 9150, 9200), 3)) == [9000, 9150, 9200]


def test_the_newest_stays_and_without_room_there_is_none():
    assert lengths_of(marks_at((100, 900, 901), 1)) == [901]
    assert lengths_of(marks_at((100, 900), 0)) == []


def test_the_nearest_point_is_found_and_later_ones_are_forgotten():
    marks = marks_at((10, 20, 30), 4)
    assert marks.nearest(9) is None
    assert (marks.nearest(29).length, marks.nearest(30).length) == (20, 30)
    marks.forget_beyond(20)
    assert lengths_of(marks) == [10, 20]
