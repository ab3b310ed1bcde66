"""How samples become a time, bytes a share, and how a red check stops the clock."""

import pytest

from kernels.common.timing import (
    COLD_FACTOR,
    MAX_COPIES,
    num_cold_copies,
    summarise,
    time_calls,
    time_checked,
)
from kernels.common.verdict import Finding, RedCheckError, Report

GREEN = Finding("norm", "torch", "rms_norm T=1", "rows stand alone", None)
RED = Finding("norm", "torch", "rms_norm T=2", "rows stand alone", "row 1 differs")


def test_a_sample_covers_the_rotation_and_the_time_is_of_one_call():
    timing = summarise([40.0, 20.0, 30.0], num_calls=10)
    assert (timing.low_us, timing.median_us, timing.high_us) == (2.0, 3.0, 4.0)


def test_spread_leaves_out_a_tenth_at_each_end():
    timing = summarise([float(us) for us in range(1, 21)], num_calls=1)
    assert (timing.low_us, timing.median_us, timing.high_us) == (3.0, 10.5, 18.0)


def test_bytes_become_gb_s_and_a_share_of_the_measured_bandwidth():
    timing = summarise([10.0], num_calls=1)
    assert timing.gb_s(10_000_000) == 1000.0
    assert timing.share(10_000_000, read_gb_s=4000.0) == 0.25


def test_the_most_that_moved_is_by_the_fastest_of_few_repetitions():
    assert summarise([30.0, 10.0, 20.0, 40.0, 25.0], num_calls=1).most_gb_s(10_000_000) == 1000.0


def test_a_rotation_covers_the_cache_several_times():
    copies = num_cold_copies(num_bytes=3 << 20, cache_bytes=24 << 20)
    assert copies * (3 << 20) >= COLD_FACTOR * (24 << 20)


def test_a_rotation_has_two_copies_at_least_and_a_limit():
    assert num_cold_copies(1 << 40, 24 << 20) == 2
    assert num_cold_copies(10, 24 << 20) == MAX_COPIES


def test_the_cpu_form_times_each_call_once_a_repetition():
    counts = [0, 0]

    def first() -> None:
        counts[0] += 1

    def second() -> None:
        counts[1] += 1

    timing = time_calls([first, second], "cpu", repetitions=5)
    assert timing.num_calls == 2
    assert counts == [6, 6]  # one untimed pass and five timed ones


def test_a_red_family_is_not_timed_and_the_refusal_says_why():
    with pytest.raises(RedCheckError, match="rms_norm T=2: rows stand alone: row 1 differs"):
        time_checked(Report((GREEN, RED)), "norm", [lambda: None], "cpu")


def test_a_family_that_was_not_checked_on_the_device_is_not_timed():
    with pytest.raises(RedCheckError, match="norm was not checked as cuda"):
        time_checked(Report((GREEN,)), "norm", [lambda: None], "cuda")
    with pytest.raises(RedCheckError, match="delta was not checked as torch"):
        time_checked(Report((GREEN,)), "delta", [lambda: None], "cpu")


def test_a_green_family_is_timed():
    assert time_checked(Report((GREEN,)), "norm", [lambda: None], "cpu").median_us >= 0.0
