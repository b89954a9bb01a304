"""Negatives: their twin, their laws, strictness, and that pieces of a step draw what the whole step draws."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests import naive
from tests.strategies import labelled_graph, typed_graphs

from gnnhet.errors import FormatError, GraphError, SpecError
from gnnhet.jit import frozen
from gnnhet.samplers.negatives import NEGATIVE_LAWS, NegativeSampler, degree_sums
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc

NODE = ("node", "to", "node")
OPTIONS = st.fixed_dictionaries(
    {"law": st.sampled_from(sorted(NEGATIVE_LAWS)), "mode": st.sampled_from(["binary", "triplet"])},
    optional={"corrupt": st.sampled_from(["both", "src", "dst"]), "strict": st.booleans()},
)


def true_edges(graph: Graph, relation: tuple[str, str, str]) -> list[tuple[int, int]]:
    indptr, indices = graph.csc(relation)
    return [(int(u), v) for v in range(indptr.size - 1) for u in indices[indptr[v] : indptr[v + 1]]]


def as_arrays(edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def drawn(sampler: NegativeSampler, edges: list[tuple[int, int]], step: int = 0, offset: int = 0) -> list[tuple[int, int, int]]:
    pairs = sampler.draw(*as_arrays(edges), epoch=2, step=step, offset=offset)
    return list(zip(pairs.owners.tolist(), pairs.src.tolist(), pairs.dst.tolist(), strict=True))


@settings(max_examples=300)
@given(typed_graphs, OPTIONS, st.integers(1, 4), st.sampled_from([0.3, 1.0, 1.5, 2.0]), st.integers(0, 9), st.data())
def test_equals_its_twin_and_pieces_equal_the_whole(
    graph: Graph, options: dict[str, Any], count: int, ratio: float, step: int, data: st.DataObject
) -> None:
    relation = data.draw(st.sampled_from(graph.relations))
    edges = true_edges(graph, relation)
    assume(edges)
    positives = data.draw(st.lists(st.sampled_from(edges), max_size=8))
    amount = float(count) if options["mode"] == "triplet" else ratio
    if options["mode"] == "triplet" or options["law"] == "shared":
        options.pop("corrupt", None)
    if options["law"] == "shared" or data.draw(st.booleans()):
        options.pop("strict", None)
    sampler = NegativeSampler(graph, relation, amount=amount, seed=7, **options)
    whole: list[tuple[int, int, int]] = []
    if options.get("strict"):
        try:
            whole = drawn(sampler, positives, step)
        except GraphError:
            assume(False)
    else:
        whole = drawn(sampler, positives, step)
    indptr, indices = graph.csc(relation)
    sides = ([1] * graph.num_nodes[relation[0]], [1] * graph.num_nodes[relation[2]])
    if options["law"] == "degree":
        degrees = (np.bincount(indices, minlength=len(sides[0])).tolist(), np.diff(indptr).tolist())
        sides = tuple([round((1 << 20) * d**0.75) if d else 0 for d in side] for side in degrees)  # type: ignore[assignment]
    expected = naive.negatives(
        options["law"],
        (7, 2, step, graph.relations.index(relation)),
        positives,
        Fraction(amount).limit_denominator(100),
        sides,
        corrupt=sampler.corrupt,
        strict=set(edges) if options.get("strict") else (),
    )
    assert whole == expected
    if options.get("strict"):
        assert not {pair[1:] for pair in whole} & set(edges)
    cut = data.draw(st.integers(0, len(positives)))
    first, last = drawn(sampler, positives[:cut], step), drawn(sampler, positives[cut:], step, cut)
    assert first + [(owner + cut, u, v) for owner, u, v in last] == whole


@given(st.floats(0.01, 20), st.integers(0, 300), st.integers(0, 300))
def test_as_many_as_the_ratio_says_however_a_step_is_cut(amount: float, count: int, cut: int) -> None:
    sampler = NegativeSampler(labelled_graph(20, 50), NODE, amount=amount)
    cut = min(cut, count)
    apart = np.concatenate([sampler.counts(cut), sampler.counts(count - cut, cut)])
    assert np.array_equal(apart, sampler.counts(count))
    assert apart.sum() == -(-count * sampler.ratio.numerator // sampler.ratio.denominator)
    assert apart.size == 0 or apart.max() - apart.min() <= 1


def star_and_ring() -> Graph:
    """Node 0 has 40 edges in and none out, 1..9 a few parallel ones, 10 and 11 none in."""
    src = np.concatenate([1 + np.arange(40) % 11, np.arange(9), np.arange(9)])
    dst = np.concatenate([np.zeros(40, np.int64), 1 + np.arange(9), 1 + np.arange(9)])
    return Graph.from_csc(*naive.csc(src.tolist(), dst.tolist(), 12)[:2])


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("law", ["uniform", "degree"])
@pytest.mark.parametrize("strict", [False, True])
def test_follows_its_law(law: str, mode: str, strict: bool) -> None:
    """Chi-square of the pairs; strict ones follow the law among the pairs that are no edge."""
    graph = star_and_ring()
    sampler = NegativeSampler(graph, NODE, law, mode, 4, strict=strict, seed=1)
    positives = [(3, 0)] * 5000
    pairs = sampler.draw(*as_arrays(positives), epoch=0, step=0)
    indptr, indices = graph.csc(NODE)
    weights: list[np.ndarray] = [np.ones(12), np.ones(12)]
    if law == "degree":
        weights = [np.bincount(indices, minlength=12) ** 0.75, np.diff(indptr) ** 0.75]
    if mode == "triplet":
        weights[0] = np.eye(12)[3]
        assert (pairs.src == 3).all()
    expected = np.outer(*weights)
    if strict:
        expected[tuple(np.array(true_edges(graph, NODE)).T)] = 0
    expected *= pairs.src.size / expected.sum()
    observed = np.zeros((12, 12))
    np.add.at(observed, (pairs.src, pairs.dst), 1)
    assert observed[expected == 0].sum() == 0
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-6


def test_shared_negatives_are_one_set_a_step_and_uniform_over_steps() -> None:
    graph = star_and_ring()
    sampler = NegativeSampler(graph, NODE, "shared", "triplet", 5, seed=1)
    counts = np.zeros(12)
    for step in range(2000):
        pairs = sampler.draw(*as_arrays([(3, 0), (4, 1), (3, 0)]), epoch=0, step=step)
        sets = pairs.dst.reshape(3, 5)
        assert (sets == sets[0]).all()
        counts += np.bincount(sets[0], minlength=12)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_each_part_of_the_key_changes_the_draws() -> None:
    graph = labelled_graph()
    edges = true_edges(graph, NODE)[:50]
    base = drawn(NegativeSampler(graph, NODE, seed=0), edges)
    assert drawn(NegativeSampler(graph, NODE, seed=1), edges) != base
    assert drawn(NegativeSampler(graph, NODE, seed=0), edges, step=1) != base
    assert drawn(NegativeSampler(graph, NODE, seed=0), edges, offset=1) != base
    same = [(3, 5), (3, 5), (4, 5), (3, 6)]
    pairs = drawn(NegativeSampler(graph, NODE, "uniform", "triplet", 3), same)
    assert len({tuple(v for owner, _, v in pairs if owner == p) for p in range(4)}) == 4


def test_a_node_joined_to_all_has_no_strict_negative() -> None:
    graph = Graph.from_csc([0, 2, 4, 6], [0, 1, 1, 0, 0, 2])
    with pytest.raises(GraphError, match="strict negative must not be an edge"):
        NegativeSampler(graph, NODE, mode="triplet", strict=True).draw(*as_arrays([(0, 1)]), epoch=0, step=0)
    assert drawn(NegativeSampler(graph, NODE, mode="triplet", strict=True), [(2, 2)])[0][2] in (0, 1)


def test_degree_sums_are_whole_and_bounded() -> None:
    assert degree_sums(np.array([0, 1, 16, 0]), 0.75).tolist() == [0, 1 << 20, 9 << 20, 9 << 20]
    assert degree_sums(np.array([0, 5, 1]), 0.0).tolist() == [0, 1 << 20, 2 << 20]
    with pytest.raises(SpecError, match="alpha must leave"):
        degree_sums(np.array([10**6]), 9.0)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"law": "random"}, "negatives must be one of degree, shared, uniform"),
        ({"mode": "pairs"}, "mode must be binary or triplet"),
        ({"amount": 0}, "amount must be above 0"),
        ({"amount": float("nan")}, "amount must be above 0"),
        ({"amount": float("inf")}, "amount must be above 0"),
        ({"amount": 1.5, "mode": "triplet"}, "whole number"),
        ({"corrupt": "neither"}, "corrupt must be"),
        ({"corrupt": "src", "mode": "triplet"}, "corrupt must be dst"),
        ({"corrupt": "both", "law": "shared"}, "corrupt must be dst"),
        ({"strict": True, "law": "shared"}, "leave out one"),
        ({"alpha": -1.0}, "alpha must be 0 or more"),
    ],
)
def test_refuses_options(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        NegativeSampler(labelled_graph(), NODE, **options)


def test_refuses_relations_without_edges_and_damaged_ones() -> None:
    with pytest.raises(SpecError, match="need edges"):
        NegativeSampler(Graph.from_csc([0, 0, 0], []), NODE, "degree")
    with pytest.raises(GraphError, match="no relation"):
        NegativeSampler(labelled_graph(), ("a", "b", "c"))
    for indptr, indices in (([0, 1, 2], [1, 7]), ([0, 9, 2], [1, 0])):
        part = Csc(indptr=frozen(np.array(indptr)), indices=frozen(np.array(indices, np.int32)))
        with pytest.raises(FormatError, match="damaged"):
            NegativeSampler(Graph({NODE: part}, {"node": 2}), NODE, strict=True)
