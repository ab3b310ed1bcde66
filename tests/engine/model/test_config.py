"""config.json and generation_config.json: fall-back values, refusals, stop ids."""

import json
from pathlib import Path

import pytest

from engine.errors import CheckpointError
from engine.model.config import SHAPE_27B, SHAPE_DEMO, hybrid_layers
from engine.model.config_file import read_config
from engine.model.generation import read_generation
from tests.engine.model.checkpoints import TINY, config_fields

LEAST = {
    "model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584,
    "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2,
}  # fmt: skip


def write(folder: Path, data: object, name: str = "config.json") -> Path:
    (folder / name).write_text(data if isinstance(data, str) else json.dumps(data))
    return folder


def test_a_written_config_reads_back(tmp_path):
    assert read_config(write(tmp_path, config_fields(TINY))) == TINY


def test_the_named_shapes_read_back(tmp_path):
    for shape in (SHAPE_27B, SHAPE_DEMO):
        fields = {**config_fields(shape), "max_position_embeddings": shape.max_position_embeddings}
        assert read_config(write(tmp_path, fields)) == shape


def test_fields_left_out_take_the_reference_classes_values(tmp_path):
    config = read_config(write(tmp_path, LEAST))
    assert config.layer_kinds == hybrid_layers(24, 4)
    assert (config.head_dim, config.rotary_dim) == (256, 64)
    assert (config.num_key_heads, config.num_value_heads) == (16, 32)
    assert (config.conv_width, config.rms_norm_eps, config.rope_theta) == (4, 1e-6, 1e7)
    assert (config.vocab_size, config.num_mtp_layers) == (248320, 0)


def test_values_of_the_outer_level_serve_where_the_text_part_has_none(tmp_path):
    outer = {
        "model_type": "qwen3_5", "text_config": LEAST, "tie_word_embeddings": True,
        "eos_token_id": 5, "quantization_config": {"quant_method": "fp8"},
    }  # fmt: skip
    config = read_config(write(tmp_path, outer))
    assert config.tie_word_embeddings
    assert config.eos_ids == (5,)
    assert config.quantization == "fp8"


REFUSED = {
    "mixture of experts": ({"model_type": "qwen3_5_moe_text"}, "a mixture of experts"),
    "experts": ({"num_experts": 128}, "no experts"),
    "another model": ({"model_type": "llama"}, "another kind of model"),
    "no type": ({"model_type": None}, "another kind of model"),
    "no size": ({"hidden_size": None}, "'hidden_size' is 'None'"),
    "size is text": ({"hidden_size": "1024"}, "'hidden_size' is '1024'"),
    "size is true": ({"hidden_size": True}, "'hidden_size' is 'True'"),
    "size is zero": ({"vocab_size": 0}, "'vocab_size' is '0'"),
    "size is negative": ({"num_hidden_layers": -4}, "'num_hidden_layers'"),
    "absurd size": ({"hidden_size": 1 << 60}, "'hidden_size'"),
    "absurd depth": ({"num_hidden_layers": 100_000}, "at most 1024 layers"),
    "heads do not divide": ({"num_key_value_heads": 3}, "do not divide among 3 KV heads"),
    "value heads do not divide": ({"linear_num_value_heads": 17}, "do not divide among 16 key"),
    "layer list too short": ({"layer_types": ["full_attention"]}, "24, one a layer"),
    "layer kind": ({"layer_types": ["mamba"] * 24}, "'layer_types' is 'mamba'"),
    "yarn": ({"rope_parameters": {"rope_type": "yarn"}}, "'rope_type' is 'yarn'"),
    "yarn, as older configs write it": ({"rope_scaling": {"type": "yarn"}}, "'type' is 'yarn'"),
    "gate of another kind": ({"output_gate_type": "relu"}, "'output_gate_type' is 'relu'"),
    "odd rotation": ({"head_dim": 12}, "is not even"),
    "eps": ({"rms_norm_eps": 0.0}, "'rms_norm_eps'"),
    "activation": ({"hidden_act": "gelu"}, "'hidden_act' is 'gelu'"),
    "bias": ({"attention_bias": True}, "'attention_bias'"),
    "no gate": ({"attn_output_gate": False}, "'attn_output_gate'"),
    "many MTP layers": ({"mtp_num_hidden_layers": 3}, "one is the most"),
    "stop id": ({"eos_token_id": 1 << 20}, "outside the vocabulary"),
    "stop id is text": ({"eos_token_id": "x"}, "a token id"),
    "NaN": ({"rope_theta": float("nan")}, "'rope_theta'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_config_that_cannot_run_is_refused_by_field(tmp_path, case: str):
    changed, says = REFUSED[case]
    with pytest.raises(CheckpointError) as caught:
        read_config(write(tmp_path, {**LEAST, **changed}))
    assert says in str(caught.value)
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', '{"a": 1, "a": 2}', "[" * 200_000])
def test_a_config_that_is_no_json_object_is_refused(tmp_path, text: str):
    with pytest.raises(CheckpointError, match="config.json"):
        read_config(write(tmp_path, text))


def test_a_config_of_absurd_length_is_refused_unread(tmp_path):
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(CheckpointError, match="no such file needs more"):
        read_config(tmp_path)


def test_stop_ids_come_from_both_files_together(tmp_path):
    data = {
        "eos_token_id": [7, 3],
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.9,
        "do_sample": True,
    }
    write(tmp_path, data, "generation_config.json")
    generation = read_generation(tmp_path, TINY)
    assert generation.stop_ids == (3, 7)
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.7, 20, 0.9)


def test_a_checkpoint_that_does_not_sample_is_greedy(tmp_path):
    write(tmp_path, {"do_sample": False, "temperature": 0.7}, "generation_config.json")
    assert read_generation(tmp_path, TINY).sampling.temperature == 0.0


def test_no_generation_config_leaves_the_configs_ids(tmp_path):
    assert read_generation(tmp_path, TINY).stop_ids == (3,)


@pytest.mark.parametrize("data", [{"eos_token_id": 160}, {"top_p": 2}, {"temperature": "hot"}])
def test_impossible_generation_values_are_refused(tmp_path, data: dict):
    write(tmp_path, data, "generation_config.json")
    with pytest.raises(CheckpointError, match="generation_config.json"):
        read_generation(tmp_path, TINY)
