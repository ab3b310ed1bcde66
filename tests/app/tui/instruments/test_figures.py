"""Every figure of the instruments is the record's."""

import pytest

from app.rates import TurnRates, rates_of
from app.tui.instruments.narrow import two_rows
from app.tui.instruments.pane import pane_rows
from app.tui.instruments.reading import Reading
from app.tui.theme import DARK, get_look
from engine.machine.load import LoadReader, MachineLoad
from engine.records import PHASES
from engine.types import LoadProgressed, PromptProgressed
from tests.app.records import a_round, a_turn
from tests.fakes.engine import INFO

LOOK = get_look(DARK)


def shown(reading, height=40, width=34):
    rows = pane_rows(reading, width, height, LOOK)
    assert all(sum(one.cell_length for one in row) <= width for row in rows)
    return "\n".join("".join(one.text for one in row) for row in rows)


def test_the_pane_shows_the_records_figures():
    rates = rates_of(a_turn([a_round(n) for n in range(20)]))
    text = shown(Reading("idle", rates, INFO, load=MachineLoad(ram_bytes=1), lag_ms=1.4, share=0.1))
    recent = rates.recent
    for figure in (
        f"{rates.now_tok_s:.1f} tok/s", f"mean {rates.mean_tok_s:.1f}", "TTFT 0.40 s",
        "read 1,830 t/s", f"{recent.rounds_s:.1f}/s", "accepted 2.00/3", "3.00 tok a round",
        "draft   10.00", "verify  76.00", "accept   2.50", "host     1.50",
        f"of {INFO.read_gb_s:.1f} measured", f"{recent.gb_s / INFO.read_gb_s:.0%}", "161 / 4.1k",
        "100 100   0 %", "mtp 3.00 x20", "lag p95 1.4 ms", "last answer",
    ):  # fmt: skip
        assert figure in text, figure


def test_bandwidth_names_its_ceiling_before_any_answer():
    assert "of 20.0 measured" in shown(Reading("idle", None, INFO))


def test_reading_a_prompt_shows_how_far_it_is():
    rates = TurnRates(prompt=PromptProgressed(5120, 6214, 0, 1830.0))
    text = shown(Reading("reading", rates, INFO))
    assert "reading 5,120 of 6,214" in text
    assert "1,830 t/s" in text


def test_loading_shows_file_bytes_rate_and_what_is_left():
    step = LoadProgressed("model-3.safetensors", 3_200_000_000, 28_900_000_000, 2.1)
    text = shown(Reading("loading", loading=step))
    for figure in ("11%", "3.2 GB of 28.9 GB", "2.10 GB/s", "12 s left", "model-3.safetensors"):
        assert figure in text, figure


def test_nobody_says_how_long_it_takes_behind_the_last_byte():
    step = LoadProgressed("rounds are captured, 3 of 36", 28_900_000_000, 28_900_000_000, 2.1)
    text = shown(Reading("loading", loading=step))
    assert "rounds are captured, 3 of 36" in text
    assert "left" not in text


@pytest.mark.parametrize("held", [0, 3300, 4000])
def test_a_full_context_is_a_word_and_not_a_colour(held):
    rates = TurnRates(prompt=PromptProgressed(held, held, 0, 0.0))
    assert ("nearly full" in shown(Reading("idle", rates, INFO))) == (held > 4096 * 0.8)


@pytest.mark.parametrize("height", range(1, 40))
def test_a_low_pane_keeps_what_matters_most(height):
    rates = rates_of(a_turn([a_round(n) for n in range(20)]))
    text = shown(Reading("idle", rates, INFO, load=MachineLoad(ram_bytes=1)), height=height)
    assert len(text.split("\n")) <= height
    assert "SPEED" in text


def test_the_machine_tells_its_memory():
    load = LoadReader().read()
    assert 0 < load.process_bytes < load.ram_bytes
    assert 0 < load.ram_used_bytes <= load.ram_bytes
    assert load.cpu_cores >= 0


def test_rates_of_thousands_keep_apart():
    ms = {**dict.fromkeys(PHASES, 0.0), "verify": 1.0}
    rates = rates_of(a_turn([a_round(n, start_s=0.4 + n / 1e3, ms=ms) for n in range(2000)]))
    row = next(one for one in shown(Reading("idle", rates, INFO)).split("\n") if "tok/s" in one)
    assert row.split() == ["3,000", "tok/s", "mean", "33.0", "peak", "3,000"]


def test_an_answer_of_one_token_is_an_answer():
    rates = rates_of(a_turn([]))
    assert rates.is_over
    text = shown(Reading("idle", rates, INFO))
    assert "last answer" in text
    assert "no answer yet" not in text
    row = "".join(one.text for one in two_rows(Reading("idle", rates, INFO), 80, LOOK)[0])
    assert row.startswith(" 1 token ")
    assert "TTFT 0.40 s" in row
