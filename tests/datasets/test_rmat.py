from typing import Any

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets import rmat
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import SpecError
from gnnhet.storage import Graph


def test_sizes_are_exact_and_the_seed_decides() -> None:
    raw = rmat.generate(10, 5001, seed=3)
    src, dst = raw.edges[HOMOGENEOUS]
    assert raw.num_nodes == {"node": 1024}
    assert src.size == dst.size == 5001
    assert 0 <= min(src.min(), dst.min())
    assert max(src.max(), dst.max()) < 1024
    again, other = rmat.generate(10, 5001, seed=3).edges[HOMOGENEOUS], rmat.generate(10, 5001, seed=4).edges[HOMOGENEOUS]
    assert np.array_equal(src, again[0])
    assert np.array_equal(dst, again[1])
    assert not np.array_equal(src, other[0])
    Graph.from_raw(raw)


def test_several_chunks_have_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmat, "_CHUNK", 100)
    src, dst = rmat.generate(12, 1050).edges[HOMOGENEOUS]
    assert src.size == 1050
    assert not np.array_equal(src[:100], src[100:200])
    assert np.count_nonzero(src[1000:]) > 0
    assert np.count_nonzero(dst[1000:]) > 0


def test_degrees_are_skewed_and_hubs_have_any_id() -> None:
    src, dst = rmat.generate(14, 16 << 14).edges[HOMOGENEOUS]
    for ends in (src, dst):
        degrees = np.bincount(ends, minlength=1 << 14)
        assert degrees.max() > 50 * degrees.mean()
        hubs = np.argsort(degrees)[-100:]
        assert hubs.min() < 2000
        assert hubs.max() > 14_000


def test_equal_probabilities_are_not_skewed() -> None:
    src, _ = rmat.generate(10, 16 << 10, a=0.25, b=0.25, c=0.25).edges[HOMOGENEOUS]
    assert np.bincount(src).max() < 4 * 16


def test_quadrants_have_their_probabilities() -> None:
    ends: Any = rmat.generate(1, 100_000, a=0.5, b=0.3, c=0.15).edges[HOMOGENEOUS]
    shares = np.sort(np.bincount(2 * ends[0] + ends[1], minlength=4)) / 100_000
    assert np.allclose(shares, [0.05, 0.15, 0.3, 0.5], atol=0.01)


def test_no_edges_and_probabilities_that_sum_to_one_but_for_rounding() -> None:
    assert rmat.generate(1, 0).edges[HOMOGENEOUS][0].size == 0
    assert 1 - 0.5 - 0.4 - 0.1 < 0
    rmat.generate(4, 10, a=0.5, b=0.4, c=0.1)


@pytest.mark.parametrize(("scale", "edges"), [(0, 5), (32, 5), (-1, 5), (5, -1)])
def test_sizes_out_of_range_are_refused(scale: int, edges: int) -> None:
    with refused(SpecError, scale, edges):
        rmat.generate(scale, edges)


@pytest.mark.parametrize("chances", [(-0.1, 0.5, 0.5), (0.5, 0.5, 0.5)])
def test_probabilities_out_of_range_are_refused(chances: tuple[float, float, float]) -> None:
    with refused(SpecError, *chances):
        rmat.generate(3, 5, 0, *chances)
