"""From a folder to an engine that answers, and every way a folder is refused."""

import json
import threading
from dataclasses import replace

import pytest
import torch

from engine.compute_path import ComputePath
from engine.errors import CancelledError, CheckpointError, SettingsError
from engine.locate import Choice, choose
from engine.machine.cores import num_physical_cores
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.packing import Launching
from engine.notices import notices_of
from engine.open import model_name, open_engine
from engine.profile import load_profiles
from engine.settings.declared import ModelSettings, Settings
from engine.types import LoadProgressed, Message, NoticeRaised, Request, Sampling
from tests.engine.model.checkpoints import TINY, write_checkpoint
from tests.engine.model.layouts import CHOICES, write_layout
from tests.fakes.model import run, write_text_files

CONFIG = replace(TINY, vocab_size=320, eos_ids=(302,))
SETTINGS = Settings(model=ModelSettings(device="cpu", threads=1, context_tokens=256))
HELLO = Request(
    messages=(Message("user", "hello"),), sampling=Sampling(seed=1), max_tokens=8, drafter="auto"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    return write_text_files(write_checkpoint(folder, CONFIG, fp8=True))


def choice(folder, profile="fp8", *, is_demo=False) -> Choice:
    return Choice(folder, load_profiles()[profile], is_demo)


def opened(chosen, settings=SETTINGS, on_progress=None, cancel=None):
    return open_engine(chosen, settings, on_progress, cancel or threading.Event())


def test_an_opened_engine_says_what_it_is_and_answers(checkpoint):
    progress: list[LoadProgressed] = []
    engine = opened(choice(checkpoint), on_progress=progress.append)
    info = engine.info
    assert (info.model, info.profile, info.device) == (checkpoint.name, "fp8", "cpu")
    assert (info.max_context_tokens, info.has_mtp, info.is_demo) == (256, True, False)
    assert info.num_parameters > 0
    assert info.weight_bytes > 0
    assert info.kv_bytes_per_token == 2 * 2 * 64
    assert info.state_bytes == 3 * 4 * 16 * 16 * 4 + 3 * 3 * 128 * 2
    assert info.read_gb_s > 0
    assert info.arithmetic.endswith(" 1t")
    assert progress[-1].num_bytes == progress[-1].total_bytes
    events = run(engine, HELLO)
    record = events[-1].record
    assert (record.error, record.rounds[0].drafter) == ("", "mtp")
    assert record.token_ids == run(engine, HELLO)[-1].record.token_ids
    assert any("held as BF16" in one for one in info.notices)
    assert not any(isinstance(one, NoticeRaised) for one in events)
    engine.close()


def test_keys_and_values_in_8_bits_are_another_arithmetic_and_half_the_bytes(checkpoint):
    settings = replace(SETTINGS, model=replace(SETTINGS.model, kv="fp8"))
    plain, coded = (opened(choice(checkpoint), one) for one in (SETTINGS, settings))
    assert coded.info.kv_bytes_per_token == plain.info.kv_bytes_per_token // 2
    assert coded.info.arithmetic.startswith(f"{plain.info.arithmetic} kv-e4m3-")
    assert coded.info.computes_as != plain.info.computes_as
    again = opened(choice(checkpoint), settings)
    assert again.info.arithmetic == coded.info.arithmetic
    assert any("in 8 bits (e4m3), with scales from" in one for one in coded.info.notices)
    record = run(coded, HELLO)[-1].record
    assert record.arithmetic == coded.info.computes_as
    assert (record.error, bool(record.token_ids)) == ("", True)
    for one in (plain, coded, again):
        one.close()


def test_a_checkpoints_own_scales_of_keys_and_values_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = write_text_files(write_layout(tmp_path / "mine", "compressed", CONFIG))
    settings = replace(SETTINGS, model=replace(SETTINGS.model, dir=folder, kv="fp8"))
    engine = opened(choose(settings, load_profiles()), settings)
    told = " ".join(engine.info.notices)
    assert "in 8 bits (e4m3), with the checkpoint's scales." in told
    assert "scales of keys and values in 8 bits" not in told
    engine.close()


def test_a_profile_that_expects_other_formats_is_told(checkpoint):
    engine = opened(choice(checkpoint, "bf16"))
    notices = engine.info.notices
    said = next(one for one in notices if "expects" in one)
    parts = "mlp fp8_block (12), attention fp8_block (4), delta fp8_block (9), head bf16 (1)"
    assert f"stores {parts}, mtp fp8_block (7) matrices" in said
    assert "'bf16' expects" in said
    assert "head" not in said.partition("expects")[2]
    engine.close()


@pytest.mark.parametrize("layout", CHOICES)
def test_a_quantised_checkpoint_opens_and_says_what_each_part_is(tmp_path, monkeypatch, layout):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = write_text_files(write_layout(tmp_path / "mine", layout, CONFIG))
    settings = replace(SETTINGS, model=replace(SETTINGS.model, dir=folder))
    progress: list[LoadProgressed] = []
    engine = opened(choose(settings, load_profiles()), settings, progress.append)
    assert progress[-1].num_bytes == progress[-1].total_bytes
    events = run(engine, HELLO)
    assert events[-1].record.error == ""
    assert events[-1].record.token_ids
    notices = " ".join(engine.info.notices)
    wider = {
        "qwen bf16": "reads all weights.",
        "qwen fp8": "twice their bytes",
        "rows": "twice their bytes",
    }
    assert wider.get(layout, "up to four times their bytes") in notices
    said = {
        "modelopt": ("mlp nvfp4 (12)", "head nvfp4 (1)", "attention e4m3_row (4)", "mtp bf16 (7)",
                     "profile 'balanced' expects", "26 scales of activations"),
        "compressed": ("mlp nvfp4 (9) and e4m3_row (3)", "head e4m3_row (1)",
                       "9 scales of activations", "2 scales of keys and values in 8 bits"),
        "nvfp4": ("32 scales of activations",),
        "rows": ("profile 'fp8' expects", "mlp e4m3_row (12)"),
    }  # fmt: skip
    for one in said.get(layout, ()):
        assert one in notices
    assert ("expects" in notices) is (layout in ("modelopt", "compressed", "rows"))
    engine.close()


def test_on_a_gpu_nothing_is_held_wider(tmp_path):
    folder = write_layout(tmp_path / "mine", "modelopt", CONFIG)
    checkpoint = open_checkpoint(folder, read_config(folder))
    packed = ComputePath(Launching((9, 0)))
    notices = " ".join(notices_of(choice(folder, "nvfp4"), checkpoint, packed))
    assert "expects" in notices
    assert "mtp nvfp4" in notices.partition("expects")[2]
    assert "BF16, " not in notices


def test_the_context_is_no_longer_than_the_setting(checkpoint):
    engine = opened(choice(checkpoint))
    record = run(engine, replace(HELLO, max_tokens=1000))[-1].record
    assert record.finish_reason in ("context_full", "stop")
    engine.close()


def test_a_stopped_load_says_so(checkpoint):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        opened(choice(checkpoint), cancel=cancel)


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [("tokenizer.json", "no tokenizer.json"), ("chat_template.jinja", "no chat template")],
)
def test_text_files_are_asked_for_before_weights_are_read(tmp_path, missing, sentence):
    folder = write_text_files(write_checkpoint(tmp_path, CONFIG))
    (folder / missing).unlink()
    progress: list[LoadProgressed] = []
    with pytest.raises(CheckpointError, match=sentence):
        opened(choice(folder), on_progress=progress.append)
    assert progress == []


def test_a_checkpoint_without_stop_ids_is_refused(tmp_path):
    folder = write_text_files(write_checkpoint(tmp_path, replace(CONFIG, eos_ids=())))
    with pytest.raises(CheckpointError, match="names no stop token"):
        opened(choice(folder))


def test_a_tokenizer_without_the_stop_token_is_refused(tmp_path):
    folder = write_text_files(write_checkpoint(tmp_path, CONFIG))
    path = folder / "tokenizer.json"
    definition = json.loads(path.read_text())
    definition["added_tokens"] = []
    path.write_text(json.dumps(definition))
    with pytest.raises(CheckpointError, match="the stop token 302 is no token of tokenizer.json"):
        opened(choice(folder))


@pytest.mark.parametrize("template", ["{% for %}", "{{", "{% endif %}"])
def test_a_damaged_template_is_refused_before_weights_are_read(tmp_path, template):
    folder = write_text_files(write_checkpoint(tmp_path, CONFIG), template)
    progress: list[LoadProgressed] = []
    with pytest.raises(CheckpointError, match="The chat template"):
        opened(choice(folder), on_progress=progress.append)
    assert progress == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_told(checkpoint):
    settings = replace(SETTINGS, model=replace(SETTINGS.model, device="cuda"))
    with pytest.raises(SettingsError, match="torch finds no GPU"):
        opened(choice(checkpoint), settings)


def test_names_and_cores(tmp_path):
    snapshot = tmp_path / "models--Qwen--Qwen3.8-27B-FP8" / "snapshots" / "0a1b"
    assert model_name(snapshot) == "Qwen3.8-27B-FP8"
    assert model_name(tmp_path / "mine") == "mine"
    assert num_physical_cores() >= 1
