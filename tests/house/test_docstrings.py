"""What a docstring names is there: a caller reads it in the place of the code."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted(
    path
    for folder in ("app", "engine", "kernels", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
Definition = ast.FunctionDef | ast.ClassDef


def definitions(tree: ast.Module) -> Iterator[Definition]:
    return (one for one in ast.walk(tree) if isinstance(one, Definition))


def named(about: Definition, section: str) -> list[str]:
    """What a section of a docstring names, in order."""
    found = re.search(
        rf"^{section}:\n((?:    .*\n?|\n)+)", ast.get_docstring(about) or "", re.MULTILINE
    )
    return re.findall(r"^    \*{0,2}(\w+):", found[1], re.MULTILINE) if found else []


def parameters(about: Definition) -> list[str]:
    """Of a function, or of what makes a class."""
    made = [about, *(one for one in about.body if getattr(one, "name", "") == "__init__")]
    of = next((one.args for one in reversed(made) if isinstance(one, ast.FunctionDef)), None)
    if of is None:
        return []
    every = (*of.posonlyargs, *of.args, *filter(None, [of.vararg]), *of.kwonlyargs)
    names = [one.arg for one in (*every, *filter(None, [of.kwarg]))]
    return [one for one in names if one not in ("self", "cls")]


def held(about: ast.ClassDef) -> set[str]:
    """Whatever an object of a class can be asked for."""
    in_body = (one.target for one in about.body if isinstance(one, ast.AnnAssign))
    set_up = (one for one in ast.walk(about) if isinstance(one, ast.Attribute))
    return {
        *(one.id for one in in_body if isinstance(one, ast.Name)),
        *(one.attr for one in set_up if getattr(one.value, "id", "") == "self"),
        *(one.name for one in about.body if isinstance(one, ast.FunctionDef)),
    }


def strays(body: list[ast.stmt]) -> list[int]:
    """Lines of strings that stand below no constant, field or beginning."""
    return [
        one.lineno
        for before, one in pairwise(body)
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if isinstance(one.value.value, str)
        if not isinstance(before, ast.Assign | ast.AnnAssign) or before.end_lineno != one.lineno - 1
    ]


def faults(source: str) -> list[str]:
    """What docstrings of a module name that is not so."""
    tree = ast.parse(source)
    found = [f"{line}: a string below nothing" for line in strays(tree.body)]
    for one in definitions(tree):
        args, have = named(one, "Args"), parameters(one)
        if args and args != have:
            found.append(f"{one.name}: Args are {args}, the parameters {have}")
        if isinstance(one, ast.ClassDef):
            found += [f"{line}: a string below nothing" for line in strays(one.body)]
            missing = [each for each in named(one, "Attributes") if each not in held(one)]
            found += [f"{one.name} has no {each}" for each in missing]
    return found


@pytest.mark.parametrize("folder", ["app", "engine", "kernels", "scripts"])
def test_docstrings_name_what_is_there_in_its_order(folder):
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in CODE
        if path.is_relative_to(ROOT / folder) and (found := faults(path.read_text()))
    }
    assert not wrong


def function(*args: str) -> str:
    told = "".join(f"        {one}: x.\n" for one in args)
    return f'def f(a, *b, c, **d):\n    """F.\n\n    Args:\n{told}    """\n'


def holder(field: str) -> str:
    told = '    """C.\n\n    Attributes:\n        x: x.\n    """\n'
    return f"class C:\n{told}    {field}: int\n"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("A = 1\nB = 2\n\n'''Of A.'''\n", "4: a string below nothing"),
        ("A = 1\n'''Of A.'''\nB = 2\n'''Of B.'''\n", ""),
        (function("a", "*b", "c", "**d"), ""),
        (function("a"), "f: Args are ['a'], the parameters ['a', 'b', 'c', 'd']"),
        (function("b", "a", "c", "d"), "f: Args are ['b', 'a', 'c', 'd']"),
        (holder("x"), ""),
        (holder("y"), "C has no x"),
    ],
)
def test_a_planted_fault_is_seen(source, fault):
    found = faults(source)
    assert (not found) if not fault else found[0].startswith(fault)
