"""What a run takes of memory and disk: told, and compared with what is there, before it begins."""

from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from engine.errors import MemoryPlanError, RequestError
from engine.machine.free_memory import available_bytes, shares_memory
from engine.model.config import ModelConfig
from engine.model.footprint import weight_bytes
from engine.model.staging import STAGING_BYTES
from engine.model.tensors import TensorSpec, expected_tensors
from engine.profile import Formats
from engine.quantize.clip import OFFSETS
from engine.quantize.head import ROWS_PER_BLOCK
from engine.quantize.methods import ELEMENTS_PER_BLOCK, needs_inputs
from engine.sizes import size_text
from kernels.linear.formats import NVFP4_GROUP

FORMATS = Formats(mlp="nvfp4", attention="nvfp4", delta="nvfp4", head="e4m3_row", mtp="nvfp4")
"""What every part becomes: the formats of the profile ``nvfp4``.

The MTP head's layer is quantised as the trunk's are, on hidden states of the quantised trunk: what
it proposes changes speed and never text, and its bytes are read for every token that is drafted.
``mtp.fc`` stays in BF16, as releases have it.
"""

SLACK_BYTES = 256 << 20
"""Workspaces of libraries, and what an allocator leaves unused between tensors."""

PROCESS_BYTES = 288 << 20
"""The program itself with its libraries, which is there before a run begins: 252 MB on a CPU."""

FP32 = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """Most bytes at a time: on the device, on the host beside it, and written to disk.

    The program's own, `PROCESS_BYTES`, are told with them, and not asked for again.
    """

    device: int
    host: int
    disk: int

    def told(self, device: str) -> str:
        """The plan in a sentence."""
        beside = self.host + PROCESS_BYTES
        memory = f"{size_text(self.device + beside)} of memory"
        if device != "cpu":
            memory = f"{size_text(self.device)} on the GPU and {size_text(beside)} beside it"
        return (
            f"It takes at most {memory}, the program among it, and {size_text(self.disk)} of disk."
        )


def plan_run(config: ModelConfig, method: str, num_tokens: int, sequence_tokens: int) -> Plan:
    """Count what quantising a model takes.

    Args:
        config: the model's numbers.
        method: one of ``methods.METHODS``.
        num_tokens: of the calibration; 0 where there is none.
        sequence_tokens: of its longest sequence.
    """
    expected = expected_tensors(config)
    work = max(_work_bytes(spec, method) for spec in expected.values() if _is_projection(spec))
    rows = forward = 0
    if needs_inputs(method):
        rows = 2 * num_tokens * config.hidden_size
        forward = _forward_bytes(config, sequence_tokens)
    layer = _layer_bytes(expected) + rows + max(work, forward)
    embedding = 2 * config.vocab_size * config.hidden_size
    head = embedding + embedding // 2 + rows + 4 * FP32 * ROWS_PER_BLOCK * config.hidden_size
    return Plan(
        device=max(layer, head) + SLACK_BYTES,
        host=embedding + 2 * STAGING_BYTES,
        disk=sum(weight_bytes(config, FORMATS).values()),
    )


def expect_room(plan: Plan, device: str, out: Path, num_written: int) -> None:
    """Refuse what does not fit.

    Args:
        plan: of the run.
        device: "cpu" or "cuda".
        out: the folder of the result, which may not exist yet.
        num_written: bytes of it that are on disk already.

    Raises:
        MemoryPlanError: device or host have too little memory free.
        RequestError: the disk has too little room.
    """
    mend = "Close other programs, or give fewer --tokens or a shorter --sequence."
    shared = device == "cpu" or shares_memory(device)
    wanted, free = plan.device + (plan.host if shared else 0), available_bytes(device)
    if wanted > free:
        raise MemoryPlanError(
            f"Quantising needs {size_text(wanted)} of memory and {size_text(free)} are free.",
            mend,
        )
    if not shared and plan.host > (beside := available_bytes("cpu")):
        raise MemoryPlanError(
            f"Quantising needs {size_text(plan.host)} of memory beside the GPU's and "
            f"{size_text(beside)} are free.",
            mend,
        )
    left = max(0, plan.disk - num_written)
    room = disk_usage(next(one for one in (out, *out.absolute().parents) if one.exists())).free
    if left > room:
        raise RequestError(
            f"The result needs {size_text(left)} more and the disk of {out} has "
            f"{size_text(room)} free.",
            "Make room, or give a folder on another disk.",
        )


def _is_projection(spec: TensorSpec) -> bool:
    return spec.matrix and spec.part not in ("small", "head")


def _layer_bytes(expected: dict[str, TensorSpec]) -> int:
    """Bytes of the largest layer in BF16; of the MTP head with what joins its inputs."""
    found: dict[str, int] = {}
    for name, spec in expected.items():
        if name.startswith(("layers.", "mtp.")):
            layer = name.split(".")[1] if name.startswith("layers.") else "mtp"
            found[layer] = found.get(layer, 0) + 2 * spec.num_elements
    return max(found.values())


def _work_bytes(spec: TensorSpec, method: str) -> int:
    """What rounding one matrix takes beside its layer's weights."""
    num_rows, width = spec.shape
    elements, square = num_rows * width, FP32 * width * width
    # codes, scales and values of a layer's matrices, and blocks of them in fp32
    result = 2 * elements + 4 * elements * 5 // 8 + 6 * FP32 * ELEMENTS_PER_BLOCK
    if method == "nearest":
        return result
    if method == "clip":
        return result + 2 * square  # the second moments, and what is added to them
    # second moments, their reverse and its factors; after them moments, inverse and fp32 weights
    candidates = 6 * FP32 * num_rows * NVFP4_GROUP * len(OFFSETS)
    return result + max(4 * square, 2 * square + (FP32 + 4) * elements + candidates)


def _forward_bytes(config: ModelConfig, num_rows: int) -> int:
    """What a sequence takes in a layer, with the second moments that are gathered from it."""
    heads = config.num_value_heads * (config.key_head_dim + config.value_head_dim)
    share = config.num_heads // config.num_kv_heads
    mlp = 2 * 4 * config.intermediate_size
    attention = 2 * (4 * config.query_dim + 4 * config.kv_dim) + 12 * share * num_rows
    delta = 9 * FP32 * heads + 2 * (3 * config.conv_dim + 2 * config.value_dim)
    # rows of the widest inputs in fp32 too, as a CPU adds them
    row = max(mlp, attention, delta) + FP32 * config.intermediate_size + 8 * config.hidden_size
    return num_rows * row + 2 * FP32 * config.intermediate_size**2
