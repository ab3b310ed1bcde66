"""The menu over the real demo: what it offers, what a switch opens, and that memory comes back."""

import gc
import multiprocessing
import shutil
import threading
import weakref
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.opening import plan, request_of
from app.profile_menu import ProfileMenu, offer_line, rate_text
from engine.errors import CancelledError, CheckpointError, ProfileError
from engine.machine import measure
from engine.types import Message
from tests.engine.model.checkpoints import write_checkpoint
from tests.engine.model.test_overlay import CONFIG, parts, write_parts
from tests.fakes.model import write_text_files

QUESTION = (Message("user", "what is a volcano?"),)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("folders"))
    paths = {f"paths.{name}": folder for name in ("config", "data", "state")}
    return plan({
        **paths, "model.profile": "demo", "sampling.temperature": "0", "sampling.max_tokens": "12",
    })  # fmt: skip


@pytest.fixture
def menu(chosen):
    return ProfileMenu(chosen)


def opened(switch_or_plan):
    return switch_or_plan.open(lambda step: None, threading.Event())


def answer(engine, settings):
    request = replace(request_of(settings, engine.info, QUESTION), max_tokens=12, drafter="off")
    return [one for one in engine.generate(request, threading.Event())][-1].record  # noqa: C416


def test_profiles_whose_files_are_here_come_first_and_the_others_say_what_to_do(menu, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    found = menu.offers(None)
    here = [one.profile.name for one in found if one.is_here]
    assert set(here) == {"demo", "demo-fp8"}
    assert [one.profile.name for one in found[: len(here)]] == here
    for one in found[len(here) :]:
        assert "--model DIR" in one.mend


def test_nothing_is_measured_while_no_model_is_loaded(menu, monkeypatch):
    monkeypatch.setattr(measure, "_fastest", {})
    for one in menu.offers(None):
        assert rate_text(one) == "-"
    menu.switch("demo-fp8", None)
    assert measure._fastest == {}


def test_the_expected_rate_is_bandwidth_over_the_bytes_of_a_round(menu, chosen):
    engine = opened(chosen)
    offer = next(one for one in menu.offers(engine.info) if one.profile.name == "demo")
    engine.close()
    its = offer.expected
    assert its.most_tok_s == engine.info.read_gb_s * 1e9 / its.early_bytes
    assert 0.4 * engine.info.weight_bytes < its.early_bytes < 1.2 * engine.info.weight_bytes


def test_the_same_weights_held_as_stored_take_less_and_answer_the_same(menu, chosen):
    wide = opened(chosen)
    narrow = opened(menu.switch("demo-fp8", wide.info))
    assert narrow.info.weight_bytes < 0.85 * wide.info.weight_bytes
    first, second = (answer(one, chosen.settings) for one in (wide, narrow))
    assert first.token_ids == second.token_ids
    for one in (wide, narrow):
        one.close()


def test_a_closed_engine_gives_its_memory_back(chosen):
    """In a process of its own: what other tests left and freed would be counted with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        held, left, num_bytes, num_alive = alone.submit(memory_of_an_engine, chosen).result()
    assert num_alive == 0
    assert held - left > 0.7 * num_bytes
    assert left < 0.3 * num_bytes


def memory_of_an_engine(chosen):
    """Bytes that an engine holds, bytes that stay, bytes of its weights, its parts that stay."""
    opened(chosen).close()  # what torch keeps for the process is there from now on
    before = resident_bytes()
    engine = opened(chosen)
    answer(engine, chosen.settings)
    held = resident_bytes() - before
    model = engine._machine.model
    parts = [weakref.ref(model), weakref.ref(model.weights.embedding), weakref.ref(engine._memory)]
    num_bytes = engine.info.weight_bytes
    del model
    engine.close()
    return held, resident_bytes() - before, num_bytes, sum(one() is not None for one in parts)


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_load_that_is_given_up_leaves_nothing_behind(menu, chosen):
    engine = opened(chosen)
    gc.collect()
    before = resident_bytes()
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        menu.switch("demo-fp8", engine.info).open(lambda step: cancel.set(), cancel)
    gc.collect()
    assert resident_bytes() - before < 0.3 * engine.info.weight_bytes
    assert isinstance(answer(engine, chosen.settings).text, str)
    engine.close()


def test_missing_files_and_unknown_names_are_refused_in_a_sentence(menu, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    with pytest.raises(CheckpointError, match="'nvfp4' cannot be opened. Give the folder"):
        menu.switch("nvfp4", None)
    with pytest.raises(ProfileError, match="Did you mean 'nvfp4'"):
        menu.switch("nvfp5", None)


def test_part_files_go_back_over_their_release(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    base = write_text_files(write_checkpoint(tmp_path / "fp8", CONFIG, fp8=True))
    overlay = write_parts(tmp_path / "parts", parts())
    paths = {f"paths.{name}": str(tmp_path / name) for name in ("config", "data", "state")}
    first = plan({**paths, "model.dir": str(overlay), "model.base": str(base)})
    menu = ProfileMenu(first)
    engine = opened(menu.switch("nvfp4", None))
    assert (engine.info.path, engine.info.profile) == (str(overlay), "nvfp4")
    engine.close()


def test_a_profile_of_ones_own_names_its_folder(tmp_path, chosen):
    (tmp_path / "profiles").mkdir()
    shipped = Path("profiles/demo.toml").read_text()
    own = shipped.replace('embedded = "demo"', f'folder = "{Path("profiles/demo").absolute()}"')
    (tmp_path / "profiles" / "mine.toml").write_text(own)
    settings = replace(chosen.settings, paths=replace(chosen.settings.paths, config=tmp_path))
    menu = ProfileMenu(replace(chosen, settings=settings))
    assert menu.faulty() == []
    engine = opened(menu.switch("mine", None))
    assert engine.info.profile == "mine"
    assert answer(engine, chosen.settings).text
    engine.close()
    (tmp_path / "profiles" / "mine.toml").write_text(
        shipped.replace('embedded = "demo"', 'folder = "elsewhere"')
    )
    with pytest.raises(CheckpointError, match="elsewhere holds no config.json"):
        menu.switch("mine", None)


def test_what_does_not_read_is_in_the_menu_with_its_reason_and_without_a_rate(tmp_path, chosen):
    shipped = Path("profiles/demo.toml").read_text()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "faulty.toml").write_text(shipped.replace("title", "titles"))
    shutil.copytree("profiles/demo", tmp_path / "model")
    (tmp_path / "model" / "mtp.safetensors").write_bytes(b"cut")
    cut = shipped.replace('embedded = "demo"', f'folder = "{tmp_path / "model"}"')
    (tmp_path / "profiles" / "cut.toml").write_text(cut)
    settings = replace(chosen.settings, paths=replace(chosen.settings.paths, config=tmp_path))
    menu = ProfileMenu(replace(chosen, settings=settings))
    (faulty,) = menu.faulty()
    assert (faulty.name, "Did you mean 'title'?" in faulty.problem) == ("faulty", True)
    offer = next(one for one in menu.offers(None) if one.profile.name == "cut")
    line = offer_line(offer, "demo")
    assert "expected - tok/s, files refused. " in line
    assert "mtp.safetensors is truncated" in line


def test_keys_and_values_in_8_bits_take_less(menu, chosen):
    settings = replace(chosen.settings, model=replace(chosen.settings.model, kv="fp8"))
    plain = {one.profile.name: one.expected.need for one in menu.offers(None)}
    coded = ProfileMenu(replace(chosen, settings=settings)).offers(None)
    for one in (one.expected.need for one in coded):
        assert (plain[one.profile].kv_format, one.kv_format) == ("bf16", "fp8")
        assert one.conversation_bytes < plain[one.profile].conversation_bytes
        assert one.round_bytes < plain[one.profile].round_bytes
