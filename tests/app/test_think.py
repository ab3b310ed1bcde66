"""Thinking is set by name or the other way, and a model that does not think is told."""

from dataclasses import replace

import pytest

from app.live import LiveSettings
from app.think import think
from engine.errors import SettingsError
from engine.settings.load import load_settings
from tests.fakes.engine import INFO


@pytest.fixture
def live():
    return LiveSettings.of(load_settings()[1])


def test_without_a_word_it_goes_the_other_way(live):
    assert think(live, "", INFO) == "chat.thinking is off (/set)."
    assert think(live, "", None) == "chat.thinking is on (/set)."
    assert think(live, "on", INFO) == "chat.thinking is on (/set)."
    with pytest.raises(SettingsError, match="'maybe', expected on or off"):
        think(live, "maybe", INFO)


def test_of_a_model_that_does_not_think_that_is_said(live):
    said = think(live, "on", replace(INFO, supports_thinking=False))
    assert said.endswith("This model does not think before it answers.")
