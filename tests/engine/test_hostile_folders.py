"""Folders that somebody made to do harm: each is refused in a sentence, by the door a person uses.

Nothing is allocated for weights, nothing is executed, nothing waits. The many ways in which a
tensor or a scale can be wrong stand in tests/engine/model; here is one of each kind and all that is
no tensor.
"""

import json
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError, EngineError
from engine.locate import choose
from engine.model import loading
from engine.open import open_engine
from engine.profile import load_profiles
from engine.settings.declared import ModelSettings, Settings
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.fakes.model import write_text_files

CONFIG = replace(TINY, vocab_size=320, eos_ids=(302,))
INDEX, SHARD, OTHER = "model.safetensors.index.json", "layers-0.safetensors", "layers-1.safetensors"
GATE = "model.language_model.layers.0.mlp.gate_proj.weight"
E4M3 = torch.float8_e4m3fn
MAX_SECONDS, MAX_BYTES = 10.0, 64 << 20

Break = Callable[[Path], object]


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> Break:
    """Change a JSON file."""

    def break_it(folder: Path) -> None:
        path = folder / name
        data = json.loads(path.read_text()) if path.exists() else {}
        change(data)
        path.write_text(json.dumps(data))

    return break_it


def whole_header(change: Callable[[dict[str, Any]], object]) -> Break:
    """Change a shard's header, whose data stays."""

    def break_it(folder: Path) -> None:
        raw = (folder / SHARD).read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + size])
        header.pop("__metadata__", None)
        change(header)
        write_header(folder, json.dumps(header).encode(), raw[8 + size :])

    return break_it


def entry(change: Callable[[dict[str, Any]], object]) -> Break:
    """Change the first tensor's entry in a shard's header."""
    return whole_header(lambda header: change(min(header.values(), key=offset_of)))


def overlap(header: dict[str, Any]) -> None:
    """Let one norm lie where another does."""
    first, second = [one for one in header.values() if one["shape"] == [TINY.hidden_size]][:2]
    second["data_offsets"] = first["data_offsets"]


def offset_of(one: dict[str, Any]) -> int:
    return one["data_offsets"][0]


def write_header(folder: Path, header: bytes, data: bytes = b"") -> None:
    (folder / SHARD).write_bytes(len(header).to_bytes(8, "little") + header + data)


def tensors(**changed: torch.Tensor | None) -> Break:
    """Write the weights anew, some in another form or, as None, left out."""

    def break_it(folder: Path) -> None:
        form = random_tensors(CONFIG)
        for name, one in changed.items():
            form.pop(name, None)
            if one is not None:
                form[name] = one
        write_checkpoint(folder, CONFIG, tensors=form)

    return break_it


def instead(name: str, make: Callable[[Path], object]) -> Break:
    """Put something else in the place of a file."""

    def break_it(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return break_it


def sparse(num_bytes: int) -> Callable[[Path], object]:
    return lambda path: (path.touch(), os.truncate(path, num_bytes))


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def places(file_name: object) -> Break:
    """Have the index place a tensor in a file."""
    return edited(INDEX, lambda index: index["weight_map"].update({GATE: file_name}))


def text(**fields: object) -> Break:
    """Change fields of the config's text part."""
    return edited("config.json", lambda config: config["text_config"].update(fields))


def vocabulary(**parts: object) -> Break:
    return edited("tokenizer.json", lambda one: one.update(parts))


def split_by(pattern: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def parts_beside_nothing(folder: Path) -> None:
    (folder / "config.json").unlink()


HOSTILE: dict[str, tuple[Break, str]] = {
    # files that are none
    "config.json is a pipe": (instead("config.json", os.mkfifo), "config.json"),
    "config.json never ends": (instead("config.json", endless), "holds no config.json"),
    "the index is a pipe": (instead(INDEX, os.mkfifo), "no plain file"),
    "the index never ends": (instead(INDEX, endless), "no plain file"),
    "a shard is a pipe": (instead(SHARD, os.mkfifo), "is missing"),
    "a shard never ends": (instead(SHARD, endless), "is missing"),
    "a shard links to itself": (instead(SHARD, lambda path: path.symlink_to(path)), "is missing"),
    "a shard is a folder": (instead(SHARD, Path.mkdir), "is missing"),
    "a shard links to a secret": (
        instead(SHARD, lambda path: path.symlink_to("/etc/passwd")), "truncated"),
    "the only file is a pipe": (
        lambda folder: [one.unlink() for one in (folder / INDEX, folder / OTHER)]
        and instead(SHARD, os.mkfifo)(folder), "no plain file"),
    "the tokenizer is a pipe": (instead("tokenizer.json", os.mkfifo), "no plain file"),
    "the tokenizer never ends": (instead("tokenizer.json", endless), "no plain file"),
    "the template never ends": (instead("chat_template.jinja", endless), "no plain file"),
    "generation_config.json is a pipe": (
        instead("generation_config.json", os.mkfifo), "no plain file"),
    # files that are too large
    "a config of gigabytes": (instead("config.json", sparse(8 << 30)), "needs more than"),
    "an index of gigabytes": (instead(INDEX, sparse(8 << 30)), "needs more than"),
    "a tokenizer of gigabytes": (instead("tokenizer.json", sparse(8 << 30)), "needs more than"),
    "a template of gigabytes": (instead("chat_template.jinja", sparse(8 << 30)), "needs more than"),
    "a shard of terabytes": (
        lambda f: os.truncate(f / SHARD, 1 << 42), "bytes belong to no tensor"),
    "a shard of nothing but zeros": (instead(SHARD, sparse(1 << 42)), "does not read as JSON"),
    "a header longer than its file": (
        lambda f: (f / SHARD).write_bytes((1 << 63).to_bytes(8, "little") + b"{}"), "truncated"),
    "a header of gigabytes": (
        instead(SHARD, lambda path: sparse(8 << 30)(path) and _declare(path, 4 << 30)),
        "declares a header of"),
    # an index that leads elsewhere
    "an absolute path": (places("/etc/passwd"), "not a safetensors file of this folder"),
    "a parent path": (places("../layers-0.safetensors"), "not a safetensors file"),
    "a path below": (places("a/b.safetensors"), "not a safetensors file"),
    "a path of Windows": (places("..\\x.safetensors"), "not a safetensors file"),
    "a name that no system takes": (places("a" * 300 + ".safetensors"), "not a safetensors file"),
    "a name with a null": (places("a\0.safetensors"), "not a safetensors file"),
    "a name that moves the cursor": (places("\x1b[2J.safetensors"), "not a safetensors file"),
    "a name that is no text": (places(["layers-0.safetensors"]), "not a safetensors file"),
    "an index that names a tensor twice": (
        lambda f: (f / INDEX).write_text('{"weight_map": {"a": "x", "a": "y"}}'), "'a' twice"),
    # headers that lie
    "a tensor named twice": (lambda f: write_header(f, b'{"a": {}, "a": {}}'), "'a' twice"),
    "a header nested without end": (
        lambda f: write_header(f, b'{"a":' + b"[" * 1_000_000), "does not read as JSON"),
    "a size below zero": (entry(lambda one: one.update(shape=[-1, 64])), "impossible shape"),
    "a size that is no number": (entry(lambda one: one.update(shape=["64"])), "impossible shape"),
    "a size beyond all memory": (entry(lambda one: one.update(shape=[1 << 62] * 4)), "which takes"),
    "a thousand axes": (entry(lambda one: one.update(shape=[1] * 1000)), "impossible shape"),
    "offsets below zero": (entry(lambda one: one.update(data_offsets=[-8, 0])), "impossible off"),
    "offsets with a hole before them": (
        entry(lambda one: one.update(data_offsets=[at + 2 for at in one["data_offsets"]])),
        "belong to no tensor"),
    "offsets that overlap": (whole_header(overlap), "overlaps"),
    "a dtype that nobody knows": (entry(lambda one: one.update(dtype="F128")), "unknown dtype"),
    # tensors that are not the model's
    "a wrong shape": (tensors(**{GATE: torch.ones(5, 5).bfloat16()}), "[5, 5], the config calls"),
    "a wrong dtype": (tensors(**{GATE: torch.ones(96, 64, dtype=torch.int64)}), "no layout"),
    "codes without scales": (tensors(**{GATE: torch.ones(96, 64).to(E4M3)}), "no layout"),
    "a scale that is no number": (
        tensors(**{GATE: torch.ones(96, 64).to(E4M3),
                   f"{GATE}_scale": torch.full((96, 1), float("nan"))}), "not finite"),
    "a scale beyond all weights": (
        tensors(**{GATE: torch.ones(96, 64).to(E4M3),
                   f"{GATE}_scale": torch.full((96, 1), 1e36)}), "too large for any weight"),
    "a tensor of somebody else": (tensors(evil=torch.ones(2)), "'evil', which this model does not"),
    "a tensor left out": (tensors(**{GATE: None}), "lacks the tensor"),
    "parts over no release": (parts_beside_nothing, "laid over a release"),
    # configs that ask for everything
    "a billion layers": (text(num_hidden_layers=10**9), "num_hidden_layers"),
    "a width of 10^30": (text(hidden_size=10**30), "hidden_size"),
    "heads of nothing": (text(num_key_value_heads=0), "num_key_value_heads"),
    "a width that is true": (text(hidden_size=True), "hidden_size"),
    "an eps that is no number": (text(rms_norm_eps=float("nan")), "rms_norm_eps"),
    "code to be imported": (
        edited("config.json", lambda one: one.update(
            model_type="evil", auto_map={"AutoModel": "evil.Model"}) or one.pop("text_config")),
        "'model_type' is 'evil'"),
    "a stop id beyond the vocabulary": (
        edited("generation_config.json", lambda one: one.update(eos_token_id=[10**9])),
        "'eos_token_id'"),
    "a temperature without end": (
        edited("generation_config.json", lambda one: one.update(temperature=1e308)), "temperature"),
    # tokenizers
    "a tokenizer of nothing": (
        edited("tokenizer.json", lambda one: one.update(added_tokens=[]) or one["model"].update(
            vocab={}, merges=[])), "empty vocabulary"),
    "ids beyond the model": (
        edited("tokenizer.json", lambda one: one["model"]["vocab"].update(zz=10**6)),
        "where its vocabulary has"),
    "an id that a token has not": (
        edited("tokenizer.json", lambda one: one["added_tokens"][0].update(id=2**31)),
        "where its vocabulary has"),
    "text that is rewritten on the way in": (
        vocabulary(
            normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 999}),
        "normalizer Replace"),
    "a splitting pattern that is none": (
        vocabulary(pre_tokenizer=split_by("((((")), "no tokenizer"),
    # templates
    "a template that is none": (
        lambda f: (f / "chat_template.jinja").write_text("{% for %}"), "chat template failed"),
    "a template that is no text": (
        lambda f: (f / "chat_template.jinja").write_bytes(b"\xff\xfe"), "does not read"),
}  # fmt: skip


def _declare(path: Path, header_bytes: int) -> None:
    with path.open("r+b") as file:
        file.write(header_bytes.to_bytes(8, "little"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise AssertionError("weights were loaded from a folder that must be refused")

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(loading, "_load_tensors", fail)
    return write_text_files(write_checkpoint(tmp_path / "model", CONFIG))


def opened(folder: Path):
    settings = Settings(model=ModelSettings(dir=folder, device="cpu", context_tokens=256))
    return open_engine(choose(settings, load_profiles()), settings, None, threading.Event())


def test_the_folder_is_sound_before_it_is_made_hostile(folder):
    with pytest.raises(AssertionError, match="weights were loaded"):
        opened(folder)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_folder_is_refused_in_a_sentence(folder, kind: str):
    break_it, said = HOSTILE[kind]
    break_it(folder)
    before = sorted(folder.iterdir())
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(EngineError) as refused:
            opened(folder)
        seconds, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value, CheckpointError)
    sentence = str(refused.value)
    assert said in sentence
    assert sentence.rstrip().endswith((".", "?"))
    assert "Traceback" not in sentence
    assert len(sentence) < 1500
    assert seconds < MAX_SECONDS
    assert peak < MAX_BYTES
    assert sorted(folder.iterdir()) == before


def test_there_are_more_than_thirty():
    assert len(HOSTILE) > 30


def test_a_pattern_that_explodes_ends_in_a_sentence_when_text_meets_it(folder):
    from engine.text.tokenizer import Tokenizer

    stages = [split_by("(a+)+$"), {"type": "ByteLevel", "add_prefix_space": False,
                                   "trim_offsets": False, "use_regex": False}]  # fmt: skip
    vocabulary(pre_tokenizer={"type": "Sequence", "pretokenizers": stages})(folder)
    tokenizer = Tokenizer.load(folder, 320)
    with pytest.raises(CheckpointError, match="cannot read this text"):
        tokenizer.encode("a" * 40 + "!", control=False)


def test_padding_and_truncation_that_a_tokenizer_declares_change_no_text(folder):
    from engine.text.tokenizer import Tokenizer

    plain = Tokenizer.load(folder, 320).encode("what is a glacier?", control=False)
    vocabulary(
        padding={"strategy": {"Fixed": 10**7}, "direction": "Right", "pad_to_multiple_of": None,
                 "pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
        truncation={"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    )(folder)  # fmt: skip
    assert Tokenizer.load(folder, 320).encode("what is a glacier?", control=False) == plain


def test_files_that_are_no_weights_are_never_opened(folder, tmp_path):
    """A pickle executes what it holds when it is loaded; nothing looks at one."""
    (folder / "pytorch_model.bin").write_bytes(
        b"cos\nsystem\n(S'touch " + bytes(tmp_path) + b"/x'\ntR."
    )
    (folder / "modeling_evil.py").write_text(f"open({str(tmp_path / 'x')!r}, 'w')")
    save_file({"x": torch.ones(1)}, folder / "unnamed.safetensors")
    with pytest.raises(AssertionError, match="weights were loaded"):
        opened(folder)
    assert not (tmp_path / "x").exists()
