"""Shares at which unequal devices finish together."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.planning.shares import equal_finish

costs = st.lists(st.tuples(st.floats(1e-9, 1e-2), st.one_of(st.just(0.0), st.floats(0, 1.0))), min_size=1, max_size=6)


def finishes(batch_size: int, shares: list[float], per_seed: list[float], fixed: list[float]) -> list[float]:
    """When each device that takes part is done; 0 for one without work."""
    return [
        slope * share * batch_size + start if share else 0.0 for share, slope, start in zip(shares, per_seed, fixed, strict=True)
    ]


@given(costs, st.integers(1, 100_000))
def test_the_active_finish_together_and_nobody_else_would_help(drawn: list[tuple[float, float]], batch_size: int) -> None:
    per_seed, fixed = [cost[0] for cost in drawn], [cost[1] for cost in drawn]
    shares = equal_finish(batch_size, per_seed, fixed)
    assert len(shares) == len(drawn)
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) == pytest.approx(1, abs=1e-9)
    ends = finishes(batch_size, shares, per_seed, fixed)
    last = max(ends)
    for share, end, start in zip(shares, ends, fixed, strict=True):
        if share:
            assert end == pytest.approx(last, rel=1e-6)
        else:
            assert start >= last * (1 - 1e-6)  # idle: alone its fixed cost is longer than the whole step


@given(costs, st.integers(1, 100_000))
def test_a_device_without_fixed_cost_always_takes_part(drawn: list[tuple[float, float]], batch_size: int) -> None:
    per_seed, fixed = [cost[0] for cost in drawn], [cost[1] for cost in drawn]
    for share, start in zip(equal_finish(batch_size, per_seed, fixed), fixed, strict=True):
        assert share > 0 or start > 0


@pytest.mark.parametrize("batch_size", [1, 5, 12])
@pytest.mark.parametrize("per_seed", [(1.0, 1.0, 1.0), (1.0, 2.0, 4.0), (3.0, 0.5, 9.0)])
@pytest.mark.parametrize("fixed", [(0.0, 0.0, 0.0), (0.0, 3.0, 6.0), (50.0, 1.0, 0.0), (4.0, 4.0, 40.0)])
def test_no_split_into_whole_seeds_is_faster(batch_size: int, per_seed: tuple[float, ...], fixed: tuple[float, ...]) -> None:
    """Every split there is of a small batch, tried."""
    shares = equal_finish(batch_size, per_seed, fixed)
    ours = max(finishes(batch_size, shares, list(per_seed), list(fixed)))
    best = math.inf
    for first, second in itertools.product(range(batch_size + 1), repeat=2):
        seeds = (first, second, batch_size - first - second)
        if seeds[2] >= 0:
            ends = [slope * b + start for b, slope, start in zip(seeds, per_seed, fixed, strict=True) if b]
            best = min(best, max(ends))
    assert ours <= best + 1e-9
    assert best <= ours + max(per_seed) + 1e-9  # whole seeds lose one seed's time at most


def test_shares_follow_speed_and_order() -> None:
    assert equal_finish(700, [1.0, 2.0, 4.0], [0.0, 0.0, 0.0]) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert equal_finish(10, [4.0, 1.0], [0.0, 0.0]) == pytest.approx([0.2, 0.8])
    assert equal_finish(10, [1.0, 1.0], [0.0, 10.0]) == [1.0, 0.0]  # it would end when the first has all done
    assert equal_finish(10, [1.0, 1.0], [0.0, 9.0]) == pytest.approx([0.95, 0.05])
    assert equal_finish(3, [7.0], [100.0]) == [1.0]
