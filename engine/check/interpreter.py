"""Check one family in Triton's interpreter and print its findings, one JSON line each.

The child process of `engine.check.run`; started with TRITON_INTERPRET=1. The exit code says whether
the run came to its end, not whether it is green.
"""

import sys

from engine.check.run import check_family, to_json
from kernels.common import interpreter
from kernels.common.family import load_families


def main(names: list[str]) -> None:
    """Check the named families."""
    interpreter.install()
    for family in load_families(names):
        for finding in check_family(family, "interpreter"):
            sys.stdout.write(to_json(finding) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
