"""Random walks over typed graphs, against the direction of the edges: from a node to one that sends it messages.

`tests/naive.py` has a plain twin.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError
from gnnhet.jit import kernel
from gnnhet.samplers.laws import Edges, Ints
from gnnhet.samplers.numbering import BAD_SOURCE
from gnnhet.samplers.rng import below, node_key
from gnnhet.samplers.rows import BAD_ROW

Keys = npt.NDArray[np.uint64]


@kernel
def count_ways(indptr: Ints, num_edges: int, kind: int, kinds: Ints, nodes: Ints, ways: Ints) -> int:
    """Add the edges of one relation into each walk's node.

    Args:
        indptr: int64 [destinations + 1].
        num_edges: edges of the relation.
        kind: number of the destination type.
        kinds: int64 [walks], the type that each stands on.
        nodes: int64 [walks], its id.
        ways: int64 [walks], raised.

    Returns:
        0, or BAD_ROW.
    """
    for i in range(nodes.size):
        if kinds[i] == kind:
            start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
            if start < 0 or end < start or end > num_edges:
                return BAD_ROW
            ways[i] += end - start
    return 0


@kernel
def choose_ways(base: np.uint64, step: int, ways: Ints, left: Ints) -> None:
    """The edge that each walk takes, as its place among all edges into the node, each as likely; -1 where there are none.

    Args:
        base: the stream of the walks; each has the key of its number.
        step: which draw of the key.
        ways: int64 [walks], edges into each walk's node.
        left: int64 [walks], filled.
    """
    for i in range(ways.size):
        left[i] = below(node_key(base, i), step, ways[i]) if ways[i] > 0 else -1


@kernel
def take_ways(
    indptr: Ints,
    indices: Ints,
    num_src: int,
    kind: int,
    source_kind: int,
    kinds: Ints,
    nodes: Ints,
    left: Ints,
    next_kinds: Ints,
    next_nodes: Ints,
) -> int:
    """Move the walks whose edge is one of this relation; from the others, count its edges off.

    Args:
        indptr: int64 [destinations + 1].
        indices: int32 or int64 [edges], sources.
        num_src: nodes of the source type.
        kind: number of the destination type.
        source_kind: number of the source type.
        kinds: int64 [walks], where each stands.
        nodes: int64 [walks], likewise.
        left: int64 [walks], edges to pass before the chosen one, -1 once it is taken; lowered.
        next_kinds: int64 [walks], filled for those that move.
        next_nodes: int64 [walks], likewise.

    Returns:
        0, or BAD_SOURCE.
    """
    for i in range(nodes.size):
        if kinds[i] == kind and left[i] >= 0:
            start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
            if left[i] < end - start:
                source = indices[start + left[i]]
                if source < 0 or source >= num_src:
                    return BAD_SOURCE
                next_kinds[i], next_nodes[i] = source_kind, source
                left[i] = -1
            else:
                left[i] -= end - start
    return 0


class Walks:
    """Walks by edges of every relation alike: each edge into a node is as likely to be taken.

    A walk that comes to a node without such edges stays there. Step s of walk i is a function of the stream, s and i.

    Args:
        node_types: of the graph, sorted.
        edges: of each relation.
    """

    def __init__(self, node_types: Sequence[str], edges: Mapping[Relation, Edges]) -> None:
        """Hold the edges."""
        self._kind_of = {node_type: number for number, node_type in enumerate(node_types)}
        self._edges = edges

    def walk(self, node_type: str, roots: Ints, length: int, base: np.uint64) -> tuple[Ints, Ints]:
        """(numbers of node types, ids) of what is visited, int64 [length + 1, roots] each, the roots first.

        Args:
            node_type: of the roots.
            roots: int64 ids within range.
            length: steps of each walk.
            base: the stream.

        Raises:
            FormatError: the graph's arrays are damaged.
        """
        kinds, nodes = (np.empty((length + 1, roots.size), np.int64) for _ in range(2))
        kinds[0], nodes[0] = self._kind_of[node_type], roots
        left = np.empty(roots.size, np.int64)
        for step in range(length):
            ways = np.zeros(roots.size, np.int64)
            for relation, edges in self._edges.items():
                kind = self._kind_of[relation[2]]
                if count_ways(edges.indptr, edges.indices.size, kind, kinds[step], nodes[step], ways) < 0:
                    raise FormatError(
                        f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged; verify it"
                    )
            choose_ways(base, step, ways, left)
            kinds[step + 1], nodes[step + 1] = kinds[step], nodes[step]
            here, there = (kinds[step], nodes[step]), (kinds[step + 1], nodes[step + 1])
            for relation, edges in self._edges.items():
                ends = (self._kind_of[relation[2]], self._kind_of[relation[0]])
                if take_ways(edges.indptr, edges.indices, edges.num_src, *ends, *here, left, *there) < 0:
                    raise FormatError(
                        f"indices of {relation} must be nodes of {relation[0]}: the graph's files are damaged; verify it"
                    )
        return kinds, nodes
