"""Logits reach a file in fp32, row by row, and a refusal is a sentence."""

from threading import Event

import pytest
import torch
from safetensors.torch import load_file

from engine.errors import OutputError, RequestError
from engine.logits import write_logits
from engine.types import Message, Request
from tests.fakes.engine import ScriptedEngine


def a_record(logits):
    engine = ScriptedEngine()
    record = list(engine.generate(Request(messages=(Message("user", "hi"),)), Event()))[-1].record
    object.__setattr__(record, "logits", logits)
    return record


@pytest.mark.parametrize("as_list", [True, False])
def test_rows_are_written_as_they_are(tmp_path, as_list):
    rows = torch.randn(8, 11)
    record = a_record(list(rows) if as_list else rows)
    write_logits(record, tmp_path / "x.safetensors")
    found = load_file(tmp_path / "x.safetensors")
    assert torch.equal(found["logits"], rows)
    assert found["token_ids"].tolist() == list(record.token_ids)


def test_refusals(tmp_path):
    with pytest.raises(RequestError, match="no logits"):
        write_logits(a_record(None), tmp_path / "x")
    with pytest.raises(
        OutputError, match="/none/x cannot be written: No such file or directory. Make room"
    ):
        write_logits(a_record(torch.zeros(1, 2)), tmp_path / "none" / "x")
