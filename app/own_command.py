"""What a person types to call this very program again."""

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "qwen38"


def own_command() -> str:
    """Its name where the shell finds it by that, else the way to it from the working folder."""
    here = Path(sys.executable).with_name(NAME)
    found = shutil.which(NAME)
    if not here.exists() or (found is not None and Path(found).samefile(here)):
        return NAME
    inside = here.is_relative_to(Path.cwd())
    return shlex.quote(os.path.relpath(here) if inside else str(here))
