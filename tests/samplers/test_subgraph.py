"""`Subgraph`: its forms, as blocks and as PyG's data."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import labelled_graph, typed_graphs, typed_labelled_graph

from gnnhet.models.catalogue import MODELS, build_model
from gnnhet.samplers.induced import InducedSampler, induced
from gnnhet.samplers.shadow import ShadowSampler
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage import Graph


@given(typed_graphs, st.integers(0, 3), st.data())
def test_blocks_hold_the_same_edges_and_end_at_the_seeds(graph: Graph, num_layers: int, data: st.DataObject) -> None:
    seed_type = data.draw(st.sampled_from(graph.node_types))
    seeds = np.arange(graph.num_nodes[seed_type])[: data.draw(st.integers(0, 5))]
    found = ShadowSampler(graph, [-1, 2], with_edge_ids=True).sample((seed_type, seeds), epoch=1, step=4)
    batch = found.to_batch(num_layers)
    assert len(batch.blocks) == num_layers
    if num_layers == 0:
        assert {kind: ids.tolist() for kind, ids in batch.input_of.items() if ids.numel()} == (
            {seed_type: seeds.tolist()} if seeds.size else {}
        )
    assert (batch.seeds.tolist(), batch.seed_type, batch.epoch, batch.step) == (seeds.tolist(), seed_type, 1, 4)
    for number, block in enumerate(batch.blocks):
        last = number == num_layers - 1
        for kind, ids in found.ids_of.items():
            seeds_of = seeds.size if kind == seed_type else 0
            assert block.num_dst[kind] == (seeds_of if last else ids.numel())
            assert torch.equal(block.src_of[kind], batch.input_of[kind])
            into = [found.indptr_of[r].diff() for r in graph.relations if r[2] == kind]
            assert block.degree_of[kind].tolist() == (sum(into) if into else torch.zeros(ids.numel())).tolist()  # type: ignore[union-attr]
        for relation in graph.relations:
            whole = found.edge_index(relation)
            inside = whole[1] < block.num_dst[relation[2]]
            assert torch.equal(block.edge_index(relation), whole[:, inside])
            assert torch.equal(block.edge_ids_of[relation], found.edge_ids_of[relation][inside])


def with_rows(graph: Graph, found: Subgraph) -> Subgraph:
    features = {
        kind: {"x": graph.features.gather(kind, "x", ids)} for kind, ids in found.ids_of.items() if graph.features.has(kind, "x")
    }
    return replace(found, features=features, y=graph.features.gather(found.seed_type, "y", found.seeds))


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("typed", [False, True])
def test_any_model_reads_it_and_has_gradients(name: str, typed: bool) -> None:
    if typed and not MODELS[name].typed:
        pytest.skip("understands one relation")
    graph = typed_labelled_graph() if typed else labelled_graph()
    target = graph.target_type
    model = build_model(name, graph, hidden=8, num_layers=2, dropout=0.1, target_type=target, seed=0)
    found = with_rows(graph, ShadowSampler(graph, [3, 3]).sample((target, np.arange(10))))
    out = model(found.to_batch(2 if model.uses_graph else 0))
    assert out.shape == (10, 3)
    out.sum().backward()
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in model.parameters())


def test_a_model_over_all_nodes_is_the_full_graphs() -> None:
    """The induced subgraph of every node, as blocks, against the sum over neighbours written out."""
    graph = labelled_graph()
    batch = induced(graph, np.arange(200)).to_batch(2)
    indptr, indices = graph.csc(graph.relations[0])
    dense = np.zeros((200, 200))
    for v in range(200):
        np.add.at(dense[v], indices[indptr[v] : indptr[v + 1]], 1)
    h = x = graph.features.array("node", "x").astype(np.float64)
    for block in batch.blocks:
        rows = np.zeros((200, 200))
        sources, destinations = block.edge_index(graph.relations[0]).numpy()
        np.add.at(rows, (destinations, sources), 1)
        h = rows @ h
    assert np.allclose(h, dense @ dense @ x)


def test_to_pyg() -> None:
    graph = labelled_graph()
    found = with_rows(graph, ShadowSampler(graph, [3], with_edge_ids=True).sample(np.arange(6)))
    data = found.to_pyg()
    assert data.validate()
    assert torch.equal(data.n_id, found.ids)
    assert torch.equal(data.e_id, found.edge_ids)
    assert torch.equal(data.batch, found.tree_of["node"])
    assert torch.equal(data.edge_index, found.edge_index(graph.relations[0]))
    assert (data.batch_size, data.num_nodes, data.y.numel()) == (6, found.ids.numel(), 6)
    assert torch.equal(data.x, found.x)
    plain = induced(graph, np.arange(6)).to_pyg()
    assert not {"batch", "e_id", "edge_weight", "node_weight"} & set(plain.keys())


def test_to_pyg_of_a_typed_graph() -> None:
    graph = typed_labelled_graph()
    found = with_rows(graph, ShadowSampler(graph, [3, 2], with_edge_ids=True).sample(("a", np.arange(6))))
    data = found.to_pyg()
    assert data.validate()
    assert data["a"].batch_size == 6
    assert data["a"].y.numel() == 6
    for kind, ids in found.ids_of.items():
        assert torch.equal(data[kind].n_id, ids)
        assert data[kind].num_nodes == ids.numel()
        assert torch.equal(data[kind].batch, found.tree_of[kind])
    for relation in graph.relations:
        assert torch.equal(data[relation].edge_index, found.edge_index(relation))
        assert torch.equal(data[relation].e_id, found.edge_ids_of[relation])
    assert torch.equal(data["b"].x, found.x["b"])


def test_to_a_device_moves_everything() -> None:
    graph = labelled_graph()
    found = with_rows(graph, ShadowSampler(graph, [3], with_edge_ids=True).sample(np.arange(6))).to("meta")
    parts = [found.ids, found.indptr, found.indices, found.edge_ids, found.tree_of["node"], found.x, found.y]
    assert all(part is not None and part.device.type == "meta" for part in parts)


def test_kept_subgraphs_are_never_overwritten() -> None:
    sampler = InducedSampler(labelled_graph(num_nodes=9000, num_edges=200_000), with_edge_ids=True)
    kept = [sampler.sample(np.arange(k, 9000)) for k in range(6)]
    copies = [[part.clone() for part in (one.ids, one.indptr, one.indices, one.edge_ids)] for one in kept]
    for k in range(20):
        sampler.sample(np.arange(9000)[::-1][k:])
    for one, parts in zip(kept, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip((one.ids, one.indptr, one.indices, one.edge_ids), parts, strict=True))
