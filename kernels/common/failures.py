"""What a kernel may raise that does not compile here, or that the device does not take."""

import sys
from subprocess import SubprocessError


def failures() -> tuple[type[Exception], ...]:
    """Exceptions of torch, of our launches and of Triton, whose own derive from none of Python's.

    Asked for in an ``except`` clause, so that nothing is imported before something failed.
    """
    triton = sys.modules.get("triton.errors")
    own = (triton.TritonError,) if triton is not None else ()
    # Triton's compiler calls others, and lets through what they end with
    return RuntimeError, ValueError, OSError, MemoryError, SubprocessError, *own
