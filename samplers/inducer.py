"""`Inducer`: all edges of a graph among given nodes.

Each node's row is read once and its sources are looked up: in a dense map of the node type where that is small enough, else
in a hash table; where trees are kept apart, in a small table of the node's own tree. `tests/naive.py` has a plain twin.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.jit import kernel, prefetch
from gnnhet.samplers import numbering, rows
from gnnhet.samplers.buffers import BufferPool, Scratch
from gnnhet.samplers.laws import Edges, Ints, check_total
from gnnhet.samplers.numbering import BAD_SOURCE, slot_of

_ROWS_AHEAD = 4  # rows whose sources are on their way from memory while one is looked up
_SPARE = 8  # slots of a tree's table for each of its nodes, so that most strangers are known by one look
_NONE: Ints = np.empty(0, np.int64)


@kernel
def induce_dense(
    indices: Ints, num_src: int, starts: Ints, degrees: Ints, place_of: Ints, ends: Ints, sources: Ints, positions: Ints
) -> int:
    """The edges of each row whose source is known, in stored order, by a dense map.

    Args:
        indices: int32 or int64 [edges of the graph], sources.
        num_src: nodes of the source type.
        starts: int64 [n], where each row begins.
        degrees: int64 [n], edges of each row.
        place_of: int32 [num_src], local number + 1 of what is known, 0 else.
        ends: int32 [n + 1], filled.
        sources: int32, with room for one more than all edges of the rows; filled with local numbers.
        positions: int64, likewise, filled with where each edge stands; or empty.

    Returns:
        how many edges were found, or BAD_SOURCE.
    """
    count = 0
    ends[0] = 0
    keep = positions.size > 0
    for i in range(starts.size):
        ahead = i + _ROWS_AHEAD
        if ahead < starts.size:
            if ahead + _ROWS_AHEAD < starts.size:
                prefetch(indices, starts[ahead + _ROWS_AHEAD])
            for e in range(starts[ahead], starts[ahead] + degrees[ahead]):
                prefetch(place_of, indices[e])
        for e in range(starts[i], starts[i] + degrees[i]):
            source = indices[e]
            if source < 0 or source >= num_src:
                return BAD_SOURCE
            local = place_of[source] - 1
            sources[count] = local  # as likely as not: stored again when it is none
            if keep:
                positions[count] = e
            count += local >= 0
        ends[i + 1] = count
    return count


@kernel
def induce_hashed(
    indices: Ints,
    num_src: int,
    starts: Ints,
    degrees: Ints,
    trees: Ints,
    first_slot: Ints,
    held: Ints,
    place_of: Ints,
    ends: Ints,
    sources: Ints,
    positions: Ints,
) -> int:
    """As `induce_dense`, by a hash table a tree.

    Args:
        indices: as there.
        num_src: as there.
        starts: as there.
        degrees: as there.
        trees: int64 [n], the tree of each row; or empty where there is one.
        first_slot: int64 [trees + 1], from `lay_tables`.
        held: int64 [slots], the id in each slot or -1.
        place_of: int32 [slots], local numbers.
        ends: as there.
        sources: as there.
        positions: as there.
    """
    count = 0
    ends[0] = 0
    keep = positions.size > 0
    for i in range(starts.size):
        if i + _ROWS_AHEAD < starts.size:
            prefetch(indices, starts[i + _ROWS_AHEAD])
        tree = trees[i] if trees.size else 0
        first = first_slot[tree]
        mask = first_slot[tree + 1] - first - 1
        for e in range(starts[i], starts[i] + degrees[i]):
            source = indices[e]
            if source < 0 or source >= num_src:
                return BAD_SOURCE
            slot = slot_of(source, mask)
            while held[first + slot] >= 0 and held[first + slot] != source:
                slot = (slot + 1) & mask
            if held[first + slot] >= 0:
                sources[count] = place_of[first + slot]
                if keep:
                    positions[count] = e
                count += 1
        ends[i + 1] = count
    return count


@kernel
def lay_tables(trees: Ints, size: int, first_slot: Ints) -> int:
    """How many slots each tree's table has: a power of two, some for each of its nodes.

    Args:
        trees: int64 [size], the tree of each node; or empty where there is one.
        size: nodes.
        first_slot: int64 [trees + 1], filled.

    Returns:
        slots of all tables.
    """
    first_slot[:] = 0
    if trees.size:
        for i in range(size):
            first_slot[trees[i] + 1] += 1
    elif first_slot.size > 1:  # without roots there is no tree at all
        first_slot[1] = size
    for tree in range(first_slot.size - 1):
        slots = 2
        while slots < _SPARE * first_slot[tree + 1]:
            slots *= 2
        first_slot[tree + 1] = first_slot[tree] + slots
    return int(first_slot[-1])


@kernel
def enter_tables(ids: Ints, trees: Ints, first_slot: Ints, held: Ints, place_of: Ints) -> None:
    """Number nodes by their places; one that stands twice in a tree is known by its first place.

    Args:
        ids: int64 [nodes].
        trees: int64 [nodes], or empty where there is one tree.
        first_slot: int64 [trees + 1], from `lay_tables`.
        held: int64 [slots], filled.
        place_of: int32 [slots], filled where `held` is.
    """
    held[:] = -1
    for i in range(ids.size):
        tree = trees[i] if trees.size else 0
        first = first_slot[tree]
        mask = first_slot[tree + 1] - first - 1
        slot = slot_of(ids[i], mask)
        while held[first + slot] >= 0 and held[first + slot] != ids[i]:
            slot = (slot + 1) & mask
        if held[first + slot] < 0:
            held[first + slot] = ids[i]
            place_of[first + slot] = i


@dataclass(frozen=True, kw_only=True, eq=False)
class InducedEdges:
    """The edges of one relation among given nodes.

    Attributes:
        indptr: int32 [destinations + 1].
        indices: int32 [edges], local numbers of the sources.
        positions: int64 [edges], where they stand in the relation's stored order, where asked for.
    """

    indptr: Tensor
    indices: Tensor
    positions: Tensor | None


class Inducer:
    """Finds the edges among nodes; made once a thread.

    Args:
        num_nodes: of each node type of the graph.
        edges: of each relation.
        budget_bytes: of one node type's dense map; beyond, and for trees, hash tables are used.
    """

    def __init__(self, num_nodes: Mapping[str, int], edges: Mapping[Relation, Edges], budget_bytes: int) -> None:
        """Hold the maps; no memory until a node is seen."""
        self._num_nodes, self._edges, self._budget_bytes = num_nodes, edges, budget_bytes
        self._maps: dict[str, Ints] = {}
        self._scratch = Scratch()

    def find(
        self,
        nodes: Mapping[str, Ints],
        trees: Mapping[str, Ints] | None,
        pool: BufferPool,
        *,
        num_trees: int = 1,
        with_positions: bool = False,
    ) -> dict[Relation, InducedEdges]:
        """All edges whose two ends are among the nodes (of the same tree).

        Args:
            nodes: of every node type int64 ids within range; of one that stands twice the first place is the source.
            trees: of every node type int64, below `num_trees`; or None.
            pool: where the results' memory comes from.
            num_trees: how many trees there are.
            with_positions: keep where the edges stand.

        Raises:
            FormatError: the graph's arrays are damaged.
            GraphError: 2^31 edges or more of one relation.
        """
        found = {}
        for source_type in nodes:
            relations = [relation for relation in self._edges if relation[0] == source_type]
            if not relations:
                continue
            own = nodes[source_type]
            dense = trees is None and 4 * self._num_nodes[source_type] <= self._budget_bytes
            known: Ints | tuple[Ints, Ints, Ints]
            if dense:
                known = self._map(source_type, own)
            else:
                known = self._tables(own, _NONE if trees is None else trees[source_type], num_trees)
            for relation in relations:
                tree = _NONE if trees is None else trees[relation[2]]
                found[relation] = self._relation(relation, nodes[relation[2]], tree, known, pool, with_positions)
            if not isinstance(known, tuple):
                known[own] = 0
        return {relation: found[relation] for relation in self._edges}

    def _map(self, node_type: str, ids: Ints) -> Ints:
        """The dense map of one node type, with these nodes entered."""
        if node_type not in self._maps:
            self._maps[node_type] = np.zeros(self._num_nodes[node_type], np.int32)
        numbering.enter_dense(ids, self._maps[node_type], 1)
        return self._maps[node_type]

    def _tables(self, ids: Ints, trees: Ints, num_trees: int) -> tuple[Ints, Ints, Ints]:
        """(first_slot, held, place_of) of one node type."""
        first_slot = self._scratch.take("first slots", num_trees + 1, np.int64)
        slots = lay_tables(trees, ids.size, first_slot)
        held, place_of = self._scratch.take("held", slots, np.int64), self._scratch.take("places", slots, np.int32)
        enter_tables(ids, trees, first_slot, held, place_of)
        return first_slot, held, place_of

    def _relation(
        self,
        relation: Relation,
        nodes: Ints,
        trees: Ints,
        known: Ints | tuple[Ints, Ints, Ints],
        pool: BufferPool,
        with_positions: bool,
    ) -> InducedEdges:
        """One relation's edges, in memory of their own."""
        edges, scratch, size = self._edges[relation], self._scratch, nodes.size
        starts, degrees = scratch.take("starts", size, np.int64), scratch.take("degrees", size, np.int64)
        total = rows.find_rows(edges.indptr, nodes, edges.indices.size, starts, degrees) if size else 0
        if total < 0:
            raise FormatError(
                f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged; verify it"
            )
        # room for every edge of the rows: only what is found is written, so only that becomes memory
        sources = scratch.take("sources", total + 1, np.int32)
        positions = scratch.take("positions", total + 1 if with_positions else 0, np.int64)
        ends = pool.take((size + 1,), torch.int32)
        graph = (edges.indices, edges.num_src, starts, degrees)
        if isinstance(known, tuple):
            count = induce_hashed(*graph, trees, *known, ends.numpy(), sources, positions)
        else:
            count = induce_dense(*graph, known, ends.numpy(), sources, positions)
        if count < 0:
            raise FormatError(f"indices of {relation} must be nodes of {relation[0]}: the graph's files are damaged; verify it")
        check_total(count)
        indices = pool.take((count,), torch.int32)
        indices.numpy()[:] = sources[:count]
        kept = None
        if with_positions:
            kept = pool.take((count,), torch.int64)
            kept.numpy()[:] = positions[:count]
        return InducedEdges(indptr=ends, indices=indices, positions=kept)
