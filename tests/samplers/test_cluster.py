"""`ClusterSampler` and `partition`: groups of parts, each node once an epoch."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import naive
from tests.strategies import labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.errors import MissingDependencyError, SpecError
from gnnhet.samplers.cluster import ClusterSampler
from gnnhet.samplers.partition import partition
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage import Graph


def rows_of(graph: Graph, relation: tuple[str, str, str]) -> list[list[int]]:
    indptr, indices = graph.csc(relation)
    return [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]


@given(typed_graphs, st.integers(1, 4), st.data())
def test_an_epoch_holds_each_node_once_and_a_step_all_edges_of_its_group(graph: Graph, size: int, data: st.DataObject) -> None:
    parts = {
        kind: np.array(data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)))
        for kind, count in graph.num_nodes.items()
    }
    kind = graph.node_types[-1]
    seeds = np.flatnonzero(np.arange(graph.num_nodes[kind]) % 2)
    sampler = ClusterSampler(graph, parts, parts_per_step=size, seeds=(kind, seeds), seed=4, with_edge_ids=True)
    order = naive.permutation(sampler.num_parts, 4, 1, 1 << 43)
    everyone: dict[str, list[int]] = {name: [] for name in graph.node_types}
    for step in range(sampler.steps):
        found = sampler.sample(None, 1, step)
        group = sorted(order[step * size : (step + 1) * size])
        assert sampler.group(1, step).tolist() == group
        nodes = {}
        for name, own in parts.items():
            ids = [v for part in group for v in np.flatnonzero(own == part).tolist()]
            if name == kind:
                ids = [v for v in ids if v in seeds] + [v for v in ids if v not in seeds]
                assert found.num_seeds == len(set(ids) & set(seeds.tolist()))
            assert found.ids_of[name].tolist() == ids
            everyone[name] += ids
            nodes[name] = [(0, v) for v in ids]
        for relation in graph.relations:
            expected = naive.induced(rows_of(graph, relation), nodes[relation[0]], nodes[relation[2]])
            got = (found.indptr_of[relation], found.indices_of[relation], found.edge_ids_of[relation])
            assert tuple(part.tolist() for part in got) == expected
    assert {name: sorted(ids) for name, ids in everyone.items()} == {
        name: list(range(count)) for name, count in graph.num_nodes.items()
    }


def test_any_two_parts_are_as_likely_to_meet() -> None:
    sampler = ClusterSampler(labelled_graph(), np.arange(200) % 6, parts_per_step=2)
    met = np.zeros((6, 6), np.int64)
    firsts = np.zeros(6, np.int64)
    for epoch in range(4000):
        one, other = sampler.group(epoch, 0)
        met[one, other] += 1
        firsts[[one, other]] += 1
    assert stats.chisquare(met[np.triu_indices(6, 1)]).pvalue > 1e-6
    assert met.sum() == 4000
    assert firsts.sum() == 8000


def bytes_of(found: Subgraph) -> list[bytes]:
    parts = [*found.ids_of.values(), *found.indptr_of.values(), *found.indices_of.values(), *found.edge_ids_of.values()]
    return [part.numpy().tobytes() for part in parts]


def test_threads_change_nothing_and_each_part_of_the_key_does() -> None:
    graph = typed_labelled_graph()
    parts = {kind: np.arange(count) % 10 for kind, count in graph.num_nodes.items()}
    sampler = ClusterSampler(graph, parts, parts_per_step=2, seed=1, with_edge_ids=True)
    alone = [bytes_of(sampler.sample(None, 1, step)) for step in range(5)]
    for threads in (2, 4):
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(lambda step: bytes_of(sampler.sample(None, 1, step)), range(5))) == alone
    assert bytes_of(sampler.sample(None, 2, 0)) != alone[0] != alone[1]
    assert bytes_of(ClusterSampler(graph, parts, parts_per_step=2, seed=2).sample(None, 1, 0)) != alone[0]


def test_given_nodes_choose_their_parts() -> None:
    sampler = ClusterSampler(labelled_graph(), np.arange(200) // 20, parts_per_step=2)
    found = sampler.sample(np.array([45, 3, 41]))
    assert found.seeds.tolist() == [45, 3, 41]
    assert sorted(found.ids.tolist()) == [*range(20), *range(40, 60)]


def test_the_last_step_takes_what_is_left() -> None:
    sampler = ClusterSampler(labelled_graph(), np.arange(200) % 5, parts_per_step=2)
    assert sampler.steps == 3
    assert [sampler.group(0, step).size for step in range(3)] == [2, 2, 1]
    with pytest.raises(SpecError, match=r"an epoch's 3, 0\.\.2, got 3"):
        sampler.sample(None, 0, 3)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "either parts or num_parts"),
        ({"parts": np.arange(5)}, "an integer a node, 200, got int64 of shape"),
        ({"parts": np.zeros(200)}, "an integer a node"),
        ({"parts": np.full(200, -1)}, "0 or more, got -1"),
        ({"parts": {"node": np.zeros(200, int), "b": np.zeros(3, int)}}, "for each node type"),
        ({"parts": np.arange(200), "num_parts": 10}, "got 199"),
        ({"num_parts": 0}, "num_parts must be 1 or more"),
        ({"parts": np.arange(200), "parts_per_step": 0}, "parts_per_step must be 1 or more"),
    ],
)
def test_refuses_options(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        ClusterSampler(labelled_graph(), **options)


def test_parts_of_typed_graphs_are_by_type() -> None:
    with pytest.raises(SpecError, match="arrays by type"):
        ClusterSampler(typed_labelled_graph(), np.zeros(120, int))


def test_without_pymetis_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingDependencyError, match="install pymetis, or give the parts"):
        ClusterSampler(labelled_graph(), num_parts=4)


@given(typed_graphs)
def test_metis_is_given_every_edge_both_ways_without_loops(graph: Graph) -> None:
    seen: dict[str, Any] = {}

    def part_graph(num_parts: int, adjacency: tuple[Any, Any], **given: Any) -> tuple[int, list[int]]:
        seen.update(given, starts=adjacency[0], adjacent=adjacency[1])
        return 0, [v % num_parts for v in range(adjacency[0].size - 1)]

    fake = SimpleNamespace(part_graph=part_graph, Options=lambda **given: given, CSRAdjacency=lambda *given: given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pymetis", fake)
        found = partition(graph, 2, seed=7)
    names = [(kind, v) for kind in graph.node_types for v in range(graph.num_nodes[kind])]
    assert {name: int(found[name[0]][name[1]]) for name in names} == {name: k % 2 for k, name in enumerate(names)}
    counts: dict[tuple[int, int], int] = {}
    for source, label, destination in graph.relations:
        for v, row in enumerate(rows_of(graph, (source, label, destination))):
            for u in row:
                one, other = names.index((source, u)), names.index((destination, v))
                if one != other:
                    for pair in ((one, other), (other, one)):
                        counts[pair] = counts.get(pair, 0) + 1
    given_pairs = {}
    for v in range(len(names)):
        for e in range(seen["starts"][v], seen["starts"][v + 1]):
            given_pairs[v, int(seen["adjacent"][e])] = int(seen["eweights"][e])
    assert given_pairs == counts
    assert seen["options"] == {"seed": 7}


def test_metis_cuts_two_cliques_apart() -> None:
    pytest.importorskip("pymetis")
    one = [(u, v) for u in range(10) for v in range(10) if u != v]
    pairs = np.array([*one, *[(u + 10, v + 10) for u, v in one], (3, 14)])
    parts = partition(Graph.from_coo(pairs[:, 0], pairs[:, 1], 20), 2)["node"]
    assert len(set(parts[:10])) == len(set(parts[10:])) == 1
    assert parts[0] != parts[10]
    typed = ClusterSampler(typed_labelled_graph(), num_parts=5, parts_per_step=2)
    assert sum(typed.sample(None, 0, step).ids_of["b"].numel() for step in range(typed.steps)) == 40
