"""Run the kernels of rounds and chunks while a model opens, so that no answer waits for them."""

from collections.abc import Sequence

import torch

from engine.compute_path import KernelError
from engine.draft.draft import Draft
from engine.draft.prices import ROW_CLASSES
from engine.model.chunk import NUM_ROWS
from engine.model.compiling import compile_products
from engine.model.decoder import Model
from engine.turn.choice import TokenChooser
from engine.turn.clock import clock_for
from engine.turn.machine import Machine
from engine.turn.memory import Memory
from engine.turn.verify import Course
from kernels.common.failures import failures


def warm_up(machine: Machine, memory: Memory) -> None:
    """Compile, load and capture what rounds need, so that no answer waits for it.

    It runs in the memory of the conversation to come: what is captured holds its addresses.

    Args:
        machine: its model is loaded for the kernels.
        memory: empty; what runs here leaves its marks on it.

    Raises:
        KernelError: a kernel does not compile, or the driver refuses it.
    """
    model = machine.model
    try:
        if model.device.type == "cuda":
            compile_rounds(model, ROW_CLASSES)
            if machine.dflash is not None:
                compile_products(machine.dflash.drafter.weights, (), ROW_CLASSES)
            run_rounds(machine, memory)
            read_chunks(machine.model, memory)
        memory.forget()
        hidden = model.step(0, memory.state)
        model.logits(hidden)
        if memory.mtp is not None:
            memory.mtp.warm_up(hidden)
        if memory.dflash is not None:
            memory.dflash.warm_up(memory.state.max_tokens)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        model.take_captured()  # nobody waited for these
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


def run_rounds(machine: Machine, memory: Memory) -> None:
    """Run a round of each number of rows that is proposed, with the sampling of most turns."""
    model = machine.model
    sampling, num_ids = model.default_sampling, machine.tokenizer.num_ids
    for num_rows in ROW_CLASSES:
        memory.forget()
        draft, clock = Draft.chain((0,) * (num_rows - 1)), clock_for(model.device)
        course = Course(memory.state, TokenChooser(sampling, num_ids, ()))
        launched = machine.verifier.launch(course, 0, draft, num_rows, clock)
        launched.wait(lambda _token_id: False)


def read_chunks(model: Model, memory: Memory) -> None:
    """Read a chunk of each number of rows that prompts are read with."""
    for num_rows in NUM_ROWS:
        if num_rows <= memory.state.max_tokens:
            memory.forget()
            model.prefill((0,) * num_rows, memory.state)
