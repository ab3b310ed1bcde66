"""A refusal tells a person what to do: what was expected, or a second sentence."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = (
    *("CheckpointError", "MemoryPlanError", "OutputError", "OutputClosedError", "ProfileError"),
    *("RequestError", "SessionError", "SettingsError", "TemplateError", "TraceError"),
)
EXPECTS = ("expected ", " to ", "declared twice", "not made by", "does not end")
"""Words of a sentence that says by itself what was expected, or is of the program's own making."""


def refusals():
    """Every refusal without a second sentence, by its place and its source."""
    for path in (*ROOT.glob("engine/**/*.py"), *ROOT.glob("app/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else None
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in OURS:
                continue
            if len(call.args) == 1 and not isinstance(call.args[0], ast.Name):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(call.args[0])}"


def test_every_refusal_says_what_was_expected_or_how_to_mend_it():
    bare = [one for one in refusals() if not any(word in one for word in EXPECTS)]
    assert bare == []
