"""The script that proves speculation lossless on a GPU: it runs, and it finds what differs."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lossless  # noqa: E402

from engine.model.config import SHAPE_DEMO, SHAPES, hybrid_layers  # noqa: E402

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4))


@pytest.fixture
def said(monkeypatch, capsys):
    """Run it on a shape of four layers; its exit status and its words."""

    def run(options=""):
        monkeypatch.setitem(SHAPES, "demo", SMALL)
        command = f"lossless.py --model small --device cpu --prompts 1 --tokens 12 {options}"
        monkeypatch.setattr(sys, "argv", command.split())
        return lossless.main(), capsys.readouterr().out

    return run


def test_every_drafter_and_shape_is_compared_and_equal(said):
    code, text = said()
    assert code == 0
    assert text.count("  equal") == 2 * len(lossless.CASES) + 1
    assert "as decoded  equal" in text
    for drafter, shape in lossless.CASES:
        assert f"prompt 0 greedy {drafter} {shape}" in text
    assert "21 answers of 12 tokens, 0 that differ" in text


def test_what_differs_is_found(said, monkeypatch):
    answer = lossless._answer

    def spoilt(engine, request):
        record = answer(engine, request)
        if request.prompt_ids is None:
            return record
        if (request.drafter, request.draft_shape) == ("mtp", "chain"):
            return replace(record, logits=record.logits + 1e-6)
        if (request.drafter, request.draft_shape) == ("half", "tree"):
            rounds = tuple(replace(one, drafter="off") for one in record.rounds)
            return replace(record, rounds=rounds)
        if (request.drafter, request.draft_shape) == ("replay", "chain"):
            return replace(record, token_ids=(0, *record.token_ids[1:]))
        return record

    monkeypatch.setattr(lossless, "_answer", spoilt)
    code, text = said()
    assert code == 1
    assert text.count("other logits") == text.count("drafted by ['off']") == 2
    assert text.count("other ids") == 2
    assert "6 that differ" in text


def test_a_part_of_it_runs_by_name(said):
    code, text = said("--sampling seeded --drafter dflash2 --drafter auto --dflash --kv fp8")
    assert code == 0
    cases = [line.split()[2:5] for line in text.splitlines() if line.startswith("prompt")]
    assert cases == [
        ["seeded", "auto", "auto"], ["seeded", "dflash2", "chain"], ["seeded", "dflash2", "tree"],
    ]  # fmt: skip
    assert "4 answers of 12 tokens, 0 that differ" in text


def test_it_ends_in_time_and_says_so(said):
    code, text = said("--seconds 0")
    assert code == 1
    assert "the 0 s were over before all was answered" in text
    assert "0 answers" in text
