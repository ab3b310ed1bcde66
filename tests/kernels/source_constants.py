"""Evaluate the integer constants of CUDA sources, as a compiler does for a set of macros."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_DECLARED = re.compile(r"^constexpr (?:int|bool) (.+?);", re.MULTILINE)
_CHOICE = re.compile(r"\(([^()]* \? [^()]*)\)")
_DIVISION = re.compile(r"(?<!/)/(?!/)")
"""Not one that is Python's already, of a part that was turned before."""


def constants(chosen: Mapping[str, int], paths: Iterable[Path]) -> dict[str, int]:
    """Return names with values: those chosen, and what the sources make of them, in order.

    Args:
        chosen: macros, and values of what the sources take from elsewhere.
        paths: sources whose constants stand at the beginning of a line.
    """
    names = dict(chosen)
    for path in paths:
        for declared in _DECLARED.findall(path.read_text()):
            for one in re.split(r", (?=\w+ = )", declared):
                name, expression = one.split(" = ", 1)
                names[name] = value_of(expression, names)
    return names


def value_of(expression: str, names: Mapping[str, int]) -> int:
    """Evaluate a C expression of integers."""
    return int(eval(_in_python(expression), {}, dict(names)))


def _in_python(expression: str) -> str:
    """Turn a C expression of integers into Python: conditions, divisions, `or` and `and`."""
    while inner := _CHOICE.search(expression):
        chosen = _in_python(inner[1])
        expression = f"{expression[: inner.start()]}({chosen}){expression[inner.end() :]}"
    if " ? " in expression:
        condition, rest = expression.split(" ? ", 1)
        first, second = rest.split(" : ", 1)
        return f"(({_in_python(first)}) if ({_in_python(condition)}) else ({_in_python(second)}))"
    expression = _DIVISION.sub("//", expression)
    return expression.replace("||", " or ").replace("&&", " and ")
