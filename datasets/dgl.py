"""DGL's graphs, as objects or files."""

import re
from pathlib import Path
from typing import Any

from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.masks import node_features
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array, RawGraph, Relation
from gnnhet.errors import FormatError, GraphError, MissingDependencyError, SpecError

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


def parted(spec: str | Path) -> tuple[Path, str | None]:
    """`FILE#INDEX` as both; a file whose own name has a # is one."""
    if not Path(spec).exists() and (found := re.fullmatch(r"(.*)#([^#/]*)", str(spec), re.DOTALL)):
        return Path(found[1]), found[2]
    return Path(spec), None


def read(spec: str | Path) -> RawGraph:
    """Read a graph that `dgl.save_graphs` wrote, through DGL itself.

    Args:
        spec: the file; of several graphs in one `FILE#INDEX`, counted from 0.

    Raises:
        FormatError: absent, damaged, or of several graphs where none is chosen.
        SpecError: an index that is none, or of no graph.
        MissingDependencyError: no DGL that can be imported.
    """
    path, index = parted(spec)
    existing(path, "a file of DGL")
    if index is not None and not re.fullmatch("[0-9]{1,18}", index):
        raise SpecError(f"a graph in a file of DGL is chosen as FILE#INDEX, a whole number from 0, got {spec}")
    try:
        import dgl
    except (ImportError, OSError) as error:  # OSError: a library of DGL's for another torch
        raise MissingDependencyError(f"files of DGL need dgl, got {one_line(error)}: install it as dgl.ai says") from error
    try:
        graphs, _ = dgl.load_graphs(str(path), None if index is None else [int(index)])
    except Exception as error:  # DGL raises its own, with a stack trace in it
        reason = one_line(Exception(str(error).partition("Stack trace")[0].rpartition("Check failed: ")[2]))
        if "out of bound" in reason:
            raise SpecError(f"{path} must have a graph {index} to read it, got fewer: choose another") from error
        raise FormatError(f"{path} must be written by dgl.save_graphs, got {reason}: save it again") from error
    if len(graphs) != 1:
        raise FormatError(f"{path} must hold one graph, got {len(graphs)}: choose one as {path}#0")
    return from_graph(graphs[0], path.stem)


def _renamed(data: Any) -> dict[str, Any]:
    """The data of a node type by our names, unless both names are there."""
    return {key if _NAMES.get(key, key) in data else _NAMES.get(key, key): value for key, value in data.items()}
