"""The laws of launches, which only a GPU can try, on a stand-in that keeps the order of sums.

So they run before a GPU is there, and are seen to turn red when launches break them.
"""

from types import SimpleNamespace

import pytest
import torch

from kernels.common import domain, exact_torch, proofs
from kernels.linear import launch_laws, laws, model, skinny, streamed_laws, truth
from kernels.linear.cases import FAMILY
from kernels.linear.drawn import drawn
from kernels.linear.launch_laws import LAUNCH_LAWS
from kernels.linear.problems import FORMATS, product_case, weight_of
from kernels.linear.reference import exact_values
from kernels.linear.streamed_laws import STREAMED_LAWS
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import defaults
from kernels.linear.weight import format_name, num_outputs, padded_inputs

OF_LAUNCHES = (*LAUNCH_LAWS, *STREAMED_LAWS)
CAPABILITY = (9, 0)
PROPERTIES = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=232_448)


def default_for(device, weight, *, paired=False):
    return defaults(
        num_outputs(weight), padded_inputs(weight), format_name(weight), CAPABILITY, paired=paired
    )


class StandIn:
    """skinny_linear on a CPU, slice after slice; with a fault or none."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.values: dict[int, tuple[object, torch.Tensor]] = {}

    def __call__(
        self, x, weight, *, tiles=None, residual=None, paired=False, overlap=False, out=None,
        operands=None, ready=None,
    ):  # fmt: skip
        x = x.float() if operands is None else self.brought(x, operands)
        tiles = default_for(0, weight, paired=paired) if tiles is None else tiles
        rows, parts = 0, []
        for count, tile in tiles.launches(len(x)):
            sums = self.product(x[rows : rows + count], weight, tile)
            if self.fault == "streamed" and tile.is_streamed:
                sums[3, 1] *= 1.01
            if self.fault == "wide launches" and count > 16:
                sums[-1, -1] *= 1.01
            parts.append(sums)
            rows += count
        sums = torch.cat(parts)
        if self.fault == "overlap" and overlap:
            sums[0, 0] = torch.nan
        if out is not None and out.dtype == torch.float32:
            return out.copy_(sums)
        result = sums.bfloat16()
        if paired:
            gate, up = result.chunk(2, dim=1)
            result = exact_torch.silu(gate.float()).bfloat16() * up
        if ready is not None:
            ready.fill(result)
        if residual is not None:
            result = result + residual
        return result if out is None else out.copy_(result)

    def brought(self, x, operands):
        """Take operands where no factor is needed, else rows."""
        blocks, steps = operands.image.shape[:2]
        side_by_side = operands.order - operands.order % 2
        groups, pieces = 128 // (4 * side_by_side), side_by_side // 8
        image = operands.image
        if operands.order % 2:  # matrices: pair, row, lane
            image = image.view(blocks, steps, 4, 4, 8, 4, 2).permute(0, 1, 2, 4, 5, 3, 6)
        apart = image.reshape(blocks, steps, groups, pieces, 8, 4, 8)
        ready = apart.permute(0, 4, 1, 2, 5, 3, 6).reshape(8 * blocks, -1)[: len(x)].float()
        if self.fault == "operands":
            return ready
        found = x.float()
        for begin, end in model.slices(steps):
            inputs = slice(128 * begin, 128 * end)
            most = (
                operands.largest[: len(x), :, 8 * begin : 8 * end].flatten(1).view(torch.bfloat16)
            )
            serves = end > begin and bool((model.range_factor(most) == 1).all())
            found[:, inputs] = ready[:, inputs] if serves else found[:, inputs]
        return found

    def product(self, x, weight, tile):
        held = self.values.get(id(weight))
        if held is None:
            held = self.values[id(weight)] = (weight, exact_values(weight).float())
        total = torch.zeros((len(x), num_outputs(weight)))
        for begin, end in model.slices(padded_inputs(weight) // 128):
            inputs = slice(128 * begin, 128 * end)
            part, factor = x[:, inputs], torch.ones((len(x), 1))
            if format_name(weight) != "bf16" and end > begin:
                factor = model.range_factor(part).float()
                part = (part * factor).half().float()
            sums = [row @ held[1][:, inputs].t() for row in part.split(1)]
            total = total + torch.cat(sums) / factor
        is_other = tile != default_for(0, weight).serving(len(x))
        return total * 1.01 if self.fault == "another tile" and is_other else total


@pytest.fixture
def gpu(monkeypatch):
    """A function that puts a stand-in with a fault in the place of a GPU."""

    def put(fault: str = "") -> None:
        stand_in = StandIn(fault)
        for module in (launch_laws, laws, streamed_laws):
            monkeypatch.setattr(module, "skinny_linear", stand_in)
        monkeypatch.setattr(skinny, "default_for", default_for)
        for module in (launch_laws, streamed_laws):
            monkeypatch.setattr(module, "compile_ahead", list)
        monkeypatch.setattr(launch_laws, "OPERAND_INPUTS", (640, 1280))
        monkeypatch.setattr(launch_laws, "OPERAND_ROWS", (1, 11))
        monkeypatch.setattr(streamed_laws, "STREAMED_SIZES", ((48, 1024),))
        monkeypatch.setattr(streamed_laws, "STREAMED_PAIRS", ((256, 1024),))
        monkeypatch.setattr(streamed_laws, "STREAMED_ROWS", (30,))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *a: CAPABILITY)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *a: PROPERTIES)

        def replayed(calls):
            return SimpleNamespace(replay=lambda: [call() for call in calls])

        monkeypatch.setattr(launch_laws, "capture", replayed)
        monkeypatch.setattr(
            launch_laws, "_swept",
            lambda: [SkinnyProblem(96, 640, "nvfp4", 8), SkinnyProblem(96, 640, "bf16", 16, True)],
        )  # fmt: skip

    return put


BROKEN = {
    "overlap changes no bit, in a graph or out": "overlap",
    "no tile changes a bit": "another tile",
    "activations that stream past change no bit": "streamed",
    "gate and up past which they stream do neither": "streamed",
    "17 to 32 rows are two launches": "wide launches",
    "rows that come as operands have the bits of rows alone": "operands",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_law_holds_and_sees_what_breaks_it(gpu, name):
    law = next(law for law in OF_LAUNCHES if law.name == name)
    gpu()
    assert law.broken("cpu") is None
    gpu(BROKEN[name])
    assert law.broken("cpu") is not None


def test_tiles_of_many_rows_are_tried(gpu, monkeypatch):
    monkeypatch.setattr(launch_laws, "MIDDLE_ROWS", (("nvfp4", 40), ("fp8_block", 33)))
    gpu()
    law = next(law for law in LAUNCH_LAWS if law.name == "default tiles of many rows stay in bound")
    # torch's products of four rows and of forty may differ in bits; only the bound is sure.
    assert "beyond" not in (law.broken("cpu") or "")


def test_every_law_of_launches_is_left_to_a_gpu():
    assert {law.name for law in FAMILY.laws if law.cuda_only} == {law.name for law in OF_LAUNCHES}


@pytest.mark.parametrize("name", FORMATS)
def test_a_kernel_is_held_to_its_model(monkeypatch, name):
    """Sums of other products are beyond the bound of the kernel's own."""
    inputs, weight = drawn(name, 3, 24, 2560, "cpu")

    def with_model(x, weight, *, out):
        return out.copy_(model.skinny_sums(x, weight).value)

    def a_step_late(x, weight, *, out):
        return with_model(torch.cat((x[:, 128:], x[:, :128] * 0), 1), weight, out=out)

    monkeypatch.setattr(laws, "skinny_linear", with_model)
    assert laws._kernel_against_model(inputs, weight) is None
    monkeypatch.setattr(laws, "skinny_linear", a_step_late)
    assert laws._kernel_against_model(inputs, weight) is not None


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("op", ["skinny_linear", "skinny_residual", "skinny_pair", "skinny_logits"])
@pytest.mark.parametrize("values", [domain.NORMAL, *domain.HOSTILE], ids=lambda one: one.name)
def test_the_bound_of_a_gpu_admits_the_model(monkeypatch, name, op, values):
    """The truths of a GPU, whose bounds are those of the kernel, met by the kernel's model."""
    if op == "skinny_pair" and values is domain.HUGE:
        pytest.skip("the product of two huge sums is beyond bf16")
    case = product_case(op, name, 3, 32, 1280, values, cuda_only=False)
    monkeypatch.setattr(truth, "on_skinny_kernel", lambda inputs: True)

    def run(inputs, outputs):
        weight = weight_of(inputs)
        sums = model.skinny_sums(inputs["x"], weight).value
        result = sums if op == "skinny_logits" else sums.bfloat16()
        if op == "skinny_residual":
            result = result + inputs["residual"]
        if op == "skinny_pair":
            gate, up = result.chunk(2, dim=1)
            result = exact_torch.silu(gate.float()).bfloat16() * up
        outputs["out"].copy_(result)

    sound = FAMILY.ops[op]
    seen = type(sound)(run, sound.truth)
    assert proofs.within_tolerance(seen, case, "cpu") is None
    assert proofs.rows_stand_alone(seen, case, "cpu") is None
