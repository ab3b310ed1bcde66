"""Damaged and foreign checkpoints end in a sentence and allocate nothing."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError
from engine.model import loading
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.safetensors_header import MAX_HEADER_BYTES, read_header
from tests.engine.model.checkpoints import (
    TINY,
    random_tensors,
    refused,
    tensors_with,
    write_checkpoint,
)

NAME = "model.language_model.layers.0.mlp.gate_proj.weight"
SHARD = "layers-0.safetensors"


@pytest.fixture(autouse=True)
def _nothing_is_allocated(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("weights were loaded from a checkpoint that must be refused")

    monkeypatch.setattr(loading, "_load_tensors", fail)


def header_of(path: Path) -> tuple[dict, bytes]:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write_raw(path: Path, header: dict | bytes, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


FILE_DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty file": (lambda f: (f / SHARD).write_bytes(b""), "truncated"),
    "seven bytes": (lambda f: (f / SHARD).write_bytes(b"1234567"), "truncated"),
    "truncated shard": (
        lambda f: (f / SHARD).write_bytes((f / SHARD).read_bytes()[:-1]), "truncated"),
    "trailing bytes": (
        lambda f: (f / SHARD).write_bytes((f / SHARD).read_bytes() + b"x"), "belong to no tensor"),
    "missing shard": (lambda f: (f / SHARD).unlink(), "is missing"),
    "header is no JSON": (lambda f: write_raw(f / SHARD, b"{nope", b""), "does not read as JSON"),
    "header is a list": (lambda f: write_raw(f / SHARD, b"[1]", b""), "JSON object"),
    "header nested too deep": (
        lambda f: write_raw(f / SHARD, b'{"a":' + b"[" * 100_000, b""), "does not read as JSON"),
    "header is not UTF-8": (lambda f: write_raw(f / SHARD, b'{"\xff": 1}', b""), "JSON"),
    "name twice": (lambda f: write_raw(f / SHARD, b'{"a": 1, "a": 2}', b""), "'a' twice"),
    "no index, no weights": (
        lambda f: [one.unlink() for one in f.glob("*s*tensors*")], "no weights"),
    "shards without an index": (
        lambda f: (f / "model.safetensors.index.json").unlink(), "no model.safetensors.index.json"),
    "broken index": (
        lambda f: (f / "model.safetensors.index.json").write_text("{"), "does not read as JSON"),
    "index without a map": (
        lambda f: (f / "model.safetensors.index.json").write_text("{}"), "weight_map"),
}  # fmt: skip


@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_a_damaged_file_is_refused(tmp_path, damage: str):
    folder = write_checkpoint(tmp_path / "model")
    break_it, says = FILE_DAMAGES[damage]
    break_it(folder)
    assert says in refused(folder)


@pytest.mark.parametrize("file", ["config.json", "layers-0.safetensors"])
def test_a_file_without_rights_is_not_downloaded_again(tmp_path, monkeypatch, file: str):
    folder, known = write_checkpoint(tmp_path / "model"), os.open

    def guarded(path, *arguments, **options):
        if Path(path).name == file:
            raise PermissionError(errno.EACCES, "Permission denied")
        return known(path, *arguments, **options)

    monkeypatch.setattr(os, "open", guarded)
    said = refused(folder)
    assert f"{file} does not read: Permission denied. Give yourself the right" in said


def test_an_oversized_header_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "big.safetensors"
    with path.open("wb") as file:
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER_BYTES + 100)
    with pytest.raises(CheckpointError, match="declares a header of"):
        read_header(path)


@pytest.mark.parametrize(
    "place", ["../layers-0.safetensors", "/etc/passwd", "a/b.safetensors", "..", "x.bin", 7, "a\\b"]
)
def test_an_index_that_points_elsewhere_is_refused(tmp_path, place):
    folder = write_checkpoint(tmp_path / "model")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"][NAME] = place
    path.write_text(json.dumps(index))
    assert "not a safetensors file of this folder" in refused(folder)


def test_an_index_that_disagrees_with_a_header_is_refused(tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    file = index["weight_map"][NAME]
    index["weight_map"][NAME] = "layers-0.safetensors" if file[7] == "1" else "layers-1.safetensors"
    path.write_text(json.dumps(index))
    assert NAME in refused(folder)
    index["weight_map"][NAME] = file
    index["weight_map"]["model.language_model.ghost"] = file
    path.write_text(json.dumps(index))
    assert "'model.language_model.ghost' is missing from" in refused(folder)


def _overlap(header: dict) -> None:
    first, second = sorted(header, key=lambda name: header[name]["data_offsets"])[:2]
    size = header[second]["data_offsets"][1] - header[second]["data_offsets"][0]
    start = header[first]["data_offsets"][0]
    header[second]["data_offsets"] = [start, start + size]


def _outside(header: dict) -> None:
    entry = max(header.values(), key=lambda entry: entry["data_offsets"])
    entry["data_offsets"] = [one + (1 << 40) for one in entry["data_offsets"]]


ENTRY_DAMAGES: dict[str, tuple[Callable[[dict], object], str]] = {
    "overlap": (_overlap, "overlaps"),
    "outside the file": (_outside, "truncated"),
    "backwards": (
        lambda h: next(iter(h.values())).update(data_offsets=[8, 0]), "impossible offsets"),
    "negative offset": (
        lambda h: next(iter(h.values())).update(data_offsets=[-4, 0]), "impossible offsets"),
    "offsets that do not fit the shape": (
        lambda h: next(iter(h.values())).update(data_offsets=[0, 1]), "which takes"),
    "huge shape": (
        lambda h: next(iter(h.values())).update(shape=[1 << 62, 1 << 62]), "which takes"),
    "sizes too long to print": (
        lambda h: next(iter(h.values())).update(shape=[10**4000] * 2), "impossible shape"),
    "negative size": (lambda h: next(iter(h.values())).update(shape=[-1]), "impossible shape"),
    "true as a size": (lambda h: next(iter(h.values())).update(shape=[True]), "impossible shape"),
    "many axes": (lambda h: next(iter(h.values())).update(shape=[1] * 99), "impossible shape"),
    "unknown dtype": (lambda h: next(iter(h.values())).update(dtype="F7"), "unknown dtype 'F7'"),
    "dtype is a list": (lambda h: next(iter(h.values())).update(dtype=["F32"]), "unknown dtype"),
    "entry is a number": (lambda h: h.update({next(iter(h)): 3}), "unknown dtype"),
}  # fmt: skip


@pytest.mark.parametrize("damage", ENTRY_DAMAGES)
def test_a_damaged_header_is_refused(tmp_path, damage: str):
    folder = write_checkpoint(tmp_path / "model")
    header, data = header_of(folder / SHARD)
    header.pop("__metadata__", None)
    break_it, says = ENTRY_DAMAGES[damage]
    break_it(header)
    write_raw(folder / SHARD, header, data)
    assert says in refused(folder)


GATE = (TINY.intermediate_size, TINY.hidden_size)
E4M3 = torch.float8_e4m3fn
TENSOR_DAMAGES: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "missing tensor": ({NAME: None}, "lacks the tensor 'layers.0.mlp.gate_proj.weight'"),
    "missing MTP tensor": ({"mtp.norm.weight": None}, "lacks the tensor 'mtp.norm.weight'"),
    "foreign tensor": ({NAME + "s": torch.ones(2)}, NAME + "s', which this model does not have"),
    "foreign bias": (
        {NAME.replace("weight", "bias"): torch.ones(96)}, "gate_proj.bias', which this model"),
    "wrong shape": ({NAME: torch.ones(5, 5).bfloat16()}, "[5, 5], the config calls for [96, 64]"),
    "8 bits where none may be": (
        {"model.language_model.norm.weight": torch.ones(64).to(E4M3)}, "has the dtype F8_E4M3"),
    "same tensor under two prefixes": (
        {NAME.replace("language_model.", ""): torch.ones(GATE).bfloat16()}, "again"),
    "a scale of a norm": (
        {"model.language_model.norm.weight_scale": torch.ones(())},
        "'model.language_model.norm.weight_scale', which this model does not have"),
    "input scales of many channels": (
        {NAME.replace("weight", "input_scale"): torch.ones(64)},
        "gate_proj.input_scale', which this model does not have"),
    "an input scale of nothing": (
        {"model.language_model.layers.9.mlp.up_proj.input_scale": torch.ones(())},
        "which this model does not have"),
    "an MLX conversion": (
        {"model.language_model.layers.0.linear_attn.conv1d.weight":
         torch.ones(TINY.conv_dim, 4, 1).bfloat16()}, "MLX conversion"),
}  # fmt: skip


@pytest.mark.parametrize("damage", TENSOR_DAMAGES)
def test_a_tensor_that_does_not_belong_is_refused_by_name(tmp_path, damage: str):
    changed, says = TENSOR_DAMAGES[damage]
    folder = write_checkpoint(tmp_path / "model", tensors=tensors_with(**changed))
    assert says in refused(folder)


def test_a_draft_head_that_stands_in_two_files_is_refused(tmp_path):
    tensors = random_tensors(TINY)
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    extra = {"mtp.fc.weight": tensors["mtp.fc.weight"]}
    save_file(extra, folder / "model_mtp.safetensors")
    assert open_checkpoint(folder, read_config(folder)).has_mtp, "the index has it already"
    trunk = {name: one for name, one in tensors.items() if not name.startswith("mtp.")}
    folder = write_checkpoint(tmp_path / "other", tensors=trunk)
    save_file(extra | {NAME: tensors[NAME]}, folder / "model_mtp.safetensors")
    assert f"model_mtp.safetensors holds '{NAME}', which" in refused(folder)


def test_an_index_that_leaves_the_draft_heads_file_out_finds_it(tmp_path):
    tensors = random_tensors(TINY)
    mtp = {name: one for name, one in tensors.items() if name.startswith("mtp.")}
    trunk = {name: one for name, one in tensors.items() if name not in mtp}
    folder = write_checkpoint(tmp_path / "model", tensors=trunk)
    assert not open_checkpoint(folder, read_config(folder)).has_mtp
    save_file(mtp, folder / "model_mtp.safetensors")
    assert open_checkpoint(folder, read_config(folder)).has_mtp


def test_a_missing_folder_is_refused(tmp_path):
    assert "config.json is missing" in refused(tmp_path / "nowhere")


def test_a_text_only_export_without_mtp_and_in_one_file_is_read(tmp_path):
    tensors = {
        name.replace("model.language_model.", "model."): one
        for name, one in random_tensors(TINY).items()
        if not name.startswith("mtp.")
    }
    folder = write_checkpoint(tmp_path / "model", num_shards=1, tensors=tensors)
    assert not open_checkpoint(folder, read_config(folder)).has_mtp


def test_vision_tensors_are_skipped_whatever_they_are(tmp_path):
    tensors = tensors_with(**{"model.visual.pos_embed.weight": torch.ones(3, dtype=torch.int64)})
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    assert open_checkpoint(folder, read_config(folder)).has_mtp
