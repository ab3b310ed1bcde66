"""A summary as text that fits 80 columns, and two of them side by side. Knows no file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.trace.summary import Figures, Summary
from app.visible import visible_line
from engine.records import PHASES

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a comparison."""

    label: str
    value: Callable[[Figures], float]
    form: str


COMPARED: tuple[Row, ...] = (
    Row("turns", lambda one: one.num_turns, ",.0f"),
    Row("prompt tokens", lambda one: one.prompt_tokens, ",.0f"),
    Row("tokens", lambda one: one.num_tokens, ",.0f"),
    Row("first token, s", lambda one: one.ttft_s, ".3f"),
    Row("prefill, tok/s", lambda one: one.prefill_tok_s, ",.1f"),
    Row("decode, tok/s", lambda one: one.decode_tok_s, ",.2f"),
    Row("rounds", lambda one: one.num_rounds, ",.0f"),
    Row("tokens a round", lambda one: one.tokens_a_round, ".2f"),
    Row("accepted a round", lambda one: one.accepted_a_round, ".2f"),
    Row("accepted of tested", lambda one: one.share_accepted, ".1%"),
    *(
        Row(f"{name}, ms a round", lambda one, name=name: a_round(one, one.phase_ms[name]), ".3f")
        for name in PHASES
    ),
    Row("round, ms, median", lambda one: one.round_ms_p50, ".3f"),
    Row("round, ms, 95th percentile", lambda one: one.round_ms_p95, ".3f"),
    Row("beside the rounds, ms a round", lambda one: a_round(one, one.other_ms), ".3f"),
    Row("bandwidth, GB/s", lambda one: one.gb_s, ",.1f"),
    Row("share of read bandwidth", lambda one: one.share_of_read, ".1%"),
)


def a_round(one: Figures, milliseconds: float) -> float:
    """A sum as milliseconds a round."""
    return milliseconds / one.num_rounds if one.num_rounds else 0.0


def summary_text(summary: Summary) -> str:
    """The whole summary."""
    numbers = [str(number) for number in range(1, len(summary.turns) + 1)]
    rates: list[Sequence[str]] = [_RATES]
    rates += map(_rates, numbers, summary.turns, summary.ends)
    times: list[Sequence[str]] = [_TIMES]
    times += map(_times, numbers, summary.turns)
    if len(numbers) > 1:
        rates.append(_rates("all", summary.total, ""))
        times.append(_times("all", summary.total))
    blocks = [
        about(summary),
        columns(rates),
        f"Where the time went: seconds, shares, phases in ms a round\n{columns(times)}",
        _rounds(summary.total),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def comparison_text(first: Summary, second: Summary) -> str:
    """Two traces: what differs in how they were recorded, and every figure with its change."""
    rows = [["", "A", "B", "change"]]
    for row in COMPARED:
        a, b = row.value(first.total), row.value(second.total)
        rows.append([row.label, format(a, row.form), format(b, row.form), _change(a, b)])
    blocks = [f"A  {about(first)}\nB  {about(second)}", _differences(first, second), columns(rows)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def about(summary: Summary) -> str:
    """What was recorded, in a line."""
    facts = summary.facts
    parts = [
        facts.get("engine.model", ""),
        f"profile {facts.get('engine.profile', '')}",
        facts.get("machine.gpu") or facts.get("engine.device", ""),
        f"torch {facts.get('package.torch', '')}",
        f"{summary.at[:16].replace('T', ' ')} UTC",
    ]
    return visible_line(" · ".join(visible_line(str(one), 30) for one in parts if one), 76)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns, the first one to the left, the others to the right; closer when crowded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) - 2 <= WIDTH else " "
    lines: list[str] = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(gap.join(cells).rstrip())
    return "\n".join(lines)


_RATES = (
    *("turn", "prompt", "tokens", "first", "prefill", "decode", "rounds", "accepted", "a round"),
    "end",
)

_SHORT = {"stop_string": "stop", "context_full": "full"}


def _rates(name: str, one: Figures, end: str) -> tuple[str, ...]:
    return (
        name,
        f"{one.prompt_tokens:,}",
        f"{one.num_tokens:,}",
        f"{one.ttft_s:.2f} s",
        f"{one.prefill_tok_s:,.0f}/s" if one.prefill_tok_s else "-",  # nothing was left to read
        f"{one.decode_tok_s:,.{1 if one.decode_tok_s < 1000 else 0}f}/s"
        if one.decode_tok_s
        else "-",
        f"{one.num_rounds:,}",
        f"{one.share_accepted:.0%}" if one.tested else "-",
        f"{one.tokens_a_round:.2f}",
        _SHORT.get(end, end),
    )


_TIMES = ("turn", "total", "first", *PHASES, "other", "GB/s", "of read")


def _times(name: str, one: Figures) -> tuple[str, ...]:
    return (
        name,
        f"{one.total_ms / 1e3:.2f}",
        f"{one.share(one.first_ms):.0%}",
        *(_phase(one, one.phase_ms[phase]) for phase in PHASES),
        f"{one.share(one.other_ms):.0%}",
        f"{one.gb_s:,.1f}",
        f"{one.share_of_read:.0%}" if one.read_gb_s else "-",
    )


def _phase(one: Figures, milliseconds: float) -> str:
    mean = a_round(one, milliseconds)
    return f"{mean:.{1 if mean >= 10 else 2}f} {one.share(milliseconds):>3.0%}"


def _rounds(total: Figures) -> str:
    if not total.num_rounds:
        return ""
    median, high = total.round_ms_p50, total.round_ms_p95
    lines = [f"A round takes {median:.2f} ms at the median, {high:.2f} ms at the 95th percentile."]
    if total.accepted_by_position:
        shares = "  ".join(f"{one:.0%}" for one in total.accepted_by_position[:16])
        lines.append(f"Drafts accepted in chains, first position first: {shares}")
    return "\n".join(lines)


def _change(first: float, second: float) -> str:
    if first == second:
        return "same"
    return f"{second / first - 1:+.1%}" if first else "-"


def _differences(first: Summary, second: Summary) -> str:
    """What a trace says about itself and the other one says otherwise."""
    lines: list[str] = []
    for name in dict.fromkeys([*first.facts, *second.facts]):
        a, b = (one.facts.get(name, "") for one in (first, second))
        if a != b:
            shown = " -> ".join(visible_line(str(one), 30) or "empty" for one in (a, b))
            lines.append(f"{visible_line(name, 40)}: {shown}")
    return "\n".join(["They were recorded differently:", *lines]) if lines else ""
