"""`BudgetSampler`: its plain twin, and its law."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import node_key, unit
from tests.strategies import typed_graphs

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.jit import frozen
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.hgt import BudgetSampler
from gnnhet.samplers.laws import Edges
from gnnhet.samplers.rng import stream
from gnnhet.storage import Graph


def twin(
    rows: dict[Relation, list[list[int]]], counts: dict[str, list[int]], seeds: dict[str, list[int]], key: tuple[int, ...]
) -> dict[str, list[int]]:
    """Algorithm 2 word by word, in dictionaries."""
    found = {kind: list(seeds.get(kind, [])) for kind in counts}
    newest = {kind: sorted(set(ids)) for kind, ids in found.items()}
    budget: dict[str, dict[int, float]] = {kind: {} for kind in counts}
    for hop in range(max(map(len, counts.values()))):
        for kind, ids in newest.items():
            for relation, lists in rows.items():
                for node in ids if relation[2] == kind else []:
                    for source in lists[node]:
                        if source not in found[relation[0]]:
                            share = budget[relation[0]].get(source, 0.0) + 1 / len(lists[node])
                            budget[relation[0]][source] = share
        for index, kind in enumerate(counts):
            base = int(stream(*key, hop, index))
            race = sorted((-math.log(unit(node_key(base, v), 0)) / (b * b), v) for v, b in budget[kind].items())
            newest[kind] = [v for _, v in race[: counts[kind][hop]]]
            found[kind] += newest[kind]
            for node in newest[kind]:
                del budget[kind][node]
    return found


@settings(max_examples=200)
@given(typed_graphs, st.integers(1, 3), st.booleans(), st.integers(0, 3), st.data())
def test_equals_its_twin(graph: Graph, hops: int, hashed: bool, step: int, data: st.DataObject) -> None:
    counts = {kind: data.draw(st.lists(st.integers(0, 4), min_size=hops, max_size=hops)) for kind in graph.node_types}
    kind = data.draw(st.sampled_from(graph.node_types))
    seeds = data.draw(st.lists(st.integers(0, graph.num_nodes[kind] - 1), max_size=5))
    sampler = BudgetSampler(graph.num_nodes, edges_of(graph), counts, budget_bytes=0 if hashed else 1 << 20)
    rows = {}
    for relation in graph.relations:
        indptr, indices = graph.csc(relation)
        rows[relation] = [indices[indptr[v] : indptr[v + 1]].tolist() for v in range(indptr.size - 1)]
    for epoch in range(2):  # a sampler keeps nothing of the batch before
        found = sampler.sample({kind: np.array(seeds, np.int64)}, (3, epoch, step))
        expected = twin(rows, counts, {kind: seeds}, (3, epoch, step))
        assert {kind: ids.tolist() for kind, ids in found.items()} == expected


def test_nodes_are_drawn_in_proportion_to_their_squared_budget() -> None:
    # node 0 has sources 1, 2, 3, node 4 has sources 3, 5: budgets 1/3, 1/3, 5/6, 1/2
    graph = Graph.from_coo([1, 2, 3, 3, 5], [0, 0, 0, 4, 4], 6)
    sampler = BudgetSampler(graph.num_nodes, edges_of(graph), {"node": [2]})
    draws = 20_000
    first, second = Counter[int](), Counter[tuple[int, int]]()
    for step in range(draws):
        found = sampler.sample({"node": np.array([0, 4])}, (1, 0, step))["node"]
        first[int(found[2])] += 1
        second[int(found[2]), int(found[3])] += 1
    squares = {1: 1 / 9, 2: 1 / 9, 3: 25 / 36, 5: 1 / 4}
    total = sum(squares.values())
    for node, square in squares.items():
        chance = square / total
        assert abs(first[node] / draws - chance) < 5 * math.sqrt(chance * (1 - chance) / draws)
        for other, after in squares.items():
            if other != node:  # without replacement
                both = chance * after / (total - square)
                assert abs(second[node, other] / draws - both) < 5 * math.sqrt(both / draws)


def test_hops_reach_one_further_each() -> None:
    graph = Graph.from_coo([1, 2, 3], [0, 1, 2], 4)  # 3 -> 2 -> 1 -> 0
    sampler = BudgetSampler(graph.num_nodes, edges_of(graph), {"node": [9, 9]})
    assert sampler.sample({"node": np.array([0])}, (0, 0, 0))["node"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("indptr", "indices", "text"), [([0, 9], [0], "indptr"), ([0, 1], [7], "indices")])
def test_damaged_arrays_are_refused(indptr: list[int], indices: list[int], text: str) -> None:
    damaged = Edges(indptr=frozen(np.array(indptr)), indices=frozen(np.array(indices, np.int32)), num_src=1)
    sampler = BudgetSampler({"node": 1}, {("node", "to", "node"): damaged}, {"node": [1]})
    with pytest.raises(FormatError, match=text):
        sampler.sample({"node": np.array([0])}, (0, 0, 0))
