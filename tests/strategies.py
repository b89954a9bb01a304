"""Random graphs for property tests: isolated nodes, self loops, parallel edges, empty relations, one-node types."""

import numpy as np
from hypothesis import strategies as st

from gnnhet.datasets.raw import RawGraph, Relation
from gnnhet.storage import Graph


@st.composite
def typed_raw(draw: st.DrawFn, most_types: int = 3, most_nodes: int = 12, most_edges: int = 40) -> RawGraph:
    """A typed graph as a reader would return it."""
    names = ["a", "b", "c"][: draw(st.integers(1, most_types))]
    num_nodes = {name: draw(st.integers(1, most_nodes)) for name in names}
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(["p", "q"]), st.sampled_from(names))
    edges: dict[Relation, tuple[np.ndarray, np.ndarray]] = {}
    for relation in draw(st.lists(pairs, min_size=1, max_size=4, unique=True)):
        ends = st.tuples(st.integers(0, num_nodes[relation[0]] - 1), st.integers(0, num_nodes[relation[2]] - 1))
        drawn = np.array(draw(st.lists(ends, max_size=most_edges)), np.int64).reshape(-1, 2)
        edges[relation] = (drawn[:, 0], drawn[:, 1])
    return RawGraph(num_nodes=num_nodes, edges=edges, name="random")


typed_graphs = typed_raw().map(Graph.from_raw)

fanout_lists = st.lists(st.one_of(st.just(-1), st.integers(1, 5)), min_size=1, max_size=3)


def labelled_graph(num_nodes: int = 200, num_edges: int = 1500, columns: int = 8, classes: int = 3, seed: int = 0) -> Graph:
    """A homogeneous graph with features, labels and splits; nodes of one class are joined more often."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, num_nodes)
    src, dst = rng.integers(0, num_nodes, (2, num_edges))
    kept = (y[src] == y[dst]) | (rng.random(num_edges) < 0.2)
    x = rng.standard_normal((num_nodes, columns)) + np.eye(classes, columns)[y]
    split = rng.choice([0, 0, 1, 2], num_nodes)
    features: dict[str, dict[str, np.ndarray]] = {"node": {"x": x.astype(np.float32), "y": y, "split": split.astype(np.int8)}}
    edges = {("node", "to", "node"): (src[kept], dst[kept])}
    return Graph.from_raw(RawGraph(num_nodes={"node": num_nodes}, edges=edges, features=features, name="labelled"))


def typed_labelled_graph(seed: int = 0) -> Graph:
    """A typed graph: `a` has features and labels, `b` has features, `c` has none; `a-never-c` has no edges."""
    rng = np.random.default_rng(seed)
    num_nodes = {"a": 120, "b": 40, "c": 15}
    y = rng.integers(0, 3, 120)
    edges: dict[Relation, tuple[np.ndarray, np.ndarray]] = {}
    for relation, count in {
        ("a", "to", "a"): 500,
        ("b", "of", "a"): 300,
        ("a", "in", "b"): 200,
        ("c", "of", "b"): 80,
        ("c", "at", "a"): 90,
    }.items():
        edges[relation] = (
            rng.integers(0, num_nodes[relation[0]], count),
            rng.integers(0, num_nodes[relation[2]], count),
        )
    edges[("a", "never", "c")] = (np.empty(0, np.int64), np.empty(0, np.int64))
    features: dict[str, dict[str, np.ndarray]] = {
        "a": {
            "x": (rng.standard_normal((120, 8)) + np.eye(3, 8)[y]).astype(np.float32),
            "y": np.where(rng.random(120) < 0.1, -1, y),
            "split": rng.choice([0, 0, 1, 2], 120).astype(np.int8),
        },
        "b": {"x": rng.standard_normal((40, 5)).astype(np.float32)},
    }
    return Graph.from_raw(RawGraph(num_nodes=num_nodes, edges=edges, features=features, name="typed"))
