"""The process that renders chat templates: a template is code from a download.

Run as a file by ``engine.text.template``, isolated from our packages and with an empty environment.
It reads one JSON request a line, {"source": ..., "variables": {...}}, and answers each with one
line: {"text": ...} or {"error": ...}. With null for variables it compiles the template only. A
template sees jinja2's immutable sandbox, and the process cannot take more memory or processor time
than it was granted, nor write a file, nor start another process.
"""

# jinja2 gives the contents of its tables no type.
# pyright: reportUnknownMemberType=false

import json
import math
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY_BYTES = 1 << 30
"""Address space of the process; a 1 MB paste renders in a tenth of it."""

CPU_SECONDS = 20
"""Processor time of one rendering. The engine gives up earlier; this ends a process whose engine
was killed meanwhile."""

GROWTH_CHARACTERS = 1_000_000
"""Characters a rendering may have beyond twice its request, which holds all that was said."""


class GenerationBlock(Extension):
    """``{% generation %}``: marks a model's own words for training; here its body is just text."""

    tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def make_environment() -> ImmutableSandboxedEnvironment:
    """The sandbox with the names that chat templates of Hugging Face expect."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", GenerationBlock],
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as templates expect it: without the HTML escapes of jinja2's own filter."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def raise_exception(message: str) -> None:
    """Let a template refuse a conversation."""
    raise TemplateError(message)


def strftime_now(pattern: str) -> str:
    """Today, in this machine's time zone."""
    return datetime.now().astimezone().strftime(pattern)


def render(environment: ImmutableSandboxedEnvironment, request: dict[str, Any]) -> str:
    """Render a request's template; without variables compile it and return nothing.

    Raises:
        TemplateError: the template is none, or refuses, or its output grows beyond bounds.
    """
    template = environment.from_string(request["source"])
    if request["variables"] is None:
        return ""
    limit = GROWTH_CHARACTERS + 2 * len(json.dumps(request))
    parts: list[str] = []
    for part in template.generate(**request["variables"]):
        limit -= len(part)
        if limit < 0:
            raise TemplateError("its output does not end")
        parts.append(part)
    return "".join(parts)


def confine() -> None:
    """Give up what rendering does not need; systems without such limits keep the sandbox alone."""
    try:
        import resource
    except ImportError:
        return
    limits = {
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    if hasattr(resource, "RLIMIT_NPROC"):
        limits[resource.RLIMIT_NPROC] = 0
    for which, limit in limits.items():
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):
            continue


def grant_time() -> None:
    """Allow `CPU_SECONDS` from here on; the system ends the process beyond."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = math.ceil(time.process_time()) + CPU_SECONDS
    if most == resource.RLIM_INFINITY or until < most:
        resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def serve() -> None:
    """Answer requests until the input ends."""
    environment = make_environment()
    confine()
    answer: Callable[[dict[str, Any]], str] = lambda request: render(environment, request)
    for line in sys.stdin.buffer:
        grant_time()
        try:
            reply = {"text": answer(cast("dict[str, Any]", json.loads(line)))}
        except MemoryError:
            reply = {"error": "it wants more memory than a template may have"}
        except RecursionError:
            reply = {"error": "it calls itself without end"}
        except Exception as problem:  # noqa: BLE001  (whatever a template raises is its answer)
            reply = {"error": f"{problem}".rstrip(".") or type(problem).__name__}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
