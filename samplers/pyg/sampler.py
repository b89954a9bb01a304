"""`NeighborSampler`: PyG's `BaseSampler` over this library's kernels, with keyed draws."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample
from torch_geometric.typing import EdgeTypeStr

from gnnhet.datasets.raw import NODE, Relation
from gnnhet.errors import SeedError, SpecError
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.expand import Hop, Trees
from gnnhet.samplers.laws import LAWS
from gnnhet.samplers.neighbor import as_limits, choose_law, grow_trees
from gnnhet.samplers.pyg.keys import Key, KeyedNegatives, seed_of, step_of
from gnnhet.samplers.pyg.subgraph import Grower, Subgraph
from gnnhet.samplers.pyg.topology import Topology, read, values_of

Output: TypeAlias = SamplerOutput | HeteroSamplerOutput


class KeyedSampler(BaseSampler):  # type: ignore[misc]
    """A sampler whose draws are a function of (seed, epoch, the batch's ids), and of nothing else.

    Attributes:
        seed: of all draws.
        epoch: what a call takes that does not say another.
    """

    seed: int
    epoch: int = 0

    def key_of(self, epoch: int | None, *ids: Tensor | None) -> Key:
        """(seed, epoch, step) of a batch."""
        return self.seed, self.epoch if epoch is None else epoch, step_of(*ids)

    @property
    def edge_permutation(self) -> None:
        """None: edge ids are positions in the edges as they were given."""
        return None


class NeighborSampler(KeyedSampler):
    """Draws neighbours hop by hop; a node is expanded once, in the hop after that in which it was first seen.

    Takes the place of PyG's class of this name, with its parameters but `sample_direction`; needs no further package.
    May be used by several threads at once.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        *,
        seed: int | None = None,
    ) -> None:
        """Index the edges, and check the options, weights and times.

        Args:
            data: a Data, HeteroData, gnnhet Graph, or (FeatureStore, GraphStore).
            num_neighbors: neighbours a node draws in each hop, -1 for all: a list, or lists by edge type.
            subgraph_type: `directional`, `bidirectional` or `induced`.
            replace: draw with replacement.
            disjoint: every seed grows a subgraph of its own; always so with times.
            temporal_strategy: `uniform`, or `last` for the latest edges a seed sees.
            time_attr: name of node- or edge-level times: a seed sees nothing later than its own time.
            weight_attr: name of edge-level weights, 0 or more: edges are drawn in proportion.
            is_sorted: edge_index is sorted by destination: it is then not sorted again.
            share_memory: not needed: worker processes inherit the arrays.
            directed: deprecated in PyG; False means `induced`.
            seed: of all draws; by default what `torch.manual_seed` was last called with.

        Raises:
            SpecError: an option nobody knows, or an attribute that is not there.
            GraphError: edges out of range.
        """
        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn("`directed=False` is deprecated: say `subgraph_type='induced'`", DeprecationWarning, stacklevel=2)
        if subgraph_type not in list(SubgraphType) and subgraph_type not in [kind.value for kind in SubgraphType]:
            raise SpecError(f"subgraph_type must be directional, bidirectional or induced, got {subgraph_type!r}")
        if temporal_strategy not in ("uniform", "last"):
            raise SpecError(f"temporal_strategy must be uniform or last, got {temporal_strategy!r}")
        self.seed = seed_of(seed)
        self.subgraph_type = SubgraphType(subgraph_type)
        self.replace, self.temporal_strategy = replace, temporal_strategy
        self._topology = read(data, is_sorted=is_sorted)
        node_time, edge_time = _times(data, self._topology, time_attr)
        self._node_time = node_time
        self.is_temporal = time_attr is not None
        self.disjoint = disjoint or self.is_temporal
        times = self._topology.edge_values(node_time, edge_time)
        self._floating_time = any(values.dtype.kind == "f" for values in times.values())
        weights = self._topology.edge_values({}, _weights(data, self._topology, weight_attr))
        found = edges_of(self._topology.graph, weights or None, times or None, sums=replace)
        edges = {relation: found[relation] for relation in self._topology.relations}
        self._law = LAWS[choose_law("uniform", replace=replace, weighted=bool(weights), nested=False)]
        self._grower = Grower(self._topology.graph.num_nodes, edges, disjoint=self.disjoint)
        self.num_neighbors = num_neighbors

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours a node draws in each hop; a list or lists by edge type may be assigned."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, given: Any) -> None:
        self._fanouts = read_fanouts(given, self._topology.relations)
        self._num_neighbors = given if isinstance(given, NumNeighbors) else NumNeighbors(given)

    @property
    def node_time(self) -> Tensor | dict[str, Tensor] | None:
        """Node-level times as PyG holds them: [nodes], by node type where the graph is typed, or None."""
        times = {node_type: torch.from_numpy(np.array(values)) for node_type, values in self._node_time.items()}
        if not times:
            return None
        return times if self._topology.typed else times[NODE]

    def sample_from_nodes(self, index: NodeSamplerInput, *, epoch: int | None = None, **_: Any) -> Output:
        """The subgraph around a batch of nodes.

        Args:
            index: the nodes, their times and their places in the loader's input.
            epoch: part of the key; by default the sampler's own.

        Raises:
            SeedError: a node out of range, an unknown node type, or times that are missing or do not fit.
        """
        key = self.key_of(epoch, index.input_id, index.node)
        return self._finish(node_sample(index, self._sampled(key)))

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None, *, epoch: int | None = None
    ) -> Output:
        """The subgraph around the ends of a batch of edges, and of negatives of theirs.

        Args:
            index: the edges, their labels and times and their places in the loader's input.
            neg_sampling: how negatives are drawn; None for none.
            epoch: part of the key; by default the sampler's own.

        Raises:
            SeedError: as `sample_from_nodes`.
        """
        key = self.key_of(epoch, index.input_id, None if index.input_id is not None else torch.stack([index.row, index.col]))
        negatives = None if neg_sampling is None else KeyedNegatives(neg_sampling, key)
        counts = self._topology.graph.num_nodes
        sampled = self._sampled(key, paired=negatives is None or negatives.is_binary())
        num_nodes = counts if self._topology.typed else counts[NODE]
        return self._finish(edge_sample(index, sampled, num_nodes, self.disjoint, self.node_time, negatives))

    def _finish(self, output: Output) -> Output:
        return output.to_bidirectional() if self.subgraph_type == SubgraphType.bidirectional else output

    def _sampled(self, key: Key, *, paired: bool | None = None) -> Callable[..., Output]:
        """What PyG's `node_sample` and `edge_sample` call: (seeds, their times) -> output.

        Args:
            key: of the batch.
            paired: the seeds are two lists of as many sources and destinations; None where they are no edges.
        """

        def sample(seeds: Tensor | Mapping[str, Tensor], times: Tensor | Mapping[str, Tensor] | None = None) -> Output:
            given = seeds if isinstance(seeds, Mapping) else {NODE: seeds}
            moments = times if times is None or isinstance(times, Mapping) else {NODE: times}
            ids = {node_type: self._checked(node_type, values) for node_type, values in given.items()}
            trees = self._trees(ids, moments)
            found = self._grower.grow(ids, self._hops(key), trees, induced=self.subgraph_type == SubgraphType.induced)
            return as_output(found, self._topology, _labels(ids, paired), counted=self.subgraph_type != SubgraphType.induced)

        return sample

    def _checked(self, node_type: str, seeds: Tensor) -> npt.NDArray[np.int64]:
        """Seeds as int64 ids within range."""
        return check_seeds(node_type, seeds, self._topology.graph.num_nodes)

    def _hops(self, key: Key) -> list[Hop]:
        """How each hop draws."""
        num_hops = len(next(iter(self._fanouts.values()), ()))
        return [
            Hop(
                law=self._law,
                fanouts={relation: counts[hop] for relation, counts in self._fanouts.items()},
                key=(*key, hop),
                last_only=self.temporal_strategy == "last",
                with_edge_ids=self.subgraph_type != SubgraphType.induced,
            )
            for hop in range(num_hops)
        ]

    def _trees(self, seeds: Mapping[str, npt.NDArray[np.int64]], times: Mapping[str, Tensor] | None) -> Trees | None:
        """A tree a seed, where they are disjoint; limited by the seeds' times, or their own as nodes."""
        if not self.disjoint:
            return None
        limits = None
        if self.is_temporal:
            given = []
            for node_type, ids in seeds.items():
                if times is not None and times.get(node_type) is not None:
                    moments = times[node_type].cpu().numpy()
                elif node_type in self._node_time:
                    moments = self._node_time[node_type][ids]
                else:
                    raise SeedError(f"seeds of {node_type} need a time: give input_time (or edge_label_time), they have none")
                if moments.shape != ids.shape or moments.dtype.kind not in "biuf":
                    raise SeedError(f"seed times must be one number for each of {ids.size}, got shape {moments.shape}")
                given.append(moments)
            limits = as_limits(np.concatenate(given) if given else np.empty(0, np.int64), self._floating_time)
        return grow_trees(self.seed, seeds, self._topology.graph.node_types, limits)


def check_seeds(node_type: str, seeds: Tensor, num_nodes: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Seeds as int64 ids within range.

    Raises:
        SeedError: they are not, or are of a node type nobody knows.
    """
    if node_type not in num_nodes:
        raise SeedError(f"seeds must be of a node type of the graph ({', '.join(num_nodes)}), got {node_type!r}")
    ids = np.atleast_1d(seeds.cpu().numpy())
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise SeedError(f"seeds must be integers on one axis, got {ids.dtype} of shape {ids.shape}")
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= num_nodes[node_type]):
        bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise SeedError(f"seeds must be ids of {node_type} nodes, 0..{num_nodes[node_type] - 1}, got {bad}")
    return np.ascontiguousarray(ids, np.int64)


def read_fanouts(given: Any, relations: Sequence[Relation]) -> dict[Relation, tuple[int, ...]]:
    """A fanout a hop for each relation, as PyG's `num_neighbors` says it.

    Raises:
        SpecError: an edge type that is not there or has none, or edge types with differently many hops.
    """
    lists, default = (given.values, given.default) if isinstance(given, NumNeighbors) else (given, None)
    if isinstance(lists, Mapping):
        named = {EdgeTypeStr(edge_type).to_tuple(): counts for edge_type, counts in lists.items()}
        unknown = [edge_type for edge_type in named if edge_type not in relations]
        if unknown:
            raise SpecError(f"num_neighbors must name edge types of the graph, {list(relations)}, got {unknown}")
        missing = [] if default is not None else [relation for relation in relations if relation not in named]
        if missing:
            raise SpecError(f"num_neighbors must name each edge type, got none for {missing}: add them")
        fanouts = {relation: tuple(int(k) for k in named.get(relation, default or ())) for relation in relations}
    else:
        fanouts = {relation: tuple(int(k) for k in lists) for relation in relations}
    lengths = sorted({len(counts) for counts in fanouts.values()})
    if len(lengths) > 1:
        raise SpecError(f"the number of hops must be the same across all edge types, got {lengths}: use 0 for none")
    return {relation: tuple(-1 if k < 0 else k for k in counts) for relation, counts in fanouts.items()}


def as_output(found: Subgraph, topology: Topology, label_of: npt.NDArray[np.int64], *, counted: bool) -> Output:
    """A subgraph as PyG hands it on.

    Args:
        found: the subgraph.
        topology: what it was sampled from.
        label_of: [trees], what `batch` says of each tree.
        counted: say how many nodes and edges each hop found.
    """
    dtype = topology.dtype
    nodes = {node_type: found.nodes[node_type].to(dtype) for node_type in topology.node_types}
    labels = None
    if found.trees is not None:
        labels = {kind: torch.from_numpy(label_of[found.trees[kind].numpy()]) for kind in topology.node_types}
    row = {relation: found.row[relation].to(dtype) for relation in topology.relations}
    col = {relation: found.col[relation].to(dtype) for relation in topology.relations}
    if topology.typed:
        return HeteroSamplerOutput(
            node=nodes,
            row=row,
            col=col,
            edge={relation: found.edge[relation] for relation in topology.relations},
            batch=labels,
            num_sampled_nodes={kind: found.nodes_by_hop[kind] for kind in topology.node_types} if counted else None,
            num_sampled_edges={kind: found.edges_by_hop[kind] for kind in topology.relations} if counted else None,
        )
    (relation,) = topology.relations
    return SamplerOutput(
        node=nodes[NODE],
        row=row[relation],
        col=col[relation],
        edge=found.edge[relation],
        batch=None if labels is None else labels[NODE],
        num_sampled_nodes=found.nodes_by_hop[NODE] if counted else None,
        num_sampled_edges=found.edges_by_hop[relation] if counted else None,
    )


def _labels(seeds: Mapping[str, npt.NDArray[np.int64]], paired: bool | None) -> npt.NDArray[np.int64]:
    """What `batch` says of each tree: the place of its seed; both ends of an edge have the same.

    `edge_sample` takes the remainder by the number of given edges, so that negatives share it too.
    """
    sizes = [ids.size for ids in seeds.values()]
    if paired is None or (len(sizes) == 1 and not paired):
        return np.arange(sum(sizes))
    if len(sizes) == 1:
        return np.arange(sizes[0]) % max(sizes[0] // 2, 1)
    return np.concatenate([np.arange(size) for size in sizes])


def _times(
    data: Any, topology: Topology, name: str | None
) -> tuple[dict[str, npt.NDArray[Any]], dict[Relation, npt.NDArray[Any]]]:
    """Node-level or edge-level times."""
    if name is None:
        return {}, {}
    node, edge = values_of(data, topology, name, prefer_edges=False)
    if bool(node) == bool(edge):
        raise SpecError(
            f"time_attr must name an attribute of nodes or of edges, got {name!r}: " + ("of both" if node else "none")
        )
    return node, edge


def _weights(data: Any, topology: Topology, name: str | None) -> dict[Relation, npt.NDArray[Any]]:
    """Edge-level weights."""
    if name is None:
        return {}
    edge = values_of(data, topology, name, prefer_edges=True)[1]
    if not edge:
        raise SpecError(f"weight_attr must name an attribute of edges, got {name!r}: no edges have it")
    return edge
