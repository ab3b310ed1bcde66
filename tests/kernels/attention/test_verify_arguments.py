"""What attention_verify and attention_compact cannot take is refused in a sentence."""

import pytest
import torch

from kernels.attention.compact import attention_compact
from kernels.attention.kv_codes import E4M3, KvScales
from kernels.attention.verify import attention_verify
from kernels.attention.verify_launch import _expect_tile, scratch_elements
from kernels.attention.verify_problems import verify_case
from kernels.attention.verify_tile import VerifyTile, row_groups

CASE = verify_case(3, 10, heads=6, groups=1)


def call(**changed):
    inputs = {**CASE.draw(1, "cpu"), **changed}
    return attention_verify(**inputs, max_context=64)


def test_a_call_without_an_output_allocates_one():
    assert call().shape == (3, 6 * 256)


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"q": torch.zeros(3, 6, 256)}, TypeError, "q must be bfloat16"),
        ({"gate": torch.zeros(3, 5, 256, dtype=torch.bfloat16)}, ValueError, "gate must be"),
        (
            {"depths": torch.zeros(2, dtype=torch.int32)},
            ValueError,
            "depths and paths must be int32",
        ),
        ({"paths": torch.zeros(3, 8, dtype=torch.int32)}, ValueError, "pass those of TreeTables"),
        ({"start": torch.zeros(1, dtype=torch.int64)}, TypeError, "start must be int32"),
        ({"keys": torch.zeros(4, 18, 256, dtype=torch.bfloat16)}, ValueError, "must be"),
        ({"out": torch.zeros(3, 7, dtype=torch.bfloat16)}, ValueError, "do not fit 1 KV heads"),
    ],
)
def test_what_does_not_fit_is_refused(changed, error, said):
    with pytest.raises(error, match=said):
        call(**changed)


def test_more_rows_than_a_verify_has_are_sent_to_prefill():
    many = {
        "q": torch.zeros(33, 6, 256, dtype=torch.bfloat16),
        "gate": torch.zeros(33, 6, 256, dtype=torch.bfloat16),
        "depths": torch.zeros(33, dtype=torch.int32),
        "paths": torch.zeros(33, 32, dtype=torch.int32),
    }
    with pytest.raises(ValueError, match="at most 32; call attention_prefill"):
        call(**many)


def test_a_tile_that_does_not_hold_the_rows_is_refused():
    parts = row_groups(16, 6, 90, 8192)
    with pytest.raises(
        ValueError, match="16 rows of 6 heads on sm_90 and numbers of 2 bytes; take"
    ):
        _expect_tile(VerifyTile(5, 1, 1, 3), parts, 6, 90, 2)
    with pytest.raises(ValueError, match="does not fit"):
        _expect_tile(VerifyTile(6, 1, 1, 4), row_groups(8, 6, 121, 8192), 6, 121, 2)
    with pytest.raises(ValueError, match="numbers of 1 bytes"):
        _expect_tile(VerifyTile(6, 1, 1, 3), parts, 6, 90, 1)


def test_a_store_of_codes_wants_its_scales():
    codes, half = torch.zeros(1, 8, 256).to(E4M3), torch.ones(1, dtype=torch.bfloat16)
    with pytest.raises(
        ValueError, match="without scales; expected both bf16 without, or both e4m3"
    ):
        call(keys=codes, values=codes)
    with pytest.raises(ValueError, match="with scales; expected both bf16 without"):
        call(scales=KvScales(torch.ones(1), torch.ones(1)))
    with pytest.raises(ValueError, match=r"scales of values must be contiguous fp32 \[1\]"):
        call(keys=codes, values=codes, scales=KvScales(torch.ones(1), half))


@pytest.mark.usefixtures("on_gpu")
def test_scratch_that_begins_between_two_loads_is_refused(shifted):
    scratch = torch.zeros(scratch_elements(3, 6, 64))
    with pytest.raises(ValueError, match=r"scratch starts at 0x\w+4, expected a multiple of 16"):
        call(scratch=shifted(scratch, 4))


def test_scratch_holds_every_chunks_partials():
    """256 sums in fp16, a power of two for each half of them, a top and a weight."""
    assert 4 * scratch_elements(2, 24, 1024) == 16 * 2 * 24 * (256 * 2 + 2 * 4 + 4 + 4)


def test_compaction_wants_all_the_rows_of_the_table():
    store = torch.zeros(1, 1, 8, 256, dtype=torch.bfloat16)
    one = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(
        ValueError, match=r"rows must be \[32\] = \[32\], got \[4\]; pass pending_rows"
    ):
        attention_compact(store, store, one, one, torch.zeros(4, dtype=torch.int32))
