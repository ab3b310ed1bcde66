"""Prefill attention: its laws, what turns them red, its refusals."""

import pytest
import torch

from kernels.attention import prefill_laws
from kernels.attention.prefill_laws import LAWS, Text


@pytest.mark.parametrize("law", LAWS[:2], ids=lambda law: law.name)
def test_a_law_holds(law):
    assert law.broken("cpu") is None


def test_a_rule_that_is_off_by_one_turns_the_definition_red(monkeypatch):
    attend = prefill_laws.attention_prefill

    def shifted(q, keys, values, rows, positions):
        return attend(q, keys, values, rows, positions - (positions > rows).int())

    monkeypatch.setattr(prefill_laws, "attention_prefill", shifted)
    assert "37 positions: off by" in str(LAWS[0].broken("cpu"))


def test_a_read_behind_the_text_turns_the_definition_red(monkeypatch):
    attend = prefill_laws.attention_prefill

    def longer(q, keys, values, rows, positions):
        return attend(q, keys, values, rows, positions + 1)

    monkeypatch.setattr(prefill_laws, "attention_prefill", longer)
    assert "off by nan" in str(LAWS[0].broken("cpu"))


def test_refusals_say_what_to_do():
    text = Text(5, 12, "cpu")
    text.positions[1] = 3
    with pytest.raises(ValueError, match=r"3 positions of a store of 42 must hold the 5 rows"):
        text.attend()
    text = Text(5, 12, "cpu")
    text.q = text.q[:, :3]
    with pytest.raises(ValueError, match=r"H = 3 query heads cannot share G = 2"):
        text.attend()
    text.keys = text.keys.float()
    with pytest.raises(TypeError, match=r"keys must be bfloat16 \[G, S, D\], got float32"):
        text.attend()
    text = Text(5, 12, "cpu")
    text.values = text.values[:, :3]
    with pytest.raises(ValueError, match=r"values must be \[G, S, D\]"):
        text.attend()
    text = Text(5, 12, "cpu")
    text.rows = torch.tensor([5], dtype=torch.int32)
    with pytest.raises(ValueError, match=r"rows must be \[2\] = \[2\], got \[1\]"):
        text.attend()
