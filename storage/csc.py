"""One relation's topology: compressed sparse columns, one column a destination.

`indices[indptr[v]:indptr[v + 1]]` are the sources of the edges into destination `v`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.jit import frozen, kernel

INT32_NODES = 2**31

IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Csc:
    """Read-only arrays of one relation.

    Attributes:
        indptr: int64, shape [destinations + 1], starts at 0 and never falls.
        indices: int32 (int64 from 2^31 source nodes on), shape [edges], source ids.
        edge_ids: int64, shape [edges], the position of each edge in the input it was built from, or None.
    """

    indptr: IntArray
    indices: IntArray
    edge_ids: IntArray | None = None

    @property
    def num_edges(self) -> int:
        """Count of stored edges."""
        return int(self.indices.size)


def index_dtype(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """The dtype of ids of a node type with `num_nodes` nodes: int32 while they fit."""
    return np.int32 if num_nodes < INT32_NODES else np.int64


def integers(array: npt.ArrayLike, what: str) -> IntArray:
    """`array` as a 1-D integer array (no copy where it is one); tensors on the CPU are read in place.

    Raises:
        GraphError: not integers, or not one axis.
    """
    result = np.asarray(array)
    if result.dtype.kind not in "iu" and result.size:
        raise GraphError(f"{what} must be integers, got dtype {result.dtype}: convert them first")
    if result.ndim != 1:
        raise GraphError(f"{what} must have one axis, got shape {result.shape}")
    return result if result.dtype.kind in "iu" else result.astype(np.int64)


def check_ids(ids: IntArray, num_nodes: int, what: str, *, first: int = 0) -> None:
    """Refuse ids outside 0..num_nodes-1.

    Args:
        ids: integers, on one axis.
        num_nodes: how many there are.
        what: their name for messages.
        first: the position of `ids[0]`, where they are a piece of more.

    Raises:
        GraphError: naming the first bad position.
    """
    if not ids.size:
        return
    low, high = _extent(frozen(ids))
    if low < 0 or high >= num_nodes:
        bad = int(np.flatnonzero((ids < 0) | (ids >= num_nodes))[0])
        raise GraphError(f"{what} must lie in 0..{num_nodes - 1}, got {int(ids[bad])} at position {first + bad}")


def from_csc(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    *,
    num_src: int,
    num_dst: int,
    what: str,
    edge_ids: npt.ArrayLike | None = None,
) -> Csc:
    """Check a relation given as CSC and hold its arrays, without copying where dtype and order allow.

    Args:
        indptr: integers, shape [num_dst + 1].
        indices: integers, shape [edges].
        num_src: count of source nodes.
        num_dst: count of destination nodes.
        what: the relation's name for messages.
        edge_ids: integers, shape [edges], optional.

    Raises:
        GraphError: a length, order or range is broken.
    """
    pointers = integers(indptr, f"indptr of {what}")
    if pointers.size != num_dst + 1:
        raise GraphError(
            f"indptr of {what} must have one entry more than there are destinations, {num_dst + 1}, got {pointers.size}"
        )
    pointers = np.ascontiguousarray(pointers, dtype=np.int64)
    sources = integers(indices, f"indices of {what}")
    if pointers[0] != 0:
        raise GraphError(f"indptr of {what} must start at 0, got {int(pointers[0])}")
    fall = first_fall(frozen(pointers))
    if fall >= 0:
        raise GraphError(
            f"indptr of {what} must never fall, got {int(pointers[fall])} before {int(pointers[fall + 1])} at destination {fall}"
        )
    if pointers[-1] != sources.size:
        raise GraphError(f"indptr of {what} must end at the number of edges, {sources.size}, got {int(pointers[-1])}")
    check_ids(sources, num_src, f"indices (source ids) of {what}")
    ids = None
    if edge_ids is not None:
        ids = np.ascontiguousarray(integers(edge_ids, f"edge_ids of {what}"), dtype=np.int64)
        if ids.size != sources.size:
            raise GraphError(f"edge_ids of {what} must have one entry an edge, {sources.size}, got {ids.size}")
    compact = np.ascontiguousarray(sources, dtype=index_dtype(num_src))
    return Csc(indptr=frozen(pointers), indices=frozen(compact), edge_ids=None if ids is None else frozen(ids))


def from_coo(
    src: npt.ArrayLike, dst: npt.ArrayLike, *, num_src: int, num_dst: int, what: str, keep_edge_ids: bool = False
) -> Csc:
    """Index edge pairs by destination with one counting sort; edges of a destination keep their input order.

    Args:
        src: integers, shape [edges].
        dst: integers, shape [edges].
        num_src: count of source nodes.
        num_dst: count of destination nodes.
        what: the relation's name for messages.
        keep_edge_ids: remember each edge's input position (8 bytes an edge).

    Raises:
        GraphError: lengths differ or an id is out of range.
    """
    sources, destinations = integers(src, f"sources of {what}"), integers(dst, f"destinations of {what}")
    if sources.size != destinations.size:
        raise GraphError(f"sources and destinations of {what} must be as many, got {sources.size} and {destinations.size}")
    check_ids(sources, num_src, f"source ids of {what}")
    check_ids(destinations, num_dst, f"destination ids of {what}")
    indptr = np.zeros(num_dst + 1, np.int64)
    indices = np.empty(sources.size, index_dtype(num_src))
    edge_ids = np.empty(sources.size if keep_edge_ids else 0, np.int64)
    _place(frozen(sources), frozen(destinations), indptr, indices, edge_ids)
    return Csc(indptr=frozen(indptr), indices=frozen(indices), edge_ids=frozen(edge_ids) if keep_edge_ids else None)


@kernel
def _extent(ids: IntArray) -> tuple[int, int]:
    """Smallest and largest of a non-empty array, in one pass."""
    low = high = ids[0]
    for i in range(1, ids.size):
        low = min(low, ids[i])
        high = max(high, ids[i])
    return low, high


@kernel
def first_fall(indptr: IntArray) -> int:
    """Position of the first entry that is larger than the next, or -1."""
    for i in range(indptr.size - 1):
        if indptr[i] > indptr[i + 1]:
            return i
    return -1


@kernel
def _place(src: IntArray, dst: IntArray, indptr: IntArray, indices: IntArray, edge_ids: IntArray) -> None:
    """Counting sort by destination: fills indptr (zeros on entry), indices, and edge_ids where it has room."""
    for i in range(dst.size):
        indptr[dst[i] + 1] += 1
    for v in range(1, indptr.size):
        indptr[v] += indptr[v - 1]
    for i in range(dst.size):
        v = dst[i]
        at = indptr[v]
        indices[at] = src[i]
        if edge_ids.size:
            edge_ids[at] = i
        indptr[v] = at + 1
    for v in range(indptr.size - 1, 0, -1):  # each entry has moved to its end: shift back
        indptr[v] = indptr[v - 1]
    indptr[0] = 0
