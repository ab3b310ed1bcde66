"""Prompts, rounds and drafts launch what they shall on a GPU that counts launches."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("launch_script.py")
NUM_DELTA = 3
ENDS = ("embed_kernel", "rms_norm_kernel", "maxima_kernel", "best_kernel", "accept_kernel")
"""What a round of greedy choice launches once: before the first layer, and behind the last."""


@pytest.fixture(scope="module", params=["9.0", "12.1"])
def launched(request, run_script) -> tuple[bool, dict[str, dict[str, dict[str, int]]]]:
    """Whether it is an H200; launches by profile, by what was launched, by kernel."""
    return request.param == "9.0", run_script(SCRIPT, request.param)


def test_everything_is_launched(launched):
    _, found = launched
    failed = {
        f"{profile}, {name}": told
        for profile, steps in found.items()
        for name, told in steps.items()
        if isinstance(told, str)
    }
    assert failed == {}


def of_64_layers(kernels: dict[str, int]) -> int:
    """Launches of the 27B: 16 times these four layers between the ends."""
    ends = sum(kernels[name] for name in ENDS) + 1  # the head's product
    return ends + 16 * (sum(kernels.values()) - ends)


def test_a_round_has_as_few_kernels_as_the_readme_says(launched):
    on_h200, found = launched
    nvfp4 = {rows: of_64_layers(found["nvfp4"][f"{rows} rows"]) for rows in (1, 2, 3, 4, 8, 16)}
    assert nvfp4 == {1: 486, 2: 486, 3: 486, 4: 534, 8: 534, 16: 534}
    wide = 534 if on_h200 else 598  # elsewhere silu x up is launched apart
    assert [of_64_layers(found["nvfp4"][f"{rows} rows"]) for rows in (17, 24, 32)] == [wide] * 3
    assert max(of_64_layers(found["fp8"][f"{rows} rows"]) for rows in (1, 4, 16, 32)) <= 600


def test_tokens_are_drawn_and_accepted_on_the_device(launched):
    _, found = launched
    for steps in found.values():
        assert steps["16 rows"]["best_kernel"] == steps["16 rows"]["accept_kernel"] == 1
        assert steps["16 rows, drawn"]["draw_top_kernel"] == 1
        assert "best_kernel" not in steps["16 rows, drawn"]


def test_delta_layers_of_a_round_go_by_the_kernels_of_their_rows(launched):
    on_h200, found = launched
    convolution, walk = (
        ("conv_rows", "delta_walk_team") if on_h200 else ("conv_gates_kernel", "delta_walk")
    )
    for steps in found.values():
        for rows in (1, 2, 3):
            assert steps[f"{rows} rows"]["mixer_rows"] == NUM_DELTA
        for name in ("4 rows", "32 rows", "a bush of 16"):
            assert "mixer_rows" not in steps[name]
            assert steps[name][convolution] == steps[name][walk] == NUM_DELTA


def test_a_draft_reads_what_is_unread_beside_its_first_step(launched):
    _, found = launched
    for steps in found.values():
        draft = steps["a draft"]
        gated = draft.get("silu_mul_kernel", 0)  # where gate and up do not end in one output
        assert sum(draft.values()) - gated == 56
        assert draft["attention_prep_kernel"] == 4  # once for the rows to append
        assert draft["skinny"] == 3 * 7
