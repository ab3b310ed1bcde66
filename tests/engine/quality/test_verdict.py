"""What passes and what fails, by the figures alone."""

import numpy as np
import pytest

from engine.quality.forced import Comparison, Expectation
from engine.quality.repetition import repetition_of
from engine.quality.texts import Text
from engine.quality.verdict import Verdict, Written, figures_of

LOOP, PROSE = [7, 8] * 60, list(range(120))


def figures(rise, name="text"):
    """A text whose loss rises by ``rise``, mostly of 256 positions; each second choice is sure."""
    n = len(rise)
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
    assert failed.is_decided, "no longer text makes it one"


@pytest.mark.parametrize("shift", [-0.02, 0.02])
def test_a_bar_inside_the_interval_is_not_decided(shift: float):
    spread = np.repeat([0.0, 0.02, 0.1, 0.06], 64) + shift
    doubtful = Verdict((figures(np.full(256, 0.01), "sure"), figures(spread)), ())
    assert (doubtful.passed, doubtful.is_decided, doubtful.failures) == (False, False, ())
    (doubt,) = doubtful.doubts
    assert f"changes by {0.045 + shift:+.4f} ± 0.0705 nats on text, and 256 tokens do not" in doubt
    asked = int(doubt.split()[-2].replace(",", ""))
    whole = 256 * (0.0705 / abs(0.005 - shift)) ** 2
    assert whole < asked < 2 * whole
    sure = Verdict((figures(np.full(256, 0.01)),), ())
    assert (sure.passed, sure.is_decided, sure.doubts) == (True, True, ())


def test_a_rise_that_no_text_can_tell_from_the_bar_is_said_to_be_it():
    spread = np.repeat([-1.0, 1.0, 0.3, -0.1], 64)
    assert (
        Verdict((figures(spread),), ())
        .doubts[0]
        .endswith("It is +0.05 as far as any text can tell.")
    )


def test_a_few_tokens_decide_nothing_unless_nothing_differs():
    few = figures(np.full(100, 0.01))
    (doubt,) = Verdict((few,), ()).doubts
    assert doubt.startswith("The loss changes by +0.0100 nats on text, and 100 tokens do not tell")
    assert doubt.endswith("Give a longer text with --text or --talks, of 128 tokens or more.")
    assert Verdict((figures(np.zeros(100)),), ()).passed


def test_a_sure_failure_is_told_though_another_text_seems_worse():
    wide = figures(np.repeat([-1.0, 1.0, 0.9, -0.1], 64), "wide")
    both = Verdict((wide, figures(np.full(256, 0.06), "sure")), ())
    assert both.worse.name == "wide"
    assert "on sure, more than" in both.failures[0]
    assert both.is_decided


def test_a_loop_that_only_the_candidate_has_fails():
    texts = (figures(np.zeros(256)),)
    failed = Verdict(texts, (written(PROSE, PROSE), written(PROSE, LOOP)))
    assert not failed.passed
    assert "2 tokens over and over (120 in all)" in failed.failures[0]
    assert Verdict(texts, (written(LOOP, LOOP), written(LOOP, PROSE))).passed
