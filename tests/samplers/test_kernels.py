"""The sampling kernels' picks: twins and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import naive

from gnnhet.samplers import NeighborSampler, kernels
from gnnhet.samplers.rng import node_key
from gnnhet.storage import Graph


@given(st.integers(0, 2**64 - 1), st.integers(1, 5000), st.integers(1, 200))
def test_floyd_equals_its_twin_with_and_without_a_table(key: int, extra: int, count: int) -> None:
    degree = count + extra
    few, many = np.empty(count, np.int64), np.empty(count, np.int64)
    table = np.empty(1 << (4 * count - 1).bit_length(), np.int64)
    kernels.pick_few(np.uint64(key), degree, count, few)
    kernels.pick_many(np.uint64(key), degree, count, many, table)
    assert few.tolist() == many.tolist() == naive.picks(key, degree, count, replace=False)
    assert np.unique(few).size == count


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
    ends = np.zeros(3, np.int64)
    broken = np.array([0, 5, 2], np.int64)
    assert kernels.count_draws(broken, np.array([0, 1]), -1, False, 9, ends) == kernels.BAD_ROW
    assert kernels.count_draws(np.array([0, 2, 99]), np.array([1]), -1, False, 9, ends[:2]) == kernels.BAD_ROW
    for bad in (-1, 3):
        got = kernels.draw_sources(
            np.array([0, 1]),
            np.array([bad], np.int32),
            np.array([0]),
            np.array([0, 1]),
            -1,
            False,
            node_key(np.uint64(1), 0),
            np.zeros(3, np.int32),
            np.zeros(3, np.int64),
            1,
            np.empty(1, np.int32),
        )
        assert got == kernels.BAD_SOURCE
