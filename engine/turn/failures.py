"""What may go wrong while a model computes, and how it is told."""

from engine.errors import EngineError
from kernels.common.failures import failures


class LogitsError(EngineError):
    """The model's scores of a position are no numbers."""

    title = "Model"

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"The model computes what is no number: {problem}.",
            "If that comes again, download its files again; 'qwen38 check' proves the kernels.",
        )


def mid_turn_failures() -> tuple[type[Exception], ...]:
    """What a device, a kernel or the model may raise."""
    return EngineError, ArithmeticError, *failures()


def sentence_of(problem: Exception) -> str:
    """What went wrong, for a person; libraries' messages are cut at their first line."""
    if isinstance(problem, EngineError):
        return str(problem)
    first_line = (str(problem).splitlines() or [""])[0]
    return f"The engine failed: {first_line or type(problem).__name__}"
