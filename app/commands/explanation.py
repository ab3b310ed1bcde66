"""``qwen38 doctor --explain``: which kernel runs each operation, as a table."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.paragraph import paragraph
from app.visible import visible

if TYPE_CHECKING:
    from engine.settings.declared import Settings

HEADINGS = {
    "round": "a decode round, 1 to 32 rows",
    "between": "between rounds, where it is due",
    "chunk": "a chunk of prefill",
}
COLUMNS = f"{'times':>5}  {'kernel':<24}{'in':<10}"


def explanation(settings: "Settings", shape: str | None) -> dict[str, Any]:
    """What runs each operation of the model at hand, or of a shape, as JSON values."""
    from engine.explain import decisions, explain_here
    from engine.formats_by_layer import formats_by_layer
    from engine.rehearsal import sentence

    subject, here, explained = explain_here(settings, shape)
    return {
        "subject": subject.title,
        "target": here.facts.target,
        "rehearsal": sentence(),
        "formats": [
            asdict(one) | {"sentence": one.sentence}
            for one in formats_by_layer(subject.config, subject.stored)
        ],
        "decisions": {name: asdict(one) for name, one in decisions(here).items()},
        "operations": [asdict(one) for one in explained],
    }


def lines_of(told: dict[str, Any]) -> Iterator[str]:
    """The table; a reason that the path has given already is not said again."""
    path = told["decisions"]["path"]["reason"]
    yield visible(f"What runs on {told['target']} for {told['subject']}:")
    if told["rehearsal"]:
        yield told["rehearsal"]
    for name, one in told["decisions"].items():
        yield from paragraph(one["reason"], f"{name:<9} {one['kernel']:<10} ", widest=None)
    stored = "; ".join(one["sentence"] for one in told["formats"])
    yield from paragraph(stored, f"{'stored':<9} ", widest=None)
    names = [one["operation"] for one in told["operations"]]
    width = 2 + max(map(len, (*names, *HEADINGS.values())))
    for phase, heading in HEADINGS.items():
        yield ""
        yield f"{heading:<{width}}{COLUMNS}why".rstrip()
        for one in (one for one in told["operations"] if one["phase"] == phase):
            figures = f"{one['times']:>5}  {one['kernel']:<24}{one['build']:<10}"
            reason = "" if one["reason"] == path else one["reason"]
            yield from paragraph(reason, f"{one['operation']:<{width}}{figures}", widest=None)
