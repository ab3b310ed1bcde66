"""The demo's files: layout of the FP8 release, tokenizer, template, size, committed questions."""

import json
import sys
from pathlib import Path

import jinja2.sandbox
import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo.export import file_of, stored_name  # noqa: E402
from demo.fp8 import is_fp8  # noqa: E402
from demo.network import Shape, tensor_shapes  # noqa: E402
from demo.questions import held_out  # noqa: E402

PROFILE = ROOT / "profiles" / "demo"


@pytest.fixture(scope="module")
def stored():
    found = {}
    for path in PROFILE.glob("*.safetensors"):
        with safe_open(str(path), "pt") as data:
            found |= {name: (path.name, data.get_tensor(name)) for name in data.keys()}  # noqa: SIM118
    return found


def test_it_is_small():
    assert sum(p.stat().st_size for p in PROFILE.iterdir()) < 25e6


def test_the_index_names_every_tensor(stored):
    index = json.loads((PROFILE / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {name: file for name, (file, _) in stored.items()}
    assert index["metadata"]["total_size"] == sum(t.nbytes for _, t in stored.values())


def test_tensors_have_the_release_s_names_types_and_shapes(stored):
    shapes = tensor_shapes(Shape())
    for short, shape in shapes.items():
        file, tensor = stored[stored_name(short)]
        assert (file, tuple(tensor.shape)) == (file_of(short), shape)
        assert tensor.dtype == (torch.float8_e4m3fn if is_fp8(short) else torch.bfloat16)
        scale = stored.get(stored_name(short) + "_scale_inv")
        assert (scale is not None) == is_fp8(short)
        if scale is not None:
            assert scale[1].dtype == torch.bfloat16
            assert tuple(scale[1].shape) == (shape[0] // 128, shape[1] // 128)
    assert len(stored) == len(shapes) + sum(map(is_fp8, shapes))
    assert sum(n.startswith("mtp.") and not n.endswith("_scale_inv") for n in stored) == 15


def test_every_value_is_finite(stored):
    assert all(bool(torch.isfinite(t.float()).all()) for _, t in stored.values())


def test_half_of_the_questions_name_a_word_that_training_never_asked_about():
    rows = json.loads((PROFILE / "questions.json").read_text("utf-8"))
    assert len({row["question"] for row in rows}) == 60
    assert [held_out(row["question"]) for row in rows] == [not row["seen"] for row in rows]
    assert sum(row["seen"] for row in rows) == 30


def test_the_tokenizer_splits_digits_and_keeps_marks():
    tokenizer = Tokenizer.from_file(str(PROFILE / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 6144
    tokens = tokenizer.encode("<|im_start|>user\n 2026<think>").tokens
    assert [t for t in tokens if t.isdigit()] == ["2", "0", "2", "6"]
    ids = tokenizer.encode("<|im_start|><think>hé 你好</think><|im_end|>").ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>hé 你好</think>"


def test_stop_ids_are_the_end_marks():
    tokenizer = Tokenizer.from_file(str(PROFILE / "tokenizer.json"))
    generation = json.loads((PROFILE / "generation_config.json").read_text())
    names = [tokenizer.id_to_token(i) for i in generation["eos_token_id"]]
    assert names == ["<|im_end|>", "<|endoftext|>"]


def render(messages, **more):
    def refuse(message):
        raise ValueError(message)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = env.from_string((PROFILE / "chat_template.jinja").read_text("utf-8"))
    return template.render(messages=messages, raise_exception=refuse, **more)


def test_the_template_is_qwen_s_without_a_think_block():
    talk = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "  hello\n"},
        {"role": "assistant", "content": "Hi!", "reasoning_content": "hm"},
    ]
    text = render(talk, add_generation_prompt=True, enable_thinking=True, reasoning_effort="low")
    assert text == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
        "<|im_start|>assistant\nHi!<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("roles", [["tool"], ["user", "system"], []])
def test_the_template_refuses_what_it_does_not_know(roles):
    with pytest.raises(ValueError, match=r"role|first|messages"):
        render([{"role": role, "content": "x"} for role in roles])
