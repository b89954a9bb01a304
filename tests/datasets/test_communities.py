from typing import Any

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets import communities
from gnnhet.errors import SpecError
from gnnhet.storage import Graph

LIKE = ("item", "like", "item")


@pytest.mark.parametrize(("nodes", "edges"), [(200, 6), (1001, 5000), (5000, 77_778)])
def test_sizes_are_exact_and_the_seed_decides(nodes: int, edges: int) -> None:
    raw = communities.generate(nodes, edges, seed=1)
    assert sum(raw.num_nodes.values()) == nodes
    assert sum(src.size for src, _ in raw.edges.values()) == edges
    assert set(raw.num_nodes) == {"item", "user", "tag"}
    again, other = communities.generate(nodes, edges, seed=1), communities.generate(nodes, edges, seed=2)
    assert np.array_equal(raw.features["item"]["x"], again.features["item"]["x"])
    assert all(np.array_equal(raw.edges[relation][0], again.edges[relation][0]) for relation in raw.edges)
    assert not np.array_equal(raw.features["item"]["x"], other.features["item"]["x"])
    Graph.from_raw(raw)


def test_of_an_odd_number_of_edges_the_last_is_left_out() -> None:
    assert sum(src.size for src, _ in communities.generate(200, 1001).edges.values()) == 1000


def test_each_relation_has_its_reverse() -> None:
    edges = communities.generate(500, 3000).edges
    assert len(edges) == 6
    for source, name, _ in (LIKE, ("user", "rates", "item"), ("tag", "marks", "item")):
        forth, back = edges[(source, name, "item")], edges[("item", f"rev_{name}", source)]
        assert np.array_equal(forth[0], back[1])
        assert np.array_equal(forth[1], back[0])


def test_structure_says_more_than_features() -> None:
    raw = communities.generate(10_000, 200_000)
    item: dict[str, Any] = dict(raw.features["item"])
    x, y, split = item["x"], item["y"], item["split"]
    shares = np.bincount(split) / split.size
    assert np.allclose(shares, [0.2, 0.2, 0.6], atol=0.02)
    # neighbours share a community in three of four edges; by chance one in ten
    src, dst = raw.edges[LIKE]
    assert 0.7 < np.mean(y[src] == y[dst]) < 0.85
    # the nearest centroid of the features alone
    centres = np.stack([x[(split == 0) & (y == k)].mean(0) for k in range(10)])
    tested = split == 2
    distances = ((x[tested][:, None] - centres[None]) ** 2).sum(2)
    features_alone = np.mean(distances.argmin(1) == y[tested])
    assert 0.2 < features_alone < 0.45
    # the community that most neighbours have
    votes = np.zeros((y.size, 10))
    np.add.at(votes, (dst.astype(np.int64), y[src]), 1)
    met = tested & (votes.sum(1) > 0)
    assert np.mean(votes.argmax(1)[met] == y[met]) > features_alone + 0.4


def test_degrees_are_skewed() -> None:
    src, _ = communities.generate(10_000, 200_000).edges[LIKE]
    degrees = np.bincount(src, minlength=6000)
    assert degrees.max() > 20 * degrees.mean()


@pytest.mark.parametrize(("nodes", "edges"), [(199, 6), (200, 5), (-1, 6), (200, -6)])
def test_sizes_too_small_are_refused(nodes: int, edges: int) -> None:
    with refused(SpecError, nodes, edges):
        communities.generate(nodes, edges)
