from typing import Any

import numpy as np
import pytest
from tests import naive
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


@pytest.mark.parametrize("most", [1, 100, 1024, 1050, 5000])
def test_pieces_are_the_same_graph(most: int) -> None:
    whole = rmat.generate(13, 2100).edges[HOMOGENEOUS]
    pieces = list(rmat.source(13, 2100).edges[HOMOGENEOUS].read(most))
    assert all(piece.src.size <= most for piece in pieces)
    assert np.array_equal(np.concatenate([piece.src for piece in pieces]), whole[0])
    assert np.array_equal(np.concatenate([piece.dst for piece in pieces]), whole[1])


@pytest.mark.parametrize("scale", [1, 3, 4, 5, 31])
def test_equals_its_twin(scale: int) -> None:
    a, b, c, seed = 0.5, 0.3, 0.15, 7
    groups = -(-scale // 4)
    odd = [naive.stream(seed, scale, groups + turn) | 1 for turn in range(3)]
    bounds = [round(65536 * share) for share in (a, a + b, a + b + c)]

    def shuffled(x: int) -> int:
        for number in odd:
            x = (x * number + (number >> 32)) % (1 << scale)
            x ^= x >> ((scale + 1) // 2)
        return x

    src, dst = rmat.generate(scale, 1030, seed, a, b, c).edges[HOMOGENEOUS]
    for i in (0, 1, 2, 1023, 1024, 1029):
        u = v = 0
        for level in range(scale):
            bits = naive.mix((naive.stream(seed, scale, level // 4) + i * 0x9E3779B97F4A7C15) % (1 << 64))
            draw = bits >> (16 * (level % 4)) & 0xFFFF
            quadrant = sum(draw >= bound for bound in bounds)
            u, v = 2 * u + (quadrant >= 2), 2 * v + (quadrant % 2)
        assert (src[i], dst[i]) == (shuffled(u), shuffled(v))


@pytest.mark.parametrize("scale", [1, 2, 7, 12])
def test_ids_are_shuffled_one_to_one(scale: int) -> None:
    src, dst = rmat.generate(scale, 40 << scale, 0, 0.25, 0.25, 0.25).edges[HOMOGENEOUS]
    assert np.unique(np.concatenate([src, dst])).size == 1 << scale


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
