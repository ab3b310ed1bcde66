"""Bars are judged by what a run showed, and tables are read by their keys."""

import pytest

from kernels.common.peers import humming_product, library_copy, library_product
from kernels.common.problem import Bar, Measured
from tests.fakes import family as fake

SEEN = Measured(
    us=20.0, share=0.7, floor_us=10.0, peer_us={"humming": 30.0}, us_by_rows={1: 16.0, 16: 18.0}
)


@pytest.mark.parametrize(
    ("bar", "words", "met"),
    [
        (Bar(min_share=0.7), ">= 70% of bandwidth", True),
        (Bar(min_share=0.71), ">= 71% of bandwidth", False),
        (Bar(max_us=20.0), "<= 20 us", True),
        (Bar(max_us=19.9), "<= 19.9 us", False),
        (Bar(max_times_floor=2.0), "<= 2 x floor", True),
        (Bar(max_times_floor=1.9), "<= 1.9 x floor", False),
        (Bar(min_speed_up={"humming": 1.5}), ">= 1.5 x humming", True),
        (Bar(min_speed_up={"humming": 1.6}), ">= 1.6 x humming", False),
        (Bar(min_speed_up={"cublas": 1.0}), ">= 1 x cublas", None),
        (Bar(max_times_rows=(1, 1.25)), "<= 1.25 x T=1", True),
        (Bar(max_times_rows=(16, 1.1)), "<= 1.1 x T=16", False),
        (Bar(max_times_rows=(8, 2.0)), "<= 2 x T=8", None),
    ],
)
def test_each_limit_is_judged_alone(bar, words, met):
    assert bar.judge(SEEN) == ((words, met),)


def test_all_limits_of_a_bar_are_judged():
    bar = Bar(min_share=0.5, max_us=10.0)
    assert [met for _, met in bar.judge(SEEN)] == [True, False]
    assert Bar().judge(SEEN) == ()


def test_the_first_row_of_a_key_serves_and_the_default_without_one():
    tunable = fake.tunable((fake.PRESENT, fake.FAST))
    rows = [{"op": "double", "width": 8, **tunable.to_row(one)} for one in (fake.FAST, fake.WRONG)]
    rows.insert(0, {"op": "halve", "width": 8, **tunable.to_row(fake.WRONG)})
    assert tunable.find(rows, {"width": 8}) == fake.FAST
    assert tunable.find(rows, {"width": 9}) == fake.PRESENT


@pytest.mark.parametrize("peer", [library_copy(4096), library_product(32, 16, 2)])
def test_library_peers_run_on_a_cpu(peer):
    calls = peer.make_calls(3, "cpu")
    assert len(calls) == 3
    for call in calls:
        call()


def test_a_product_in_bf16_moves_weights_rows_and_outputs():
    assert library_product(32, 16, 2).num_bytes == 2 * (32 * 16 + 2 * 16 + 2 * 32)
    assert humming_product("fp8_block", 32, 16, 1).num_bytes == 32 * 16 + 2 * (32 + 16)


def test_a_peer_that_is_not_installed_costs_nothing_until_it_is_called():
    peer = humming_product("nvfp4", 128, 128, 1)
    assert (peer.package, peer.version) == ("humming-kernels", "0.1.20")
    with pytest.raises(ModuleNotFoundError):
        peer.make_calls(1, "cpu")
