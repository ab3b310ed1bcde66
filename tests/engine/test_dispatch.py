"""One pure function says which kernel runs, and the engine runs what it says."""

import importlib
import sys
from dataclasses import replace

import pytest
import torch

from engine.compute_path import ComputePath
from engine.dispatch import DeviceFacts, decoding_of, dispatch
from engine.draft.draft import Draft
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.kv_scales import calibrate
from engine.model.packing import Launching
from engine.model.random import random_model
from engine.operations import BETWEEN, OPERATIONS
from engine.profile import load_profiles
from engine.settings.declared import KernelSettings
from engine.turn.choice import TokenChooser
from engine.turn.clock import clock_for
from engine.turn.verify import Course
from engine.types import Sampling

CPU = DeviceFacts("cpu")
HOPPER = DeviceFacts("cuda", (9, 0))
RTX = DeviceFacts("cuda", (12, 0))
SPARK = DeviceFacts("cuda", (12, 1))
OLD = DeviceFacts("cuda", (8, 6), "they need a GPU of compute capability 9.0 or later")
AUTO = KernelSettings()
GPUS = (HOPPER, RTX, SPARK)
ROUND = [one for one in OPERATIONS if not one.endswith("a chunk")]
GATE = "gated norm of a round"
BY_ROWS = (GATE, "multiply gates of a round", "convolve a round", "delta rule of a round")
"""By their rows in one launch or another, of the same bits: the laws of delta and of mixer."""

NAMED = [one for one in OPERATIONS if one not in ("path", "launch", "overlap", "prefill")]
OF_THE_CPU = [one for one in NAMED if one not in BETWEEN]
SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0)


def name(operation, facts, num_rows=1, kernels=AUTO):
    return dispatch(operation, facts, num_rows, kernels).name


@pytest.mark.parametrize("facts", GPUS)
def test_a_gpu_runs_kernels_in_graphs(facts):
    assert name("path", facts) == "kernels"
    assert facts.target in dispatch("path", facts, 1, AUTO).reason
    assert name("launch", facts) == "graph"
    measured = facts.capability == (9, 0)
    assert name("overlap", facts) == ("on" if measured else "off")
    assert name("delta rule of a round", facts, 16) == "delta_walk"
    assert name("delta rule of a chunk", facts, 256) == "delta_prefill"
    assert name("attention of a round", facts, 16) == "attention_verify"
    assert name("attention of a chunk", facts, 256) == "attention_prefill"


def test_targets_are_those_that_kernels_are_compiled_for():
    targets = [one.target for one in (CPU, HOPPER, RTX, SPARK)]
    assert targets == ["cpu", "sm_90a", "sm_120f", "sm_121a"]
    assert "hardware's converter" in decoding_of("nvfp4", SPARK)
    assert "portable" in decoding_of("nvfp4", HOPPER)
    assert "hardware's converter" in decoding_of("fp8_block", HOPPER)  # of e4m3: sm_89 and later
    assert "bf16" in decoding_of("bf16", HOPPER)


def test_a_product_goes_by_its_rows_and_the_gpus_crossovers():
    found = [name("product", HOPPER, rows) for rows in (1, 32, 33, 512, 513)]
    assert found == [*["skinny_linear"] * 2, *["middle_linear"] * 2, "expanded_linear"]
    assert name("product", SPARK, 1024) == "middle_linear"
    assert "513 rows are more than 512" in dispatch("product", HOPPER, 513, AUTO).reason


@pytest.mark.parametrize("facts", [CPU, *GPUS, OLD])
@pytest.mark.parametrize("operation", [one for one in ROUND if one not in BY_ROWS])
def test_no_row_count_of_a_round_changes_the_kernel(operation, facts):
    chosen = {dispatch(operation, facts, rows, AUTO).kernel for rows in range(1, 33)}
    assert len(chosen) == 1


def test_outputs_are_gated_in_the_walk_where_rows_are_many_enough():
    found = [dispatch(GATE, HOPPER, rows, AUTO, "nvfp4").name for rows in (1, 3, 4, 32)]
    assert found == [*["gated_rms_norm"] * 2, *["delta_walk"] * 2]


@pytest.mark.parametrize("operation", BY_ROWS)
def test_few_rows_go_through_a_delta_layer_in_one_launch(operation):
    found = [name(operation, HOPPER, rows) for rows in (1, 3, 4, 32)]
    apart = "conv_gates" if "convolve" in operation or "multiply" in operation else "delta_walk"
    assert found == [*["mixer_rows"] * 2, *[apart] * 2]
    assert dispatch(operation, HOPPER, 1, AUTO, "nvfp4").name != "mixer_rows"


def test_gate_and_up_of_4_bits_and_few_rows_end_in_one_output():
    def found(facts, stored):
        return [dispatch("silu x up", facts, rows, AUTO, stored).name for rows in (1, 16, 17, 512)]

    apart = ["silu_mul"] * 4
    assert found(SPARK, "nvfp4") == [*["skinny_linear"] * 2, *["silu_mul"] * 2]
    assert found(HOPPER, "nvfp4") == [*["skinny_linear"] * 3, "silu_mul"]
    assert found(SPARK, "fp8_block") == found(CPU, "nvfp4") == apart


def test_rows_of_a_round_are_added_and_normed_by_another_build_where_launches_overlap():
    builds = [dispatch("norm", HOPPER, rows, AUTO).build for rows in (1, 32, 33, 1024)]
    assert builds == [*["CUDA C++"] * 2, *["Triton"] * 2]
    assert dispatch("norm", HOPPER, 1, KernelSettings(overlap=False)).build == "Triton"
    assert dispatch("norm", SPARK, 1, AUTO).build == "Triton"


def test_rows_of_a_round_are_convolved_by_another_build_on_a_hopper_where_a_b_are_plain():
    for operation in ("multiply gates of a round", "convolve a round"):
        found = [dispatch(operation, facts, 4, AUTO) for facts in (HOPPER, SPARK)]
        assert [one.name for one in found] == ["conv_gates"] * 2
        assert [one.build for one in found] == ["CUDA C++", "Triton"]
    assert dispatch("convolve a round", HOPPER, 32, AUTO, "nvfp4").build == "Triton"


@pytest.mark.parametrize(
    ("facts", "kernels", "why"),
    [
        (CPU, AUTO, "CPU"),
        (OLD, AUTO, "capability 9.0 or later"),
        (SPARK, KernelSettings("reference"), "'kernels.linear' is 'reference'"),
    ],
)
def test_the_reference_path_says_why(facts, kernels, why):
    for operation in OPERATIONS:
        chosen = dispatch(operation, facts, 1, kernels)
        elementwise = operation == "silu x up" or "norm" in operation
        is_kernel = elementwise and facts.device == "cuda"
        assert (why in chosen.reason) is not is_kernel
        assert chosen.build in (("Triton",) if is_kernel else ("", "torch"))
    assert name("path", facts, kernels=kernels) == "reference"
    assert name("launch", facts, kernels=kernels) == "eager"


def test_switches_are_the_settings():
    switched = KernelSettings(graphs=False, overlap=True)
    assert name("launch", SPARK, kernels=switched) == "eager"
    assert "'kernels.graphs' is off" in dispatch("launch", SPARK, 1, switched).reason
    assert name("overlap", SPARK, kernels=switched) == "on"


def test_fp8_operands_are_a_setting_of_long_prompts():
    fp8 = KernelSettings(prefill="fp8")
    of_4_bits = dispatch("product", HOPPER, 1024, fp8, "nvfp4")
    assert of_4_bits.name == "fp8_prefill_linear"
    assert "as set" in of_4_bits.reason
    assert of_4_bits.build == "library"
    assert dispatch("product", SPARK, 1024, fp8, "nvfp4").build == "Triton"
    assert dispatch("product", HOPPER, 1024, fp8, "bf16").name == "expanded_linear"
    assert dispatch("product", HOPPER, 1024, AUTO, "nvfp4").name == "expanded_linear"
    assert dispatch("product", HOPPER, 32, fp8, "nvfp4").name == "skinny_linear"
    assert [name("prefill", HOPPER, kernels=one) for one in (AUTO, fp8)] == ["bf16", "fp8"]
    assert "less exactly" in dispatch("prefill", HOPPER, 1, fp8).reason
    on_cpu = dispatch("prefill", CPU, 1, fp8)
    assert on_cpu.kernel == "bf16"
    assert "CPU" in on_cpu.reason


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="no operation 'prod'"):
        dispatch("prod", SPARK, 1, AUTO)
    for rows in (0, 33):
        with pytest.raises(ValueError, match=f"1 to 32 rows, not {rows}"):
            dispatch("delta rule of a round", SPARK, rows, AUTO)


def codes_of(facts, operations, num_rows):
    """The code objects of what `dispatch` names, by operation."""
    found = {}
    for operation in operations:
        rows = 64 if operation.endswith("a chunk") else num_rows
        module, _, function = dispatch(operation, facts, rows, AUTO).kernel.rpartition(".")
        found[operation] = getattr(importlib.import_module(module), function).__code__
    return found


def called_while(run):
    seen = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize(
    ("facts", "num_rows", "kv"),
    [(CPU, 2, "bf16"), (HOPPER, 2, "bf16"), (HOPPER, 4, "bf16"), (HOPPER, 4, "fp8")],
)
def test_the_engine_calls_what_is_named_and_nothing_of_the_other_path(facts, num_rows, kv):
    path = ComputePath(Launching((9, 0)) if facts is HOPPER else None)
    formats = load_profiles()["fp8"].formats
    model = random_model(SMALL, formats, device="cpu", packer=path.new_packer())
    if kv == "fp8":
        model.kv_scales = calibrate(model, [range(64)])
    verifier = path.new_verifier(model)
    state = model.new_state(256)

    def a_round(drafted):
        chooser = TokenChooser(Sampling(temperature=0.0), SMALL.vocab_size, ())
        clock = clock_for(torch.device("cpu"))
        course = Course(state, chooser)
        verifier.launch(course, 5, drafted, 9, clock).wait(lambda _: True)

    in_chunk = called_while(lambda: model.prefill(range(64), state))

    def between():
        if facts is HOPPER:
            a_round(Draft.tree((1, 2), (0, 0)))  # a branch that is accepted may leave a gap
        state.snapshot()

    in_round = called_while(lambda: a_round(Draft.chain((1,) * (num_rows - 1))))
    after_round = called_while(between)
    seen = {"a chunk": in_chunk, "a round": in_round}
    named = NAMED if facts is HOPPER else OF_THE_CPU
    here = [one for one in named if kv == "fp8" or one != "widen keys of a chunk"]
    for operation, code in codes_of(facts, here, num_rows).items():
        where = after_round if operation in BETWEEN else seen.get(operation[-7:], in_round)
        assert code in where, operation
    if facts is CPU:  # on a CPU tensor a kernel's own fallback is a reference
        foreign = set(codes_of(HOPPER, NAMED, 4).values()) - set(codes_of(CPU, here, 4).values())
        assert not foreign & (in_chunk | in_round | after_round)
