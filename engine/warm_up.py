"""Run the kernels of rounds and chunks while a model opens, so that no answer waits for them."""

from collections.abc import Sequence
from itertools import product

import torch

from engine.compute_path import KernelError
from engine.draft.prices import ROW_CLASSES
from engine.graph_classes import GraphClasses
from engine.model.compiling import compile_products
from engine.model.decoder import Model
from engine.turn.choice import TokenChooser
from engine.turn.machine import Machine
from engine.turn.memory import Memory
from engine.turn.verify import Course
from engine.types import Progress, Sampling
from kernels.common.failures import failures


def warm_up(
    machine: Machine,
    memory: Memory,
    classes: GraphClasses,
    sampling: Sampling,
    tell: Progress = lambda _: None,
) -> None:
    """Compile, load and capture what rounds need, so that no answer waits for it.

    It runs in the memory of the conversation to come: what is captured holds its addresses.

    Args:
        machine: its model is loaded for the kernels.
        memory: empty; what runs here leaves its marks on it.
        classes: what is captured.
        sampling: of most turns, whose filters and penalties decide some launches.
        tell: takes a line for each step; may raise to stop.

    Raises:
        KernelError: a kernel does not compile, or the driver refuses it.
        torch.OutOfMemoryError: the device has no room.
    """
    model, classes = machine.model, classes.within(memory.state.max_tokens)
    try:
        if model.device.type == "cuda":
            tell("kernels are compiled")
            compile_rounds(model, classes.rows)
            if machine.dflash is not None:
                compile_products(machine.dflash.drafter.weights, (), ROW_CLASSES)
            run_rounds(machine, memory, classes, sampling, tell)
            read_chunks(machine.model, memory, classes.chunk_rows, tell)
        memory.forget()
        hidden = model.step(0, memory.state)
        model.logits(hidden)
        if memory.mtp is not None:
            tell("drafts are captured")
            memory.mtp.warm_up(hidden, classes.context_tokens)
        if memory.dflash is not None:
            memory.dflash.warm_up(memory.state.max_tokens)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        model.take_captured()  # nobody waited for these
    except torch.OutOfMemoryError:  # no fault of a kernel
        raise
    except failures() as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise KernelError(
            f"The kernels do not run here: {reason}.",
            "Set kernels.linear to 'reference', and tell us what 'qwen38 check' says.",
        ) from None


def compile_rounds(model: Model, row_counts: Sequence[int]) -> None:
    """Compile a model's products for rounds of so many rows, on the current GPU, in threads."""
    heads = [model.weights.head, *([model.mtp.head] if model.mtp is not None else [])]
    compile_products(model.weights, heads, row_counts)


def run_rounds(
    machine: Machine,
    memory: Memory,
    classes: GraphClasses,
    sampling: Sampling,
    tell: Progress = lambda _: None,
) -> None:
    """Run a round of each number of rows and each context that is named.

    The largest first: those that follow find room in the memory of the graphs before them.
    """
    shapes = list(product(reversed(classes.context_tokens), reversed(classes.rows)))
    for number, (context, num_rows) in enumerate(shapes, 1):
        tell(f"rounds are captured, {number} of {len(shapes)}")
        memory.forget()
        course = Course(memory.state, TokenChooser(sampling, machine.tokenizer.num_ids, ()))
        machine.verifier.prepare(course, num_rows, context)


def read_chunks(
    model: Model, memory: Memory, row_counts: Sequence[int], tell: Progress = lambda _: None
) -> None:
    """Read a chunk of each number of rows that is named, the most first as `run_rounds` does."""
    for number, num_rows in enumerate(reversed(row_counts), 1):
        tell(f"chunks are captured, {number} of {len(row_counts)}")
        memory.forget()
        model.prefill((0,) * num_rows, memory.state)
