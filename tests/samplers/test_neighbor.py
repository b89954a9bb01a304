"""`NeighborSampler`: its twin, its invariants, and that nothing but the key decides a draw."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive
from tests.invariants import check_batch
from tests.strategies import fanout_lists, labelled_graph, typed_graphs

from gnnhet.errors import FormatError, SeedError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers import MiniBatch, NeighborSampler
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc

LAWS = st.fixed_dictionaries(
    {},
    optional={
        "replace": st.booleans(),
        "method": st.just("labor"),
        "dependent_layers": st.booleans(),
        "disjoint": st.booleans(),
        "strategy": st.just("last"),
        "map_budget_bytes": st.just(0),
    },
)


@settings(max_examples=300)
@given(typed_graphs, fanout_lists, LAWS, st.booleans(), st.booleans(), st.integers(0, 5), st.data())
def test_equals_its_twin_and_keeps_the_invariants(
    graph: Graph, fanouts: list[int], options: dict[str, Any], weighted: bool, timed: bool, step: int, data: st.DataObject
) -> None:
    seed_type = data.draw(st.sampled_from(graph.node_types))
    ids = st.integers(0, graph.num_nodes[seed_type] - 1)
    seeds = np.array(data.draw(st.lists(ids, max_size=10, unique=True)), np.int64)
    relations = [naive.Relation(name=r, rows=rows_of(graph, r)) for r in graph.relations]
    kind = st.sampled_from([0.0, 0.5, 1.0, 7.0])
    if weighted:
        options["weight"] = {r: np.array(draw_each(data, kind, graph.num_edges[r])) for r in graph.relations[:2]}
    limits = None
    if timed:
        moments = st.integers(-3, 3) if data.draw(st.booleans()) else st.sampled_from([-1.5, 0.0, 0.25, 3.0])
        options["time"] = {r: np.array(draw_each(data, moments, graph.num_edges[r])) for r in graph.relations[:2]}
        limits = draw_each(data, moments, seeds.size)
    if options.get("method") == "labor" and (options.get("replace") or weighted):
        options.pop("method")
    if not timed or weighted or options.get("replace"):
        options.pop("strategy", None)
    sampler = NeighborSampler(graph, fanouts, seed=3, **options)
    batch = sampler.sample((seed_type, seeds), epoch=1, step=step, seed_time=None if limits is None else np.array(limits))
    if not (weighted or sampler.disjoint or sampler.law == "labor"):
        check_batch(sampler, batch)
    for relation in relations:
        use(relation, options.get("weight", {}).get(relation.name), options.get("time", {}).get(relation.name))
    lists = [list(sampler.fanouts[r]) for r in graph.relations]
    expected = naive.sample(
        relations,
        graph.node_types,
        lists,
        seed_type,
        seeds.tolist(),
        (3, 1, step),
        sampler.law,
        any_layer=sampler.dependent_layers,
        trees=sampler.disjoint,
        limits=as_moments(limits, options.get("time", {})),
        last=options.get("strategy") == "last",
    )
    assert [as_lists(batch, i) for i in range(len(batch.blocks))] == expected


def draw_each(data: st.DataObject, kind: st.SearchStrategy[float], count: int) -> list[float]:
    return data.draw(st.lists(kind, min_size=count, max_size=count))


def rows_of(graph: Graph, relation: tuple[str, str, str]) -> list[list[int]]:
    indptr, indices = graph.csc(relation)
    return [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]


def use(relation: naive.Relation, weights: np.ndarray | None, times: np.ndarray | None) -> None:
    """Give a plain relation weights and times, its rows sorted by time."""
    ends = np.cumsum([0] + [len(row) for row in relation.rows])
    cut = [slice(ends[v], ends[v + 1]) for v in range(len(relation.rows))]
    if weights is not None:
        relation.weights = [weights[part].tolist() for part in cut]
    if times is not None:
        orders = [np.argsort(times[part], kind="stable").tolist() for part in cut]
        relation.rows = [[row[k] for k in order] for row, order in zip(relation.rows, orders, strict=True)]
        relation.times = [[times[part][k].item() for k in order] for part, order in zip(cut, orders, strict=True)]
        if relation.weights is not None:
            relation.weights = [[row[k] for k in order] for row, order in zip(relation.weights, orders, strict=True)]


def as_moments(limits: list[float] | None, times: dict[object, np.ndarray]) -> list[float] | None:
    """Limits in the kind of number the edges' times are."""
    floating = any(values.dtype.kind == "f" for values in times.values())
    return None if limits is None else [float(t) if floating else math.floor(t) for t in limits]


def as_lists(batch: MiniBatch, i: int) -> dict[str, object]:
    block = batch.blocks[i]
    trees = {t: batch.tree_of[t].tolist() if batch.tree_of else [0] * ids.numel() for t, ids in batch.input_of.items()}
    return {
        "edges": {r: (block.indptr_of[r].tolist(), block.indices_of[r].tolist()) for r in block.indptr_of},
        "dst": {t: [(trees[t][k], v) for k, v in enumerate(ids.tolist())] for t, ids in block.dst_of.items()},
        "src": {t: [(trees[t][k], v) for k, v in enumerate(ids.tolist())] for t, ids in block.src_of.items()},
    }


def neighbours(batch: MiniBatch, i: int) -> dict[int, list[int]]:
    """Global destination -> global sources drawn for it."""
    block = batch.blocks[i]
    sources = block.src_ids[block.indices.long()].tolist()
    ends = block.indptr.tolist()
    return {v: sources[ends[k] : ends[k + 1]] for k, v in enumerate(block.dst_ids.tolist())}


@given(st.integers(0, 60))
def test_a_batch_sampled_in_pieces_draws_the_same(cut: int) -> None:
    sampler = NeighborSampler(labelled_graph(), [4, 3], seed=1)
    seeds = np.arange(60)
    whole = sampler.sample(seeds, epoch=2, step=3)
    pieces = [sampler.sample(part, epoch=2, step=3) for part in (seeds[:cut], seeds[cut:])]
    for layer in range(2):
        apart = {v: n for piece in pieces for v, n in neighbours(piece, layer).items()}
        assert apart == neighbours(whole, layer)


def test_threads_share_a_sampler() -> None:
    sampler = NeighborSampler(labelled_graph(), [5, 5], seed=1)
    alone = [sampler.sample(np.arange(50), step=step).input_ids.tolist() for step in range(40)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda step: sampler.sample(np.arange(50), step=step).input_ids.tolist(), range(40)))
    assert together == alone


def test_each_part_of_the_key_changes_the_draws() -> None:
    graph = labelled_graph(num_edges=6000)
    base = neighbours(NeighborSampler(graph, [3], seed=0).sample(np.arange(50)), 0)
    assert neighbours(NeighborSampler(graph, [3], seed=1).sample(np.arange(50)), 0) != base
    assert neighbours(NeighborSampler(graph, [3], seed=0).sample(np.arange(50), epoch=1), 0) != base
    assert neighbours(NeighborSampler(graph, [3], seed=0).sample(np.arange(50), step=1), 0) != base


def test_the_order_relations_are_given_in_changes_nothing() -> None:
    one = (np.array([0, 3, 6]), np.array([0, 1, 2, 0, 1, 2]))
    other = (np.array([0, 3, 3]), np.array([2, 1, 0]))
    relations = {("a", "p", "b"): one, ("a", "o", "b"): other}
    num_nodes = {"b": 2, "a": 3}
    forward = Graph.from_relations(relations, num_nodes)
    backward = Graph.from_relations(dict(reversed(relations.items())), dict(reversed(num_nodes.items())))
    samples = [NeighborSampler(g, [2], seed=4).sample(("b", np.array([0, 1]))) for g in (forward, backward)]
    assert as_lists(samples[0], 0) == as_lists(samples[1], 0)


GOLDEN = """
import numpy as np
from gnnhet.samplers import NeighborSampler
from gnnhet.storage import Graph
indptr = np.arange(0, 1001, 10)
graph = Graph.from_csc(indptr, (np.arange(1000) * 7919) % 100)
batch = NeighborSampler(graph, [3, 2], seed=42).sample(np.array([5, 50]), epoch=1, step=2)
print(batch.input_ids.tolist())
"""


GOLDEN_IDS = "[5, 50, 83, 21, 33, 52, 19, 26, 45, 76, 8, 41, 90, 47, 65, 70, 99, 56, 29]"


def test_golden_draws_in_another_process() -> None:
    """Frozen on purpose: these draws must be the same on another day, machine and version."""
    out = subprocess.run([sys.executable, "-c", GOLDEN], capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.strip() == GOLDEN_IDS


def test_a_seed_given_twice_keeps_both_places() -> None:
    graph = labelled_graph()
    batch = NeighborSampler(graph, [3, 3], seed=0).sample(np.array([7, 9, 7]))
    block = batch.blocks[-1]
    assert block.dst_ids.tolist() == [7, 9, 7]
    ends, sources = block.indptr.tolist(), block.src_ids[block.indices.long()].tolist()
    assert sources[ends[0] : ends[1]] == sources[ends[2] : ends[3]]


def test_degrees_are_the_graphs() -> None:
    graph = labelled_graph()
    batch = NeighborSampler(graph, [2, 2], with_degrees=True).sample(np.arange(10))
    indptr, _ = graph.csc(graph.relations[0])
    for block in batch.blocks:
        assert block.degree_of["node"].tolist() == np.diff(indptr)[block.src_ids.numpy()].tolist()


def test_no_layers_gives_the_seeds() -> None:
    batch = NeighborSampler(labelled_graph(), []).sample(np.array([3, 1]))
    assert batch.blocks == ()
    assert batch.input_ids.tolist() == [3, 1]


def test_ids_beyond_2_31_are_sampled(tmp_path: Path) -> None:
    """A mapped sparse file makes 2^31 + 10 rows cheap; all are empty but the last."""
    count = 2**31 + 10
    indptr = np.lib.format.open_memmap(tmp_path / "indptr.npy", "w+", np.int64, (count + 1,))
    indptr[-1] = 2
    part = Csc(indptr=frozen(np.asarray(indptr)), indices=frozen(np.array([count - 2, 5], np.int64)))
    sampler = NeighborSampler(Graph({("node", "to", "node"): part}, {"node": count}), [2, 2])
    assert sampler.sample(np.array([count - 1, 2**31])).input_ids.tolist() == [count - 1, 2**31, count - 2, 5]


def test_a_mask_of_all_nodes_is_the_ids_it_marks() -> None:
    mask = np.zeros(200, np.bool_)
    mask[[3, 150]] = True
    assert NeighborSampler(labelled_graph(), [2]).sample(mask).seeds.tolist() == [3, 150]
    with pytest.raises(SeedError, match="must be integers"):
        NeighborSampler(labelled_graph(), [2]).sample(mask[:100])


@pytest.mark.parametrize(
    ("seeds", "rule"),
    [
        (np.array([0, 200]), "ids of node nodes, 0..199, got 200"),
        (np.array([-1]), "got -1"),
        (np.array([0.5]), "must be integers"),
        (np.array([[1]]), "one axis"),
        (("paper", np.array([0])), "must be of a node type"),
    ],
)
def test_refuses_seeds_that_are_not_nodes(seeds: object, rule: str) -> None:
    with pytest.raises(SeedError, match=rule):
        NeighborSampler(labelled_graph(), [2]).sample(seeds)  # type: ignore[arg-type]


@pytest.mark.parametrize("fanouts", [[10, 0], [-2], {("node", "to", "node"): [1], ("a", "b", "c"): [1]}])
def test_refuses_fanouts(fanouts: object) -> None:
    with pytest.raises(SpecError, match="fanout"):
        NeighborSampler(labelled_graph(), fanouts)  # type: ignore[arg-type]


def test_damaged_arrays_end_in_an_error_and_the_sampler_lives_on() -> None:
    part = Csc(indptr=frozen(np.array([0, 1, 2])), indices=frozen(np.array([1, 7], np.int32)))
    sampler = NeighborSampler(Graph({("node", "to", "node"): part}, {"node": 2}), [-1])
    with pytest.raises(FormatError, match="damaged"):
        sampler.sample(np.array([1]))
    assert sampler.sample(np.array([0])).input_ids.tolist() == [0, 1]
