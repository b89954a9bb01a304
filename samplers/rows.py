"""The rows that destinations draw from: where each begins, how many edges it has, and its key.

A return of `BAD_ROW` says that the graph's arrays are damaged: files are mapped without being read, so the kernels check
what they touch and never read or write outside an array. `tests/naive.py` has a plain twin of each kernel.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel, prefetch
from gnnhet.samplers.rng import mix, node_key

BAD_ROW = -1
AHEAD = 32  # rows that are on their way from memory while one is read

Ints = npt.NDArray[np.integer[Any]]
Keys = npt.NDArray[np.uint64]


@kernel
def find_rows(indptr: Ints, nodes: Ints, num_edges: int, starts: Ints, degrees: Ints) -> int:
    """Where the row of each destination begins and how many edges it has.

    Args:
        indptr: int64 [destinations of the graph + 1].
        nodes: int64 [n], destination ids.
        num_edges: edges of the relation.
        starts: int64 [n], filled.
        degrees: int64 [n], filled.

    Returns:
        the sum of the degrees, or BAD_ROW.
    """
    total, last = 0, nodes.size - 1
    for i in range(nodes.size):
        prefetch(indptr, nodes[min(i + AHEAD, last)])
        start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        if start < 0 or end < start or end > num_edges:
            return BAD_ROW
        starts[i] = start
        degrees[i] = end - start
        total += end - start
    return total


@kernel
def fill_keys(base: np.uint64, nodes: Ints, keys: Keys) -> None:
    """The key of each destination in the stream of (seed, epoch, step, layer, relation)."""
    for i in range(nodes.size):
        keys[i] = node_key(base, nodes[i])


@kernel
def fill_tree_keys(base: np.uint64, nodes: Ints, trees: Ints, key_of_tree: Keys, keys: Keys) -> None:
    """As `fill_keys`, where every tree draws for itself.

    Args:
        base: the stream.
        nodes: int64 [n], destination ids.
        trees: int64 [n], the tree of each.
        key_of_tree: uint64 [trees].
        keys: uint64 [n], filled.
    """
    for i in range(nodes.size):
        keys[i] = node_key(mix(base ^ key_of_tree[trees[i]]), nodes[i])


@kernel
def keep_until(times: npt.NDArray[Any], limits: npt.NDArray[Any], trees: Ints, starts: Ints, degrees: Ints) -> None:
    """Cut each row to its edges that are not later than its tree's time; rows are sorted by time.

    Args:
        times: [edges], ascending within each row.
        limits: [trees], of the dtype of `times`.
        trees: int64 [n], the tree of each destination.
        starts: int64 [n], from `find_rows`.
        degrees: int64 [n], from `find_rows`, lowered.
    """
    for i in range(starts.size):
        limit = limits[trees[i]]
        low, high = starts[i], starts[i] + degrees[i]
        while low < high:
            middle = (low + high) // 2
            if times[middle] <= limit:
                low = middle + 1
            else:
                high = middle
        degrees[i] = low - starts[i]


@kernel
def keep_last(fanout: int, starts: Ints, degrees: Ints) -> None:
    """Cut each row to its last `fanout` edges."""
    for i in range(starts.size):
        if degrees[i] > fanout:
            starts[i] += degrees[i] - fanout
            degrees[i] = fanout


@kernel
def rows_ascend(indptr: Ints, times: npt.NDArray[Any]) -> bool:
    """Whether the times of every row ascend."""
    for v in range(indptr.size - 1):
        for e in range(indptr[v] + 1, indptr[v + 1]):
            if not times[e - 1] <= times[e]:
                return False
    return True


@kernel
def order_rows(indptr: Ints, times: npt.NDArray[Any], order: Ints) -> None:
    """Positions of the edges with every row sorted by time, equal times in stored order."""
    for v in range(indptr.size - 1):
        first, last = indptr[v], indptr[v + 1]
        if last > first:
            order[first:last] = first + np.argsort(times[first:last], kind="mergesort")


@kernel
def add_degrees(indptr: Ints, nodes: Ints, out: Ints) -> None:
    """Edges into each node: out[i] += indptr[nodes[i] + 1] - indptr[nodes[i]]."""
    last = nodes.size - 1
    for i in range(nodes.size):
        prefetch(indptr, nodes[min(i + AHEAD, last)])
        out[i] += indptr[nodes[i] + 1] - indptr[nodes[i]]
