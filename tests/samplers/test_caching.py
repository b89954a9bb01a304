"""Caches in front of features in files: which rows, how many, and that no batch changes."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive
from tests.strategies import typed_graphs, typed_labelled_graph

from gnnhet.errors import SpecError
from gnnhet.samplers import LinkLoader, NeighborLoader, NeighborSampler, Tiers, caching
from gnnhet.samplers.gathering import POLICIES
from gnnhet.samplers.shadow import ShadowSampler
from gnnhet.samplers.subgraph_loader import SubgraphLoader
from gnnhet.storage import Graph

NODES, COLUMNS = 400, 5
KEY = ("node", "to", "node")


def skewed(folder: Path, nodes: int = NODES, power: int = 3) -> Graph:
    """A saved graph whose first nodes are sources far more often than its last."""
    rng = np.random.default_rng(3)
    src = (rng.random(nodes * 8) ** power * nodes).astype(np.int64)
    graph = Graph.from_coo(src, rng.integers(0, nodes, nodes * 8), num_nodes=nodes)
    graph.features.add("node", "x", rng.standard_normal((nodes, COLUMNS), np.float32), nodes)
    graph.features.add("node", "y", rng.integers(0, 3, nodes), nodes)
    graph.features.add("node", "split", np.zeros(nodes, np.int8), nodes)
    graph.save(folder)
    return Graph.open(folder)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return skewed(tmp_path_factory.mktemp("caching") / "g")


def loader(graph: Graph, tiers: Tiers | None, **options: object) -> NeighborLoader:
    return NeighborLoader(graph, [4, 3], 32, seed=5, tiers=tiers, **options)  # type: ignore[arg-type]


STEPS = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), max_size=12)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(0, 11))
def test_the_clairvoyant_cache_equals_its_twin(steps: list[list[int]], capacity: int) -> None:
    hits_of = np.zeros(10, np.float32)
    hits = caching.clairvoyant([np.array(ids, np.int64) for ids in steps], 10, capacity, hits_of)
    assert hits.tolist() == naive.clairvoyant(steps, capacity)
    assert hits.sum() == hits_of.sum()


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 10))
def test_no_fixed_choice_of_rows_beats_the_clairvoyant_cache(steps: list[list[int]], capacity: int) -> None:
    """But for first uses, which only a cache that is filled beforehand can hit."""
    hits = int(caching.clairvoyant([np.array(ids, np.int64) for ids in steps], 10, capacity).sum())
    counts = sorted((sum(row in ids for ids in steps) for row in range(10)), reverse=True)
    assert sum(count - 1 for count in counts[:capacity] if count) <= hits


@settings(max_examples=60, deadline=None)
@given(typed_graphs, st.lists(st.sampled_from([-1, 1, 2, 5]), max_size=3), st.integers(1, 12))
def test_inclusion_equals_its_twin(graph: Graph, fanouts: list[int], batch_size: int) -> None:
    every = {kind: [n if n < 0 else n + place for n in fanouts] for place, kind in enumerate(graph.relations)}
    seed_type = graph.relations[0][2]
    seeds = np.arange(0, graph.num_nodes[seed_type], 2)
    got = caching.inclusion(graph, every, seed_type, seeds, batch_size)
    first = {t: [0.0] * count for t, count in graph.num_nodes.items()}
    for seed in seeds:
        first[seed_type][seed] = min(batch_size / seeds.size, 1)
    rows = {}
    for kind in graph.relations:
        indptr, indices = (array.tolist() for array in graph.csc(kind))
        rows[kind] = [indices[start:end] for start, end in itertools.pairwise(indptr)]
    for node_type, expected in naive.inclusion(rows, every, first).items():
        assert got[node_type].tolist() == pytest.approx(expected, abs=1e-5)


def test_inclusion_says_how_often_batches_ask_for_a_node(graph: Graph) -> None:
    """Against counts of many batches: the correlation over nodes is near 1."""
    sampler = NeighborSampler(graph, [4, 3])
    counts = np.zeros(NODES)
    rounds = 400
    for step in range(rounds):
        seeds = np.random.default_rng(step).permutation(NODES)[:16]
        counts[sampler.sample(seeds, 0, step).input_ids.numpy()] += 1
    expected = caching.inclusion(graph, {KEY: [4, 3]}, "node", np.arange(NODES), 16)["node"]
    assert np.corrcoef(expected, counts / rounds)[0, 1] > 0.98
    assert abs(float(expected.mean()) - float(counts.mean() / rounds)) < 0.1 * float(expected.mean())


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 9)), min_size=1),
    st.integers(0, 300),
)
def test_the_choice_fits_and_is_the_best_by_score_a_byte(given_: dict[str, tuple[list[int], int]], budget: int) -> None:
    scores = {t: np.array(found, np.float32) for t, (found, _) in given_.items()}
    row_bytes = {t: size for t, (_, size) in given_.items()}
    chosen = caching.choose(scores, row_bytes, budget)
    table = sum(caching.SLOT_BYTES * found.size for found in scores.values())
    used = sum(ids.size * row_bytes[t] for t, ids in chosen.items())
    assert used == 0 or used + table <= budget
    worth = {(t, i): found[i] / row_bytes[t] for t, found in scores.items() for i in range(found.size)}
    inside = {(t, int(i)) for t, ids in chosen.items() for i in ids}
    outside = set(worth) - inside
    for ids in chosen.values():
        assert (np.diff(ids) > 0).all()
    if inside and outside:
        assert min(worth[one] for one in inside) >= max(worth[one] for one in outside) - 1e-6 or all(
            used + row_bytes[t] + table > budget for t, i in outside if worth[t, i] > min(worth[one] for one in inside)
        )
    if outside and len(row_bytes) == 1:  # nothing more would fit
        assert used + next(iter(row_bytes.values())) + table > budget


SLOTS = NODES * caching.SLOT_BYTES


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reads", ["map", "buffered", "direct"])
@pytest.mark.parametrize("cache", [0, SLOTS + 20 * COLUMNS, SLOTS + 20 * COLUMNS * 10, "1MiB"])
def test_no_tier_changes_a_batch(graph: Graph, policy: str, reads: str, cache: int | str) -> None:
    plain = list(loader(graph, None))
    tiers = Tiers(reads=reads, cache=cache, policy=policy, presample=4)
    cached = loader(graph, tiers, threads=2)
    for before, after in zip(plain, cached, strict=True):
        assert torch.equal(before.input_ids, after.input_ids)
        assert torch.equal(before.x, after.x)
    stats = cached.cache_stats()
    if cache == 0:
        assert stats is None
    else:
        assert stats is not None
        assert stats.hit_rate is not None
        assert sum(stats.looked.values()) == sum(batch.input_ids.numel() for batch in plain)
        assert stats.bytes + SLOTS <= Tiers(cache=cache).cache_bytes
        assert (stats.hit_rate == 1) == (cache == "1MiB")


def test_the_counted_rows_are_those_of_the_batches_to_come(graph: Graph) -> None:
    """What is held is chosen by exactly the steps that come, here three of this epoch and three of the next."""
    row_bytes = COLUMNS * 4
    budget = SLOTS + NODES // 4 * row_bytes
    cached, other = loader(graph, Tiers(cache=budget, presample=6)), loader(graph, None)
    for one in (cached, other):
        one.load_state_dict({"seed": 5, "epoch": 2, "step": 10})
    coming = [{"node": batch.input_ids.numpy().copy()} for _ in range(2) for batch in other][:6]
    assert len(cached) == 13
    expected = caching.inclusion(graph, {KEY: [4, 3]}, "node", np.arange(NODES), 32)
    held = caching.choose(caching.presampled(coming, expected), {"node": row_bytes}, budget)["node"]
    assert held.size == NODES // 4
    for _ in range(2):
        for _ in cached:
            pass
    stats = cached.cache_stats()
    assert stats is not None
    assert stats.rows == {"node": held.size}
    other.load_state_dict({"seed": 5, "epoch": 2, "step": 10})
    asked = [batch.input_ids.numpy().copy() for _ in range(2) for batch in other]
    assert stats.found["node"] == sum(int(np.isin(ids, held).sum()) for ids in asked)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-12, 0.003, 0.0031, 0.2, 0.9, 1.0, 3.0, 700.0]), min_size=10, max_size=10),
    st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=1, max_size=6),
)
def test_presampled_equals_its_twin(expected: list[float], steps: list[list[int]]) -> None:
    given_ = {"node": np.array(expected, np.float32)}
    got = caching.presampled([{"node": np.array(sorted(ids), np.int64)} for ids in steps], given_)["node"]
    assert got.tolist() == pytest.approx(naive.presampled(given_["node"].tolist(), steps), abs=1e-4)


def test_above_some_edges_sources_have_to_do(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_WALKED", sum(graph.num_edges.values()) - 1)
    row_bytes, budget = COLUMNS * 4, SLOTS + NODES // 4 * COLUMNS * 4
    cached, plain = loader(graph, Tiers(cache=budget, presample=6)), loader(graph, None)
    coming = [{"node": batch.input_ids.numpy().copy()} for batch in plain]
    held = caching.choose(caching.presampled(coming[:6], caching.sources(graph)), {"node": row_bytes}, budget)["node"]
    list(cached)
    stats = cached.cache_stats()
    assert stats is not None
    assert stats.found["node"] == sum(int(np.isin(ids["node"], held).sum()) for ids in coming)


@settings(max_examples=60, deadline=None)
@given(typed_graphs)
def test_sources_are_counted_in_every_relation(graph: Graph) -> None:
    for node_type, often in caching.sources(graph).items():
        sources = [graph.csc(kind)[1] for kind in graph.relations if kind[0] == node_type]
        assert often.tolist() == [1 + sum(int((one == node).sum()) for one in sources) for node in range(often.size)]


def test_a_typed_graph_has_every_policy(tmp_path: Path) -> None:
    typed_labelled_graph().save(tmp_path / "g")
    graph = Graph.open(tmp_path / "g")
    plain = list(NeighborLoader(graph, [3, 2], 16, seed=1))
    for policy in POLICIES:
        tiers = Tiers(cache="2KiB", policy=policy, presample=3)
        cached = NeighborLoader(graph, [3, 2], 16, seed=1, tiers=tiers)
        for before, after in zip(plain, cached, strict=True):
            for node_type, features in before.features.items():
                assert torch.equal(features["x"], after.features[node_type]["x"])
        stats = cached.cache_stats()
        assert stats is not None
        assert 0 < stats.bytes <= 2048
        assert sum(stats.found.values()) > 0


def test_the_default_is_near_the_clairvoyant_cache_on_a_skewed_graph(tmp_path: Path) -> None:
    nodes = 20_000
    graph = skewed(tmp_path / "g", nodes, 8)
    budget = nodes * caching.SLOT_BYTES + nodes // 4 * COLUMNS * 4
    cached = NeighborLoader(graph, [5, 4], 64, range(0, nodes, 10), seed=1, tiers=Tiers(cache=budget))
    asked = [batch.input_ids.numpy().copy() for batch in cached]
    stats = cached.cache_stats()
    assert stats is not None
    assert stats.hit_rate is not None
    hits = caching.clairvoyant([np.sort(ids) for ids in asked], nodes, nodes // 4)
    half = len(asked) // 2  # the clairvoyant cache is empty at first
    best = hits[half:].sum() / sum(ids.size for ids in asked[half:])
    assert stats.hit_rate > 0.95 * best


def test_batches_come_in_the_asked_dtype(graph: Graph) -> None:
    plain = next(iter(loader(graph, None)))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        batch = next(iter(loader(graph, Tiers(dtype=dtype, cache="1MiB"))))
        assert torch.equal(batch.x, plain.x.to(dtype))


def test_link_and_subgraph_loaders_have_the_same_tiers(graph: Graph) -> None:
    tiers = Tiers(reads="direct", cache=SLOTS + 20 * COLUMNS * 10, presample=3)
    edges = np.arange(64)
    plain, cached = (LinkLoader(graph, [3], 16, edges, seed=1, tiers=given) for given in (None, tiers))
    for before, after in zip(plain, cached, strict=True):
        assert torch.equal(before.batch.x, after.batch.x)
    assert cached.cache_stats() is not None
    shadow = ShadowSampler(graph, [3, 2], seed=1)
    for before_, after_ in zip(SubgraphLoader(shadow, 50), SubgraphLoader(shadow, 50, tiers=tiers), strict=True):
        assert torch.equal(before_.features["node"]["x"], after_.features["node"]["x"])
    with pytest.raises(SpecError, match="take presampled"):
        LinkLoader(graph, [3], 16, edges, tiers=Tiers(cache="1MiB", policy="inclusion")).fill_cache()


def test_features_in_memory_need_no_cache(graph: Graph) -> None:
    held = Graph.from_coo([0], [1], num_nodes=3)
    held.features.add("node", "x", np.ones((3, 2), np.float32), 3)
    cached = NeighborLoader(held, [1], 2, [0, 1], tiers=Tiers(cache="1MiB"))
    assert [batch.x.shape[1] for batch in cached] == [2]
    assert cached.cache_stats() is None


def test_what_is_no_tier_is_refused(graph: Graph) -> None:
    for wrong, match in (
        ({"reads": "mmap"}, "reads must be one of"),
        ({"policy": "lru"}, "policy must be one of"),
        ({"presample": 0}, "presample"),
        ({"dtype": torch.int64}, "floating"),
        ({"cache": -1}, "0 bytes"),
        ({"cache": "much"}, "amount of memory"),
    ):
        with pytest.raises(SpecError, match=match):
            Tiers(**wrong)
