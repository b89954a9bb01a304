"""The sampling kernels' picks: twins and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import naive

from gnnhet.jit import frozen
from gnnhet.samplers import NeighborSampler, numbering, picks, rows
from gnnhet.samplers.numbering import Numbering
from gnnhet.storage import Graph


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000), st.integers(1, 200))
def test_uniform_and_nested_picks_equal_their_twins(key: int, degree: int, fanout: int) -> None:
    count = min(degree, fanout)
    starts, degrees = np.array([7]), np.array([degree])
    keys, ends = np.array([key], np.uint64), np.array([0, count], np.int32)
    for law, pick in (("uniform", picks.pick_uniform), ("nested", picks.pick_nested)):
        positions = np.empty(count, np.int64)
        pick(starts, degrees, keys, ends, positions)
        assert (positions - 7).tolist() == naive.picks(law, key, degree, fanout)
        assert np.unique(positions).size == count


@given(st.integers(0, 2**64 - 1), st.integers(1, 500))
def test_nested_draws_begin_alike(key: int, degree: int) -> None:
    longest = naive.picks("nested", key, degree, degree - 1)
    for fanout in range(1, degree - 1, 7):
        assert naive.picks("nested", key, degree, fanout) == longest[:fanout]


@given(st.lists(st.integers(0, 30), max_size=100), st.lists(st.integers(0, 30), max_size=10))
def test_numbering_dense_and_hashed_equals_a_dict(sources: list[int], seeds: list[int]) -> None:
    places: dict[int, int] = {}
    for place, seed in enumerate(seeds):
        places.setdefault(seed, place)
    ids, expected = list(seeds), []
    for source in sources:
        if source not in places:
            places[source] = len(ids)
            ids.append(source)
        expected.append(places[source])
    for budget in (0, 1 << 20):
        numbers = Numbering(31, budget)
        for _ in range(3):  # what was before is forgotten
            numbers.begin(np.array(seeds, np.int64))
            numbers.make_room(len(sources))
            out = np.empty(len(sources), np.int32)
            numbers.number(np.array(sources, np.int64), out)
            assert out.tolist() == expected
            assert numbers.seen().tolist() == ids


def test_the_dense_map_begins_anew_before_its_numbers_run_out() -> None:
    numbers = Numbering(10, 1 << 20)
    numbers._base = 2**31 - 20
    for _ in range(5):
        numbers.begin(np.array([3, 1]))
        numbers.make_room(8)
        out = np.empty(8, np.int32)
        numbers.number(np.array([1, 5, 3, 9, 5, 0, 2, 4]), out)
        assert out.tolist() == [1, 2, 0, 3, 2, 4, 5, 6]


@pytest.mark.parametrize("replace", [False, True])
def test_weights_follow_their_law(replace: bool) -> None:
    """Successive sampling includes .7 .2 .1 with .954 .689 .357; with replacement draws are in proportion."""
    degree, times = 4, 40_000
    starts, degrees = np.zeros(times, np.int64), np.full(times, degree)
    weights, keys = np.array([0.7, 0.0, 0.2, 0.1]), np.array([naive.node_key(5, i) for i in range(times)], np.uint64)
    ends, positions = np.arange(0, 2 * times + 1, 2, dtype=np.int32), np.empty(2 * times, np.int64)
    if replace:
        picks.pick_weighted_with_replacement(starts, degrees, np.cumsum(weights), keys, ends, positions)
    else:
        picks.pick_weighted(starts, degrees, weights, keys, ends, positions)
    share = np.bincount(positions, minlength=4) / times
    # the chance of a, then of a or b behind each other first
    expected = [1.4, 0, 0.4, 0.2] if replace else [0.9542, 0, 0.6889, 0.3569]
    assert share == pytest.approx(expected, abs=0.012)  # five standard errors and more


def test_labor_keeps_each_edge_as_often_as_it_says_and_shares_sources() -> None:
    degree, fanout, rows = 50, 5, 400
    indptr = np.arange(0, degree * rows + 1, degree)
    full = np.concatenate([indptr, np.full(degree, degree * rows)])
    graph = Graph.from_csc(full, np.tile(np.arange(rows, rows + degree), rows))
    kept, seen = [], []
    for step in range(300):
        block = NeighborSampler(graph, [fanout], method="labor", seed=1).sample(np.arange(rows), step=step).blocks[0]
        kept.append(block.indices.numel() / rows)
        seen.append(block.src_ids.numel() - rows)
    assert np.mean(kept) == pytest.approx(fanout, abs=0.7)
    assert np.mean(seen) == np.mean(kept)  # every destination keeps the same sources here


@pytest.mark.parametrize(("degree", "bins"), [(10, 10), (70_000, 100)])
def test_nested_draws_are_equally_likely(degree: int, bins: int) -> None:
    times = 20_000
    ends, positions = np.arange(0, 3 * times + 1, 3, dtype=np.int32), np.empty(3 * times, np.int64)
    keys = np.array([naive.node_key(9, i) for i in range(times)], np.uint64)
    picks.pick_nested(np.zeros(times, np.int64), np.full(times, degree), keys, ends, positions)
    assert stats.chisquare(np.bincount(positions * bins // degree, minlength=bins)).pvalue > 1e-6


def drawn_positions(degree: int, fanout: int, replace: bool, times: int) -> np.ndarray:
    """Sources a hub drew over many steps."""
    graph = Graph.from_csc(np.concatenate([[0], np.full(degree + 1, degree)]), np.arange(1, degree + 1))
    sampler = NeighborSampler(graph, [fanout], replace, seed=5)
    found = []
    for step in range(times):
        block = sampler.sample(np.array([0]), step=step).blocks[0]
        found.append(block.src_ids[block.indices.long()].numpy() - 1)
    return np.concatenate(found)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("degree", "fanout"), [(10, 3), (1000, 40), (40_000, 10), (70_000, 10)])
def test_a_hubs_neighbours_are_equally_likely(degree: int, fanout: int, replace: bool) -> None:
    times = 60_000 // fanout
    drawn = drawn_positions(degree, fanout, replace, times)
    bins = min(degree, 100)
    counts = np.bincount(drawn * bins // degree, minlength=bins)
    # without replacement bins vary a little less than multinomially, so the test only gets safer
    assert stats.chisquare(counts).pvalue > 1e-6
    low = (drawn <= 65_536 - degree).mean() if 32_768 < degree < 65_536 else None
    if low is not None:  # where a draw of 16 bits modulo the degree would be seen at once
        assert low == pytest.approx((65_536 - degree + 1) / degree, abs=0.01)


def test_every_subset_is_equally_likely() -> None:
    drawn = drawn_positions(5, 2, False, 20_000).reshape(-1, 2)
    drawn.sort(axis=1)
    counts = np.unique(drawn[:, 0] * 5 + drawn[:, 1], return_counts=True)[1]
    assert counts.size == 10
    assert stats.chisquare(counts).pvalue > 1e-6


def test_damaged_rows_and_sources_are_reported_not_followed() -> None:
    starts, degrees = np.zeros(2, np.int64), np.zeros(2, np.int64)
    assert rows.find_rows(frozen(np.array([0, 5, 2])), np.array([0, 1]), 9, starts, degrees) == rows.BAD_ROW
    assert rows.find_rows(frozen(np.array([0, 2, 99])), np.array([1]), 9, starts, degrees) == rows.BAD_ROW
    for bad in (-1, 3):
        for place in (0, 99):
            indices = np.zeros(100, np.int32)
            indices[place] = bad
            got = numbering.read_sources(frozen(indices), np.arange(100), 3, np.empty(100, np.int32))
            assert got == numbering.BAD_SOURCE
