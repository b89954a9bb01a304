"""Models on blocks against PyG's layers on whole graphs."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor
from torch_geometric.nn import GATv2Conv, GCNConv, HGTConv, SAGEConv

from gnnhet.errors import SpecError
from gnnhet.models import MODELS, LayeredModel, build_model
from gnnhet.samplers import NeighborLoader
from gnnhet.storage import Graph
from gnnhet.training.evaluate import predict
from gnnhet.training.ranks import Ranks

CPU = torch.device("cpu")


def built(name: str, graph: Graph, dropout: float = 0.0, layers: int = 2) -> LayeredModel:
    model = build_model(name, graph, hidden=16, num_layers=layers, dropout=dropout, target_type=graph.target_type, seed=3)
    return model.double()


def batch_scores(model: LayeredModel, graph: Graph, ids: np.ndarray) -> Tensor:
    """Scores of one mini-batch with all neighbours."""
    fanouts = [-1] * model.num_layers
    loader = NeighborLoader(
        graph, fanouts, max(ids.size, 1), (graph.target_type, ids), shuffle=False, with_degrees=model.needs_degrees
    )
    (batch,) = list(loader)
    with torch.no_grad():
        scores: Tensor = model.eval()(batch)
    return scores


def edges_of(graph: Graph, relation: tuple[str, str, str]) -> Tensor:
    indptr, indices = graph.csc(relation)
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return torch.from_numpy(np.stack([indices.astype(np.int64), rows]))


def whole_graph(model: LayeredModel, graph: Graph, layers: list[torch.nn.Module]) -> Tensor:
    """PyG's own layers, with the model's parameters, on the whole homogeneous graph."""
    h = torch.from_numpy(graph.features.array("node", "x").copy()).double()
    edges = edges_of(graph, graph.relations[0])
    for number, (layer, ours) in enumerate(zip(layers, model.convolutions, strict=True)):  # type: ignore[arg-type]
        layer.double().load_state_dict(ours.state_dict())
        h = layer(h, edges)
        h = torch.relu(h) if number < len(layers) - 1 else h
    return h.detach()


WHOLE = {
    "gcn": lambda: [GCNConv(8, 16), GCNConv(16, 3)],
    "sage": lambda: [SAGEConv((8, 8), 16), SAGEConv((16, 16), 3)],
    "gat": lambda: [GATv2Conv((8, 8), 4, heads=4), GATv2Conv((16, 16), 3)],
}


def without_self_loops(graph: Graph) -> Graph:
    edges = edges_of(graph, graph.relations[0]).numpy()
    kept = edges[:, edges[0] != edges[1]]
    names = ("x", "y", "split")
    plain = Graph.from_coo(kept[0], kept[1], graph.num_nodes["node"])
    for name in names:
        plain.features.add("node", name, graph.features.array("node", name), graph.num_nodes["node"])
    return plain


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_full_neighbours_equal_pygs_layers_on_the_whole_graph(name: str) -> None:
    graph = without_self_loops(labelled_graph())  # PyG's GCN norm counts a stored self loop differently
    model = built(name, graph)
    expected = whole_graph(model, graph, WHOLE[name]())
    ids = np.array([5, 3, 150, 42])
    assert torch.allclose(batch_scores(model, graph, ids), expected[ids], atol=1e-10)


def test_rgcn_is_its_equation() -> None:
    graph = typed_labelled_graph()
    model: Any = built("rgcn", graph)
    h = {t: torch.from_numpy(graph.features.array(t, "x").copy()).double() for t in ("a", "b")}
    h["c"] = model.embeddings[0].weight.detach()
    for number in range(2):
        new = {t: model.roots[number][i](h[t]).detach() for i, t in enumerate(graph.node_types)}
        for i, relation in enumerate(graph.relations):
            indptr, indices = graph.csc(relation)
            weight = model.relations[number][i].lin_l.weight.detach()
            for v in range(indptr.size - 1):
                row = indices[indptr[v] : indptr[v + 1]]
                if row.size:
                    new[relation[2]][v] += weight @ h[relation[0]][row.astype(np.int64)].mean(0)
        h = {t: torch.relu(part) for t, part in new.items()} if number == 0 else new
    ids = np.array([0, 17, 99])
    assert torch.allclose(batch_scores(model, graph, ids), h["a"][ids], atol=1e-10)


def test_hgt_equals_pygs_layer_on_the_whole_graph() -> None:
    graph = typed_labelled_graph()
    model: Any = built("hgt", graph)
    h = {t: torch.from_numpy(graph.features.array(t, "x").copy()).double() for t in ("a", "b")}
    h["c"] = model.embeddings[0].weight.detach()
    h = {t: torch.relu(model.inputs[i](h[t])) for i, t in enumerate(graph.node_types)}
    edges = {relation: edges_of(graph, relation) for relation in graph.relations}
    for ours in model.convolutions:
        layer = HGTConv(16, 16, (graph.node_types, graph.relations), heads=4).double()
        state = ours.state_dict()
        renamed = dict(zip(layer.state_dict(), state.values(), strict=True))
        layer.load_state_dict(renamed)
        h = {t: part for t, part in layer(h, edges).items()}
    expected = model.output(h["a"]).detach()
    ids = np.array([0, 17, 99])
    assert torch.allclose(batch_scores(model, graph, ids), expected[ids], atol=1e-10)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("layers", [1, 3])
def test_layer_by_layer_equals_one_batch_of_everything(name: str, layers: int) -> None:
    for graph in [typed_labelled_graph()] + ([] if name in ("rgcn", "hgt") else [labelled_graph()]):
        if not graph.homogeneous and not MODELS[name].typed:
            continue
        model = built(name, graph, layers=layers)
        ids = np.arange(0, graph.num_nodes[graph.target_type], 7)
        loader = NeighborLoader(graph, [-1], 8, (graph.target_type, ids))
        scores = predict(model, graph, graph.target_type, ids, loader=loader, ranks=Ranks(0, [1.0], 9), place=CPU)
        assert torch.allclose(scores, batch_scores(model, graph, ids), atol=1e-10)
        assert model.training is False


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_are_a_function_of_the_seed(name: str) -> None:
    graph = labelled_graph()
    torch.manual_seed(1)
    one = built(name, graph).state_dict()
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    other = built(name, graph).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)  # and the caller's generator is left alone
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_gcn_with_few_neighbours_is_unbiased() -> None:
    """The mean over many draws of a linear GCN layer is the full layer."""
    graph = without_self_loops(labelled_graph(num_edges=4000))
    model = built("gcn", graph, layers=1)
    ids = np.arange(20)
    loader = NeighborLoader(graph, [3], 20, ("node", ids), shuffle=False, with_degrees=True)
    draws = []
    with torch.no_grad():
        for _ in range(800):
            (batch,) = list(loader)
            draws.append(model.eval()(batch))
    stacked = torch.stack(draws)
    error = (stacked.mean(0) - batch_scores(model, graph, ids)).abs()
    assert bool((error < 5 * stacked.std(0) / np.sqrt(800) + 1e-9).all())


def test_refuses_models_and_graphs_that_do_not_fit() -> None:
    with pytest.raises(SpecError, match="did you mean sage"):
        built("sge", labelled_graph())
    with pytest.raises(SpecError, match="gcn needs a graph with one relation, got 6: use one of hgt, mlp, rgcn"):
        built("gcn", typed_labelled_graph())
    with pytest.raises(SpecError, match="multiple of its 4 heads"):
        build_model("gat", labelled_graph(), hidden=6, num_layers=2, dropout=0, target_type="node", seed=0)
