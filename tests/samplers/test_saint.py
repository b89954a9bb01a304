"""`SaintSampler` and `Walks`: their twins, their laws, and that weighted sums are unbiased."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests import naive
from tests.strategies import labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.errors import FormatError, SeedError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.loss_nodes import LossNodes
from gnnhet.samplers.saint import SAINT_LAWS, SaintSampler
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.samplers.walks import Walks
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc


def rows_of(graph: Graph, relation: tuple[str, str, str]) -> list[list[int]]:
    indptr, indices = graph.csc(relation)
    return [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]


@settings(max_examples=200)
@given(typed_graphs, st.integers(0, 4), st.integers(0, 2**64 - 1), st.data())
def test_walks_equal_their_twin(graph: Graph, length: int, base: int, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(graph.node_types))
    roots = data.draw(st.lists(st.integers(0, graph.num_nodes[kind] - 1), max_size=8))
    walks = Walks(graph.node_types, edges_of(graph))
    kinds, nodes = walks.walk(kind, np.array(roots, np.int64), length, np.uint64(base))
    relations = [naive.Relation(name=r, rows=rows_of(graph, r)) for r in graph.relations]
    for number, root in enumerate(roots):
        expected = naive.walk(relations, (kind, root), length, base, number)
        got = zip(kinds[:, number].tolist(), nodes[:, number].tolist(), strict=True)
        assert [(graph.node_types[k], v) for k, v in got] == expected


@settings(max_examples=200)
@given(typed_graphs, st.sampled_from(SAINT_LAWS), st.integers(1, 6), st.integers(0, 3), st.data())
def test_visits_equal_their_twin(graph: Graph, law: str, size: int, length: int, data: st.DataObject) -> None:
    if law != "walk" and not sum(graph.num_edges.values()):
        return
    kind = data.draw(st.sampled_from(graph.node_types))
    seeds = (kind, np.array([0]))
    sampler = SaintSampler(graph, size, length, law=law, seeds=seeds, coverage=0)
    relations = [naive.Relation(name=r, rows=rows_of(graph, r)) for r in graph.relations]
    expected = naive.saint(law, relations, graph.num_nodes, size, length, kind, (0, 2, 5))
    assert {name: ids.tolist() for name, ids in sampler._visit((0, 2, 5)).items()} == expected


def test_a_step_takes_each_edge_of_all_relations_as_often() -> None:
    """Node 0 of `a` has 3 edges of one relation and 4 of another, two of them parallel."""
    graph = Graph.from_relations(
        {
            ("a", "p", "a"): (np.array([0, 3, 3, 3, 3]), np.array([1, 2, 3])),
            ("b", "q", "a"): (np.array([0, 4, 4, 4, 4]), np.array([0, 1, 2, 2])),
        },
        {"a": 4, "b": 3},
    )
    walks, times = Walks(graph.node_types, edges_of(graph)), 70_000
    kinds, nodes = walks.walk("a", np.zeros(times, np.int64), 1, np.uint64(naive.stream(1)))
    counts = np.bincount(kinds[1] * 4 + nodes[1], minlength=8)
    assert counts[[0, 7]].tolist() == [0, 0]
    assert stats.chisquare(counts[1:7], np.array([1, 1, 1, 1, 1, 2]) * times / 7).pvalue > 1e-6


def test_roots_and_later_steps_are_equally_likely() -> None:
    """On a directed ring with loops each walk stays or goes on: after 3 steps it is binomially far."""
    count = 8
    graph = Graph.from_csc(
        np.arange(0, 2 * count + 1, 2), np.stack([np.arange(count), (np.arange(count) + 1) % count], 1).ravel()
    )
    walks, times = Walks(graph.node_types, edges_of(graph)), 40_000
    nodes = walks.walk("node", np.zeros(times, np.int64), 3, np.uint64(naive.stream(2)))[1]
    assert stats.chisquare(np.bincount(nodes[3], minlength=4), np.array([1, 3, 3, 1]) * times / 8).pvalue > 1e-6
    sampler = SaintSampler(graph, 1, 0, coverage=0)
    roots = [sampler.sample(None, 0, step).ids.tolist() for step in range(8000)]
    assert stats.chisquare(np.bincount(np.concatenate(roots), minlength=count)).pvalue > 1e-6


def test_nodes_and_edges_are_drawn_by_their_weights() -> None:
    src, dst = np.array([0, 1, 2, 3, 0, 3]), np.array([1, 2, 3, 0, 2, 4])
    graph = Graph.from_coo(src, dst, 5)
    degrees = np.bincount(dst, minlength=5)
    nodes = np.bincount(src, 1 / degrees[dst] ** 2.0, minlength=5)
    sampler = SaintSampler(graph, 1, law="node", coverage=0)
    drawn = np.concatenate([sampler.sample(None, 0, step).ids.numpy() for step in range(20_000)])
    counts = np.bincount(drawn, minlength=5)
    assert counts[4] == 0
    assert stats.chisquare(counts[:4], nodes[:4] / nodes.sum() * 20_000).pvalue > 1e-6
    edges = 1 / degrees[dst] + 1 / degrees[src]
    sampler = SaintSampler(graph, 1, law="edge", coverage=0)
    pairs = [tuple(sorted(sampler.sample(None, 0, step).ids.tolist())) for step in range(20_000)]
    names = [tuple(sorted(pair)) for pair in zip(src.tolist(), dst.tolist(), strict=True)]
    counts = np.array([pairs.count(name) for name in names])  # no two edges join the same nodes
    assert counts.sum() == 20_000
    assert stats.chisquare(counts, edges / edges.sum() * 20_000).pvalue > 1e-6


def options_of(law: str) -> dict[str, Any]:
    return {"law": law, "size": 20, "walk_length": 2}


@pytest.mark.parametrize("law", SAINT_LAWS)
@pytest.mark.parametrize("typed", [False, True])
def test_presampled_subgraphs_weigh_up_to_the_graph(law: str, typed: bool) -> None:
    """Over the very subgraphs that were counted, weighted sums average exactly to the sums over what was met."""
    graph = typed_labelled_graph() if typed else labelled_graph()
    sampler = SaintSampler(graph, coverage=8, seed=3, **options_of(law))
    value = {kind: np.random.default_rng(7).random(count) for kind, count in graph.num_nodes.items()}
    losses = {kind: np.zeros(count) for kind, count in graph.num_nodes.items()}
    messages = {r: np.zeros(graph.num_nodes[r[2]]) for r in graph.relations}
    seen = {kind: np.zeros(count, np.int64) for kind, count in graph.num_nodes.items()}
    met_edges = {r: np.zeros(graph.num_edges[r], np.bool_) for r in graph.relations}
    for number in range(sampler.num_presampled):
        visited = sampler._visit((3, 1 << 42, number))
        found = sampler._weighted(*sampler._induce(visited, 0, 0))
        for kind, ids in found.ids_of.items():
            losses[kind][ids.numpy()] += found.node_weight_of[kind].numpy() * value[kind][ids.numpy()]
            seen[kind][ids.numpy()] += 1
        for r, edges in sampler._induce(visited, 0, 0)[1].items():
            assert edges.positions is not None
            met_edges[r][edges.positions.numpy()] = True
            source, destination = found.edge_index(r).numpy()
            sent = found.edge_weight_of[r].numpy() * value[r[0]][found.ids_of[r[0]].numpy()[source]]
            np.add.at(messages[r], found.ids_of[r[2]].numpy()[destination], sent)
    for kind in graph.node_types:
        assert np.allclose(losses[kind] / sampler.num_presampled, np.where(seen[kind] > 0, value[kind], 0), rtol=1e-5)
    for r in graph.relations:
        indptr, indices = graph.csc(r)
        expected = np.zeros(graph.num_nodes[r[2]])
        destinations = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        np.add.at(expected, destinations, met_edges[r] * value[r[0]][indices])
        assert np.allclose(messages[r] / np.maximum(seen[r[2]], 1), expected, rtol=1e-5)


@pytest.mark.parametrize("law", SAINT_LAWS)
def test_weighted_sums_are_unbiased(law: str) -> None:
    """Fresh subgraphs, weights counted in others: the weighted loss and the weighted messages meet the whole graph's."""
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 40, (2, 160))
    graph = Graph.from_coo(np.concatenate([src, dst]), np.concatenate([dst, src]), 40)
    sampler = SaintSampler(graph, 8 if law == "walk" else 16, 2, seed=1, law=law, coverage=1000)
    value = rng.random(40) + 0.5
    times = 2000
    losses, messages = np.empty(times), np.zeros((times, 40))
    inside = np.zeros((times, 40), np.bool_)
    for step in range(times):
        found = sampler.sample(None, 1, step)
        ids = found.ids.numpy()
        losses[step] = (found.node_weight.numpy() * value[ids]).sum()
        source, destination = found.edge_index(graph.relations[0]).numpy()
        np.add.at(messages[step], ids[destination], found.edge_weight.numpy() * value[ids[source]])
        inside[step, ids] = True
    # nodes that no edge leads from are never drawn by nodes or edges
    reached = np.isin(np.arange(40), src) | np.isin(np.arange(40), dst)
    whole = value[reached | (law == "walk")].sum()
    error = losses.std() / np.sqrt(times) * np.sqrt(1 + times / sampler.num_presampled)  # of the mean and of the weights
    assert losses.mean() == pytest.approx(whole, abs=5 * error)
    indptr, indices = graph.csc(graph.relations[0])
    for v in np.flatnonzero(reached):
        sent = messages[inside[:, v], v]
        error = sent.std() / np.sqrt(sent.size) * np.sqrt(1 + times / sampler.num_presampled)
        assert sent.mean() == pytest.approx(value[indices[indptr[v] : indptr[v + 1]]].sum(), abs=6 * error + 1e-9)


def bytes_of(found: Subgraph) -> list[bytes]:
    parts = [*found.ids_of.values(), *found.indptr_of.values(), *found.indices_of.values()]
    parts += [*found.edge_ids_of.values(), *found.node_weight_of.values(), *found.edge_weight_of.values()]
    return [part.numpy().tobytes() for part in parts]


@pytest.mark.parametrize("law", SAINT_LAWS)
def test_threads_change_nothing_and_each_part_of_the_key_does(law: str) -> None:
    graph = typed_labelled_graph()
    sampler = SaintSampler(graph, seed=1, coverage=5, with_edge_ids=True, **options_of(law))
    alone = [bytes_of(sampler.sample(None, 1, step)) for step in range(30)]
    again = SaintSampler(graph, seed=1, coverage=5, with_edge_ids=True, **options_of(law))
    for threads in (2, 4):
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(lambda step: bytes_of(again.sample(None, 1, step)), range(30))) == alone
    assert bytes_of(sampler.sample(None, 2, 0)) != alone[0] != alone[1]
    assert bytes_of(SaintSampler(graph, seed=2, coverage=5, **options_of(law)).sample(None, 1, 0)) != alone[0]


@given(typed_graphs, st.sampled_from(SAINT_LAWS), st.data())
def test_subgraphs_are_induced_with_the_loss_first(graph: Graph, law: str, data: st.DataObject) -> None:
    if law != "walk" and not sum(graph.num_edges.values()):
        return
    kind = data.draw(st.sampled_from(graph.node_types))
    seeds = data.draw(st.lists(st.integers(0, graph.num_nodes[kind] - 1), unique=True))
    sampler = SaintSampler(graph, 3, 2, law=law, seeds=(kind, np.array(seeds, np.int64)), with_edge_ids=True, coverage=2)
    found = sampler.sample(None, 0, 1)
    assert found.seed_type == kind
    assert set(found.seeds.tolist()) == set(seeds) & set(found.ids_of[kind].tolist())
    nodes = {name: [(0, v) for v in ids.tolist()] for name, ids in found.ids_of.items()}
    assert all(len(set(ids)) == len(ids) for ids in nodes.values())
    for relation in graph.relations:
        expected = naive.induced(rows_of(graph, relation), nodes[relation[0]], nodes[relation[2]])
        got = (found.indptr_of[relation], found.indices_of[relation], found.edge_ids_of[relation])
        assert tuple(part.tolist() for part in got) == expected
        assert found.edge_weight_of[relation].shape == found.indices_of[relation].shape


def test_given_roots_are_the_seeds() -> None:
    sampler = SaintSampler(labelled_graph(), 10, 3, coverage=1)
    found = sampler.sample(np.array([5, 3, 5]), 0, 1)
    assert found.seeds.tolist() == [5, 3, 5]
    assert set(found.ids.tolist()) > {3, 5}
    assert found.node_weight is None
    drawn = SaintSampler(labelled_graph(), 10, 3, roots=np.array([7]), coverage=0)
    assert 7 in drawn.sample(None, 0, 0).ids


def test_whose_loss_counts() -> None:
    graph = typed_labelled_graph()
    train = graph.split_ids("a", "train")
    assert np.array_equal(np.flatnonzero(LossNodes(graph).inside), train)
    assert LossNodes(Graph.from_coo([0], [1], 2)).inside.all()
    ids, count = LossNodes(graph, ("a", np.array([4, 2]))).put_first(np.array([1, 2, 3, 4]))
    assert (ids.tolist(), count) == ([2, 4, 1, 3], 2)


def test_an_epoch_draws_as_many_nodes_as_there_are() -> None:
    assert SaintSampler(labelled_graph(), 10, 1, coverage=0).steps == 10
    assert SaintSampler(labelled_graph(), 10, law="edge", coverage=0).steps == 10
    assert SaintSampler(labelled_graph(), 10, law="node", coverage=0).steps == 20
    assert SaintSampler(labelled_graph(), 10, steps=3, coverage=0).steps == 3


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"law": "tree"}, "law must be one of edge, node, walk"),
        ({"size": 0}, "size must be 1 or more"),
        ({"walk_length": -1}, "walk_length must be 0 or more"),
        ({"coverage": -1}, "coverage must be 0 or more"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"law": "node", "roots": np.array([1])}, "roots are where walks begin"),
    ],
)
def test_refuses_options(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        SaintSampler(labelled_graph(), **{"size": 4, **options})


def test_refuses_seeds_and_graphs() -> None:
    with pytest.raises(SeedError, match="at least one node"):
        SaintSampler(labelled_graph(), 4, roots=np.array([], np.int64))
    with pytest.raises(SpecError, match="draws its nodes itself"):
        SaintSampler(labelled_graph(), 4, law="edge", coverage=0).sample(np.array([1]))
    with pytest.raises(SpecError, match="must have edges"):
        SaintSampler(Graph.from_coo([], [], 3), 4, law="edge")
    part = Csc(indptr=frozen(np.array([0, 1, 2])), indices=frozen(np.array([1, 7], np.int32)))
    damaged = Graph({("node", "to", "node"): part}, {"node": 2})
    for law in SAINT_LAWS:
        with pytest.raises(FormatError, match="damaged"):
            SaintSampler(damaged, 50, 3, law=law)
