"""Induced subgraphs: all edges of a graph among chosen nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.samplers.buffers import BufferPool, Spares
from gnnhet.samplers.edges import edges_of
from gnnhet.samplers.expand import MAP_BUDGET_BYTES
from gnnhet.samplers.inducer import InducedEdges, Inducer
from gnnhet.samplers.laws import Ints
from gnnhet.samplers.neighbor import NeighborSampler, Seeds
from gnnhet.samplers.subgraph import Subgraph
from gnnhet.storage.graph import Graph

_NONE: Ints = np.empty(0, np.int64)

NodeIds = Seeds | Mapping[str, Any]


class SubgraphSampler:
    """What the samplers that induce subgraphs have in common.

    Their `sample` may be called from several threads at once; each needs a map of 4 bytes a node.

    Attributes:
        graph: what is sampled from.
        seed: of all draws.
        with_edge_ids: whether subgraphs have edge ids.
        steps: of an epoch, where the sampler chooses its own seeds; else 0.
        divisible: whether a step's seeds may be sampled in parts: the parts' subgraphs are then those of the whole step.
    """

    steps = 0
    divisible = False

    def __init__(
        self,
        graph: Graph,
        seed: int = 0,
        *,
        with_edge_ids: bool = False,
        pool: BufferPool | None = None,
        map_budget_bytes: int = MAP_BUDGET_BYTES,
    ) -> None:
        """Hold the graph's relations.

        Args:
            graph: what to sample from.
            seed: of all draws.
            with_edge_ids: put the edges' ids into the subgraphs.
            pool: where the memory of subgraphs comes from; by default one of the sampler's own.
            map_budget_bytes: of one node type's dense map, a thread; beyond, a hash table is used.
        """
        self.graph, self.seed, self.with_edge_ids = graph, seed, with_edge_ids
        self._edges = edges_of(graph)
        self._checker = NeighborSampler(graph, [])
        self._pool = BufferPool() if pool is None else pool
        self._map_budget_bytes = map_budget_bytes
        self._inducers = Spares(self._new_inducer)

    def _new_inducer(self) -> Inducer:
        return Inducer(self.graph.num_nodes, self._edges, self._map_budget_bytes)

    def resolve_seeds(self, seed_ids: Seeds) -> tuple[str, npt.NDArray[np.int64]]:
        """(node type, ids as int64), checked, as of `NeighborSampler`.

        Raises:
            SeedError: an id out of range, or an unknown node type.
        """
        return self._checker.resolve_seeds(seed_ids)

    def induce(
        self,
        seed_type: str,
        num_seeds: int,
        nodes: Mapping[str, Ints],
        epoch: int,
        step: int,
        *,
        trees: Mapping[str, Ints] | None = None,
        num_trees: int = 1,
        with_positions: bool = False,
    ) -> tuple[Subgraph, dict[Relation, InducedEdges]]:
        """The induced subgraph of nodes, and its edges as they were found; no argument is checked.

        Args:
            seed_type: of the seeds.
            num_seeds: the first nodes of that type.
            nodes: per node type int64 ids within range.
            epoch: noted in the result.
            step: noted in the result.
            trees: of every node type int64; edges join nodes of one tree.
            num_trees: how many there are.
            with_positions: keep where the edges stand.

        Raises:
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        every = {kind: nodes.get(kind, _NONE) for kind in self.graph.node_types}
        keep = with_positions or self.with_edge_ids
        with self._inducers.use() as inducer:
            found = inducer.find(every, trees, self._pool, num_trees=num_trees, with_positions=keep)
        edge_ids = {}
        for relation, part in found.items():
            own = self._edges[relation].edge_ids
            if self.with_edge_ids and part.positions is not None:
                edge_ids[relation] = part.positions if own is None else torch.from_numpy(own[part.positions.numpy()])
        subgraph = Subgraph(
            ids_of={kind: self._own(ids) for kind, ids in every.items()},
            indptr_of={relation: part.indptr for relation, part in found.items()},
            indices_of={relation: part.indices for relation, part in found.items()},
            seed_type=seed_type,
            num_seeds=num_seeds,
            edge_ids_of=edge_ids,
            tree_of={} if trees is None else {kind: self._own(trees[kind]) for kind in every},
            seed=self.seed,
            epoch=epoch,
            step=step,
            homogeneous=self.graph.homogeneous,
        )
        return subgraph, found

    def _own(self, ids: Ints) -> Tensor:
        """A copy in the pool's memory."""
        copy = self._pool.take((ids.size,), torch.int64)
        copy.numpy()[:] = ids
        return copy


class InducedSampler(SubgraphSampler):
    """All edges among the seeds themselves, nothing drawn."""

    def sample(self, seed_ids: NodeIds, epoch: int = 0, step: int = 0) -> Subgraph:
        """The induced subgraph of the seeds.

        Args:
            seed_ids: integers, shape [seeds]; for a typed graph (node type, ids), or ids alone of the labelled type, or a
                mapping of ids by node type: the seeds are then those of the labelled type, or of the first one given.
            epoch: noted in the result.
            step: noted in the result.

        Raises:
            SeedError: an id out of range, or an unknown node type.
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        if isinstance(seed_ids, Mapping):
            nodes = dict(self.resolve_seeds((node_type, ids)) for node_type, ids in seed_ids.items())
            labelled = [node_type for node_type in nodes if self.graph.features.has(node_type, "y")]
            seed_type = next(iter([*labelled, *nodes]), self.graph.node_types[0])
        else:
            seed_type, ids = self.resolve_seeds(seed_ids)
            nodes = {seed_type: ids}
        return self.induce(seed_type, nodes.get(seed_type, _NONE).size, nodes, epoch, step)[0]


def induced(graph: Graph, ids: NodeIds, *, with_edge_ids: bool = False) -> Subgraph:
    """All edges of a graph among given nodes.

    A node that stands twice keeps both places among the destinations; as a source it is its first place.

    Args:
        graph: homogeneous or typed.
        ids: as `InducedSampler.sample`.
        with_edge_ids: also the edges' ids.

    Raises:
        SeedError: an id out of range, or an unknown node type.
        FormatError: the graph's arrays are damaged.
        GraphError: 2^31 edges or more of one relation.
    """
    return InducedSampler(graph, with_edge_ids=with_edge_ids).sample(ids)
