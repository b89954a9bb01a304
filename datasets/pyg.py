"""PyG's `Data` and `HeteroData`, as objects or files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.files import existing, one_line, torch_refusal
from gnnhet.datasets.masks import node_features
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array, RawGraph, Relation
from gnnhet.errors import FormatError, GraphError


def from_data(data: Any, name: str = "") -> RawGraph:
    """The edges, node-level tensors and masks of a `Data` or `HeteroData`.

    Args:
        data: with `edge_index`, or a sparse CSR `adj_t` (rows are destinations, as in PyG).
        name: what the graph is called.

    Masks become `split` (of several columns the first). Other tensors with a row a node or an edge are kept by their names,
    sparse `x` made dense; of sparse edges only the pairs.

    Raises:
        GraphError: no edges in one of these forms.
    """
    if hasattr(data, "node_types"):
        num_nodes = {node_type: _count(data[node_type], node_type) for node_type in data.node_types}
        edges: dict[Relation, tuple[Array, Array]] = {
            tuple(relation): _edges(data[relation], str(relation)) for relation in data.edge_types
        }
        features = {node_type: _features(data[node_type], num_nodes[node_type]) for node_type in num_nodes}
        edge_features = {relation: _edge_features(data[relation], pair[0].size) for relation, pair in edges.items()}
        return RawGraph(num_nodes=num_nodes, edges=edges, features=features, edge_features=edge_features, name=name)
    if not hasattr(data, "num_nodes"):
        raise GraphError(f"a PyG graph must be a Data or HeteroData, got {type(data).__name__}")
    count = _count(data, "Data")
    pair = _edges(data, "Data")
    return RawGraph(
        num_nodes={NODE: count},
        edges={HOMOGENEOUS: pair},
        features={NODE: _features(data, count)},
        edge_features={HOMOGENEOUS: _edge_features(data, pair[0].size)},
        name=name,
    )


def read(file: str | Path) -> RawGraph:
    """Read what `torch.save` wrote of a `Data` or `HeteroData`, or of the dict that its `to_dict()` gives.

    Only PyG's data classes and tensors are admitted; nothing in the file is executed.

    Raises:
        FormatError: absent, damaged, or with other objects in it.
    """
    import torch
    from torch_geometric.data import Data, HeteroData

    path = existing(file, "a PyG file")
    try:
        torch.serialization.add_safe_globals(_admitted())  # for good, as PyG's own: leaving safe_globals() would undo those
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises by what is broken: UnpicklingError, RuntimeError, EOFError, ...
        raise FormatError(
            f"{path} must be a saved Data, HeteroData or dict of tensors, got {torch_refusal(error)}: save data.to_dict() instead"
        ) from error
    if isinstance(loaded, tuple) and len(loaded) in (2, 3):  # InMemoryDataset.save, now and of old
        if loaded[1] is not None:
            raise FormatError(f"{path} must hold one graph, got a collection of several: save one with dataset[i].to_dict()")
        loaded = loaded[0]
    try:
        if isinstance(loaded, Mapping):
            typed = any(isinstance(key, tuple) for key in loaded)
            loaded = HeteroData.from_dict(dict(loaded)) if typed else Data.from_dict(dict(loaded))
        return from_data(loaded, path.stem)
    except GraphError as error:
        raise FormatError(f"{path}: {error}") from error
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:  # tensors where PyG expects others
        raise FormatError(f"{path} must hold the tensors of a graph, got {one_line(error)}: save data.to_dict()") from error


def _count(store: Any, what: str) -> int:
    """Nodes of a node store."""
    count = store.num_nodes
    if count is None:
        raise GraphError(f"{what} must have num_nodes or a tensor that tells it, got neither: set num_nodes")
    return int(count)


def _admitted() -> list[Any]:
    """PyG's own containers."""
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    return [Data, HeteroData, DataEdgeAttr, DataTensorAttr, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]


def _edges(store: Any, what: str) -> tuple[Array, Array]:
    """(src, dst) of an edge store."""
    import torch

    edge_index = store.get("edge_index") if hasattr(store, "get") else None
    if edge_index is None:
        edge_index = getattr(store, "edge_index", None)
    if edge_index is not None:
        pairs = edge_index.detach().cpu().numpy()
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise GraphError(f"edge_index of {what} must have shape [2, edges], got {tuple(pairs.shape)}")
        return pairs[0], pairs[1]
    adjacency = getattr(store, "adj_t", None)
    if isinstance(adjacency, torch.Tensor) and adjacency.layout == torch.sparse_csr:
        indptr = adjacency.crow_indices().cpu().numpy()
        return adjacency.col_indices().cpu().numpy(), np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    raise GraphError(f"{what} must have edge_index, or adj_t as a torch CSR tensor: convert its edges to edge_index")


def _features(store: Any, count: int) -> dict[str, Array]:
    """Node-level tensors, masks as one split."""
    is_edge = getattr(store, "is_edge_attr", lambda key: False)
    return node_features({key: value for key, value in store.to_dict().items() if not _of_edges(key, is_edge(key))}, count)


def _edge_features(store: Any, count: int) -> dict[str, Any]:
    """Edge-level tensors: those that PyG takes for such, with a row an edge."""
    import torch

    return {
        key: value.detach().cpu()
        for key, value in store.to_dict().items()
        if key not in ("edge_index", "adj_t")
        and isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.dim() > 0
        and value.shape[0] == count
        and _of_edges(key, store.is_edge_attr(key))
    }


def _of_edges(key: str, said: bool) -> bool:
    """Whether a tensor belongs to the edges: by PyG's word, or by its name where counts cannot tell."""
    return said or key.startswith("edge_")
