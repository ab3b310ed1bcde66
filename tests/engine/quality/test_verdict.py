"""What passes and what fails, by the figures alone."""

import numpy as np
import pytest

from engine.quality.forced import Comparison, Expectation
from engine.quality.repetition import repetition_of
from engine.quality.texts import Text
from engine.quality.verdict import Verdict, Written, figures_of

LOOP, PROSE = [7, 8] * 60, list(range(120))


def figures(rise, name="text"):
    """A text of 256 positions whose loss rises by ``rise``; each second choice is sure."""
    n = 256
    probabilities = np.tile([0.95, 0.5], n // 2).astype("f4")
    expected = Expectation(np.ones(n), np.zeros((n, 1), "i4"), np.log(probabilities)[:, None])
    chosen = np.zeros(n, "i4")
    chosen[:64:2] = 1  # a quarter of the sure ones
    return figures_of(Text(name, "x"), expected, Comparison(1 + rise, chosen, np.zeros(n)))


def written(reference, candidate):
    return Written("?", repetition_of(reference), repetition_of(candidate), "", "", None)


def test_agreement_where_the_reference_is_sure_is_told_apart():
    one = figures(np.zeros(256))
    assert one.num_confident == 128
    assert one.agreement == 224 / 256
    assert one.confident_agreement == 96 / 128


@pytest.mark.parametrize(("rise", "passes"), [(-0.2, True), (0.049, True), (0.051, False)])
def test_the_bar_is_five_hundredths_of_a_nat_on_the_worse_text(rise: float, passes: bool):
    texts = (figures(np.full(256, -1.0)), figures(np.full(256, rise), "worse"))
    assert Verdict(texts, ()).worse.name == "worse"
    assert Verdict(texts, ()).passed == passes


def test_a_loss_that_is_no_number_fails_whichever_text_it_is_of():
    nan, fine = figures(np.full(256, np.nan)), figures(np.zeros(256))
    assert not Verdict((nan, fine), ()).passed
    failed = Verdict((fine, nan), ())
    assert failed.failures == ("The candidate's loss on text is no number.",)
    assert failed.is_sure, "no longer text makes it one"


def test_a_bar_inside_the_interval_is_told():
    spread = np.repeat([0.0, 0.02, 0.1, 0.06], 64)
    assert not Verdict((figures(spread),), ()).is_sure
    assert Verdict((figures(np.full(256, 0.01)),), ()).is_sure


def test_a_loop_that_only_the_candidate_has_fails():
    texts = (figures(np.zeros(256)),)
    failed = Verdict(texts, (written(PROSE, PROSE), written(PROSE, LOOP)))
    assert not failed.passed
    assert "2 tokens over and over (120 in all)" in failed.failures[0]
    assert Verdict(texts, (written(LOOP, LOOP), written(LOOP, PROSE))).passed
