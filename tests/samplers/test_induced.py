"""Induced subgraphs: all edges among given nodes, and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive
from tests.strategies import labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.errors import FormatError, SeedError
from gnnhet.jit import frozen
from gnnhet.samplers.buffers import BufferPool
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.induced import InducedSampler, induced
from gnnhet.samplers.inducer import Inducer
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc


def rows_of(graph: Graph, relation: tuple[str, str, str]) -> list[list[int]]:
    indptr, indices = graph.csc(relation)
    return [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]


@settings(max_examples=300)
@given(typed_graphs, st.booleans(), st.integers(0, 3), st.data())
def test_equals_its_twin(graph: Graph, dense: bool, num_trees: int, data: st.DataObject) -> None:
    """By a dense map, by a hash table and by tables of trees; ids may stand twice."""
    nodes, trees = {}, {}
    for kind, count in graph.num_nodes.items():
        ids = data.draw(st.lists(st.integers(0, count - 1), max_size=12))
        nodes[kind] = np.array(ids, np.int64)
        own = st.integers(0, max(num_trees - 1, 0))
        trees[kind] = np.array(data.draw(st.lists(own, min_size=len(ids), max_size=len(ids))), np.int64)
    inducer = Inducer(graph.num_nodes, edges_of(graph), (1 << 20) if dense else 0)
    for _ in range(2):  # what was before is forgotten
        found = inducer.find(nodes, trees if num_trees else None, BufferPool(), num_trees=max(num_trees, 1), with_positions=True)
        assert list(found) == graph.relations
        for relation, part in found.items():
            known = {kind: list(zip(trees[kind].tolist(), ids.tolist(), strict=True)) for kind, ids in nodes.items()}
            expected = naive.induced(rows_of(graph, relation), known[relation[0]], known[relation[2]])
            assert part.positions is not None
            assert (part.indptr.tolist(), part.indices.tolist(), part.positions.tolist()) == expected
        nodes = {kind: ids[::2] for kind, ids in nodes.items()}
        trees = {kind: ids[::2] for kind, ids in trees.items()}


@given(typed_graphs, st.data())
def test_edge_ids_are_those_the_edges_were_given_by(graph: Graph, data: st.DataObject) -> None:
    nodes = {
        kind: np.array(data.draw(st.lists(st.integers(0, count - 1), unique=True)), np.int64)
        for kind, count in graph.num_nodes.items()
    }
    found = induced(graph, nodes, with_edge_ids=True)
    for relation in graph.relations:
        part = graph.part(relation)
        destinations = np.repeat(np.arange(part.indptr.size - 1), np.diff(part.indptr))
        local = found.edge_index(relation).numpy()
        ids = found.edge_ids_of[relation].numpy()
        assert np.array_equal(part.indices[ids], nodes[relation[0]][local[0]])
        assert np.array_equal(destinations[ids], nodes[relation[2]][local[1]])
        inside = np.isin(part.indices, nodes[relation[0]]) & np.isin(destinations, nodes[relation[2]])
        assert np.array_equal(np.sort(ids), np.flatnonzero(inside))


def test_ids_kept_from_the_input_come_out() -> None:
    src, dst = np.array([2, 0, 1, 2]), np.array([1, 1, 0, 2])
    graph = Graph.from_coo(src, dst, 3, keep_edge_ids=True)
    found = induced(graph, np.array([2, 1]), with_edge_ids=True)
    local = found.edge_index(graph.relations[0])
    assert found.ids.tolist() == [2, 1]
    assert found.edge_ids.tolist() == [3, 0]
    assert found.ids[local[0]].tolist() == src[[3, 0]].tolist()
    assert found.ids[local[1]].tolist() == dst[[3, 0]].tolist()
    assert induced(graph, np.array([2, 1])).edge_ids is None


def test_the_labelled_types_nodes_are_the_seeds() -> None:
    graph = typed_labelled_graph()
    found = induced(graph, {"c": np.arange(5), "a": np.arange(7)})
    assert (found.seed_type, found.num_seeds) == ("a", 7)
    found = induced(graph, {"c": np.arange(5)})
    assert (found.seed_type, found.num_seeds, found.num_edges) == ("c", 5, 0)
    assert induced(graph, np.arange(9)).seeds.tolist() == list(range(9))
    assert induced(graph, ("b", np.arange(9))).seed_type == "b"


def test_all_nodes_give_the_graph() -> None:
    graph = labelled_graph()
    found = induced(graph, np.ones(200, np.bool_))
    indptr, indices = graph.csc(graph.relations[0])
    assert np.array_equal(found.indptr.numpy(), indptr)
    assert np.array_equal(found.indices.numpy(), indices)


def test_threads_share_a_sampler() -> None:
    sampler = InducedSampler(labelled_graph(), with_edge_ids=True)
    seeds = [np.random.default_rng(k).permutation(200)[:80] for k in range(40)]
    alone = [sampler.sample(ids).edge_ids.tolist() for ids in seeds]
    for threads in (2, 4):
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(lambda ids: sampler.sample(ids).edge_ids.tolist(), seeds)) == alone


def test_ids_beyond_2_31_are_found(tmp_path: Path) -> None:
    """A mapped sparse file makes 2^31 + 10 rows cheap; all are empty but the last."""
    count = 2**31 + 10
    indptr = np.lib.format.open_memmap(tmp_path / "indptr.npy", "w+", np.int64, (count + 1,))
    indptr[-1] = 3
    part = Csc(indptr=frozen(np.asarray(indptr)), indices=frozen(np.array([count - 2, 5, count - 1], np.int64)))
    graph = Graph({("node", "to", "node"): part}, {"node": count})
    found = induced(graph, np.array([count - 1, 5, 6]), with_edge_ids=True)
    assert found.indptr.tolist() == [0, 2, 2, 2]
    assert found.indices.tolist() == [1, 0]
    assert found.edge_ids.tolist() == [1, 2]


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_damaged_arrays_end_in_an_error_and_the_sampler_lives_on(budget: int) -> None:
    part = Csc(indptr=frozen(np.array([0, 1, 2, 9])), indices=frozen(np.array([1, 7], np.int32)))
    graph = Graph({("node", "to", "node"): part}, {"node": 3})
    sampler = InducedSampler(graph, map_budget_bytes=budget)
    with pytest.raises(FormatError, match=r"indices of .* damaged"):
        sampler.sample(np.array([0, 1]))
    with pytest.raises(FormatError, match=r"indptr of .* damaged"):
        sampler.sample(np.array([2]))
    assert sampler.sample(np.array([1, 0])[1:]).num_edges == 0
    with pytest.raises(SeedError, match="must be ids"):
        sampler.sample(np.array([3]))
