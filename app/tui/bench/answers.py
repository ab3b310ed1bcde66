"""Answers that are hard to draw while they grow: a long fence, a long list, a long table."""

from collections.abc import Callable, Mapping
from itertools import count

from app.tui.bench.timed_engine import tokens_of

MESSAGE = (
    "Some text with **bold** words.\n\n- one\n- two\n\n```python\ndef f(x):\n    return x\n```\n"
)
"""A short answer with a bit of everything."""


def _of_length(num_tokens: int, line: Callable[[int], str], before: str, after: str) -> str:
    """Lines until there are so many tokens."""
    lines: list[str] = []
    left = num_tokens - len(tokens_of(before + after))
    for number in count(1):
        if left <= 0:
            break
        lines.append(line(number))
        left -= len(tokens_of(lines[-1]))
    return before + "\n".join(lines) + after


def code(num_tokens: int) -> str:
    """One fenced block."""
    return _of_length(
        num_tokens,
        lambda n: f"    value_{n} = compute(value_{n - 1}, {n}) # step {n}",
        "```python\n",
        "\n```\n",
    )


def bullets(num_tokens: int) -> str:
    """One list."""
    return _of_length(
        num_tokens, lambda n: f"- item {n} of the list, with **bold** and `code` in it", "", "\n"
    )


def table(num_tokens: int) -> str:
    """One table."""
    head = "| name | value | note |\n|---|---|---|\n"
    return _of_length(num_tokens, lambda n: f"| row {n} | {n * 7} | some words here |", head, "\n")


KINDS: Mapping[str, Callable[[int], str]] = {"code": code, "list": bullets, "table": table}
"""What is streamed, by name; each is made with about so many tokens."""
