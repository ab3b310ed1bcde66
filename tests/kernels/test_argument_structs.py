"""What a launch passes and what device code reads have the same fields, in the same order."""

import ctypes
import re
from importlib import import_module
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
TYPES = {"int": ctypes.c_int, "long long": ctypes.c_longlong, "float": ctypes.c_float}
NAMED = re.compile(r"`(\w+)` of (\S+), field for field")


def structures():
    """Every structure of the launches, by the struct that its docstring names."""
    for path in sorted(KERNELS.rglob("*.py")):
        if "field for field" in path.read_text():
            module = import_module(".".join(path.relative_to(KERNELS.parent).with_suffix("").parts))
            for one in vars(module).values():
                is_own = isinstance(one, type) and one.__module__ == module.__name__
                if is_own and "field for field" in (one.__doc__ or ""):
                    found = NAMED.match(one.__doc__)
                    assert found, f"{one.__name__} does not say which struct of which file it is"
                    yield found[1], path.parent / found[2], one


STRUCTURES = list(structures())
OWN = {name: one for name, _, one in STRUCTURES}


def declared(name, path):
    """Fields of a struct: names with what ctypes calls their types, those of its base left out."""
    text = re.sub(r"//.*", "", path.read_text())
    body = re.search(rf"struct {name}\b[^{{;]*{{(.*?)\n}};", text, re.DOTALL)[1]
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        kind, *names = re.match(r"((?:const )?[\w ]+?[ *]+)(\w+(?:, \w+)*)$", declaration).groups()
        for one in names[0].split(", "):
            kind = kind.removeprefix("const ").strip()
            yield one, ctypes.c_void_p if kind.endswith("*") else TYPES.get(kind) or OWN[kind]


def test_every_family_with_launches_in_cuda_has_its_structures_here():
    folders = {path.parent.name for _, path, _ in STRUCTURES}
    assert folders >= {path.parent.name for path in KERNELS.rglob("*.cu")}


@pytest.mark.parametrize(
    "number", range(len(STRUCTURES)), ids=lambda at: STRUCTURES[at][2].__name__
)
def test_fields_agree(number):
    name, path, structure = STRUCTURES[number]
    assert list(declared(name, path)) == [tuple(field) for field in structure._fields_]
