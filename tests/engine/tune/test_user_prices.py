"""Prices that this machine measured serve first; a broken or foreign file serves nobody."""

import json
from dataclasses import replace

import pytest
import torch

from engine.draft.price_table import PriceTable, shipped_prices
from engine.profile import Formats
from engine.tune.user_prices import Served, find_prices, prices_path, prices_toml, write_prices

GPU = (9, 0)
FORMATS = Formats("nvfp4", "fp8_block", "fp8_block", "e4m3_row", "nvfp4")
SERVED = Served(27_000_000_000, FORMATS, GPU, "bf16")
OWN = PriceTable(
    "nvfp4", (1, 4), (1024, 8192), ((5.0, 5.5), (6.0, 6.5)), (1, 7), (0.5, 1.5),
    tree_ms=((5.0, 5.7), (6.0, 6.8)), source="NVIDIA H200, 2026-11-30, qwen38 tune",
)  # fmt: skip
MEASURED = {"date": "2026-11-30", "driver": None}


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def path(tmp_path):
    return prices_path(tmp_path, GPU)


def found(tmp_path, served=SERVED):
    return find_prices(served, tmp_path)


def test_without_a_file_the_shipped_table_serves_in_silence(tmp_path):
    for data_dir in (tmp_path, None):
        got = find_prices(SERVED, data_dir)
        assert got.table == shipped_prices("sm_90", "nvfp4")
        assert (got.is_own, got.notice) == (False, "")


def test_what_was_written_serves_first_and_says_so(tmp_path, path):
    assert write_prices(path, MEASURED, SERVED, OWN) is None
    got = found(tmp_path)
    assert (got.table, got.is_own) == (OWN, True)
    assert got.notice == f"Rounds are priced by {path}: {OWN.source}."
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "other",
    [
        replace(SERVED, parameters=4_000_000_000),
        replace(SERVED, kv="fp8"),
        replace(SERVED, formats=replace(FORMATS, head="bf16")),
        replace(SERVED, capability=(12, 1)),
    ],
)
def test_another_model_or_gpu_is_not_priced_by_it(tmp_path, path, other):
    write_prices(path, MEASURED, SERVED, OWN)
    got = found(tmp_path, other)
    assert not got.is_own
    assert got.table is not None
    assert got.table.source != OWN.source


def test_a_file_holds_several_models_and_keeps_the_one_before(tmp_path, path):
    write_prices(path, MEASURED, SERVED, OWN)
    other = replace(SERVED, parameters=5)
    backup = write_prices(path, MEASURED, other, replace(OWN, rows=(1, 8)))
    assert backup is not None
    assert backup.read_text().count("[[prices]]") == 1
    again = replace(OWN, source="later")
    write_prices(path, MEASURED, SERVED, again)
    assert found(tmp_path).table == again
    assert found(tmp_path, other).table == replace(OWN, rows=(1, 8))
    assert path.read_text().count("[[prices]]") == 2


def test_a_cpu_has_a_file_of_its_own_and_none_ships(tmp_path):
    here = replace(SERVED, capability=None)
    assert found(tmp_path, here).table is None
    write_prices(prices_path(tmp_path, None), MEASURED, here, OWN)
    assert found(tmp_path, here).table == OWN


def test_a_table_of_another_machine_is_foreign_and_is_replaced(tmp_path, path, monkeypatch):
    write_prices(path, MEASURED | {"gpu": "NVIDIA GH200"}, SERVED, OWN)
    got = found(tmp_path)
    assert got.table == shipped_prices("sm_90", "nvfp4")
    assert f"{path} is not used: it was measured on NVIDIA GH200, and this is a CPU." in got.notice
    assert got.notice.endswith("'qwen38 tune --family rounds' writes a new one.")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GH200")
    assert found(tmp_path).is_own
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert "and this is NVIDIA H200" in found(tmp_path).notice
    here = replace(SERVED, capability=None)  # the CPU of a machine with a GPU
    write_prices(prices_path(tmp_path, None), MEASURED, here, OWN)
    assert found(tmp_path, here).is_own
    write_prices(path, {"gpu": "NVIDIA H200"}, SERVED, OWN)
    assert path.read_text().count("[[prices]]") == 1
    assert found(tmp_path).is_own


def entry(**changed):
    values = SERVED.key | {
        "format": "nvfp4", "rows": [1, 4], "context_tokens": [1024], "chain_ms": [[5.0, 6.0]],
        "steps": [1], "draft_ms": [0.5], "source": "somewhere",
    }  # fmt: skip
    return prices_toml(MEASURED, [values | changed])


def test_the_smallest_entry_is_sound(tmp_path, path):
    path.parent.mkdir()
    path.write_text(entry())
    assert found(tmp_path).is_own


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe", "utf-8"),
        ("not toml", "Expected"),
        ("a = " + "[" * 100_000, "nested too deep"),
        ("#" * (1 << 20) + "#", "longer than 1.0 MB"),
        ("", "no [measured]"),
        ("prices = [3]\n[measured]\n", "an entry is no table"),
        (entry(verify_ms=[1.0]), "a key 'verify_ms', which there is not"),
        (entry(source=None), "an entry has no source"),
        (entry(rows=[4, 1]), "rows is [4, 1]"),
        (entry(rows=[1, 33]), "rows is [1, 33]"),
        (entry(rows=[]), "rows is []"),
        (entry(rows="14"), "rows is 14"),
        (entry(context_tokens=[1024.5]), "context_tokens is"),
        (entry(chain_ms=[[5.0, 10**400]]), "chain_ms is"),
        (entry(chain_ms=[[5.0]]), "chain_ms is not of 1 contexts by 2 rows"),
        (entry(chain_ms=[]), "chain_ms is []"),
        (entry(chain_ms=[[5.0, -6.0]]), "chain_ms is"),
        (entry(chain_ms=[[5.0, True]]), "chain_ms is"),
        (entry().replace("6.0", "nan"), "chain_ms is"),
        (entry().replace("6.0", "inf"), "chain_ms is"),
        (entry(chain_ms=3), "chain_ms is"),
        (entry(tree_ms=[[5.0, 6.0], [7.0, 8.0]]), "tree_ms is not of 1 contexts by 2 rows"),
        (entry(draft_ms=[]), "draft_ms has not as many values as steps"),
        (entry(steps=[8]), "steps is [8]"),
        (entry(parameters="many"), "parameters is many"),
        (entry(formats=["nvfp4"]), "formats is"),
        (entry(estimated=7), "estimated is 7"),
        (entry(block_ms=1.0), "a key 'block_ms', which there is not"),
    ],
)
def test_a_damaged_file_is_a_sentence_and_the_shipped_table_serves(tmp_path, path, content, why):
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    got = found(tmp_path)
    assert got.table == shipped_prices("sm_90", "nvfp4")
    assert f"{path} is not used: " in got.notice
    assert why in got.notice
    assert len(got.notice) < 600


def test_a_folder_in_the_place_of_a_file_is_a_sentence(tmp_path, path):
    path.mkdir(parents=True)
    assert "no plain file" in found(tmp_path).notice


def test_a_damaged_file_is_kept_beside_the_new_one(tmp_path, path):
    path.parent.mkdir()
    path.write_text("not toml")
    backup = write_prices(path, MEASURED, SERVED, OWN)
    assert backup is not None
    assert backup.read_text() == "not toml"
    assert found(tmp_path).is_own
    assert json.loads(json.dumps(SERVED.key)) == SERVED.key
