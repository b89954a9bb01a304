"""Edges that may not be drawn: rows without them are made before the draw, so that what is left is drawn by the same law.

A draw that is dropped afterwards would leave some destinations fewer neighbours than they could have, and favour none of
those left; here a destination draws from the row it would have were the excluded edges not in the graph.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gnnhet.jit import frozen, kernel
from gnnhet.samplers import picks
from gnnhet.samplers.buffers import Scratch
from gnnhet.samplers.laws import Edges, Ints, Rows, check_total

_SLOTS = 16  # of the filter, for each destination of a pair
_NO_ROW = -1

Ids = npt.NDArray[np.int64]
Draw = Callable[[Edges, Rows, Scratch], tuple[Ints, Ints]]


class ExcludedPairs:
    """Pairs of one relation whose edges may not be drawn: all parallel edges of a pair alike.

    Args:
        src: int64 [n], nodes of the source type; pairs may repeat.
        dst: int64 [n], nodes of the destination type.
    """

    def __init__(self, src: Ids, dst: Ids) -> None:
        """Sort the pairs."""
        order = np.lexsort((src, dst))
        src, dst = src[order], dst[order]
        self.dst, first = np.unique(dst, return_index=True)
        self.ends: Ids = np.append(first, src.size).astype(np.int64)
        self.src = np.ascontiguousarray(src)
        self.marks = np.zeros(1 << max(_SLOTS * self.dst.size - 1, 1).bit_length(), np.bool_)
        self.marks[self.dst & (self.marks.size - 1)] = True


def draw_without(
    pairs: ExcludedPairs, nodes: Ints, edges: Edges, rows: Rows, draw: Draw, scratch: Scratch, aside: Scratch
) -> tuple[Ints, Ints]:
    """(ends, positions) of a draw from rows without excluded edges.

    Rows that hold none are drawn as ever. The others are copied without them, drawn by the same law and keys, and put in
    their places.

    Args:
        pairs: what may not be drawn.
        nodes: int64 [n], the destinations.
        edges: of the relation.
        rows: of the destinations; degrees are lowered.
        draw: the law.
        scratch: work arrays of the thread.
        aside: others, for the draw from the copied rows.
    """
    row_of = scratch.take("copied row", nodes.size, np.int64)
    room = _find_pairs(nodes, rows.degrees, pairs.dst, pairs.marks, row_of)
    if room < 0:
        return draw(edges, rows, scratch)
    allowed = scratch.take("allowed", room, np.int64)
    starts = scratch.take("copied starts", nodes.size + 1, np.int64)
    keys = scratch.take("copied keys", nodes.size, np.uint64)
    copied = _copy_rows(
        edges.indices, pairs.ends, pairs.src, rows.starts, rows.degrees, rows.keys, row_of, starts, keys, allowed
    )  # also empties the rows that were copied
    if not copied:
        return draw(edges, rows, scratch)
    starts, allowed = starts[: copied + 1], allowed[: starts[copied]]
    few = Rows(starts=starts[:-1], degrees=np.diff(starts), keys=keys[:copied], base=rows.base)
    few_ends, few_positions = draw(_restricted(edges, starts, allowed), few, aside)
    many_ends, many_positions = draw(edges, rows, scratch)
    ends = scratch.take("joined ends", nodes.size + 1, np.int32)
    positions = scratch.take("joined positions", check_total(few_positions.size + many_positions.size), np.int64)
    _join(row_of, few_ends, few_positions, allowed, many_ends, many_positions, ends, positions)
    return ends, positions


def _restricted(edges: Edges, starts: Ids, allowed: Ids) -> Edges:
    """The edges at `allowed` as a relation of its own; the sums of weights are those of its rows."""
    weights = None if edges.weights is None else frozen(edges.weights[allowed])
    sums = None
    if weights is not None and edges.sums is not None:
        running = np.empty(weights.size, np.float64)
        picks.add_up_rows(frozen(starts), weights, running)
        sums = frozen(running)
    return Edges(
        indptr=frozen(starts),
        indices=frozen(edges.indices[allowed]),
        num_src=edges.num_src,
        weights=weights,
        sums=sums,
        times=None if edges.times is None else frozen(edges.times[allowed]),
    )


@kernel
def _find_pairs(nodes: Ints, degrees: Ints, dst: Ids, marks: npt.NDArray[np.bool_], row_of: Ids) -> int:
    """Which destinations may have excluded edges.

    Args:
        nodes: int64 [n].
        degrees: int64 [n].
        dst: int64 [m], ascending: destinations of pairs.
        marks: a filter of them, a power of two long.
        row_of: int64 [n], filled: the place in `dst` or -1.

    Returns:
        the sum of those destinations' degrees, or -1 where there are none.
    """
    mask = marks.size - 1
    total, found = 0, False
    for i in range(nodes.size):
        row_of[i] = _NO_ROW
        if not marks[nodes[i] & mask]:
            continue
        place = np.searchsorted(dst, nodes[i])
        if place < dst.size and dst[place] == nodes[i]:
            row_of[i] = place
            total += degrees[i]
            found = True
    return total if found else -1


@kernel
def _copy_rows(
    indices: Ints,
    pair_ends: Ids,
    pair_src: Ids,
    starts: Ints,
    degrees: Ints,
    keys: npt.NDArray[np.uint64],
    row_of: Ids,
    copied_starts: Ids,
    copied_keys: npt.NDArray[np.uint64],
    allowed: Ids,
) -> int:
    """Copy the rows that have excluded edges without them.

    Args:
        indices: sources of the relation's edges.
        pair_ends: int64 [m + 1], where each destination's excluded sources end.
        pair_src: int64, excluded sources, ascending for each destination.
        starts: int64 [n].
        degrees: int64 [n]; 0 afterwards where the row was copied.
        keys: uint64 [n].
        row_of: int64 [n], from `_find_pairs`; afterwards the number of the copied row, or -1.
        copied_starts: int64 [copied + 1], filled.
        copied_keys: uint64 [copied], filled.
        allowed: int64, positions of the edges that are left, filled.

    Returns:
        how many rows were copied.
    """
    copied, at = 0, 0
    copied_starts[0] = 0
    for i in range(row_of.size):
        place = row_of[i]
        if place < 0:
            continue
        row_of[i] = _NO_ROW
        first = at
        sources = pair_src[pair_ends[place] : pair_ends[place + 1]]
        for e in range(starts[i], starts[i] + degrees[i]):
            found = np.searchsorted(sources, indices[e])
            if found == sources.size or sources[found] != indices[e]:
                allowed[at] = e
                at += 1
        if at - first == degrees[i]:  # the pair's edges are not in this row
            at = first
            continue
        degrees[i] = 0
        row_of[i] = copied
        copied_keys[copied] = keys[i]
        copied += 1
        copied_starts[copied] = at
    return copied


@kernel
def _join(row_of: Ids, few_ends: Ints, few: Ints, allowed: Ids, many_ends: Ints, many: Ints, ends: Ints, positions: Ints) -> None:
    """Put the draws from copied rows between the others.

    Args:
        row_of: int64 [n], the number of the copied row, or -1.
        few_ends: int32 [copied + 1].
        few: int64, drawn positions among `allowed`.
        allowed: int64, positions among the relation's edges.
        many_ends: int32 [n + 1].
        many: int64, drawn positions of the other rows.
        ends: int32 [n + 1], filled.
        positions: int64, filled.
    """
    total = 0
    ends[0] = 0
    for i in range(row_of.size):
        row = row_of[i]
        if row < 0:
            for e in range(many_ends[i], many_ends[i + 1]):
                positions[total] = many[e]
                total += 1
        else:
            for e in range(few_ends[row], few_ends[row + 1]):
                positions[total] = allowed[few[e]]
                total += 1
        ends[i + 1] = total
