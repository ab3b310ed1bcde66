"""A TOML file that a person wrote, whatever it holds."""

import tomllib
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.own_file import NotPlainError, read_own

MEND = "Mend it or move it away."

MAX_BYTES = 4 << 20
"""What a person writes by hand has some kB; a long system prompt may stand in it."""


def read_toml(path: Path, refusal: type[EngineError]) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: a plain file, or a link to one, in UTF-8, with or without the mark of an editor.
        refusal: raised for a file that does not read; the sentence names file and reason.

    Raises:
        FileNotFoundError: there is none.
    """
    try:
        return tomllib.loads(read_own(path, MAX_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except NotPlainError:
        raise refusal(f"{path} is no plain file.", MEND) from None
    except RecursionError:
        raise refusal(f"{path} does not read: it is nested too deep.", MEND) from None
    except OSError as problem:
        raise refusal(f"{path} does not read: {problem.strerror}.", MEND) from None
    except UnicodeDecodeError as problem:
        raise refusal(
            f"{path} does not read: it is no UTF-8 at byte {problem.start}.", MEND
        ) from None
    except tomllib.TOMLDecodeError as problem:
        raise refusal(f"{path} does not read: {problem}.", MEND) from None
    except ValueError:
        raise refusal(
            f"{path} does not read: it holds a number of thousands of digits.", MEND
        ) from None
