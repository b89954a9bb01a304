"""Models by name."""

import difflib

import torch

from gnnhet.errors import SpecError
from gnnhet.models.base import Dimensions, LayeredModel
from gnnhet.models.gat import GAT
from gnnhet.models.gcn import GCN
from gnnhet.models.hgt import HGT
from gnnhet.models.mlp import MLP
from gnnhet.models.rgcn import RGCN
from gnnhet.models.sage import SAGE
from gnnhet.storage.graph import Graph

MODELS: dict[str, type[LayeredModel]] = {"gat": GAT, "gcn": GCN, "hgt": HGT, "mlp": MLP, "rgcn": RGCN, "sage": SAGE}


def model_class(name: str) -> type[LayeredModel]:
    """The class of a model.

    Raises:
        SpecError: no such model.
    """
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, 1)
        hint = f": did you mean {near[0]}?" if near else ""
        raise SpecError(f"a model must be one of {', '.join(MODELS)}, got {name!r}{hint}")
    return MODELS[name]


def build_model(
    name: str,
    graph: Graph,
    *,
    hidden: int,
    num_layers: int,
    dropout: float,
    target_type: str,
    seed: int,
    sparse_embeddings: bool = False,
) -> LayeredModel:
    """A built-in model for a graph, its parameters a function of the seed.

    Args:
        name: of `MODELS`.
        graph: whose relations, features and labels it must fit.
        hidden: columns between layers.
        num_layers: blocks of a batch.
        dropout: probability in [0, 1).
        target_type: node type of the seeds.
        seed: of the initial parameters.
        sparse_embeddings: whether rows of featureless types come with the batch (`Dimensions.sparse`).

    Raises:
        SpecError: no such model, or one that does not fit the graph.
    """
    chosen = model_class(name)
    if not graph.homogeneous and not chosen.typed:
        typed = ", ".join(key for key, value in MODELS.items() if value.typed)
        raise SpecError(f"{name} needs a graph with one relation, got {len(graph.relations)}: use one of {typed}")
    widths = {
        node_type: graph.features.width(node_type, "x") if graph.features.has(node_type, "x") else 0
        for node_type in graph.node_types
    }
    dims = Dimensions(
        relations=tuple(graph.relations),
        num_nodes=graph.num_nodes,
        widths=widths,
        target_type=target_type,
        num_classes=graph.num_classes(target_type),
        hidden=hidden,
        num_layers=num_layers,
        dropout=dropout,
        sparse=sparse_embeddings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return chosen(dims)
