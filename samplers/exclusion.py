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
Bools = npt.NDArray[np.bool_]
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

    Rows that hold none are drawn as ever. Of the others what is left is listed, once a node however many trees it stands in;
    it is drawn from by the same law and keys, and put in its place.

    Args:
        pairs: what may not be drawn.
        nodes: int64 [n], the destinations.
        edges: of the relation.
        rows: of the destinations; degrees are lowered.
        draw: the law.
        scratch: work arrays of the thread.
        aside: others, for the draw from the listed rows.
    """
    row_of = scratch.take("listed row", nodes.size, np.int64)
    first, longest = np.zeros(pairs.dst.size, np.int64), np.zeros(pairs.dst.size, np.int64)
    _find_pairs(nodes, rows.starts, rows.degrees, pairs.dst, pairs.marks, row_of, first, longest)
    left = scratch.take("edges left", int(longest.sum()), np.int64)
    left_ends = np.zeros(pairs.dst.size + 1, np.int64)
    listed = np.empty(pairs.dst.size, np.bool_)
    _list_rows(edges.indices, pairs.ends, pairs.src, first, longest, left, left_ends, listed)
    left = left[: left_ends[-1]]
    starts, degrees = scratch.take("listed starts", nodes.size, np.int64), scratch.take("listed degrees", nodes.size, np.int64)
    keys = scratch.take("listed keys", nodes.size, np.uint64)
    count = _move_rows(rows.starts, rows.degrees, rows.keys, left, left_ends, listed, row_of, starts, degrees, keys)
    if not count:
        return draw(edges, rows, scratch)
    few = Rows(starts=starts[:count], degrees=degrees[:count], keys=keys[:count], base=rows.base)
    few_ends, few_positions = draw(_restricted(edges, left_ends, left), few, aside)
    many_ends, many_positions = draw(edges, rows, scratch)
    ends = scratch.take("joined ends", nodes.size + 1, np.int32)
    positions = scratch.take("joined positions", check_total(few_positions.size + many_positions.size), np.int64)
    _join(row_of, few_ends, few_positions, left, many_ends, many_positions, ends, positions)
    return ends, positions


def _restricted(edges: Edges, indptr: Ids, left: Ids) -> Edges:
    """The edges at `left` as a relation of its own; the sums of weights are those of its rows."""
    weights = None if edges.weights is None else frozen(edges.weights[left])
    sums = None
    if weights is not None and edges.sums is not None:
        running = np.empty(weights.size, np.float64)
        picks.add_up_rows(frozen(indptr), weights, running)
        sums = frozen(running)
    return Edges(
        indptr=frozen(indptr),
        indices=frozen(edges.indices[left]),
        num_src=edges.num_src,
        weights=weights,
        sums=sums,
        times=None if edges.times is None else frozen(edges.times[left]),
    )


@kernel
def _find_pairs(nodes: Ints, starts: Ints, degrees: Ints, dst: Ids, marks: Bools, row_of: Ids, first: Ids, longest: Ids) -> None:
    """Which destinations may have excluded edges, and where their rows are.

    Args:
        nodes: int64 [n].
        starts: int64 [n].
        degrees: int64 [n].
        dst: int64 [m], ascending: destinations of pairs.
        marks: a filter of them, a power of two long.
        row_of: int64 [n], filled: the place in `dst` or -1.
        first: int64 [m], filled where a destination is among the nodes: where its row begins.
        longest: int64 [m], zeros, raised to the most edges of the row that any tree may draw.
    """
    mask = marks.size - 1
    for i in range(nodes.size):
        row_of[i] = _NO_ROW
        if not marks[nodes[i] & mask]:
            continue
        place = np.searchsorted(dst, nodes[i])
        if place < dst.size and dst[place] == nodes[i]:
            row_of[i] = place
            first[place] = starts[i]
            longest[place] = max(longest[place], degrees[i])


@kernel
def _list_rows(
    indices: Ints, pair_ends: Ids, pair_src: Ids, first: Ids, longest: Ids, left: Ids, left_ends: Ids, listed: Bools
) -> None:
    """List the edges of rows that are not excluded; a row without excluded edges is not listed.

    Args:
        indices: sources of the relation's edges.
        pair_ends: int64 [m + 1], where each destination's excluded sources end.
        pair_src: int64, excluded sources, ascending for each destination.
        first: int64 [m], where each destination's row begins.
        longest: int64 [m], how many edges of it count.
        left: int64, positions of the edges that are left, filled.
        left_ends: int64 [m + 1], filled.
        listed: bool [m], filled.
    """
    at = np.int64(0)
    for place in range(first.size):
        begin = at
        sources = pair_src[pair_ends[place] : pair_ends[place + 1]]
        for e in range(first[place], first[place] + longest[place]):
            found = np.searchsorted(sources, indices[e])
            if found == sources.size or sources[found] != indices[e]:
                left[at] = e
                at += 1
        listed[place] = at - begin < longest[place]
        if not listed[place]:
            at = begin
        left_ends[place + 1] = at


@kernel
def _move_rows(
    starts: Ints,
    degrees: Ints,
    keys: npt.NDArray[np.uint64],
    left: Ids,
    left_ends: Ids,
    listed: Bools,
    row_of: Ids,
    few_starts: Ids,
    few_degrees: Ids,
    few_keys: npt.NDArray[np.uint64],
) -> int:
    """Make rows of listed edges of those that hold excluded ones, and empty the rows they were.

    Args:
        starts: int64 [n].
        degrees: int64 [n]; 0 afterwards where the row was moved.
        keys: uint64 [n].
        left: int64, from `_list_rows`.
        left_ends: int64 [m + 1], from `_list_rows`.
        listed: bool [m], from `_list_rows`.
        row_of: int64 [n], from `_find_pairs`; afterwards the number of the moved row, or -1.
        few_starts: int64, filled: where the moved rows begin among `left`.
        few_degrees: int64, filled.
        few_keys: uint64, filled.

    Returns:
        how many rows were moved.
    """
    count = 0
    for i in range(row_of.size):
        place = row_of[i]
        if place < 0:
            continue
        row_of[i] = _NO_ROW
        if not listed[place]:
            continue
        own = left[left_ends[place] : left_ends[place + 1]]
        kept = np.searchsorted(own, starts[i] + degrees[i])
        if kept == degrees[i]:  # this tree ends before the excluded edges
            continue
        few_starts[count], few_degrees[count], few_keys[count] = left_ends[place], kept, keys[i]
        degrees[i] = 0
        row_of[i] = count
        count += 1
    return count


@kernel
def _join(row_of: Ids, few_ends: Ints, few: Ints, left: Ids, many_ends: Ints, many: Ints, ends: Ints, positions: Ints) -> None:
    """Put the draws from moved rows between the others.

    Args:
        row_of: int64 [n], the number of the moved row, or -1.
        few_ends: int32 [moved rows + 1].
        few: int64, drawn places among `left`.
        left: int64, positions among the relation's edges.
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
                positions[total] = left[few[e]]
                total += 1
        ends[i + 1] = total
