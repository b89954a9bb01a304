"""A `Graph` as PyG's remote back end: the pair (`FeatureStore`, `GraphStore`)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Relation
from gnnhet.errors import GraphError
from gnnhet.storage.features import Owner
from gnnhet.storage.graph import Graph


def as_pyg(graph: Graph) -> tuple["PyGFeatureStore", "PyGGraphStore"]:
    """The pair that PyG's loaders, samplers and this package's accept as `data`.

    A graph of the node type `node` and the relation `("node", "to", "node")` alone is homogeneous to PyG: its group and
    edge type are None.

    Args:
        graph: in memory or mapped from disk; rows are read when they are asked for.
    """
    return PyGFeatureStore(graph), PyGGraphStore(graph)


def is_typed(graph: Graph) -> bool:
    """Whether PyG sees its types."""
    return graph.relations != [HOMOGENEOUS] or graph.node_types != [NODE]


class PyGFeatureStore(FeatureStore):  # type: ignore[misc]
    """A graph's arrays, read-only.

    Those of relations are offered too where the graph is typed: PyG reads the others of a homogeneous graph by node.

    Attributes:
        graph: whose arrays they are.
    """

    def __init__(self, graph: Graph) -> None:
        """Hold the graph; nothing is read."""
        super().__init__()
        self.__dict__["graph"] = graph

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """An attribute for each array, its index not set."""
        typed = is_typed(self.graph)
        return [
            self._tensor_attr_cls(group_name=owner if typed else None, attr_name=name)
            for owner, name, _ in self.graph.features
            if typed or owner == NODE
        ]

    def _owner(self, attr: TensorAttr) -> Owner:
        """Whose array it is."""
        if attr.group_name is None:
            return NODE
        return str(attr.group_name) if isinstance(attr.group_name, str) else _relation(attr.group_name)

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        """Rows by index: integers, a mask, a slice, one number, or None for all; of memory of their own."""
        owner = self._owner(attr)
        if not self.graph.features.has(owner, attr.attr_name):
            raise KeyError(f"no tensor {attr.attr_name!r} of {owner}: there are {self.graph.features.names(owner)}")
        count = self.graph.features.array(owner, attr.attr_name).shape[0]
        index = attr.index
        if index is None:
            index = slice(None)
        if isinstance(index, slice):
            index = np.arange(*index.indices(count))
        ids = np.atleast_1d(index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index))
        if ids.dtype == np.bool_:
            ids = np.flatnonzero(ids)
        rows: Tensor = self.graph.features.gather(owner, attr.attr_name, ids)
        return rows

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        """Of the whole array."""
        owner = self._owner(attr)
        if not self.graph.features.has(owner, attr.attr_name):
            return None
        return tuple(self.graph.features.array(owner, attr.attr_name).shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise GraphError(_read_only("features"))

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise GraphError(_read_only("features"))


class PyGGraphStore(GraphStore):  # type: ignore[misc]
    """A graph's edges by destination, read-only.

    Attributes:
        graph: whose edges they are.
    """

    def __init__(self, graph: Graph) -> None:
        """Hold the graph; nothing is read."""
        super().__init__()
        self.__dict__["graph"] = graph

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One a relation, in the CSC layout, with (sources, destinations) as its size."""
        typed = is_typed(self.graph)
        return [
            self._edge_attr_cls(
                edge_type=relation if typed else None,
                layout=EdgeLayout.CSC,
                size=(self.graph.num_nodes[relation[0]], self.graph.num_nodes[relation[2]]),
            )
            for relation in self.graph.relations
        ]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        """(row, colptr) int64; other layouts are made from this by PyG itself."""
        relation = HOMOGENEOUS if edge_attr.edge_type is None else _relation(edge_attr.edge_type)
        if edge_attr.layout != EdgeLayout.CSC or relation not in self.graph.num_edges:
            return None
        indptr, indices = self.graph.csc(relation)
        return torch.from_numpy(indices.astype(np.int64)), torch.from_numpy(indptr.astype(np.int64))

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise GraphError(_read_only("edges"))

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise GraphError(_read_only("edges"))


def _relation(edge_type: Any) -> Relation:
    """PyG leaves out the name of a relation `to`."""
    parts = tuple(edge_type)
    return (parts[0], "to", parts[1]) if len(parts) == 2 else (parts[0], parts[1], parts[2])


def _read_only(what: str) -> str:
    return f"a graph's {what} are read-only, got one to put or remove: make another graph with Graph.from_relations"
