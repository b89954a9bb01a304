"""`LinkSampler`: its twin, exclusion at every layer and through the reverse, and pieces of a step that equal the whole."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests import naive
from tests.samplers.test_negatives import NODE, as_arrays, true_edges
from tests.strategies import labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.datasets.raw import RawGraph, Relation
from gnnhet.errors import FormatError, GraphError, SeedError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.exclusion import ExcludedPairs
from gnnhet.samplers.laws import Edges
from gnnhet.samplers.link import LinkBatch, LinkSampler, reverse_relation
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc

LAWS: list[dict[str, Any]] = [
    {},
    {"replace": True},
    {"method": "labor"},
    {"dependent_layers": True},
    {"disjoint": True},
    {"weight": True},
    {"weight": True, "replace": True},
    {"time": True},
    {"time": True, "weight": True},
    {"time": True, "strategy": "last"},
]


def pairs_of(batch: LinkBatch) -> list[tuple[int, int]]:
    """Global (source, destination) of all pairs, positives first."""
    src, dst = batch.seeds_of[batch.relation[0]], batch.seeds_of[batch.relation[2]]
    if batch.edge_label_index is not None:
        ends = [(src[u], dst[v]) for u, v in batch.edge_label_index.T]
    else:
        assert batch.src_index is not None and batch.dst_pos_index is not None and batch.dst_neg_index is not None  # noqa: PT018
        ends = list(zip(src[batch.src_index], dst[batch.dst_pos_index], strict=True))
        ends += [(src[u], dst[v]) for u, row in zip(batch.src_index, batch.dst_neg_index, strict=True) for v in row]
    return [(int(u), int(v)) for u, v in ends]


def drawn_edges(batch: MiniBatch) -> dict[Relation, set[tuple[int, int]]]:
    """Every (source, destination) that any layer holds, by relation."""
    found: dict[Relation, set[tuple[int, int]]] = {}
    for block in batch.blocks:
        for relation in block.indptr_of:
            src, dst = block.src_of[relation[0]], block.dst_of[relation[2]]
            ends = {(int(src[u]), int(dst[v])) for u, v in block.edge_index(relation).T}
            found.setdefault(relation, set()).update(ends)
    return found


def blocks_of(batch: MiniBatch) -> list[dict[str, object]]:
    """As `naive.sample` returns them."""
    trees = {t: batch.tree_of[t].tolist() if batch.tree_of else [0] * ids.numel() for t, ids in batch.input_of.items()}
    return [
        {
            "edges": {r: (block.indptr_of[r].tolist(), block.indices_of[r].tolist()) for r in block.indptr_of},
            "dst": {t: [(trees[t][k], v) for k, v in enumerate(ids.tolist())] for t, ids in block.dst_of.items()},
            "src": {t: [(trees[t][k], v) for k, v in enumerate(ids.tolist())] for t, ids in block.src_of.items()},
        }
        for block in batch.blocks
    ]


def plain_relations(graph: Graph, weights: Any, times: Any) -> list[naive.Relation]:
    """The graph as the twin reads it, rows sorted by time."""
    found = []
    for relation in graph.relations:
        indptr, indices = graph.csc(relation)
        rows, row_weights, row_times = [], [], []
        for v in range(indptr.size - 1):
            part = np.arange(indptr[v], indptr[v + 1])
            if times:
                part = part[np.argsort(times[relation][part], kind="stable")]
                row_times.append(times[relation][part].tolist())
            if weights:
                row_weights.append(weights[relation][part].tolist())
            rows.append(indices[part].tolist())
        found.append(
            naive.Relation(name=relation, rows=rows, weights=row_weights if weights else None, times=row_times if times else None)
        )
    return found


@settings(max_examples=400)
@given(
    typed_graphs,
    st.sampled_from(LAWS),
    st.lists(st.one_of(st.just(-1), st.integers(1, 3)), min_size=1, max_size=3),
    st.sampled_from(["none", "seeds", "seeds_and_reverse"]),
    st.sampled_from(["binary", "triplet", None]),
    st.data(),
)
def test_equals_its_twin_and_excluded_edges_are_at_no_layer(
    graph: Graph, law: dict[str, Any], fanouts: list[int], exclude: str, mode: str | None, data: st.DataObject
) -> None:
    relation = data.draw(st.sampled_from([r for r in graph.relations if graph.num_edges[r]] or graph.relations))
    assume(graph.num_edges[relation])
    backward = [r for r in graph.relations if (r[0], r[2]) == (relation[2], relation[0])]
    if exclude == "seeds_and_reverse":
        assume(backward)
    reverse_of = {relation: data.draw(st.sampled_from(backward))} if backward else {}
    options = dict(law)
    if options.get("weight"):
        kinds = st.sampled_from([0.0, 0.5, 1.0, 7.0])
        options["weight"] = {r: np.array([data.draw(kinds) for _ in range(n)]) for r, n in graph.num_edges.items()}
    if options.get("time"):
        moments = st.integers(0, 3)
        options["time"] = {r: np.array([data.draw(moments) for _ in range(n)], np.int64) for r, n in graph.num_edges.items()}
    positions = np.array(data.draw(st.lists(st.integers(0, graph.num_edges[relation] - 1), max_size=6)), np.int64)
    law_name = data.draw(st.sampled_from(["uniform", "degree", "shared"]))
    sampler = LinkSampler(
        graph,
        fanouts,
        relation,
        mode=mode,
        negatives=law_name,
        amount=2,
        exclude=exclude,
        reverse_of=reverse_of,
        seed=3,
        **options,
    )
    batch = sampler.sample(positions, epoch=1, step=2)
    positives = [true_edges(graph, relation)[k] for k in positions]
    assert pairs_of(batch)[: positions.size] == positives
    forbidden: dict[Relation, set[tuple[int, int]]] = {}
    if exclude != "none":
        forbidden[relation] = set(positives)
    if exclude == "seeds_and_reverse":
        other = reverse_of[relation]
        forbidden[other] = forbidden.get(other, set()) | {(v, u) for u, v in positives}
    for name, edges in drawn_edges(batch.batch).items():
        assert not edges & forbidden.get(name, set())
    assert batch.batch.seed_type == relation[0]
    for node_type, ids in batch.seeds_of.items():
        if batch.batch.blocks:
            last = batch.batch.blocks[-1].dst_of[node_type]
            assert torch.equal(last, ids)
    source, _, destination = relation
    limits = None
    if options.get("time"):
        limits = times_of_seeds(batch, options["time"][relation][positions].tolist())
    expected = naive.sample(
        plain_relations(graph, options.get("weight"), options.get("time")),
        graph.node_types,
        [[k for k in fanouts] for _ in graph.relations],
        source,
        batch.seeds_of[source].tolist(),
        (3, 1, 2),
        sampler.neighbors.law,
        any_layer=bool(options.get("dependent_layers")),
        trees=sampler.neighbors.disjoint,
        limits=limits,
        last=options.get("strategy") == "last",
        excluded=forbidden,
        other_type="" if source == destination else destination,
        others=[] if source == destination else batch.seeds_of[destination].tolist(),
    )
    assert blocks_of(batch.batch) == expected


def times_of_seeds(batch: LinkBatch, times: list[int]) -> list[float]:
    """What each seed may see, from the pairs that name it; every seed is named, by pairs of one time."""
    count = len(times)
    source, _, destination = batch.relation
    named: dict[tuple[str, int], set[int]] = {}
    if batch.edge_label_index is not None:
        extra = batch.edge_label_index.shape[1] // count - 1 if count else 0
        src, dst = (part.tolist() for part in batch.edge_label_index)
    else:
        assert batch.src_index is not None and batch.dst_pos_index is not None and batch.dst_neg_index is not None  # noqa: PT018
        src, extra = batch.src_index.tolist(), batch.dst_neg_index.shape[1]
        dst = batch.dst_pos_index.tolist() + batch.dst_neg_index.flatten().tolist()
    moments = times + [t for t in times for _ in range(extra)]
    for node_type, places in ((source, src), (destination, dst)):
        for place, t in zip(places, moments, strict=False):
            named.setdefault((node_type, place), set()).add(t)
    order = [(t, k) for t, ids in batch.seeds_of.items() for k in range(ids.numel())]
    assert all(len(named[seed]) == 1 for seed in order)
    return [named[seed].pop() for seed in order]


def neighbours(batch: MiniBatch, i: int) -> dict[tuple[Relation, int], list[int]]:
    """Global destination -> global sources drawn for it, by relation."""
    block, found = batch.blocks[i], {}
    for relation, ends in block.indptr_of.items():
        sources = block.src_of[relation[0]][block.indices_of[relation].long()].tolist()
        for k, v in enumerate(block.dst_of[relation[2]].tolist()):
            found[(relation, v)] = sources[ends[k] : ends[k + 1]]
    return found


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("graph", [labelled_graph(), typed_labelled_graph()], ids=["homogeneous", "typed"])
@given(
    st.integers(0, 60), st.sampled_from(["none", "seeds", "seeds_and_reverse"]), st.sampled_from(["uniform", "degree", "shared"])
)
@settings(max_examples=25)
def test_a_step_in_pieces_draws_the_same(graph: Graph, mode: str, cut: int, exclude: str, law: str) -> None:
    relation = NODE if graph.homogeneous else ("b", "of", "a")
    sampler = LinkSampler(
        graph,
        [4, 3],
        relation,
        mode=mode,
        negatives=law,
        amount=2,
        exclude=exclude,
        reverse_of={("b", "of", "a"): ("a", "in", "b")},
        seed=1,
    )
    edges = np.random.default_rng(5).permutation(graph.num_edges[relation])[:60]
    whole = sampler.sample(edges, epoch=2, step=3)
    pieces = [
        sampler.sample(edges[:cut], epoch=2, step=3, whole=edges),
        sampler.sample(edges[cut:], epoch=2, step=3, offset=cut, whole=edges),
    ]
    counts = (cut, 60 - cut)
    every = pairs_of(whole)
    apart = [pairs_of(piece) for piece in pieces]
    assert apart[0][:cut] + apart[1][: 60 - cut] == every[:60]
    assert [pair for piece, n in zip(apart, counts, strict=True) for pair in piece[n:]] == every[60:]
    assert {piece.num_examples for piece in pieces} == {whole.num_examples} == {60 if mode == "triplet" else 180}
    for layer in range(2):
        drawn = {v: n for piece in pieces for v, n in neighbours(piece.batch, layer).items()}
        assert drawn == neighbours(whole.batch, layer)


@pytest.mark.parametrize(
    "options",
    [{}, {"replace": True}, {"dependent_layers": True}, {"method": "labor"}, {"disjoint": True}],
    ids=["uniform", "replace", "nested", "labor", "trees"],
)
@pytest.mark.parametrize("exclude", ["seeds", "seeds_and_reverse"])
def test_what_is_left_of_a_row_is_drawn_uniformly(options: dict[str, Any], exclude: str) -> None:
    """Node 0 has edges from 1..20, 7 and 8 twice; 7 -> 0 and 0 -> 9 are seeds: 7 is out, and 9 with the reverse."""
    indptr = np.concatenate([[0], np.full(21, 22)]) + np.concatenate([np.zeros(10, np.int64), np.ones(12, np.int64)])
    graph = Graph.from_csc(indptr, np.concatenate([np.arange(1, 21), [7, 8], [0]]))  # and 0 -> 9
    sampler = LinkSampler(graph, [3, 3], mode=None, exclude=exclude, seed=1, **options)
    counts = np.zeros((2, 21), np.int64)
    for step in range(3000):
        batch = sampler.sample((np.array([7, 0]), np.array([0, 9])), step=step).batch
        for layer in range(2):
            for (_, v), sources in neighbours(batch, layer).items():
                if v == 0:
                    counts[layer] += np.bincount(sources, minlength=21)
    edges = np.ones(21)
    edges[[0, 7]] = 0
    edges[8] = 2
    if exclude == "seeds_and_reverse":
        edges[9] = 0
    for found in counts:
        assert found[edges == 0].sum() == 0
        expected = edges[edges > 0] / edges.sum() * found.sum()
        assert stats.chisquare(found[edges > 0], expected).pvalue > 1e-6
        if "method" not in options:
            assert found.sum() == 3 * 3000


def test_weights_of_what_is_left_keep_their_law() -> None:
    """With replacement draws stay in proportion to weight among the edges that are left."""
    graph = Graph.from_csc([0, 5, 5, 5, 5, 5, 5], [1, 2, 3, 4, 5])
    weights = np.array([5.0, 1.0, 2.0, 0.0, 3.0])
    sampler = LinkSampler(graph, [4], mode=None, exclude="seeds", weight=weights, replace=True, seed=2)
    counts = np.zeros(6)
    for step in range(4000):
        batch = sampler.sample(np.array([0]), step=step).batch  # 1 -> 0
        counts += np.bincount(neighbours(batch, 0)[(NODE, 0)], minlength=6)
    assert counts[[0, 1, 4]].sum() == 0
    assert stats.chisquare(counts[[2, 3, 5]], np.array([1, 2, 3]) / 6 * counts.sum()).pvalue > 1e-6


def test_nothing_excluded_draws_as_the_neighbor_sampler() -> None:
    graph = labelled_graph()
    one = LinkSampler(graph, [4, 3], seed=1).sample(np.arange(30), step=4)
    other = LinkSampler(graph, [4, 3], seed=1).neighbors.sample(one.seeds_of["node"], step=4)
    assert torch.equal(one.batch.input_ids, other.input_ids)
    for a, b in zip(one.batch.blocks, other.blocks, strict=True):
        assert torch.equal(a.indices, b.indices)
    none = LinkSampler(graph, [4, 3], exclude="seeds", seed=1).sample((np.array([0]), np.array([0])), step=4)
    assert (0, 0) not in drawn_edges(none.batch)[NODE]


def test_shapes_dtypes_and_devices() -> None:
    graph = labelled_graph()
    binary = LinkSampler(graph, [2], amount=0.5).sample(np.arange(7))
    assert binary.edge_label_index is not None
    assert binary.edge_label is not None
    assert binary.edge_label_index.shape == (2, 11)
    assert binary.edge_label_index.dtype == torch.int64
    assert binary.edge_label.tolist() == [1.0] * 7 + [0.0] * 4
    assert binary.num_examples == 11
    assert binary.positions is not None
    assert binary.positions.tolist() == list(range(7))
    ids = binary.seeds_of["node"]
    assert torch.equal(ids, torch.unique(ids))
    triplet = LinkSampler(graph, [2], mode="triplet", amount=3).sample(np.arange(7), epoch=1, step=2)
    assert triplet.src_index is not None
    assert triplet.dst_pos_index is not None
    assert triplet.dst_neg_index is not None
    assert (triplet.src_index.shape, triplet.dst_pos_index.shape, triplet.dst_neg_index.shape) == ((7,), (7,), (7, 3))
    assert triplet.edge_label is None
    assert (triplet.num_examples, triplet.epoch, triplet.step) == (7, 1, 2)
    moved = triplet.to("meta")
    assert moved.dst_neg_index is not None
    assert {moved.dst_neg_index.device.type, moved.batch.seeds.device.type, moved.seeds_of["node"].device.type} == {"meta"}
    assert moved.relation == NODE
    empty = LinkSampler(graph, [2], mode="triplet", amount=3, exclude="seeds").sample(np.empty(0, np.int64))
    assert empty.dst_neg_index is not None
    assert empty.dst_neg_index.shape == (0, 3)
    assert empty.batch.seeds.numel() == 0


def test_edges_are_taken_in_every_form() -> None:
    graph = labelled_graph()
    sampler = LinkSampler(graph, [3], seed=1)
    places = np.array([5, 900 % graph.num_edges[NODE], 5])
    ends = as_arrays([true_edges(graph, NODE)[k] for k in places])
    expected = pairs_of(sampler.sample(places))
    for form in (
        torch.from_numpy(places),
        ends,
        np.stack(ends),
        torch.from_numpy(np.stack(ends)),
        (list(ends[0]), list(ends[1])),
    ):
        assert pairs_of(sampler.sample(form)) == expected


def test_times_default_to_the_edges_own() -> None:
    edges = {NODE: (np.array([1, 2, 3, 1]), np.array([0, 0, 0, 2]))}
    graph = Graph.from_raw(RawGraph(num_nodes={"node": 4}, edges=edges, name="timed"))
    times = np.array([5, 6, 7, 8])
    sampler = LinkSampler(graph, [-1], mode=None, time=times, exclude="seeds")
    late = sampler.sample(np.array([2]))  # 3 -> 0 at 7 sees 1 -> 0 and 2 -> 0
    assert drawn_edges(late.batch)[NODE] == {(1, 0), (2, 0)}
    assert drawn_edges(sampler.sample(np.array([2]), seed_time=[5]).batch)[NODE] == {(1, 0)}
    two = sampler.sample(np.array([1, 2]), seed_time=[5, 9])
    assert two.seeds_of["node"].tolist() == [0, 0, 2, 3]  # 0 at two times
    with pytest.raises(SeedError, match="seed_time must be given"):
        sampler.sample((np.array([1]), np.array([0])))
    with pytest.raises(SeedError, match="one number a seed"):
        sampler.sample(np.array([1]), seed_time=[1, 2])
    with pytest.raises(SeedError, match="without"):
        LinkSampler(graph, [-1]).sample(np.array([1]), seed_time=[1])


@pytest.mark.parametrize(
    ("edges", "rule"),
    [
        (np.array([10**6]), "places of edges of .*, 0..[0-9]+, got 1000000"),
        (np.array([-1]), "got -1"),
        (np.array([0.5]), "integers on one axis"),
        (np.zeros((3, 2), np.int64), "two arrays of one length"),
        (np.zeros((2, 2, 2), np.int64), "integers on one axis|two arrays"),
        ((np.array([1]), np.array([1, 2])), "two arrays of one length"),
        ((np.array([1]),) * 3, "tuple of 3"),
        ((np.array([200]), np.array([1])), "ids of node nodes, 0..199, got 200"),
    ],
)
def test_refuses_edges(edges: Any, rule: str) -> None:
    with pytest.raises(SeedError, match=rule):
        LinkSampler(labelled_graph(), [2]).sample(edges)


def test_refuses_parts_that_are_not_of_the_step() -> None:
    sampler = LinkSampler(labelled_graph(), [2], exclude="seeds")
    with pytest.raises(SeedError, match="whole must be given"):
        sampler.sample(np.array([4]), offset=1)
    for offset in (0, 2, 3):
        with pytest.raises(SeedError, match="those of the whole step"):
            sampler.sample(np.array([4]), offset=offset, whole=np.array([3, 4]))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "relation must name"),
        ({"relation": ("b", "of", "a"), "exclude": "all"}, "exclude must be one of"),
        ({"relation": ("b", "of", "a"), "exclude": "seeds_and_reverse"}, "reverse_of must name"),
        ({"relation": ("b", "of", "a"), "negatives": "no"}, "negatives must be one of"),
    ],
)
def test_refuses_options(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        LinkSampler(typed_labelled_graph(), [2], **options)
    with pytest.raises(GraphError, match="no relation"):
        LinkSampler(typed_labelled_graph(), [2], ("a", "b", "c"))


def test_the_reverse_must_lead_back() -> None:
    graph = typed_labelled_graph()
    forward: Relation = ("b", "of", "a")
    assert reverse_relation(graph, forward, {forward: ("a", "in", "b")}) == ("a", "in", "b")
    with pytest.raises(SpecError, match="from a to b"):
        reverse_relation(graph, forward, {forward: ("c", "at", "a")})
    assert reverse_relation(labelled_graph(), NODE, None) == NODE


def test_damaged_arrays_end_in_an_error() -> None:
    part = Csc(indptr=frozen(np.array([0, 1, 2])), indices=frozen(np.array([1, 7], np.int32)))
    sampler = LinkSampler(Graph({NODE: part}, {"node": 2}), [-1], mode=None)
    with pytest.raises(FormatError, match="damaged"):
        sampler.sample(np.array([1]))
    assert sampler.sample((np.array([0]), np.array([0]))).num_examples == 1
    part = Csc(indptr=frozen(np.array([0, 1, 9])), indices=frozen(np.array([1, 0], np.int32)))
    with pytest.raises(FormatError, match="damaged"):
        LinkSampler(Graph({NODE: part}, {"node": 2}), [1], mode=None, exclude="seeds").sample((np.array([0]), np.array([1])))
    with pytest.raises(FormatError, match="damaged"):
        ExcludedPairs(np.array([0]), np.array([1])).left(Edges(indptr=part.indptr, indices=part.indices, num_src=2))


@given(st.integers(0, 40), st.integers(1, 12), st.data())
def test_what_is_left_of_rows_equals_a_filter(num_pairs: int, num_nodes: int, data: st.DataObject) -> None:
    ids = st.integers(0, num_nodes - 1)
    ends = st.tuples(ids, ids)
    edges = sorted(data.draw(st.lists(ends, max_size=60)), key=lambda pair: pair[1])
    pairs = data.draw(st.lists(ends, min_size=num_pairs, max_size=num_pairs))
    indptr = np.searchsorted([v for _, v in edges], np.arange(num_nodes + 1))
    indices = np.array([u for u, _ in edges], np.int32)
    excluded = ExcludedPairs(*as_arrays(pairs))
    left = excluded.left(Edges(indptr=frozen(indptr), indices=frozen(indices), num_src=num_nodes))
    kept, held = [], []
    for v in sorted({v for _, v in pairs}):
        row = [e for e, pair in enumerate(edges) if pair[1] == v]
        stays = [e for e in row if edges[e] not in pairs]
        held.append(len(stays) < len(row))
        kept += stays if held[-1] else []
    assert left.positions.tolist() == kept
    assert left.held.tolist() == held
