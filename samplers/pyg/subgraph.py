"""Node-once subgraphs: hops from seeds outwards, laid out as (row, col), or all edges among the sampled nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.jit import kernel
from gnnhet.samplers.buffers import BufferPool, Spares
from gnnhet.samplers.expand import MAP_BUDGET_BYTES, Drawn, Expansion, Hop, Trees
from gnnhet.samplers.laws import Edges, Ints, uniform


@dataclass(frozen=True, kw_only=True, eq=False)
class Subgraph:
    """A sampled subgraph with local numbers in order of first sight.

    Attributes:
        nodes: of each node type, int64 [nodes], ids; the seeds first.
        trees: of each node type, int64 [nodes], or None.
        row: of each relation, int64 [edges], local numbers of the sources.
        col: of each relation, int64 [edges], local numbers of the destinations, ascending.
        edge: of each relation, int64 [edges], edge ids.
        nodes_by_hop: of each node type, how many were first seen as seeds and in each hop.
        edges_by_hop: of each relation, how many each hop drew.
    """

    nodes: dict[str, Tensor]
    trees: dict[str, Tensor] | None
    row: dict[Relation, Tensor]
    col: dict[Relation, Tensor]
    edge: dict[Relation, Tensor]
    nodes_by_hop: dict[str, list[int]]
    edges_by_hop: dict[Relation, list[int]]


class Grower:
    """Grows subgraphs; may be used by several threads at once.

    Args:
        num_nodes: of each node type.
        edges: of each relation; their order is the order in which each hop draws.
        disjoint: every seed grows a tree of its own.
        budget_bytes: of one node type's dense map, a thread.
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edges: Mapping[Relation, Edges],
        *,
        disjoint: bool = False,
        budget_bytes: int = MAP_BUDGET_BYTES,
    ) -> None:
        """Hold the edges; nothing is sampled yet."""
        self.num_nodes, self.edges, self.disjoint = dict(num_nodes), dict(edges), disjoint
        self._budget_bytes = budget_bytes
        self._pool = BufferPool()
        self._spares = Spares(self._new)

    def grow(
        self, seeds: Mapping[str, Ints], hops: Sequence[Hop], trees: Trees | None = None, *, induced: bool = False
    ) -> Subgraph:
        """Each hop expands the nodes that were first seen in the hop before.

        Args:
            seeds: per node type int64 ids within range; duplicates keep their places.
            hops: with edge ids where `induced` is not set.
            trees: of the seeds, where they are disjoint.
            induced: in place of the drawn edges, all edges among the sampled nodes (of one tree, not later than its limit).

        Raises:
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        with self._spares.use() as expansion:
            return self._grow(expansion, seeds, hops, trees, induced)

    def _grow(
        self, expansion: Expansion, seeds: Mapping[str, Ints], hops: Sequence[Hop], trees: Trees | None, induced: bool
    ) -> Subgraph:
        """`grow`, with the maps of one thread."""
        expansion.begin(seeds, trees)
        first = dict.fromkeys(self.num_nodes, 0)
        layers: list[tuple[dict[Relation, Drawn], dict[str, int]]] = []
        counts = [expansion.counts()]
        for hop in hops:
            layers.append((expansion.expand(hop, first, self._pool), first))
            first = counts[-1]
            counts.append(expansion.counts())
        nodes, tree_of = self._nodes(expansion)
        if induced:
            everything = Hop(law=uniform, fanouts=dict.fromkeys(self.edges, -1), key=(), with_edge_ids=True)
            layers = [(expansion.expand(everything, dict.fromkeys(self.num_nodes, 0), self._pool), first)]
            laid = {
                relation: _known(layers[0][0][relation], counts[-1][relation[2]], counts[-1][relation[0]])
                for relation in self.edges
            }
        else:
            laid = {relation: _laid_out(relation, layers) for relation in self.edges}
        return Subgraph(
            nodes=nodes,
            trees=tree_of,
            row={relation: rows for relation, (rows, _, _) in laid.items()},
            col={relation: cols for relation, (_, cols, _) in laid.items()},
            edge={relation: ids for relation, (_, _, ids) in laid.items()},
            nodes_by_hop={
                kind: [counts[0][kind]] + [after[kind] - before[kind] for before, after in pairwise(counts)]
                for kind in self.num_nodes
            },
            edges_by_hop={relation: [drawn[relation].indices.numel() for drawn, _ in layers] for relation in self.edges},
        )

    def _new(self) -> Expansion:
        return Expansion(self.num_nodes, self.edges, disjoint=self.disjoint, budget_bytes=self._budget_bytes)

    def _nodes(self, expansion: Expansion) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """(ids, trees or None) of each node type, of memory of their own."""
        nodes: dict[str, Tensor] = {}
        trees: dict[str, Tensor] = {}
        for kind in self.num_nodes:
            ids, tree = expansion.nodes(kind)
            nodes[kind] = torch.from_numpy(ids.copy())
            if tree is not None:
                trees[kind] = torch.from_numpy(tree.copy())
        return nodes, trees if self.disjoint else None


def _laid_out(relation: Relation, layers: list[tuple[dict[Relation, Drawn], dict[str, int]]]) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) of one relation, hop after hop."""
    total = sum(drawn[relation].indices.numel() for drawn, _ in layers)
    row, col, edge = (torch.empty(total, dtype=torch.int64) for _ in range(3))
    start = 0
    for drawn, first in layers:
        part = drawn[relation]
        end = start + part.indices.numel()
        if end > start and part.edge_ids is not None:
            unfold(part.indptr.numpy(), part.indices.numpy(), first[relation[2]], row.numpy()[start:end], col.numpy()[start:end])
            edge.numpy()[start:end] = part.edge_ids.numpy()
        start = end
    return row, col, edge


def _known(drawn: Drawn, num_dst: int, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) of one relation's edges whose sources are below `num_src`."""
    most = drawn.indices.numel()
    row, col, edge = (np.empty(most, np.int64) for _ in range(3))
    ids = np.empty(0, np.int64) if drawn.edge_ids is None else drawn.edge_ids.numpy()
    kept = keep_known(drawn.indptr.numpy()[: num_dst + 1], drawn.indices.numpy(), ids, num_src, row, col, edge)
    return torch.from_numpy(row[:kept].copy()), torch.from_numpy(col[:kept].copy()), torch.from_numpy(edge[:kept].copy())


@kernel
def unfold(indptr: Ints, indices: Ints, first: int, row: Ints, col: Ints) -> None:
    """Edges by destination as pairs.

    Args:
        indptr: int32 [destinations + 1].
        indices: int32 [edges], sources.
        first: the number of the first destination.
        row: int64 [edges], filled with the sources.
        col: int64 [edges], filled with the destinations.
    """
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            row[e] = indices[e]
            col[e] = first + i


@kernel
def keep_known(indptr: Ints, indices: Ints, ids: Ints, known: int, row: Ints, col: Ints, edge: Ints) -> int:
    """The edges whose source is below `known`, as pairs.

    Args:
        indptr: int32 [destinations + 1].
        indices: int32 [edges], sources.
        ids: int64 [edges].
        known: how many sources are kept.
        row: int64, with room for all edges; filled with the sources.
        col: likewise, with the destinations.
        edge: likewise, with the ids.

    Returns:
        how many are kept.
    """
    kept = 0
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] < known:
                row[kept] = indices[e]
                col[kept] = i
                edge[kept] = ids[e]
                kept += 1
    return kept
