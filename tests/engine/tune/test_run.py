"""`tune` keeps a tile only when it holds and is faster, and writes what it kept."""

import time
import tomllib
from dataclasses import replace

import pytest

from engine.check.families import RedKernelError, sizes_of
from engine.errors import OutputError, RequestError
from engine.model.config import SHAPES
from engine.tune import run as tuning
from engine.tune import tiles
from engine.tune.entries import Outcome, entries_of
from engine.tune.user_tiles import table_path
from kernels.common.family import load_families
from tests.fakes import family as fake

MODELS = [sizes_of(name, config) for name, config in SHAPES.items()]


@pytest.fixture
def ran():
    return fake.Ran()


@pytest.fixture
def tune(ran, tmp_path, monkeypatch):
    """Tune the fake family with some candidates: ``tune(tile, ...)``."""
    monkeypatch.setenv("QWEN38_PATHS_DATA", str(tmp_path))
    tiles.forget_tables()

    def call(*candidates, seconds=60, dry_run=False, family=None, **fields):
        family = family or fake.family(ran, (fake.PRESENT, *candidates), **fields)
        monkeypatch.setattr(tiles, "load_families", lambda names: (family,))
        place = tuning.Place("cpu", fake.CAPABILITY, tmp_path)
        return tuning.tune(
            [family], MODELS, place, seconds=seconds, dry_run=dry_run,
            progress=lambda _: None, timer=ran.timer,
        )  # fmt: skip

    yield call
    tiles.forget_tables()


def only(found) -> Outcome:
    (outcome,) = found.outcomes
    return outcome


def reasons(outcome):
    return dict(outcome.dropped)


def test_a_faster_tile_with_the_same_bits_is_kept_and_written(tune, tmp_path):
    found = tune(fake.FAST)
    outcome = only(found)
    assert outcome.tile == fake.FAST
    assert (outcome.before_us, outcome.us) == ((10.0, 10.0), (5.0, 5.0))
    assert outcome.gain == pytest.approx(0.5)
    (path,) = found.written
    assert path == table_path(tmp_path, "fake", fake.CAPABILITY)
    table = tomllib.loads(path.read_text())
    (row,) = table["tile"]
    assert (row["op"], row["width"], row["does"], row["us_a_call"]) == ("double", 8, "sound", 5.0)
    assert (row["problems"], row["us"]) == (["T=1 D=8", "T=16 D=8"], [5.0, 5.0])
    assert {"date", "device", "torch", "read_gb_s"} <= set(table["measured"])
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_faster_but_wrong_tile_is_never_timed_nor_kept(tune, ran):
    outcome = only(tune(fake.WRONG, fake.LEAVES_A_HOLE, fake.FAST))
    assert outcome.tile == fake.FAST
    assert "differ in bits" in reasons(outcome)[fake.WRONG]
    assert "nan" in reasons(outcome)[fake.LEAVES_A_HOLE]
    assert set(ran.tiles) == {fake.PRESENT, fake.FAST}


def test_a_tile_whose_rows_depend_on_their_number_is_dropped_at_its_proof(tune, ran):
    outcome = only(tune(fake.ROWS_DIFFER, fake.FAST))
    assert fake.ROWS_DIFFER in ran.tiles
    assert outcome.tile == fake.FAST
    assert "rows stand alone" in reasons(outcome)[fake.ROWS_DIFFER]


def test_a_tile_that_does_not_launch_drops_out_and_the_sweep_goes_on(tune):
    outcome = only(tune(fake.BREAKS, fake.FAST))
    assert outcome.tile == fake.FAST
    assert reasons(outcome)[fake.BREAKS] == "RuntimeError: out of shared memory"


def test_all_candidates_are_compiled_together_before_any_is_timed(tune, ran):
    told = []

    def compile_all(problem, candidates):
        told.append((problem.rows, candidates, list(ran.tiles)))

    tune(fake.FAST, fake.WRONG, compile=compile_all)
    assert told == [(1, (fake.PRESENT, fake.FAST, fake.WRONG), [])]


def test_a_gain_within_the_spread_changes_nothing(tune, tmp_path):
    found = tune(fake.LITTLE_FASTER)
    assert only(found).tile == fake.PRESENT
    assert not found.written
    assert not list(tmp_path.iterdir())


def test_a_gain_that_does_not_come_again_is_no_gain(tune, ran, monkeypatch):
    sound = ran.timer

    def once_fast(calls, device):
        timing = sound(calls, device)
        seen = ran.tiles.count(fake.FAST)
        return timing if seen <= 4 else replace(timing, median_us=10.0)

    monkeypatch.setattr(ran, "timer", once_fast)
    outcome = only(tune(fake.FAST))
    assert outcome.tile == fake.PRESENT
    assert "timed again" in reasons(outcome)[fake.FAST]


def test_a_tile_with_other_bits_is_a_fault_of_the_kernel_however_right_and_fast(tune, ran):
    outcome = only(tune(fake.OTHER_BITS, fake.FAST))
    assert outcome.tile == fake.FAST
    why = reasons(outcome)[fake.OTHER_BITS]
    assert why.startswith("it changes bits, which is a fault of the kernel: out: ")
    assert fake.OTHER_BITS not in ran.tiles
    assert not only(tune(fake.OTHER_BITS)).is_changed


def test_the_next_fastest_serves_where_the_fastest_does_not_hold(tune):
    slower = replace(fake.FAST, us=7.0)
    outcome = only(tune(fake.ROWS_DIFFER, slower))
    assert (outcome.tile, outcome.us) == (slower, (7.0, 7.0))


def test_each_entry_is_timed_and_chosen_on_its_own(tune, ran):
    """Classes of rows of one weight, say; the table holds them all, also what keeps its tile."""
    about = fake.tunable(
        (), rows=(1, 32), key_fields=("width", "wide"),
        key=lambda one: {"width": one.sizes["D"], "wide": int(one.rows > 16)},
        case=lambda one: fake.case(32 if one.rows > 16 else 16),
    )  # fmt: skip
    tiles_of = lambda key: (fake.PRESENT, fake.LITTLE_FASTER if key["wide"] else fake.FAST)
    about = replace(about, candidates=tiles_of)
    found = tune(family=replace(fake.family(ran), tunables=(about,)))
    tiles_by_class = {one.entry.key["wide"]: one.tile for one in found.outcomes}
    assert tiles_by_class == {0: fake.FAST, 1: fake.PRESENT}
    rows = tomllib.loads(found.written[0].read_text())["tile"]
    assert {row["wide"]: row["us_a_call"] for row in rows} == {0: 5.0, 1: 10.0}


def test_what_serves_and_is_red_is_not_tuned(tune, tmp_path):
    with pytest.raises(RedKernelError, match="double width=8 is red and is not tuned: .*nan"):
        tune(fake.FAST, default=lambda key: fake.LEAVES_A_HOLE)
    assert not list(tmp_path.iterdir())


def test_the_table_before_is_kept_and_other_entries_stay(tune, ran, tmp_path):
    first = tune(fake.FAST)
    before = first.written[0].read_bytes()
    faster = fake.FakeTile("sound", 2.0)
    timed = lambda sizes, rows: (fake.problem(ran, rows, width=16),)
    candidates = (fake.PRESENT, fake.FAST, faster)
    family = replace(fake.family(ran, candidates), timed=timed)
    second = tune(family=family)
    assert only(second).tile == faster
    rows = tomllib.loads(second.written[0].read_text())["tile"]
    assert [(row["width"], row["us_a_call"]) for row in rows] == [(8, 5.0), (16, 2.0)]
    assert second.backups[0].read_bytes() == before


def test_a_second_run_starts_from_the_table_and_writes_nothing(tune):
    tune(fake.FAST)
    found = tune(fake.FAST)
    assert only(found).entry.present == fake.FAST
    assert not found.written


def test_a_damaged_table_is_replaced_and_kept(tune, tmp_path):
    path = table_path(tmp_path, "fake", fake.CAPABILITY)
    path.parent.mkdir()
    path.write_bytes(b"\xff[[")
    found = tune(fake.FAST)
    assert only(found).tile == fake.FAST
    assert found.backups[0].read_bytes() == b"\xff[["


def test_a_dry_run_writes_nothing(tune, tmp_path):
    found = tune(fake.FAST, dry_run=True)
    assert only(found).tile == fake.FAST
    assert not found.written
    assert not list(tmp_path.iterdir())


def test_without_time_the_entries_are_named(tune):
    found = tune(fake.FAST, seconds=-1)
    assert not found.outcomes
    assert found.unreached == ["fake double width=8"]


def test_the_family_with_most_entries_takes_the_time_that_the_others_leave(tune, ran, monkeypatch):
    few = fake.family(ran)
    timed = lambda sizes, rows: tuple(fake.problem(ran, rows, width=width) for width in (8, 16))
    many = replace(few, name="many", timed=timed)
    place = tuning.Place("cpu", fake.CAPABILITY, None)
    monkeypatch.setattr(tuning, "read_table", lambda *_: ())
    found = tuning.tune(
        [many, few], MODELS, place, seconds=-1, dry_run=True, progress=lambda _: None
    )
    assert found.unreached == ["fake double width=8", "many double width=8", "many double width=16"]


def test_when_the_time_is_up_no_further_tile_is_tried_and_the_fastest_so_far_is_proven(
    tune, ran, monkeypatch
):
    fastest = fake.FakeTile("sound", 1.0)
    # begun, asked before the entry and before each of three tiles
    clock = iter([0.0, 1.0, 2.0, 59.0, 60.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    outcome = only(tune(fake.FakeTile("sound", 7.0), fake.FAST, fastest))
    assert (outcome.tile, outcome.num_timed) == (fake.FAST, 3)
    assert fastest not in ran.tiles


def test_what_was_found_before_an_interrupt_is_written(tune, ran, tmp_path):
    timed = lambda sizes, rows: tuple(fake.problem(ran, rows, width=width) for width in (8, 16))
    family = replace(fake.family(ran, (fake.PRESENT, fake.FAST)), timed=timed)
    sound = ran.timer

    def interrupted(calls, device):
        if len(ran.tiles) > 20:
            raise KeyboardInterrupt
        return sound(calls, device)

    ran.timer = interrupted
    with pytest.raises(KeyboardInterrupt):
        tune(family=family)
    path = table_path(tmp_path, "fake", fake.CAPABILITY)
    assert [row["width"] for row in tomllib.loads(path.read_text())["tile"]] == [8]


def test_a_folder_that_cannot_be_written_is_a_sentence(tune, tmp_path):
    (tmp_path / "tiles").write_text("a file where the folder should be")
    with pytest.raises(OutputError, match=r"cannot be written: .*paths\.data"):
        tune(fake.FAST)


def test_a_family_without_tiles_is_refused(tune, ran):
    with pytest.raises(RequestError, match="no tiles to tune in fake"):
        tune(family=replace(fake.family(ran), tunables=()))


def test_the_norms_have_an_entry_for_every_width_of_the_models():
    (norm,) = load_families(["norm"])
    entries = entries_of(norm, MODELS, tiles.shipped_table("norm", (9, 0)))
    assert {one.label for one in entries} == {
        *(f"{op} width={width}" for op in ("rms_norm", "add_rms_norm") for width in (256, 5120)),
        "gated_rms_norm width=128",
    }
    first = entries_of(norm, MODELS[:1], tiles.shipped_table("norm", (9, 0)))
    assert [one.label for one in entries[: len(first)]] == [one.label for one in first]
    moved = [max(problem.num_bytes for problem in one.problems) for one in first]
    assert moved == sorted(moved, reverse=True)


def test_the_norms_tune_on_a_cpu_for_show(ran, tmp_path, monkeypatch):
    """Every tile runs the same torch path there, so that only the driver is seen."""
    (norm,) = load_families(["norm"])
    monkeypatch.setenv("QWEN38_PATHS_DATA", str(tmp_path))
    tiles.forget_tables()
    small = replace(norm, tunables=tuple(replace(one, rows=(1,)) for one in norm.tunables))
    timing = fake.Timing(1.0, 1.0, 1.0, 1)
    found = tuning.tune(
        [small], MODELS[1:], tuning.Place("cpu", (9, 0), tmp_path), seconds=60, dry_run=False,
        progress=lambda _: None, timer=lambda calls, device: timing,
    )  # fmt: skip
    assert found.outcomes
    assert not any(one.is_changed or one.dropped for one in found.outcomes)
    tiles.forget_tables()
