"""`ShadowSampler`: ego subgraphs around roots, kept apart."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests import naive
from tests.strategies import fanout_lists, labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.errors import SeedError, SpecError
from gnnhet.samplers.shadow import ShadowSampler
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage import Graph


def rows_of(graph: Graph, relation: tuple[str, str, str]) -> list[list[int]]:
    indptr, indices = graph.csc(relation)
    return [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]


def grown(graph: Graph, fanouts: list[int], seed_type: str, seeds: list[int], key: tuple[int, int, int]) -> Any:
    """The (tree, id) of each type that k-hop expansion meets, by the plainest code."""
    types = graph.node_types
    nodes: dict[str, list[tuple[int, int]]] = {kind: [] for kind in types}
    nodes[seed_type] = list(enumerate(seeds))
    base = naive.stream(key[0], 1 << 36, types.index(seed_type))
    trees = [naive.node_key(naive.mix(base), v) for v in seeds]
    first = dict.fromkeys(types, 0)
    for hop, fanout in enumerate(fanouts):
        frontier = {kind: list(ids)[first[kind] :] for kind, ids in nodes.items()}
        first = {kind: len(ids) for kind, ids in nodes.items()}
        for number, relation in enumerate(graph.relations):
            stream = naive.stream(*key, hop, number)
            for tree, v in frontier[relation[2]]:
                row = rows_of(graph, relation)[v]
                for pick in naive.picks("uniform", naive.node_key(naive.mix(stream ^ trees[tree]), v), len(row), fanout):
                    if (tree, row[pick]) not in nodes[relation[0]]:
                        nodes[relation[0]].append((tree, row[pick]))
    return nodes


@settings(max_examples=200)
@given(typed_graphs, fanout_lists, st.data())
def test_equals_its_twin(graph: Graph, fanouts: list[int], data: st.DataObject) -> None:
    seed_type = data.draw(st.sampled_from(graph.node_types))
    seeds = data.draw(st.lists(st.integers(0, graph.num_nodes[seed_type] - 1), max_size=6))
    found = ShadowSampler(graph, fanouts, seed=3, with_edge_ids=True).sample((seed_type, np.array(seeds, np.int64)), 1, 2)
    nodes = grown(graph, fanouts, seed_type, seeds, (3, 1, 2))
    assert found.seeds.tolist() == seeds
    for kind in graph.node_types:
        assert list(zip(found.tree_of[kind].tolist(), found.ids_of[kind].tolist(), strict=True)) == nodes[kind]
    for relation in graph.relations:
        expected = naive.induced(rows_of(graph, relation), nodes[relation[0]], nodes[relation[2]])
        got = (found.indptr_of[relation], found.indices_of[relation], found.edge_ids_of[relation])
        assert tuple(part.tolist() for part in got) == expected


def tree(found: Subgraph, place: int) -> dict[str, Any]:
    """One root's own subgraph, by global ids."""
    nodes = {kind: found.ids_of[kind][found.tree_of[kind] == place].tolist() for kind in found.ids_of}
    edges = {}
    for relation in found.indptr_of:
        local = found.edge_index(relation)
        own = found.tree_of[relation[2]][local[1]] == place
        assert bool((found.tree_of[relation[0]][local[0][own]] == place).all())
        edges[relation] = found.edge_ids_of[relation][own].tolist()
    return {"nodes": nodes, "edges": edges}


def test_a_roots_subgraph_is_the_same_in_any_batch() -> None:
    graph = typed_labelled_graph()
    sampler = ShadowSampler(graph, [3, 2], seed=5, with_edge_ids=True)
    seeds = np.array([4, 9, 4, 70, 3])
    whole = sampler.sample(("a", seeds), epoch=2, step=3)
    for place, v in enumerate(seeds.tolist()):
        own = tree(whole, place)
        assert own["nodes"]["a"][0] == v  # the root is the first of its nodes
        assert own == tree(sampler.sample(("a", np.array([v])), epoch=2, step=3), 0)
    assert tree(whole, 0) == tree(whole, 2)


def test_threads_change_nothing() -> None:
    sampler = ShadowSampler(labelled_graph(), [5, 3], seed=1)

    def bytes_of(step: int) -> list[bytes]:
        found = sampler.sample(np.arange(step, step + 40), epoch=1, step=step)
        return [part.numpy().tobytes() for part in (found.ids, found.indptr, found.indices, found.tree_of["node"])]

    alone = [bytes_of(step) for step in range(30)]
    for threads in (2, 4):
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(bytes_of, range(30))) == alone


def test_neighbours_are_equally_likely() -> None:
    degree = 10
    graph = Graph.from_csc(np.concatenate([[0], np.full(degree + 1, degree)]), np.arange(1, degree + 1))
    sampler = ShadowSampler(graph, [3], seed=2)
    counts = np.zeros(degree, np.int64)
    for step in range(4000):
        counts[sampler.sample(np.array([0]), step=step).ids[1:].numpy() - 1] += 1
    assert counts.sum() == 12_000
    assert stats.chisquare(counts).pvalue > 1e-6


def test_no_hops_give_the_roots_and_their_loops() -> None:
    graph = Graph.from_coo([0, 1, 1], [0, 0, 1], 2)
    found = ShadowSampler(graph, []).sample(np.array([0, 1]))
    assert found.ids.tolist() == [0, 1]
    assert found.edge_index(graph.relations[0]).tolist() == [[0, 1], [0, 1]]  # 1 -> 0 joins two trees
    assert ShadowSampler(graph, [2]).sample(np.array([], np.int64)).num_edges == 0


def test_refuses_options() -> None:
    with pytest.raises(SpecError, match="fanout"):
        ShadowSampler(labelled_graph(), [0])
    with pytest.raises(SeedError, match="must be ids"):
        ShadowSampler(labelled_graph(), [2]).sample(np.array([200]))
