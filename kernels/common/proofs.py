"""Prove a kernel on one case: bits against the model, error against the truth, rows apart.

Every proof returns None when it holds, else a sentence. Outputs are poisoned with NaN first, so an
element that was never written fails whichever proof looks at it.
"""

import math
from collections.abc import Callable, Iterable

import torch

from kernels.common.capture import capture
from kernels.common.case import Case, Outputs, Tensors
from kernels.common.compare import beyond_tolerance, bits_of, different_bits
from kernels.common.family import Op
from kernels.common.round import MAX_ROWS

SEED = 20261129
"""One seed for all checks: a red case is red again when it is run again."""

Proof = Callable[[Op, Case, str], str | None]


def matches_model(op: Op, case: Case, device: str) -> str | None:
    """Prove the outputs equal, bit for bit, a torch model of the kernel's own order."""
    if op.model is None:
        return None
    inputs = case.draw(SEED, device)
    outputs = run_case(op, case, inputs, device)
    predicted = op.model({name: tensor.cpu() for name, tensor in inputs.items()})
    return _first(different(case, outputs.tensors, predicted)) or outputs.written_outside()


def within_tolerance(op: Op, case: Case, device: str) -> str | None:
    """Prove the outputs lie within the case's bound of the fp64 truth."""
    inputs = case.draw(SEED, device)
    outputs = run_case(op, case, inputs, device)
    return _beyond_truth(op, case, inputs, outputs.tensors) or outputs.written_outside()


def _beyond_truth(op: Op, case: Case, inputs: Tensors, got: Tensors) -> str | None:
    """Say where outputs leave the case's bound, with the truth's own slack, of the fp64 truth."""
    truth = op.truth(inputs)
    for spec in case.outputs:
        slack = truth.get(f"{spec.name}_slack")
        fault = beyond_tolerance(got[spec.name], truth[spec.name], case.tolerance, spec.axes, slack)
        if fault:
            return f"{spec.name}: {fault}"
    return None


def rows_stand_alone(op: Op, case: Case, device: str) -> str | None:
    """Prove a row's bits are those of the row alone, in calls of every row count.

    Up to a round: the call of the first n rows, for every n. Above: the first, middle and last
    row of the whole call.
    """
    inputs, num_rows = case.draw(SEED, device), case.sizes["T"]
    small = num_rows <= MAX_ROWS
    alone = range(num_rows) if small else (0, num_rows // 2, num_rows - 1)
    single = {row: run_rows(op, case, inputs, device, row, row + 1) for row in alone}
    apart = {
        spec.name: torch.cat([single[row][spec.name] for row in alone]) for spec in case.outputs
    }
    for count in range(2, num_rows + 1) if small else (num_rows,):
        together = run_rows(op, case, inputs, device, 0, count)
        kept = [row for row in alone if row < count]
        if all(_same_rows(together[name][kept], rows) for name, rows in apart.items()):
            continue
        for row in kept:
            one = {name: tensor[row : row + 1] for name, tensor in together.items()}
            if fault := _first(different(case, one, single[row])):
                return f"row {row} of a call of {count} rows is not the row alone: {fault}"
    return None


def nan_stays_in_its_row(op: Op, case: Case, device: str) -> str | None:
    """Prove a NaN in one row makes that row NaN and leaves the bits of all others."""
    inputs, row = case.draw(SEED, device), case.sizes["T"] // 2
    clean = run_case(op, case, inputs, device).tensors
    first = case.inputs[0].name
    inputs[first][row].view(-1)[-1] = math.nan
    spoiled = run_case(op, case, inputs, device).tensors
    for name, tensor in spoiled.items():
        if not bool(tensor[row].isnan().any()):
            return f"{name}: a NaN in row {row} of {first} vanished"
        tensor[row] = clean[name][row]
    fault = _first(different(case, spoiled, clean))
    return f"a NaN in row {row} of {first} reached another row: {fault}" if fault else None


def graph_equals_eager(op: Op, case: Case, device: str) -> str | None:
    """Prove a replayed graph writes the bits of the eager call."""
    inputs = case.draw(SEED, device)
    eager, replayed = run_case(op, case, inputs, device), case.poisoned_outputs(device)
    graph = capture([lambda: op.run(inputs, replayed.tensors)])
    for buffer in replayed.buffers.values():
        buffer.fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    return _first(different(case, replayed.tensors, eager.tensors)) or replayed.written_outside()


ARITHMETIC: dict[str, Proof] = {
    "within tolerance of fp64": within_tolerance,
    "rows stand alone": rows_stand_alone,
    "NaN stays in its row": nan_stays_in_its_row,
}
"""Proofs that hold for any build of an op, torch on the CPU included."""

DEVICE_CODE: dict[str, Proof] = {"bits of the model": matches_model} | ARITHMETIC
"""Proofs for device code, in the interpreter or on a GPU."""

CUDA: dict[str, Proof] = DEVICE_CODE | {"graph equals eager": graph_equals_eager}
"""Proofs for device code on a GPU."""


def applies(proof: Proof, op: Op, case: Case) -> bool:
    """Say whether a proof means anything for a case: it is promised, there are rows."""
    if proof is matches_model:
        return op.model is not None
    if proof is rows_stand_alone and not op.rows_alone:
        return False
    return "T" in case.sizes or proof not in (rows_stand_alone, nan_stays_in_its_row)


def different(case: Case, got: Tensors, want: Tensors) -> Iterable[str | None]:
    """Compare all outputs of a case bit for bit, one answer each."""
    for spec in case.outputs:
        yield _named(spec.name, different_bits(got[spec.name], want[spec.name], spec.axes))


def run_case(op: Op, case: Case, inputs: Tensors, device: str) -> Outputs:
    """Run a function on a case's inputs, into poisoned outputs."""
    outputs = case.poisoned_outputs(device)
    op.run(inputs, outputs.tensors)
    return outputs


def run_rows(op: Op, case: Case, inputs: Tensors, device: str, start: int, stop: int) -> Tensors:
    """Run a function on some rows of a case's inputs, into poisoned outputs."""
    rows = {
        spec.name: inputs[spec.name][start:stop] if spec.axes[:1] == ("T",) else inputs[spec.name]
        for spec in case.inputs
    }
    outputs = case.poisoned_outputs(device, {**case.sizes, "T": stop - start}).tensors
    op.run(rows, outputs)
    return outputs


def _same_rows(some: torch.Tensor, rows: torch.Tensor) -> bool:
    """Compare rows with the first of as many others, bit for bit, at one wait for the device."""
    return bool(torch.equal(bits_of(some), bits_of(rows[: len(some)])))


def _named(name: str, fault: str | None) -> str | None:
    return f"{name}: {fault}" if fault else None


def _first(faults: Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)
