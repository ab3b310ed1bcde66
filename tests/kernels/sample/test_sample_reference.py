"""The draws follow the filtered distribution and depend on (seed, position) alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.sample.reference import (
    Filters,
    filter_reference,
    gumbel_reference,
    penalise_reference,
    philox_reference,
    sample_reference,
)


def logits_of(seed: int, num_ids: int, scale: float = 2.0) -> torch.Tensor:
    return torch.randn(num_ids, generator=torch.Generator().manual_seed(seed)) * scale


def draw(logits: torch.Tensor, filters: Filters, seed: int, positions) -> torch.Tensor:
    positions = torch.tensor(positions)
    return sample_reference(logits.expand(len(positions), -1), positions, filters, seed)


def chi_square_p(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """p of the chi-square statistic; classes expected under five times are joined."""
    expected = probabilities.double() * counts.sum()
    rare = expected < 5
    observed = torch.cat([counts[~rare], counts[rare].sum(0, keepdim=True)]).double()
    expected = torch.cat([expected[~rare], expected[rare].sum(0, keepdim=True)])
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = ((observed - expected) ** 2 / expected).sum()
    half = torch.tensor((len(expected) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, statistic / 2))


def test_philox_gives_the_published_words():
    words = philox_reference(0, torch.tensor(0), torch.tensor([0]))[:, 0].tolist()
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def philox_in_python(seed: int, position: int, index: int) -> list[int]:
    counter = [index & 0xFFFFFFFF, index >> 32, position & 0xFFFFFFFF, position >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        product0, product1 = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (product1 >> 32) ^ counter[1] ^ key[0], product1 & 0xFFFFFFFF,
            (product0 >> 32) ^ counter[3] ^ key[1], product0 & 0xFFFFFFFF,
        ]  # fmt: skip
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_philox_in_torch_is_philox_in_whole_numbers(seed, position, index):
    words = philox_reference(seed, torch.tensor(position), torch.tensor([index]))[:, 0].tolist()
    assert words == philox_in_python(seed, position, index)


@pytest.mark.parametrize(
    "filters",
    [
        Filters(),
        Filters(temperature=0.7),
        Filters(temperature=1.5, top_k=7),
        Filters(top_p=0.8),
        Filters(min_p=0.1),
        Filters(temperature=0.7, top_k=20, top_p=0.8, min_p=0.02),
    ],
    ids=str,
)
def test_draws_follow_the_filtered_distribution(filters):
    logits = logits_of(3, 40)
    ids, probabilities = filter_reference(logits, filters)
    wanted = torch.zeros(40, dtype=torch.float64).index_put((ids,), probabilities)
    noise = gumbel_reference(11, torch.arange(20_000)[:, None], ids)
    drawn = ids[(probabilities.log() + noise).argmax(1)]
    assert torch.equal(drawn[:200], draw(logits, filters, 11, range(200)))
    assert chi_square_p(torch.bincount(drawn, minlength=40), wanted) > 0.01


def test_draws_of_different_seeds_follow_it_too():
    logits = logits_of(4, 12)
    drawn = torch.cat([draw(logits, Filters(), seed, [5]) for seed in range(800)])
    assert chi_square_p(torch.bincount(drawn, minlength=12), logits.double().softmax(0)) > 0.01


def test_neighbouring_positions_are_independent():
    drawn = draw(torch.zeros(3), Filters(), 7, range(1501))
    pairs = torch.bincount(drawn[:-1] * 3 + drawn[1:], minlength=9)
    assert chi_square_p(pairs, torch.full((9,), 1 / 9)) > 0.01


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(1, 5), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_cutting_positions_into_calls_changes_nothing(seed, cuts):
    logits = torch.stack([logits_of(index, 30) for index in range(sum(cuts))])
    positions = torch.arange(100, 100 + sum(cuts))
    whole = sample_reference(logits, positions, Filters(top_k=9), seed)
    parts = [
        sample_reference(rows, places, Filters(top_k=9), seed)
        for rows, places in zip(logits.split(cuts), positions.split(cuts), strict=True)
    ]
    assert torch.equal(whole, torch.cat(parts))


def test_noise_of_an_id_does_not_depend_on_the_ids_beside_it():
    four = torch.tensor(4)
    whole = gumbel_reference(9, four, torch.arange(1000))
    assert torch.equal(whole[[5, 900]], gumbel_reference(9, four, torch.tensor([5, 900])))
    assert torch.isfinite(whole).all()


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_filters_keep_what_they_say(data):
    logits = logits_of(data.draw(st.integers(0, 999)), data.draw(st.integers(1, 50)))
    filters = Filters(
        data.draw(st.floats(0.05, 5)),
        data.draw(st.integers(0, 60)),
        data.draw(st.floats(0, 1)),
        data.draw(st.floats(0, 1)),
    )
    ids, probabilities = filter_reference(logits, filters)
    assert 1 <= len(ids) <= (filters.top_k or len(logits))
    assert math.isclose(float(probabilities.sum()), 1.0)
    assert logits.argmax() in ids
    lost = torch.ones(len(logits), dtype=torch.bool).index_fill(0, ids, value=False)
    assert (logits[lost] <= logits[ids].min()).all()


def test_top_p_keeps_the_id_that_crosses():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    assert filter_reference(logits, Filters(top_p=0.6))[0].tolist() == [0, 1]
    assert filter_reference(logits, Filters(top_p=0.4))[0].tolist() == [0]
    assert filter_reference(logits, Filters(top_p=0.0))[0].tolist() == [0]


def test_min_p_is_measured_against_the_most_likely_id():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    assert filter_reference(logits, Filters(min_p=0.5))[0].tolist() == [0, 1]


def test_top_p_reads_the_distribution_that_top_k_left():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    assert filter_reference(logits, Filters(top_k=2, top_p=0.55))[0].tolist() == [0]


@pytest.mark.parametrize("filters", [Filters(0.0), Filters(0.0, 5, 0.3, 0.1)])
def test_temperature_zero_is_greedy_and_ties_go_to_the_lowest_id(filters):
    logits = torch.tensor([1.0, 3.0, -math.inf, 3.0])
    assert draw(logits, filters, 5, range(20)).tolist() == [1] * 20


def test_top_k_cuts_ties_at_the_lowest_ids():
    assert filter_reference(torch.zeros(9), Filters(top_k=3))[0].tolist() == [0, 1, 2]


def test_a_masked_id_is_never_drawn():
    logits = torch.tensor([0.0, -math.inf, 0.0])
    assert 1 not in draw(logits, Filters(temperature=50.0), 1, range(300))


def test_a_tiny_temperature_neither_overflows_nor_leaves_the_maximum():
    logits = torch.tensor([80.0, 79.0, -90.0])
    assert draw(logits, Filters(temperature=1e-30), 1, range(20)).tolist() == [0] * 20


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_logits_are_refused(bad):
    with pytest.raises(ValueError, match="position 8 have no finite maximum"):
        draw(torch.tensor([0.0, bad]), Filters(), 0, [8])


def test_penalties_touch_what_was_seen():
    logits = torch.tensor([2.0, -2.0, 2.0, 2.0])
    seen = torch.tensor([True, True, True, False])
    generated = torch.tensor([False, False, True, False])
    assert penalise_reference(logits, seen, generated, 0.5, 2.0).tolist() == [1.0, -4.0, 0.5, 2.0]
    assert torch.equal(penalise_reference(logits, seen, generated, 0.0, 1.0), logits)
