"""The edges of what PyG's loaders accept, indexed by destination, and its node- and edge-level numbers by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData, remote_backend_utils

from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Relation
from gnnhet.errors import GraphError, SpecError
from gnnhet.samplers.pyg.remote import PyGGraphStore, is_typed
from gnnhet.storage import csc
from gnnhet.storage.csc import Csc
from gnnhet.storage.graph import Graph

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Topology:
    """What is sampled from.

    Attributes:
        graph: its edges; edge ids are positions in the edges as they were given.
        node_types: in the order of the data.
        relations: in the order of the data.
        typed: False where PyG has `Data` and names no types.
        dtype: of the ids it was given in, and of those that samples are handed out in.
    """

    graph: Graph
    node_types: tuple[str, ...]
    relations: tuple[Relation, ...]
    typed: bool
    dtype: torch.dtype

    def edge_values(self, node: Mapping[str, Array], edge: Mapping[Relation, Array]) -> dict[Relation, Array]:
        """A number for each stored edge: its own, or else its source's.

        Args:
            node: [nodes], by node type.
            edge: [edges], by relation, in the order the edges were given in.
        """
        found = {}
        for relation in self.relations:
            part = self.graph.part(relation)
            if relation in edge:
                values = edge[relation]
                if values.shape != (part.num_edges,):
                    raise GraphError(f"{relation} must have one number an edge, {part.num_edges}, got shape {values.shape}")
                found[relation] = values if part.edge_ids is None else values[part.edge_ids]
            elif relation[0] in node:
                found[relation] = node[relation[0]][part.indices]
        return found


def read(data: Any, *, is_sorted: bool = False) -> Topology:
    """Index the edges of a `Data`, `HeteroData`, `Graph`, or (`FeatureStore`, `GraphStore`).

    Args:
        data: edges as `edge_index`, `adj` or `adj_t`, torch's sparse tensors among them.
        is_sorted: `edge_index` is sorted by destination: it is indexed without sorting.

    Raises:
        SpecError: something else, or edges that are not sorted as they should be.
        GraphError: ids out of range.
    """
    if isinstance(data, Graph):
        return _of_graph(data)
    if isinstance(data, HeteroData):
        return _of_hetero(data, is_sorted)
    if isinstance(data, Data):
        num_nodes = _count(data.num_nodes, "Data")
        part, dtype = _index(data._store, HOMOGENEOUS, num_nodes, num_nodes, is_sorted)
        return _homogeneous(Graph({HOMOGENEOUS: part}, {NODE: num_nodes}), dtype)
    if isinstance(data, list | tuple) and len(data) == 2:
        if isinstance(data[1], PyGGraphStore):
            return _of_graph(data[1].graph)
        if isinstance(data[0], FeatureStore) and isinstance(data[1], GraphStore):
            return _of_stores(*data)
    raise SpecError(
        "data must be a Data, HeteroData, gnnhet Graph, or a tuple of FeatureStore and GraphStore, "
        f"got {type(data).__name__}: convert it to one of these"
    )


def values_of(data: Any, topology: Topology, name: str, *, prefer_edges: bool) -> tuple[dict[str, Array], dict[Relation, Array]]:
    """The numbers called `name`: ([nodes] by node type, [edges] by relation, in the order the edges were given in).

    Args:
        data: what `read` was given.
        topology: what `read` returned.
        name: of the attribute.
        prefer_edges: how one is taken that could be of nodes as well as of edges.
    """
    node: dict[str, Array] = {}
    edge: dict[Relation, Array] = {}
    if isinstance(data, Graph) or (isinstance(data, list | tuple) and isinstance(data[1], PyGGraphStore)):
        features = topology.graph.features
        node = {owner: features.array(owner, name) for owner in topology.node_types if features.has(owner, name)}
        edge = {owner: features.array(owner, name) for owner in topology.relations if features.has(owner, name)}
    elif isinstance(data, HeteroData):
        node = {kind: _array(data[kind][name]) for kind in topology.node_types if kind in data.node_types and name in data[kind]}
        edge = {kind: _array(data[kind][name]) for kind in topology.relations if name in data[kind]}
    elif isinstance(data, Data):
        if name in data:
            values = _array(data[name])
            of_edges = data.is_edge_attr(name) or values.shape[:1] == (topology.graph.num_edges[HOMOGENEOUS],)
            if of_edges and (prefer_edges or not data.is_node_attr(name)):
                edge = {HOMOGENEOUS: values}
            elif data.is_node_attr(name):
                node = {NODE: values}
    else:
        node, edge = _stored_values(data[0], topology, name)
    return node, edge


def _of_graph(graph: Graph) -> Topology:
    """Edge ids are stored positions, as those of the graph's relation features."""
    parts = {relation: Csc(indptr=graph.csc(relation)[0], indices=graph.csc(relation)[1]) for relation in graph.relations}
    plain = Graph(parts, graph.num_nodes, graph.features, name=graph.name)
    return Topology(
        graph=plain,
        node_types=tuple(plain.node_types),
        relations=tuple(plain.relations),
        typed=is_typed(graph),
        dtype=torch.int64,
    )


def _homogeneous(graph: Graph, dtype: torch.dtype) -> Topology:
    return Topology(graph=graph, node_types=(NODE,), relations=(HOMOGENEOUS,), typed=False, dtype=dtype)


def _of_hetero(data: HeteroData, is_sorted: bool) -> Topology:
    """Edges of types without a store of their own tell how many nodes those have."""
    relations = tuple(data.edge_types)
    num_nodes = {node_type: _count(data[node_type].num_nodes, node_type) for node_type in data.node_types}
    for relation in relations:
        for node_type, row in ((relation[0], 0), (relation[2], 1)):
            if node_type not in data.node_types:
                ids = data[relation].edge_index[row]
                num_nodes[node_type] = max(num_nodes.get(node_type, 0), int(ids.max()) + 1 if ids.numel() else 0)
    parts, dtypes = {}, []
    for relation in relations:
        parts[relation], dtype = _index(data[relation], relation, num_nodes[relation[0]], num_nodes[relation[2]], is_sorted)
        dtypes.append(dtype)
    return Topology(
        graph=Graph(parts, num_nodes),
        node_types=tuple(num_nodes),
        relations=relations,
        typed=True,
        dtype=dtypes[0] if dtypes else torch.int64,
    )


def _count(count: int | None, what: str) -> int:
    if count is None:
        raise GraphError(f"{what} must have num_nodes or a tensor that tells it, got neither: set num_nodes")
    return int(count)


def _index(store: Any, relation: Relation, num_src: int, num_dst: int, is_sorted: bool) -> tuple[Csc, torch.dtype]:
    """One edge store's edges by destination, and the dtype of their ids."""
    sizes: Any = {"num_src": num_src, "num_dst": num_dst, "what": str(relation)}
    if "adj" in store or "adj_t" in store:
        indptr, indices = _sparse(store, relation)
        return csc.from_csc(indptr.cpu().numpy(), indices.cpu().numpy(), **sizes), indices.dtype
    if "edge_index" not in store or store["edge_index"] is None:
        return csc.from_csc(np.zeros(num_dst + 1, np.int64), np.empty(0, np.int64), **sizes), torch.int64
    edge_index = store["edge_index"]
    if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex
        edge_index = edge_index.as_tensor()
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise GraphError(f"edge_index of {relation} must be a tensor of shape [2, edges], got {type(edge_index).__name__}")
    pairs = edge_index.detach().cpu().numpy()
    if is_sorted:
        return csc.from_csc(_pointers(pairs[1], num_dst, relation), pairs[0], **sizes), edge_index.dtype
    return csc.from_coo(pairs[0], pairs[1], keep_edge_ids=True, **sizes), edge_index.dtype


def _sparse(store: Any, relation: Relation) -> tuple[Tensor, Tensor]:
    """(indptr, indices) by destination of `adj` (a row a source) or `adj_t` (a row a destination)."""
    key = "adj" if "adj" in store else "adj_t"
    matrix = store[key]
    if isinstance(matrix, Tensor):
        if matrix.layout == torch.strided:
            raise GraphError(f"{key} of {relation} must be a sparse tensor, got a dense one: use edge_index")
        by_destination = (matrix if key == "adj_t" else matrix.t()).to_sparse_csr()
        return by_destination.crow_indices(), by_destination.col_indices()
    indptr, indices, _ = matrix.csc() if key == "adj" else matrix.csr()
    return indptr, indices


def _pointers(destinations: Array, num_dst: int, relation: Relation) -> Array:
    """Row pointers of destinations that ascend."""
    if bool((destinations[1:] < destinations[:-1]).any()):
        raise SpecError(f"is_sorted says that edge_index of {relation} ascends by destination, got one that falls: leave it out")
    return np.searchsorted(destinations, np.arange(num_dst + 1)).astype(np.int64)


def _of_stores(features: FeatureStore, edges: GraphStore) -> Topology:
    """Any other remote back end: what it holds is read once."""
    attrs = edges.get_all_edge_attrs()
    relations = list(dict.fromkeys(attr.edge_type for attr in attrs))
    rows, ends, orders = edges.csc()
    if relations == [None]:
        num_nodes = max([0, *(size for attr in attrs for size in attr.size or ())])
        num_nodes = max(num_nodes, ends.numel() - 1)
        part = _padded(rows, ends, orders, HOMOGENEOUS, num_nodes, num_nodes)
        return _homogeneous(Graph({HOMOGENEOUS: part}, {NODE: num_nodes}), rows.dtype)
    named = [attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)]
    counts = dict.fromkeys(named, 0)
    for relation in relations:
        counts[relation[0]] = max(counts.get(relation[0], 0), int(rows[relation].max()) + 1 if rows[relation].numel() else 0)
        counts[relation[2]] = max(counts.get(relation[2], 0), ends[relation].numel() - 1)
    for node_type in counts:
        try:
            counts[node_type] = max(counts[node_type], int(remote_backend_utils.num_nodes(features, edges, node_type)))
        except ValueError:  # neither store tells: the edges have told how many there are at least
            continue
    parts = {
        relation: _padded(
            rows[relation], ends[relation], orders.get(relation), relation, counts[relation[0]], counts[relation[2]]
        )
        for relation in relations
    }
    return Topology(
        graph=Graph(parts, counts),
        node_types=tuple(counts),
        relations=tuple(relations),
        typed=True,
        dtype=rows[relations[0]].dtype if relations else torch.int64,
    )


def _padded(indices: Tensor, indptr: Tensor, order: Tensor | None, relation: Relation, num_src: int, num_dst: int) -> Csc:
    """A relation whose pointers may end at its last destination that has edges."""
    pointers = indptr.cpu().numpy()
    if pointers.size < num_dst + 1:
        pointers = np.concatenate([pointers, np.full(num_dst + 1 - pointers.size, pointers[-1])])
    ids = None if order is None else order.cpu().numpy()
    return csc.from_csc(pointers, indices.cpu().numpy(), num_src=num_src, num_dst=num_dst, what=str(relation), edge_ids=ids)


def _stored_values(features: FeatureStore, topology: Topology, name: str) -> tuple[dict[str, Array], dict[Relation, Array]]:
    """As PyG has it, of a remote homogeneous graph `time` is of nodes and any other name of edges."""
    node: dict[str, Array] = {}
    edge: dict[Relation, Array] = {}
    for attr in features.get_all_tensor_attrs():
        if attr.attr_name != name:
            continue
        attr.index = None
        values = _array(features.get_tensor(attr))
        if isinstance(attr.group_name, Sequence) and not isinstance(attr.group_name, str):
            edge[tuple(attr.group_name)] = values
        elif topology.typed:
            node[str(attr.group_name)] = values
        elif name == "time" or values.shape != (topology.graph.num_edges[HOMOGENEOUS],):
            node[NODE] = values
        else:
            edge[HOMOGENEOUS] = values
    return node, edge


def _array(values: Any) -> Array:
    """One number a row."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
