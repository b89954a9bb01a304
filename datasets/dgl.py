"""DGL's graphs, as objects."""

from typing import Any

from gnnhet.datasets.masks import node_features
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array, RawGraph, Relation
from gnnhet.errors import GraphError

_NAMES = {"feat": "x", "label": "y"}  # what DGL's own datasets call them


def from_graph(graph: Any, name: str = "") -> RawGraph:
    """The edges and the data of a `DGLGraph`, homogeneous or typed.

    `feat` and `label` become `x` and `y`, masks become `split`; other data is kept by its name, the edges' too.

    Args:
        graph: with `canonical_etypes`, as a `DGLGraph` has.
        name: what the graph is called.

    Raises:
        GraphError: not such a graph, or a block.
    """
    if not hasattr(graph, "canonical_etypes") or getattr(graph, "is_block", False):
        raise GraphError(f"a DGL graph must be a DGLGraph that is no block, got {type(graph).__name__}")
    homogeneous = len(graph.ntypes) == 1 and len(graph.canonical_etypes) == 1
    num_nodes = {NODE if homogeneous else node_type: int(graph.num_nodes(node_type)) for node_type in graph.ntypes}
    features = {}
    for node_type in graph.ntypes:
        own = NODE if homogeneous else node_type
        features[own] = node_features(_renamed(graph.nodes[node_type].data), num_nodes[own])
    edges: dict[Relation, tuple[Array, Array]] = {}
    edge_features: dict[Relation, dict[str, Array]] = {}
    for etype in graph.canonical_etypes:
        relation: Relation = HOMOGENEOUS if homogeneous else tuple(etype)
        src, dst = graph.edges(etype=etype, order="eid")
        edges[relation] = (src.cpu().numpy(), dst.cpu().numpy())
        edge_features[relation] = {str(key): value.detach().cpu() for key, value in graph.edges[etype].data.items()}
    return RawGraph(num_nodes=num_nodes, edges=edges, features=features, edge_features=edge_features, name=name)


def _renamed(data: Any) -> dict[str, Any]:
    """The data of a node type by our names, unless both names are there."""
    return {key if _NAMES.get(key, key) in data else _NAMES.get(key, key): value for key, value in data.items()}
