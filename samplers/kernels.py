"""The sampling kernels: flat arrays in, preallocated arrays out. `tests/naive.py` has a plain twin of each.

A return of `BAD_ROW` or `BAD_SOURCE` says that the graph's arrays are damaged: files are mapped without being read, so
the kernels check what they touch and never read or write outside an array.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel
from gnnhet.samplers.rng import below, node_key

BAD_ROW, BAD_SOURCE = -1, -2
LINEAR_PICKS = 32  # up to here a chosen position is searched one by one, above it in a hash table

Ints = npt.NDArray[np.integer[Any]]


@kernel
def count_draws(indptr: Ints, nodes: Ints, fanout: int, replace: bool, num_edges: int, out: Ints) -> int:
    """Row ends of a block: how many neighbours each destination draws, summed.

    Args:
        indptr: int64 [destinations of the graph + 1].
        nodes: int64 [n], destination ids.
        fanout: neighbours drawn at most (exactly, where replace and there is one), -1 for all.
        replace: drawn with replacement.
        num_edges: edges of the relation.
        out: int64 [n + 1], filled.

    Returns:
        the sum, or BAD_ROW.
    """
    total = 0
    out[0] = 0
    for i in range(nodes.size):
        start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        if start < 0 or end < start or end > num_edges:
            return BAD_ROW
        degree = end - start
        if fanout >= 0 and (degree > fanout or (replace and degree > 0)):
            degree = fanout
        total += degree
        out[i + 1] = total
    return total


@kernel
def draw_sources(
    indptr: Ints,
    indices: Ints,
    nodes: Ints,
    row_ends: Ints,
    fanout: int,
    replace: bool,
    base: np.uint64,
    local_of: Ints,
    src_ids: Ints,
    num_src: int,
    out: Ints,
) -> int:
    """Draw each destination's neighbours and number their sources in order of first sight.

    Args:
        indptr: int64, the relation's rows.
        indices: the relation's sources.
        nodes: int64 [n], destination ids.
        row_ends: int64 [n + 1], from `count_draws`.
        fanout: as in `count_draws`.
        replace: as in `count_draws`.
        base: the stream of (seed, epoch, step, layer, relation).
        local_of: int32 [nodes of the source type], 1 + the local number of each source seen, else 0; updated.
        src_ids: int64, ids of the sources seen, with room for all new ones; extended.
        num_src: how many of src_ids are filled.
        out: int32 [row_ends[n]], local source of each drawn edge, filled.

    Returns:
        the new num_src, or BAD_SOURCE.
    """
    picks = np.empty(max(fanout, 1), np.int64)
    slots = 1
    while slots < 4 * fanout:
        slots *= 2
    table = np.empty(slots if fanout > LINEAR_PICKS else 1, np.int64)
    for i in range(nodes.size):
        start, degree = indptr[nodes[i]], indptr[nodes[i] + 1] - indptr[nodes[i]]
        first, count = row_ends[i], row_ends[i + 1] - row_ends[i]
        whole = count == degree and not (replace and fanout >= 0)
        if not whole:
            key = node_key(base, nodes[i])
            if replace:
                for j in range(count):
                    picks[j] = below(key, j, degree)
            elif count <= LINEAR_PICKS:
                pick_few(key, degree, count, picks)
            else:
                pick_many(key, degree, count, picks, table)
        for j in range(count):
            source = indices[start + (j if whole else picks[j])]
            if source < 0 or source >= local_of.size:
                return BAD_SOURCE
            local = local_of[source] - 1
            if local < 0:
                local = num_src
                src_ids[local] = source
                num_src += 1
                local_of[source] = num_src
            out[first + j] = local
    return num_src


@kernel
def pick_few(key: np.uint64, degree: int, count: int, picks: Ints) -> None:
    """`count` distinct positions of 0..degree-1, every subset as likely: Floyd's algorithm, duplicates searched linearly.

    Bentley and Floyd, 1987, "A sample of brilliance".
    """
    for j in range(count):
        top = degree - count + j
        pick = below(key, j, top + 1)
        for earlier in range(j):
            if picks[earlier] == pick:
                pick = top
                break
        picks[j] = pick


@kernel
def pick_many(key: np.uint64, degree: int, count: int, picks: Ints, table: Ints) -> None:
    """As `pick_few`, with an open-addressing table (a power of two, at least 4 * count slots): the same picks."""
    table[:] = -1
    mask = table.size - 1
    for j in range(count):
        top = degree - count + j
        pick = below(key, j, top + 1)
        slot = pick & mask
        while table[slot] >= 0 and table[slot] != pick:
            slot = (slot + 1) & mask
        if table[slot] == pick:
            pick = top
            slot = pick & mask
            while table[slot] >= 0:
                slot = (slot + 1) & mask
        table[slot] = pick
        picks[j] = pick


@kernel
def number_seeds(seeds: Ints, local_of: Ints) -> None:
    """Number the seeds; a seed that stands twice is known by its first place."""
    for i in range(seeds.size):
        if local_of[seeds[i]] == 0:
            local_of[seeds[i]] = i + 1


@kernel
def forget(ids: Ints, local_of: Ints) -> None:
    """Reset the map by walking the ids that were numbered."""
    for i in range(ids.size):
        local_of[ids[i]] = 0


@kernel
def degrees(indptr: Ints, nodes: Ints, out: Ints) -> None:
    """Edges into each node: out[i] += indptr[nodes[i] + 1] - indptr[nodes[i]]."""
    for i in range(nodes.size):
        out[i] += indptr[nodes[i] + 1] - indptr[nodes[i]]
