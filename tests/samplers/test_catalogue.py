"""`SAMPLERS` and `SubgraphLoader`: every sampler is called alike, on homogeneous and typed graphs, by any number of threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.errors import FormatError, SpecError
from gnnhet.jit import frozen
from gnnhet.models.catalogue import build_model
from gnnhet.samplers import MiniBatch
from gnnhet.samplers.catalogue import SAMPLERS, make_sampler
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.samplers.subgraph_loader import SubgraphLoader
from gnnhet.storage import Graph
from gnnhet.storage.csc import Csc

SUBGRAPHS = ["cluster", "hgt", "induced", "saint_edge", "saint_node", "saint_walk", "shadow"]
SEEDS = np.arange(0, 100, 3)[::-1].copy()


def graph_of(typed: bool) -> Graph:
    return typed_labelled_graph() if typed else labelled_graph()


def options_of(name: str, graph: Graph) -> dict[str, Any]:
    if name == "cluster":
        return {"parts": {kind: np.arange(count) % 8 for kind, count in graph.num_nodes.items()}, "parts_per_step": 2}
    if name.startswith("saint"):
        return {"size": 15, "coverage": 3}
    if name == "hgt":
        return {"num_samples": [10, 10]}
    if name == "full":
        return {"num_layers": 2}
    if name == "induced":
        return {}
    extra: dict[str, Any] = {"fanouts": [4, 3]}
    if name == "link":
        extra["relation"] = next(r for r in graph.relations if r[1] == "to")
    if name == "weighted":
        extra["weight"] = {r: np.arange(count) % 3 for r, count in graph.num_edges.items()}
    if name.startswith("temporal"):
        extra["time"] = {r: np.arange(count) % 50 for r, count in graph.num_edges.items()}
    return extra


def made(name: str, graph: Graph, **more: Any) -> Any:
    return make_sampler(name, graph, with_edge_ids=True, **options_of(name, graph), **more)


def drawn(name: str, sampler: Any, step: int) -> Any:
    seeds = (sampler.graph.target_type, SEEDS)
    if name == "link":
        return sampler.sample(np.arange(0, 60, 3), 1, step).batch
    if name.startswith("temporal"):
        return sampler.sample(seeds, 1, step, seed_time=np.arange(SEEDS.size) + 10)
    return sampler.sample(None if getattr(sampler, "steps", 0) else seeds, 1, step)


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor inside a batch or subgraph."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [part for item in value.values() for part in tensors(item)]
    if isinstance(value, tuple):
        return [part for item in value for part in tensors(item)]
    if hasattr(value, "__dataclass_fields__"):
        return [part for f in fields(value) for part in tensors(getattr(value, f.name))]
    return []


def bytes_of(value: Any) -> list[bytes]:
    return [part.numpy().tobytes() for part in tensors(value)]


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("typed", [False, True])
def test_every_sampler_is_called_alike_and_threads_change_nothing(name: str, typed: bool) -> None:
    graph = graph_of(typed)
    sampler = made(name, graph, seed=5)
    steps = range(sampler.steps if name == "cluster" else 12)
    alone = [drawn(name, sampler, step) for step in steps]
    assert isinstance(alone[0], Subgraph if name in SUBGRAPHS else MiniBatch)
    assert (alone[1].seed, alone[1].epoch, alone[1].step) == (5, 1, 1)
    assert sum(found.num_edges for found in alone) > 0
    for threads in (2, 4):
        with ThreadPoolExecutor(threads) as pool:
            together = list(pool.map(lambda step: bytes_of(drawn(name, sampler, step)), steps))
        assert together == [bytes_of(found) for found in alone]
    if name not in ("full", "induced", "temporal_last"):
        assert bytes_of(drawn(name, made(name, graph, seed=6), 0)) != bytes_of(alone[0])


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("typed", [False, True])
def test_edge_ids_are_those_of_the_edges(name: str, typed: bool) -> None:
    graph = graph_of(typed)
    found = drawn(name, made(name, graph), 0)
    parts = [(b, b.src_of) for b in found.blocks] if isinstance(found, MiniBatch) else [(found, found.ids_of)]
    for part, ids_of in parts:
        for relation in graph.relations:
            indptr, indices = graph.csc(relation)
            destinations = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
            source, destination = part.edge_index(relation).numpy()
            ids = part.edge_ids_of[relation].numpy()
            assert np.array_equal(indices[ids], ids_of[relation[0]].numpy()[source])
            assert np.array_equal(destinations[ids], ids_of[relation[2]].numpy()[destination])


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_each_names_its_source_or_what_it_takes(name: str) -> None:
    said = SAMPLERS[name].__doc__ or ""
    assert len(said) > 40
    assert any(word in said for word in ("20", "As `", "Every neighbour", "All edges"))


@pytest.mark.parametrize("typed", [False, True])
def test_the_full_law_draws_nothing(typed: bool) -> None:
    graph = graph_of(typed)
    block = make_sampler("full", graph, num_layers=1).sample((graph.target_type, SEEDS)).blocks[0]
    for relation in graph.relations:
        if relation[2] == graph.target_type:
            assert block.indptr_of[relation].diff().tolist() == np.diff(graph.csc(relation)[0])[SEEDS].tolist()
    with pytest.raises(SpecError, match="num_layers must be 0 or more"):
        make_sampler("full", graph, num_layers=-1)


def test_hgt_induces_on_its_draws() -> None:
    graph = typed_labelled_graph()
    found = made("hgt", graph, seed=2).sample(("a", SEEDS), 0, 1)
    assert found.seeds.tolist() == SEEDS.tolist()
    assert all(ids.unique().numel() == ids.numel() for ids in found.ids_of.values())
    assert 0 < found.ids_of["b"].numel() <= 20
    whole = make_sampler("induced", graph).sample({kind: ids.numpy() for kind, ids in found.ids_of.items()})
    assert all(torch.equal(found.edge_index(r), whole.edge_index(r)) for r in graph.relations)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean shadow"):
        make_sampler("shado", labelled_graph())


def loader_of(name: str, graph: Graph, **options: Any) -> SubgraphLoader:
    sampler = made(name, graph, seed=3)
    if not sampler.steps:
        options = {"batch_size": 8, "seeds": (graph.target_type, np.arange(30)), **options}
    return SubgraphLoader(sampler, **options)


@pytest.mark.parametrize("name", SUBGRAPHS)
@pytest.mark.parametrize("typed", [False, True])
def test_loaders_keep_the_order_for_any_threads_and_gather_what_is_there(name: str, typed: bool) -> None:
    graph = graph_of(typed)
    loader = loader_of(name, graph)
    one = [list(loader) for _ in range(2)]
    assert [[found.step for found in epoch] for epoch in one] == [list(range(len(loader)))] * 2
    for threads in (2, 4):
        again = loader_of(name, graph, threads=threads)
        assert [[bytes_of(found) for found in again] for _ in range(2)] == [[bytes_of(found) for found in e] for e in one]
    if name != "induced":
        assert [bytes_of(found) for found in one[0]] != [bytes_of(found) for found in one[1]]
    for found in one[0]:
        assert isinstance(found, Subgraph)
        for kind, named in found.features.items():
            assert np.array_equal(named["x"].numpy(), graph.features.array(kind, "x")[found.ids_of[kind].numpy()])
        labels = graph.features.array(found.seed_type, "y")[found.seeds.numpy()]
        assert found.y is not None
        assert np.array_equal(found.y.numpy(), labels)
        assert found.num_labelled == (labels >= 0).sum()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gnnhet-sampler")]


def test_a_position_is_taken_up_by_another_loader() -> None:
    graph = labelled_graph()
    whole = [bytes_of(found) for found in loader_of("saint_walk", graph)]
    loader = loader_of("saint_walk", graph)
    for found in loader:
        if found.step == 1:
            break
    other = loader_of("saint_walk", graph, threads=2)
    other.load_state_dict(loader.state_dict())
    assert [bytes_of(found) for found in other] == whole[2:]


def test_shares_of_shadow_are_the_subgraphs_of_the_whole_step() -> None:
    graph = typed_labelled_graph()
    weights = (1.0, 3.0)
    parts = [list(loader_of("shadow", graph, share=(rank, weights))) for rank in range(2)]
    for whole, *own in zip(loader_of("shadow", graph), *parts, strict=True):
        assert isinstance(whole, Subgraph)
        assert {part.num_labelled for part in own} == {whole.num_labelled}
        assert torch.cat([part.seeds for part in own]).tolist() == whole.seeds.tolist()
        first = 0
        for part in own:
            assert isinstance(part, Subgraph)
            for kind, ids in whole.ids_of.items():
                trees = whole.tree_of[kind]
                mine = (trees >= first) & (trees < first + part.num_seeds)
                assert ids[mine].tolist() == part.ids_of[kind].tolist()
            first += part.num_seeds
        assert sum(part.num_edges for part in own) == whole.num_edges


@pytest.mark.parametrize("name", ["saint_walk", "cluster", "shadow"])
def test_a_model_learns_from_batches_of_subgraphs(name: str) -> None:
    graph = labelled_graph()
    model = build_model("sage", graph, hidden=16, num_layers=2, dropout=0.0, target_type="node", seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = loader_of(name, graph, num_layers=2)
    losses = []
    for _ in range(12):
        total, count = 0.0, 0
        for batch in loader:
            assert isinstance(batch, MiniBatch)
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y, reduction="sum")  # type: ignore[arg-type]
            optimizer.zero_grad()
            (loss / max(batch.num_labelled, 1)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total, count = total + float(loss.detach()), count + batch.num_labelled
        losses.append(total / count)
    assert losses[-1] < 0.7 * losses[0]


def test_an_exception_in_a_thread_reaches_the_caller() -> None:
    part = Csc(indptr=frozen(np.array([0, 1, 2])), indices=frozen(np.array([1, 7], np.int32)))
    graph = Graph({("node", "to", "node"): part}, {"node": 2})
    with pytest.raises(FormatError, match="damaged"):
        list(SubgraphLoader(make_sampler("induced", graph), 2, np.array([0, 1]), threads=2))


def test_refuses_options() -> None:
    graph = labelled_graph()
    shadow, cluster = made("shadow", graph), made("cluster", graph)
    for sampler, options, rule in (
        (shadow, {}, "batch_size must be given"),
        (shadow, {"batch_size": 0}, "batch_size must be 1 or more"),
        (shadow, {"batch_size": 4, "num_layers": -1}, "num_layers must be 0 or more"),
        (cluster, {"batch_size": 4}, "batch_size must be left out"),
        (cluster, {"share": (0, [1, 1])}, "share must be left out: a step of ClusterSampler"),
    ):
        with pytest.raises(SpecError, match=rule):
            SubgraphLoader(sampler, **options)
    assert len(SubgraphLoader(shadow, 32)) == -(-graph.split_ids("node", "train").size // 32)
