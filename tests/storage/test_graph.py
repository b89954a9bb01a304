"""`Graph`: construction, no copies, and the rules it holds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.strategies import typed_raw

from gnnhet.datasets.raw import HOMOGENEOUS, RawGraph
from gnnhet.errors import GnnhetError, GraphError
from gnnhet.storage import Graph, csc


@given(st.integers(1, 10), st.data())
def test_coo_becomes_the_twins_csc(num_nodes: int, data: st.DataObject) -> None:
    ids = st.integers(0, num_nodes - 1)
    edges = data.draw(st.lists(st.tuples(ids, ids), max_size=30))
    src, dst = [u for u, _ in edges], [v for _, v in edges]
    part = csc.from_coo(src, dst, num_src=num_nodes, num_dst=num_nodes, what="r", keep_edge_ids=True)
    assert part.edge_ids is not None
    got = (part.indptr.tolist(), part.indices.tolist(), part.edge_ids.tolist())
    assert got == naive.csc(src, dst, num_nodes)


@given(typed_raw())
def test_raw_graphs_keep_every_edge(raw: RawGraph) -> None:
    graph = Graph.from_raw(raw)
    assert graph.relations == sorted(raw.edges)
    for relation, (src, dst) in raw.edges.items():
        indptr, indices = graph.csc(relation)
        rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        assert sorted(zip(indices.tolist(), rows.tolist(), strict=True)) == sorted(zip(src.tolist(), dst.tolist(), strict=True))


def test_arrays_are_taken_without_copying() -> None:
    indptr, indices = np.array([0, 1, 2], np.int64), np.array([1, 0], np.int32)
    x, y = torch.randn(2, 3), np.array([0, 1])
    graph = Graph.from_csc(torch.from_numpy(indptr), indices, x=x, y=y)
    held = graph.csc(HOMOGENEOUS)
    assert np.shares_memory(held[0], indptr)
    assert np.shares_memory(held[1], indices)
    assert np.shares_memory(graph.features.array("node", "x"), x.numpy())
    assert np.shares_memory(graph.features.array("node", "y"), y)
    assert not held[0].flags.writeable


def test_wide_indices_are_narrowed_only_where_they_fit() -> None:
    assert Graph.from_csc([0, 1], np.array([0], np.int64)).csc(HOMOGENEOUS)[1].dtype == np.int32
    assert csc.index_dtype(2**31 - 1) is np.int32
    assert csc.index_dtype(2**31) is np.int64


@pytest.mark.parametrize(
    ("indptr", "indices", "rule"),
    [
        ([0, 2, 1], [0, 0], "must never fall, got 2 before 1 at destination 1"),
        ([0, 1, 2], [0, 5], r"must lie in 0\.\.1, got 5 at position 1"),
        ([0, 1, 2], [0, -1], "got -1 at position 1"),
        ([1, 2], [0, 0], "must start at 0, got 1"),
        ([0, 3], [0, 0], "must end at the number of edges, 2, got 3"),
        ([], [], "one entry more than there are destinations"),
        ([0, 1], [0.0], "must be integers, got dtype float64"),
        ([0, 1], [[0]], "one axis"),
        ([0, 1], np.array([2**32], np.int64), r"must lie in 0\.\.0, got 4294967296"),  # 0 if it were cut to 32 bits
        ([0, 1], np.array([2**63], np.uint64), "got 9223372036854775808"),
    ],
)
def test_refuses_broken_csc(indptr: object, indices: object, rule: str) -> None:
    with pytest.raises(GraphError, match=rule):
        Graph.from_csc(indptr, indices)  # type: ignore[arg-type]


def test_refuses_other_broken_input() -> None:
    ok = {HOMOGENEOUS: ([0, 1], [0])}
    with pytest.raises(GraphError, match="known node types"):
        Graph.from_relations(ok, {"paper": 1})
    with pytest.raises(GraphError, match="must be the triple"):
        Graph.from_relations({"cites": ([0, 1], [0])}, {"node": 1})  # type: ignore[dict-item]
    with pytest.raises(GraphError, match="features must belong"):
        Graph.from_relations(ok, {"node": 1}, {"paper": {}})
    with pytest.raises(GraphError, match="counts of 0 or more"):
        Graph.from_relations({}, {"node": -1})
    with pytest.raises(GraphError, match="must be as many"):
        Graph.from_coo([0, 1], [0], 2)
    with pytest.raises(GraphError, match=r"destination ids .* got 2"):
        Graph.from_coo([0], [2], 2)
    with pytest.raises(GraphError, match="one row for each of the 1, got 2"):
        Graph.from_csc([0, 1], [0], x=np.zeros((2, 3)))
    with pytest.raises(GraphError, match="must not be NaN"):
        Graph.from_csc([0, 1], [0], y=np.array([np.nan]))
    with pytest.raises(GraphError, match="must be numbers"):
        Graph.from_csc([0, 1], [0], x=np.array(["a"]))
    with pytest.raises(GraphError, match=r"must be 0 .train."):
        Graph.from_csc([0, 1], [0], split=np.array([3]))
    with pytest.raises(GraphError, match="no relation"):
        Graph.from_csc([0, 1], [0]).csc(("a", "b", "c"))


def test_every_refusal_is_a_gnnhet_error() -> None:
    with pytest.raises(GnnhetError):
        Graph.from_csc([0, 2, 1], [0, 0])


def test_targets_classes_and_splits() -> None:
    graph = Graph.from_csc([0, 0, 0, 0, 0], [], y=np.array([2, -1, 0, 1]), split=np.array([0, 0, 1, -1], np.int8))
    assert graph.target_type == "node"
    assert graph.num_classes("node") == 3
    assert graph.split_ids("node", "train").tolist() == [0]  # 1 is unlabelled
    assert graph.split_ids("node", "val").tolist() == [2]
    assert graph.split_ids("node", "test").tolist() == []
    several = Graph.from_csc([0, 0, 0], [], y=np.ones((2, 4), np.int64), split=np.array([0, 1]))
    assert several.split_ids("node", "train").tolist() == [0]
    with pytest.raises(GraphError, match="one a node"):
        several.num_classes("node")
    plain = Graph.from_csc([0, 0], [])
    with pytest.raises(GraphError, match="exactly one node type must have labels"):
        _ = plain.target_type
    with pytest.raises(GraphError, match="mark at least one node"):
        Graph.from_csc([0, 0], [], y=np.array([-1])).num_classes("node")
    with pytest.raises(GraphError, match="must be integers, one a node"):
        Graph.from_csc([0, 0], [], y=np.array([0.5])).num_classes("node")
