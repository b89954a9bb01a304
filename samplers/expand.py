"""Hop by hop from seeds outwards: what layered blocks and node-once subgraphs have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.samplers import numbering, rows
from gnnhet.samplers.buffers import BufferPool, Scratch
from gnnhet.samplers.exclusion import ExcludedPairs, draw_without
from gnnhet.samplers.laws import Edges, Ints, Law, Rows
from gnnhet.samplers.numbering import Numbering
from gnnhet.samplers.rng import SOURCES, stream

MAP_BUDGET_BYTES = 1 << 30  # of one node type's dense map, a thread
_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """Disjoint sampling: each seed grows a tree of its own.

    Attributes:
        of: per node type int64, the tree of each seed; trees are 0..n-1.
        keys: uint64 [trees], the key of each.
        limits: [trees], no edge is later than its tree's limit; or None.
    """

    of: Mapping[str, Ints]
    keys: npt.NDArray[np.uint64]
    limits: npt.NDArray[Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """The edges of one relation that one hop drew.

    Attributes:
        indptr: int32 [destinations + 1].
        indices: int32 [edges], local numbers of the sources.
        edge_ids: int64 [edges], where they were asked for.
    """

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Hop:
    """How one hop draws.

    Attributes:
        law: of `laws.LAWS`.
        fanouts: of each relation; -1 takes all, 0 none.
        key: (seed, epoch, step, layer) of the stream.
        last_only: take the latest edges instead of drawing.
        with_edge_ids: look up the ids of the drawn edges.
        excluded: by relation, edges that may not be drawn.
    """

    law: Law
    fanouts: Mapping[Relation, int]
    key: tuple[int, ...]
    last_only: bool = False
    with_edge_ids: bool = False
    excluded: Mapping[Relation, ExcludedPairs] = field(default_factory=dict)

    def draw(self, relation: Relation, edges: Edges, found: Rows, scratch: Scratch) -> tuple[Ints, Ints]:
        """(ends, positions) of the edges that rows draw; the rows are cut where only the latest count."""
        fanout = self.fanouts[relation]
        if self.last_only and edges.times is not None and fanout > 0:
            rows.keep_last(fanout, found.starts, found.degrees)
        return self.law(edges, found, fanout, scratch)


class Expansion:
    """The state of one batch while it grows; made once a thread and begun anew for each batch.

    Args:
        num_nodes: of each node type of the graph.
        edges: of each relation.
        disjoint: whether nodes are told apart by their tree.
        budget_bytes: of one node type's dense map.
    """

    def __init__(
        self, num_nodes: Mapping[str, int], edges: Mapping[Relation, Edges], *, disjoint: bool, budget_bytes: int
    ) -> None:
        """Hold the maps; nothing is sampled yet."""
        self._num_nodes = num_nodes
        self._edges = edges
        self._type_index = {node_type: index for index, node_type in enumerate(num_nodes)}
        self._scratch, self._aside = Scratch(), Scratch()
        self._numbers = {node_type: Numbering(count, -1 if disjoint else budget_bytes) for node_type, count in num_nodes.items()}
        self._trees: Trees | None = None

    def begin(self, seeds: Mapping[str, Ints], trees: Trees | None = None) -> None:
        """Start from seeds: per node type int64 ids within range; duplicates keep their places."""
        self._trees = trees
        for node_type, numbers in self._numbers.items():
            ids = seeds.get(node_type, _NONE)
            if trees is not None and ids.size:
                ids = trees.of[node_type] * self._num_nodes[node_type] + ids
            numbers.begin(ids)

    def counts(self) -> dict[str, int]:
        """Nodes of each type numbered so far."""
        return {node_type: numbers.count for node_type, numbers in self._numbers.items()}

    def nodes(self, node_type: str, first: int = 0) -> tuple[Ints, Ints | None]:
        """(ids, trees or None) of the nodes numbered so far, from `first` on.

        The ids may be a view that later hops leave alone and the next `begin` overwrites.
        """
        seen = self._numbers[node_type].seen(first)
        if self._trees is None:
            return seen, None
        trees, ids = np.divmod(seen, max(self._num_nodes[node_type], 1))
        return ids, trees

    def expand(self, hop: Hop, first: Mapping[str, int], pool: BufferPool) -> dict[Relation, Drawn]:
        """One hop: every node of number `first[type]` or higher draws edges in each relation that leads to its type.

        Sources new to the batch are numbered relation by relation, in order of first sight.

        Args:
            hop: the law and its key.
            first: per node type.
            pool: where the results' memory comes from.

        Raises:
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        frontier = {node_type: self.nodes(node_type, first[node_type]) for node_type in self._num_nodes}
        drawn = {}
        for index, (relation, edges) in enumerate(self._edges.items()):
            nodes, trees = frontier[relation[2]]
            ends, positions = self._draw(hop, index, relation, nodes, trees)
            drawn[relation] = self._number(hop, relation, edges, (ends, positions), trees, pool)
        return drawn

    def _draw(self, hop: Hop, index: int, relation: Relation, nodes: Ints, trees: Ints | None) -> tuple[Ints, Ints]:
        """(ends, positions) of one relation's drawn edges."""
        edges, fanout, scratch = self._edges[relation], hop.fanouts[relation], self._scratch
        size = nodes.size
        if fanout == 0 or not edges.indices.size or not size:
            return np.zeros(size + 1, np.int32), _NONE
        starts, degrees = scratch.take("starts", size, np.int64), scratch.take("degrees", size, np.int64)
        if rows.find_rows(edges.indptr, nodes, edges.indices.size, starts, degrees) < 0:
            raise FormatError(
                f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged; verify it"
            )
        base = stream(*hop.key, index)
        keys = scratch.take("keys", size, np.uint64)
        if trees is None or self._trees is None:
            rows.fill_keys(base, nodes, keys)
        else:
            rows.fill_tree_keys(base, nodes, trees, self._trees.keys, keys)
            if self._trees.limits is not None and edges.times is not None:
                rows.keep_until(edges.times, self._trees.limits, trees, starts, degrees)
        shared = stream(*hop.key, SOURCES + self._type_index[relation[0]])
        found = Rows(starts=starts, degrees=degrees, keys=keys, base=shared)
        if relation in hop.excluded:
            draw = partial(hop.draw, relation)
            return draw_without(hop.excluded[relation], nodes, edges, found, draw, scratch, self._aside)
        return hop.draw(relation, edges, found, scratch)

    def _number(
        self, hop: Hop, relation: Relation, edges: Edges, found: tuple[Ints, Ints], trees: Ints | None, pool: BufferPool
    ) -> Drawn:
        """The drawn edges with their sources numbered, in memory of their own."""
        ends, positions = found
        sources = self._scratch.take("sources", positions.size, edges.indices.dtype)
        if numbering.read_sources(edges.indices, positions, edges.num_src, sources) < 0:
            raise FormatError(f"indices of {relation} must be nodes of {relation[0]}: the graph's files are damaged; verify it")
        numbers = self._numbers[relation[0]]
        if trees is not None:
            keyed = self._scratch.take("keyed sources", positions.size, np.int64)
            numbering.key_by_tree(sources, ends, trees, edges.num_src, keyed)
            sources = keyed
        elif not numbers.dense:
            sources = sources.astype(np.int64, copy=False)
        numbers.make_room(positions.size)
        indptr, indices = pool.take((ends.size,), torch.int32), pool.take((positions.size,), torch.int32)
        indptr.numpy()[:] = ends
        numbers.number(sources, indices.numpy())
        edge_ids = None
        if hop.with_edge_ids:
            edge_ids = pool.take((positions.size,), torch.int64)
            edge_ids.numpy()[:] = positions if edges.edge_ids is None else edges.edge_ids[positions]
        return Drawn(indptr=indptr, indices=indices, edge_ids=edge_ids)
