"""What only a GPU reaches of the launchers runs to its end here, on one that counts launches."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("launch_script.py")
ON_EVERY_GPU = {
    "add_norm", "attention_prep_kernel", "best_kernel", "combine", "compact", "conv_fold_kernel",
    "conv_gates_kernel", "conv_prefill_kernel", "delta_fold", "delta_prefill_chunk",
    "delta_prefill_walk", "delta_walk", "embed_kernel", "expand_e4m3_kernel",
    "expand_nvfp4_kernel", "gated_rms_norm_kernel", "middle_kernel", "rms_norm_kernel",
    "silu_mul_kernel", "skinny", "top_of_row_kernel", "verify", "verify_codes", "widen_kernel",
}  # fmt: skip
ON_AN_H200 = {"conv_rows", "delta_walk_team"}


@pytest.fixture(scope="module", params=["9.0", "12.1"])
def launched(request, run_script) -> tuple[str, dict[str, dict[str, int]]]:
    return request.param, run_script(SCRIPT, request.param)


def test_every_case_of_every_family_is_launched(launched):
    _, found = launched
    assert found["failed"] == {}


def test_kernels_are_those_of_the_gpu(launched):
    capability, found = launched
    kernels = set(found["launches"])
    assert kernels >= ON_EVERY_GPU
    assert kernels & ON_AN_H200 == (ON_AN_H200 if capability == "9.0" else set())


def test_a_launcher_that_calls_what_is_not_there_is_noticed(run_script):
    failed = run_script(SCRIPT, "12.1", "kernels.common.nvrtc:compile_file")["failed"]
    assert failed
    assert all("has no attribute 'compile_file'" in one for one in failed)
