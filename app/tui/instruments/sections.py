"""The sections of the pane: rows with ranks; those of low rank leave a low pane first."""

from collections.abc import Iterator

from rich.segment import Segment
from rich.style import Style

from app.rates import COURSE_CELLS, Recent, TurnRates
from app.tui.instruments.bars import Row, cells_of, columns, ends, line, parts
from app.tui.instruments.reading import Reading, Tones
from app.tui.lines import short
from app.tui.theme import Look
from app.visible import visible_line
from engine.records import PHASES
from engine.sizes import size_text

Ranked = tuple[int, Row]

RECENT_ROUNDS = 32
"""Rounds whose accepted tokens stand side by side."""

MOST_POSITIONS = 7
NOTHING = "-"


def row(*pieces: tuple[str, Style]) -> Row:
    """A row of texts in their styles."""
    return [Segment(text, style) for text, style in pieces]


def title(text: str, right: str, tones: Tones, width: int) -> Row:
    """The first row of a section."""
    return ends(row((text, tones.title)), row((right, tones.label)), width)


def speed(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Tokens a second, now and over time; the first token; the reading of the prompt."""
    rates = reading.rates
    has_answer = rates is not None and (bool(rates.rounds) or rates.is_over)
    said = "exact counts" if reading.is_live else "last answer" if has_answer else "no answer yet"
    yield 90, title("SPEED", said, tones, width)
    if rates is None:
        return
    if rates.rounds:
        yield from _decode(rates, tones, width, look)
    if reading.phase == "reading" and rates.prompt is not None:
        yield from _reading(rates, tones, width, look)
    else:
        first, read = rates.ttft_s, rates.prefill_tok_s
        left = row(("TTFT ", tones.label), (f"{first:.2f} s" if first else NOTHING, tones.text))
        right = row(("read ", tones.label), (f"{read:,.0f} t/s" if read else NOTHING, tones.text))
        yield 70, ends(left, right, width)


def _decode(rates: TurnRates, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    now, mean, peak = rates.now_tok_s, rates.mean_tok_s, rates.peak_tok_s
    means = row(
        ("mean ", tones.label), (_rate(mean), tones.text),
        ("  peak ", tones.label), (_rate(peak), tones.text),
    )  # fmt: skip
    yield 89, ends(row((_rate(now), tones.strong), (" tok/s", tones.label)), means, width)
    values = rates.course.values[-COURSE_CELLS:]
    drawn = columns(values, max(values, default=0.0), 2, look.signs)
    span = f"{rates.course.span_s}s".rjust(width - COURSE_CELLS)
    for at, text in enumerate(drawn):
        right = span if at else ""
        yield 30 + 50 * at, row((text.ljust(COURSE_CELLS), tones.speed), (right, tones.label))


def _reading(rates: TurnRates, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    step = rates.prompt
    assert step is not None
    share = step.num_tokens / max(step.num_total, 1)
    counts = row(
        ("reading ", tones.label), (f"{step.num_tokens:,}", tones.strong),
        (f" of {step.num_total:,}", tones.label),
    )  # fmt: skip
    yield 88, ends(counts, row((f"{step.tok_s:,.0f} t/s", tones.text)), width)
    yield 40, line(share, width, tones.speed, tones.rest, look.signs)


def rounds(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Rounds a second; what each accepted; by position, by drafter."""
    rates = reading.rates
    recent = rates.recent if rates is not None else None
    if rates is None or recent is None:
        yield 68, title("ROUNDS", NOTHING, tones, width)
        return
    said = f"{recent.rounds_s:.1f}/s {look.signs.dot} {recent.round_ms:.1f} ms"
    yield 85, title("ROUNDS", said, tones, width)
    last = rates.rounds[-RECENT_ROUNDS:]
    most = max(one.tested for one in last)
    if most:
        drawn = columns([one.accepted for one in last], most, 2, look.signs)
        for at, text in enumerate(drawn):
            yield 31 + 48 * at, row((text, tones.accepted))
    yield 78, _means(rates, most, tones, width)
    yield from _positions(rates, tones, width, look)
    if rates.num_tested:
        yield 20, _drafters(rates, tones, width)


def _means(rates: TurnRates, most: int, tones: Tones, width: int) -> Row:
    per_round = f"{rates.tokens_a_round or 0:.2f}"
    right = row((per_round, tones.strong), (" tok a round", tones.label))
    if not rates.num_tested:
        return ends(row(("no drafts", tones.label)), right, width)
    mean = f"{rates.accepted_a_round or 0:.2f}"
    left = row(("accepted ", tones.label), (mean, tones.text), (f"/{most}", tones.label))
    return ends(left, right, width)


def _positions(rates: TurnRates, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Share accepted at each position, as columns of three cells and as figures."""
    shares = rates.positions.shares[:MOST_POSITIONS]
    if not shares:
        return
    drawn = columns(shares, 1.0, 2, look.signs)
    for at, text in enumerate(drawn):
        wide = " ".join(one * 3 for one in text)
        label = "by position" if not at and cells_of([Segment(wide)]) + 11 < width else ""
        yield 10 + 15 * at, ends(row((wide, tones.accepted)), row((label, tones.label)), width)
    figures = " ".join(f"{one * 100:3.0f}" for one in shares)
    yield 26, row((figures, tones.text), (" %", tones.label))


def _drafters(rates: TurnRates, tones: Tones, width: int) -> Row:
    """Tokens a round of each drafter, with its number of rounds."""
    pieces: Row = []
    for name, tally in sorted(rates.by_drafter.items(), key=lambda one: -one[1].num_rounds):
        mean = tally.num_tokens / tally.num_rounds
        more = row(
            ("  " if pieces else "", tones.label), (f"{name} ", tones.label),
            (f"{mean:.2f}", tones.text), (f" x{tally.num_rounds}", tones.label),
        )  # fmt: skip
        if cells_of(pieces) + cells_of(more) > width:
            break
        pieces += more
    return pieces


def phases(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Where a round goes: milliseconds by phase, which add up to the round."""
    recent = reading.rates.recent if reading.rates is not None else None
    if recent is None:
        return
    said = f"{recent.round_ms:.1f} ms"
    yield 76, title("WHERE A ROUND GOES", said, tones, width)
    ms = recent.phase_ms
    cells = parts([ms[name] for name in PHASES], width)
    signs = zip(look.signs.phases, cells, tones.phases, strict=True)
    yield 50, row(*((sign * count, style) for sign, count, style in signs))
    legend = [_phase(name, ms[name], at, tones, look) for at, name in enumerate(PHASES)]
    half = width // 2
    for at in (0, 2):
        left = Segment.adjust_line_length(legend[at], half)
        yield 75, [*left, *legend[at + 1]]


def _phase(name: str, ms: float, at: int, tones: Tones, look: Look) -> Row:
    return row(
        (look.signs.phases[at], tones.phases[at]), (f" {name:<7}", tones.label),
        (f"{ms:6.2f}", tones.text),
    )  # fmt: skip


def bandwidth(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """What the rounds' kernels moved over their time, against what this machine can read."""
    recent = reading.rates.recent if reading.rates is not None else None
    ceiling = f"of {reading.read_gb_s:,.1f} measured" if reading.read_gb_s else "not measured yet"
    yield 74, title("MEMORY BANDWIDTH", ceiling, tones, width)
    if recent is None:
        return
    share = reading.share_of_read
    left = row((f"{recent.gb_s:.1f}", tones.strong), (" GB/s ", tones.label))
    right = row((f" {share:.0%}" if share is not None else "", tones.text))
    room = width - cells_of(left) - cells_of(right)
    bar = line(share or 0.0, room, tones.bandwidth, tones.rest, look.signs)
    yield 73, [*left, *bar, *right]
    yield 15, _moved(recent, tones, width)


def _moved(recent: Recent, tones: Tones, width: int) -> Row:
    """Bytes of a round, and the shares of the two parts that take most of them."""
    last = recent.rounds[-1].num_bytes
    total = max(sum(last.values()), 1)
    named = sorted(last.items(), key=lambda one: -one[1])[:2]
    told = "  ".join(f"{name} {count / total:.0%}" for name, count in named if count)
    left = row((size_text(round(recent.round_bytes)), tones.text))
    return ends(left, row((told, tones.label)), width)


def context(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Tokens held, against the most that can be; what they take."""
    info, share = reading.info, reading.share_of_context
    if info is None:
        return
    held = reading.rates.context_tokens if reading.rates is not None else 0
    tone = tones.of_context(share)
    right = row(
        (f"{short(held)}", tones.text), (f" / {short(info.max_context_tokens)}", tones.label)
    )
    yield 72, ends(row(("CONTEXT", tones.title)), right, width)
    said = row((f" {share:.0%}", tone if share else tones.text))
    warns = row((" nearly full" if share >= 0.8 else "", tone))
    room = width - cells_of(said) - cells_of(warns)
    yield 45, [*line(share, room, tone, tones.rest, look.signs), *warns, *said]


def machine(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """Memory, the GPU's state where it tells, and what this screen itself costs."""
    load = reading.load
    if load is not None and load.ram_bytes:
        used = f"{load.ram_used_bytes / 1e9:.1f}/{load.ram_bytes / 1e9:.0f} GB"
        left = row(("RAM ", tones.label), (used, tones.text))
        own = row(("qwen38 ", tones.label), (size_text(load.process_bytes), tones.text))
        yield 60, ends(left, own, width)
    if load is not None:
        yield 61, _processor(reading, tones, width, look)
    if reading.lag_ms is not None and reading.share is not None:
        left = row(("screen ", tones.label), (f"{reading.share:.1%} CPU", tones.text))
        right = row(("lag p95 ", tones.label), (f"{reading.lag_ms:.1f} ms", tones.text))
        yield 55, ends(left, right, width)


def _processor(reading: Reading, tones: Tones, width: int, look: Look) -> Row:
    load = reading.load
    assert load is not None
    if load.gpu_share is None:
        busy = row(("CPU ", tones.label), (f"{load.cpu_cores:.1f} cores", tones.text))
        return ends(busy, row(("no GPU", tones.label)), width)
    state = [f"{load.gpu_share:.0%}"]
    state += [f"{size_text(load.gpu_used_bytes)}"] if load.gpu_bytes else []
    right = [f"{load.power_w:.0f} W"] if load.power_w is not None else []
    right += (
        [f"{load.temperature_c} {look.signs.degree}C"] if load.temperature_c is not None else []
    )
    return ends(
        row(("GPU ", tones.label), ("  ".join(state), tones.text)),
        row(("  ".join(right), tones.text)), width,
    )  # fmt: skip


def loading(reading: Reading, tones: Tones, width: int, look: Look) -> Iterator[Ranked]:
    """How far the weights are."""
    step = reading.loading
    if step is None:
        yield 95, title("LOADING", "opening the files", tones, width)
        return
    yield 95, title("LOADING", f"{step.share:.0%}", tones, width)
    yield 94, line(step.share, width, tones.speed, tones.rest, look.signs)
    left = row(
        (size_text(step.num_bytes), tones.strong),
        (f" of {size_text(step.total_bytes)}", tones.label),
    )
    yield 93, ends(left, row((f"{step.gb_s:.2f} GB/s", tones.text)), width)
    if step.gb_s > 0 and not step.is_all_read:  # nobody knows how long what follows takes
        left_s = (step.total_bytes - step.num_bytes) / 1e9 / step.gb_s
        yield 92, row((f"{left_s:.0f} s", tones.text), (" left", tones.label))
    yield 91, row((visible_line(step.file, width), tones.label))


def _rate(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"
