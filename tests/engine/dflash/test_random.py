"""A drafter of random weights has the sizes of the released one, or those of its target."""

import pytest

from engine.dflash.checkpoint import dflash_tensors
from engine.dflash.config import expect_fit
from engine.dflash.random import RELEASED, drafter_of
from engine.model.config import SHAPE_27B, SHAPE_DEMO


def test_the_released_drafter_has_the_tensors_and_parameters_that_are_published():
    tensors = dflash_tensors(RELEASED)
    assert len(tensors) == 81
    assert sum(one.num_elements for one in tensors.values()) == 1_924_404_480
    assert drafter_of(SHAPE_27B) == RELEASED


@pytest.mark.parametrize("shape", [SHAPE_27B, SHAPE_DEMO])
def test_a_drafter_fits_its_target(shape, tmp_path):
    expect_fit(tmp_path, drafter_of(shape), shape)
