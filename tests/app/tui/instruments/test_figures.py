"""Every figure of the instruments is the record's."""

import pytest

from app.tui.instruments.pane import pane_rows
from app.tui.instruments.reading import Reading
from app.tui.rates import COURSE_CELLS, TurnRates, rates_of
from app.tui.theme import DARK, get_look
from engine.machine.load import LoadReader, MachineLoad
from engine.records import PHASES
from engine.types import LoadProgressed, PromptProgressed
from tests.app.tui.instruments.records import a_round, a_turn
from tests.fakes.engine import INFO

LOOK = get_look(DARK)


def rates_with(*rounds):
    rates = TurnRates()
    for one in rounds:
        rates.take_round(one)
    return rates


def shown(reading, height=40, width=34):
    rows = pane_rows(reading, width, height, LOOK)
    assert all(sum(one.cell_length for one in row) <= width for row in rows)
    return "\n".join("".join(one.text for one in row) for row in rows)


def test_phases_add_up_to_the_round_and_bytes_are_the_declared_ones():
    rounds = [a_round(n) for n in range(30)]
    recent = rates_with(*rounds).recent
    assert sum(recent.phase_ms[name] for name in PHASES) == pytest.approx(recent.round_ms)
    assert recent.round_ms == pytest.approx(rounds[0].round_ms)
    assert recent.round_bytes == sum(rounds[0].num_bytes.values())
    assert recent.gb_s == pytest.approx(rounds[0].gb_s)


def test_now_is_the_steady_rate_whatever_the_second_cuts_through():
    for ms in (90.0, 130.0, 333.0, 700.0):
        rounds = [
            a_round(n, start_s=n * ms / 1e3, ms={**dict.fromkeys(PHASES, 0.0), "verify": ms})
            for n in range(60)
        ]
        rates = rates_with(*rounds)
        assert rates.now_tok_s == pytest.approx(3 / (ms / 1e3))
        assert rates.recent.rounds_s == pytest.approx(1e3 / ms)
        assert rates.peak_tok_s == pytest.approx(rates.now_tok_s)


def test_peak_is_never_below_now_and_outlives_it():
    fast = [a_round(n, accepted=3) for n in range(20)]
    slow = [a_round(n, accepted=0) for n in range(20, 60)]
    rates = rates_with(*fast, *slow)
    assert rates.peak_tok_s == pytest.approx(4 / 0.09)
    assert rates.now_tok_s == pytest.approx(1 / 0.09)


@pytest.mark.parametrize("num_rounds", [1, 9, 40, 500, 900])
def test_the_course_loses_no_token(num_rounds):
    rates = rates_with(*(a_round(n) for n in range(num_rounds)))
    course = rates.course
    assert sum(course.bins.values()) == pytest.approx(rates.num_tokens)
    assert 1 <= len(course.values) <= COURSE_CELLS
    assert max(course.values) == pytest.approx(3 / 0.09)


def test_rounds_out_of_order_and_without_end_keep_a_bounded_course():
    endless = {**dict.fromkeys(PHASES, 0.0), "verify": 1e15}
    rates = rates_with(
        a_round(0, start_s=5.0), a_round(1, start_s=0.0), a_round(2, start_s=1e12),
        a_round(3, start_s=6.0, ms=endless),
    )  # fmt: skip
    assert len(rates.course.bins) < 3000
    assert 1 <= len(rates.course.values) <= COURSE_CELLS


def test_positions_and_drafters_are_counted_from_rounds():
    rates = rates_with(
        a_round(0, accepted=2, tested=3),
        a_round(1, accepted=0, tested=1),
        a_round(2, accepted=7, tested=7, drafter="lookup"),
    )
    assert rates.positions.shares == (2 / 3, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0)
    assert rates.by_drafter["lookup"].num_tokens == 8
    assert rates.by_drafter["mtp"].num_rounds == 2


def test_a_record_has_the_figures_that_its_rounds_had_live():
    rounds = [a_round(n, accepted=n % 4) for n in range(50)]
    live, later = rates_with(*rounds), rates_of(a_turn(rounds))
    assert (later.now_tok_s, later.peak_tok_s) == (live.now_tok_s, live.peak_tok_s)
    assert later.course.values == live.course.values
    assert later.mean_tok_s == later.record.decode_tok_s
    assert later.ttft_s == later.record.ttft_s
    assert later.prefill_tok_s == later.record.prefill_tok_s


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
