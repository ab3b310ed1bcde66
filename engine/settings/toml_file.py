"""A TOML file that a person wrote, whatever it holds."""

import tomllib
from pathlib import Path
from typing import Any

from engine.errors import EngineError

MEND = "Mend it or move it away."


def read_toml(path: Path, refusal: type[EngineError]) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: a plain file, or a link to one: a pipe would never answer.
        refusal: raised for a file that does not read; the sentence names file and reason.

    Raises:
        FileNotFoundError: there is none.
    """
    try:
        if not path.is_file() and path.exists():
            raise refusal(f"{path} is no plain file.", MEND)
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise
    except RecursionError:
        raise refusal(f"{path} does not read: it is nested too deep.", MEND) from None
    except OSError as problem:
        raise refusal(f"{path} does not read: {problem.strerror}.", MEND) from None
    except UnicodeDecodeError as problem:
        raise refusal(
            f"{path} does not read: it is no UTF-8 at byte {problem.start}.", MEND
        ) from None
    except ValueError as problem:  # no TOML, or a number of thousands of digits
        raise refusal(f"{path} does not read: {problem}.", MEND) from None
