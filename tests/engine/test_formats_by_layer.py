"""Mixed files tell what each layer runs, in as few words as they allow."""

from engine.formats_by_layer import formats_by_layer, formats_of_folder
from tests.engine.model.checkpoints import TINY
from tests.engine.model.layouts import write_layout


def told(stored) -> list[str]:
    return [one.sentence for one in formats_by_layer(TINY, stored)]


def test_one_format_a_part_is_one_word_a_part(tmp_path):
    folder = write_layout(tmp_path / "model", "modelopt")
    assert [one.sentence for one in formats_of_folder(folder)] == [
        "mlp nvfp4", "delta e4m3_row", "attention e4m3_row", "head nvfp4",
    ]  # fmt: skip


def test_layers_that_differ_are_told_as_runs(tmp_path):
    folder = write_layout(tmp_path / "model", "compressed")
    first = formats_of_folder(folder)[0]
    assert first.sentence == "mlp nvfp4 in layers 0 to 2, e4m3_row in layer 3"
    assert first.runs == (("nvfp4", 0, 2), ("e4m3_row", 3, 3))


def test_matrices_of_a_layer_that_differ_are_told_by_name():
    said = told(lambda name, _: "bf16" if name.endswith("in_proj_z.weight") else "fp8_block")
    assert said == [
        "mlp fp8_block", "delta.qkv fp8_block", "delta.z bf16", "delta.out fp8_block",
        "attention fp8_block", "head fp8_block",
    ]  # fmt: skip


def test_neighbours_are_layers_that_have_such_a_matrix():
    said = told(lambda name, _: "nvfp4" if name.startswith("layers.2.") else "bf16")
    assert said[1] == "delta bf16 in layers 0 to 1, nvfp4 in layer 2"
