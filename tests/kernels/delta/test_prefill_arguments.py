"""What delta_prefill takes and refuses, and what it runs on a CPU."""

import pytest
import torch

from kernels.common.compare import different_bits
from kernels.delta.prefill import _check_layout, delta_prefill
from kernels.delta.prefill_problems import advance, prefill_case
from kernels.delta.reference import delta_chunk_reference

NAMES = ("q", "k", "v", "g", "beta", "state")


def drawn(num_rows: int = 5, key_heads: int = 1, heads: int = 3) -> dict[str, torch.Tensor]:
    return prefill_case(num_rows, key_heads, heads).draw(1, "cpu")


def test_a_cpu_runs_the_reference():
    inputs = drawn(70)
    ours, theirs = inputs["state"].clone(), inputs["state"].clone()
    out = torch.full_like(inputs["v"], torch.nan)
    assert advance(inputs, ours, slice(None), out=out) is out
    want = delta_chunk_reference(*(inputs[name] for name in NAMES[:-1]), theirs)
    assert different_bits(out, want, "THE") is None
    assert different_bits(ours, theirs, "HDE") is None


def test_no_token_changes_nothing():
    inputs = drawn()
    state = inputs["state"].clone()
    assert advance(inputs, state, slice(0, 0)).shape == (0, 3, 128)
    assert torch.equal(state, inputs["state"])


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("q", lambda x: x.float(), r"q must be bfloat16 \[T, G, D\], got float32"),
        ("g", lambda x: x.bfloat16(), r"g must be float32 \[T, H\], got bfloat16"),
        ("k", lambda x: x[:3], r"k must be \[T, G, D\] = \[5, 1, 128\], got \[3, 1, 128\]"),
        ("state", lambda x: x[:2], r"state must be \[H, D, E\] = \[3, 128, 128\]"),
        ("v", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), "call .contiguous"),
    ],
)
def test_a_wrong_tensor_is_refused_with_a_sentence(name, change, sentence):
    inputs = drawn()
    inputs[name] = change(inputs[name])
    with pytest.raises((TypeError, ValueError), match=sentence):
        delta_prefill(*(inputs[name] for name in NAMES))


def test_value_heads_that_share_no_key_head_evenly_are_refused():
    inputs = drawn(5, 3, 3)
    inputs |= {name: inputs[name][:, :2] for name in ("q", "k")}
    with pytest.raises(ValueError, match="H = 3 value heads cannot share G = 2 key heads"):
        delta_prefill(*(inputs[name] for name in NAMES))


def layout(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (*(inputs[name] for name in ("q", "k", "v", "state")), torch.empty_like(inputs["v"]))


def test_kernels_refuse_other_widths_and_a_state_with_gaps():
    inputs = drawn()
    narrow = {name: inputs[name][..., :64] for name in ("q", "k", "v")}
    with pytest.raises(ValueError, match="must be 128 wide on a GPU, got D = 64, E = 64"):
        _check_layout(*layout(inputs | narrow))
    inputs["state"] = torch.zeros(3, 128, 256)[..., :128]
    with pytest.raises(ValueError, match="state .* must be contiguous within a head"):
        _check_layout(*layout(inputs))


def test_kernels_refuse_rows_that_16_bytes_do_not_divide():
    inputs = drawn()
    _check_layout(*layout(inputs))
    wide = torch.zeros(5, 1, 140, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"rows of k .* strides \[140, 140, 1\] and .* of 0 bytes"):
        _check_layout(*layout(inputs | {"k": wide[..., :128]}))
    shifted = torch.zeros(5, 1, 144, dtype=torch.bfloat16)[..., 4:132]
    with pytest.raises(ValueError, match="rows of q .* address of 8 bytes beyond"):
        _check_layout(*layout(inputs | {"q": shifted}))
