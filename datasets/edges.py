"""Edge pairs made undirected, free of duplicates, or given their reverses."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import Array, Relation
from gnnhet.errors import GraphError

Ids = npt.NDArray[np.int64]
REVERSE = "rev_"


def drop_duplicates(src: Array, dst: Array) -> tuple[Ids, Ids]:
    """Each pair once, sorted by destination, then source.

    Args:
        src: integers [edges].
        dst: integers [edges].
    """
    sources, destinations = src.astype(np.int64), dst.astype(np.int64)
    order = np.lexsort((sources, destinations))
    sources, destinations = sources[order], destinations[order]
    first = np.ones(sources.size, np.bool_)
    first[1:] = (np.diff(sources) != 0) | (np.diff(destinations) != 0)
    return sources[first], destinations[first]


def make_undirected(src: Array, dst: Array, *, self_loops: bool = True) -> tuple[Ids, Ids]:
    """Every edge in both directions, each pair once, sorted by destination, then source.

    Args:
        src: integers [edges].
        dst: integers [edges].
        self_loops: keep edges from a node to itself.
    """
    kept = np.ones(src.size, np.bool_) if self_loops else src != dst
    return drop_duplicates(np.concatenate([src[kept], dst[kept]]), np.concatenate([dst[kept], src[kept]]))


def add_reverse_relations(edges: Mapping[Relation, tuple[Array, Array]]) -> dict[Relation, tuple[Array, Array]]:
    """The relations, and of each (s, name, d) the reverse (d, rev_name, s).

    Raises:
        GraphError: a relation has the name of another's reverse.
    """
    both: dict[Relation, tuple[Array, Array]] = dict(edges)
    for (source, name, destination), (src, dst) in edges.items():
        reverse = (destination, REVERSE + name, source)
        if reverse in edges:
            raise GraphError(f"no relation may have the name of another's reverse, got {reverse}: rename it")
        both[reverse] = (dst, src)
    return both
