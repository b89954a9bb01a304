"""`as_pyg`: a graph as PyG's (FeatureStore, GraphStore)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.samplers.pyg.graphs import random_data, random_hetero
from tests.strategies import labelled_graph, typed_labelled_graph
from torch_geometric import loader as pyg
from torch_geometric.data import EdgeAttr, TensorAttr
from torch_geometric.data.remote_backend_utils import num_nodes
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from gnnhet.errors import GraphError
from gnnhet.samplers.pyg import HGTLoader, LinkNeighborLoader, NeighborLoader, NeighborSampler, as_pyg
from gnnhet.storage import Graph


def test_tensors() -> None:
    graph = typed_labelled_graph()
    features, _ = as_pyg(graph)
    x = torch.from_numpy(graph.features.array("a", "x").copy())
    attr = TensorAttr("a", "x", index=None)
    assert torch.equal(features.get_tensor(attr), x)
    assert torch.equal(features.get_tensor(TensorAttr("a", "x", index=slice(3, 9, 2))), x[3:9:2])
    assert torch.equal(features.get_tensor(TensorAttr("a", "x", index=torch.tensor([5, 5, 0]))), x[[5, 5, 0]])
    assert torch.equal(features.get_tensor(TensorAttr("a", "x", index=torch.arange(120) == 7)), x[7:8])
    assert torch.equal(features["a", "x", None], x)
    assert features.get_tensor_size(attr) == (120, 8)
    assert features.get_tensor_size(TensorAttr("a", "z")) is None
    names = [(attr.group_name, attr.attr_name) for attr in features.get_all_tensor_attrs()]
    assert names == [("a", "split"), ("a", "x"), ("a", "y"), ("b", "x")]
    with pytest.raises(KeyError):
        features.get_tensor(TensorAttr("c", "x", index=None))
    with pytest.raises(GraphError, match="read-only"):
        features.put_tensor(x, TensorAttr("a", "x", index=None))
    with pytest.raises(GraphError, match="read-only"):
        features.remove_tensor(TensorAttr("a", "x", index=None))


def test_edges() -> None:
    graph = typed_labelled_graph()
    features, edges = as_pyg(graph)
    attrs = edges.get_all_edge_attrs()
    assert [attr.edge_type for attr in attrs] == graph.relations
    indptr, indices = graph.csc(("b", "of", "a"))
    row, colptr = edges.get_edge_index(EdgeAttr(("b", "of", "a"), "csc"))
    assert row.tolist() == indices.tolist()
    assert colptr.tolist() == indptr.tolist()
    coo = edges.coo([("b", "of", "a")])
    assert coo[0]["b", "of", "a"].tolist() == indices.tolist()
    assert coo[1]["b", "of", "a"].tolist() == np.repeat(np.arange(120), np.diff(indptr)).tolist()
    assert num_nodes(features, edges, "c") == 15
    with pytest.raises(KeyError):
        edges.get_edge_index(EdgeAttr(("b", "of", "b"), "csc"))
    with pytest.raises(GraphError, match="read-only"):
        edges.put_edge_index((row, colptr), EdgeAttr(("b", "of", "a"), "csc"))
    with pytest.raises(GraphError, match="read-only"):
        edges.remove_edge_index(EdgeAttr(("b", "of", "a"), "csc"))


def test_a_graph_is_data_of_every_loader(tmp_path: Path) -> None:
    labelled_graph().save(tmp_path / "graph")
    graph = Graph.open(tmp_path / "graph")  # mapped
    _, indices = graph.csc(graph.relations[0])
    for batch in NeighborLoader(graph, [3, 3], batch_size=50, num_workers=2):
        pairs = batch.n_id[batch.edge_index]
        assert torch.equal(pairs[0], torch.from_numpy(indices[batch.e_id]).to(torch.int64))
        assert torch.equal(batch.x, graph.features.gather("node", "x", batch.n_id))
        assert batch.num_nodes == batch.n_id.numel()
    stores = as_pyg(graph)
    again = NeighborLoader(stores, [3, 3], torch.arange(200), batch_size=50, seed=1)
    theirs = pyg.NodeLoader(stores, NeighborSampler(stores, [3, 3], seed=1), torch.arange(200), batch_size=50)
    for a, b in zip(again, theirs, strict=True):
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.x, b.x)
    link = next(iter(LinkNeighborLoader(graph, [2], torch.tensor([[1, 2], [3, 4]]), batch_size=2)))
    assert link.n_id[link.edge_label_index].tolist() == [[1, 2], [3, 4]]
    count = sum(batch.input_id.numel() for batch in LinkNeighborLoader(graph, [1], batch_size=400))
    assert count == graph.num_edges[graph.relations[0]]
    typed = typed_labelled_graph()
    batch = next(iter(NeighborLoader(typed, [3, 3], "a", batch_size=10)))
    assert set(batch.edge_types) == set(typed.relations)
    assert torch.equal(batch["b"].x, typed.features.gather("b", "x", batch["b"].n_id))
    of = LinkNeighborLoader(typed, [2], ("b", "of", "a"), batch_size=300)
    assert next(iter(of))["b", "of", "a"].edge_label_index.shape == (2, 300)
    assert next(iter(HGTLoader(typed, [4, 4], ("a", torch.arange(9)), batch_size=9)))["b"].num_nodes > 0


def test_times_and_weights_of_a_graph_go_by_name() -> None:
    graph = labelled_graph()
    graph.features.add("node", "time", np.arange(200), 200)
    relation = graph.relations[0]
    weight = (np.arange(graph.num_edges[relation]) % 2).astype(np.float32)
    graph.features.add(relation, "w", weight, weight.size)
    for batch in NeighborLoader(graph, [5, 5], batch_size=50, time_attr="time", weight_attr="w"):
        row, _ = batch.edge_index
        assert bool((batch.n_id[row] <= batch.n_id[batch.batch[row]]).all())  # the seed's own time is its id
        assert bool((weight[batch.e_id] == 1).all())


def test_any_other_back_end_gives_the_same_graph() -> None:
    data = random_hetero()
    features, edges = MyFeatureStore(), MyGraphStore()
    for kind in data.node_types:
        features.put_tensor(data[kind].x, group_name=kind, attr_name="x", index=None)
    for relation in data.edge_types:
        pairs = data[relation].edge_index
        sizes = (data[relation[0]].num_nodes, data[relation[2]].num_nodes)
        edges.put_edge_index((pairs[0], pairs[1]), edge_type=relation, layout="coo", size=sizes)
    remote = NeighborLoader((features, edges), [-1, -1], "paper", batch_size=20)
    for a, b in zip(NeighborLoader(data, [-1, -1], "paper", batch_size=20), remote, strict=True):
        for kind in data.node_types:
            assert sorted(a[kind].x.tolist()) == sorted(b[kind].x.tolist())
        for relation in data.edge_types:
            row, col = b[relation].edge_index
            pairs = torch.stack([b[relation[0]].n_id[row], b[relation[2]].n_id[col]])
            assert torch.equal(pairs, data[relation].edge_index[:, b[relation].e_id])


def test_a_remote_homogeneous_graph_with_times() -> None:
    data = random_data()
    features, edges = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(torch.arange(300), group_name=None, attr_name="time", index=None)
    edges.put_edge_index((data.edge_index[0], data.edge_index[1]), edge_type=None, layout="coo", size=(300, 300))
    data.time = torch.arange(300)
    del data.y, data.edge_attr
    options: dict[str, Any] = {"input_nodes": torch.arange(300), "time_attr": "time", "batch_size": 60, "seed": 3}
    for a, b in zip(NeighborLoader(data, [9], **options), NeighborLoader((features, edges), [9], **options), strict=True):
        assert a.num_edges == b.num_edges
        row, _ = b.edge_index
        assert bool((b.time[row] <= b.input_id[b.batch[row]]).all())  # the seed's own time is its id
