"""Edges that may not be drawn: rows without them are made before the draw, so that what is left is drawn by the same law.

A draw that is dropped afterwards would leave some destinations fewer neighbours than they could have, and favour none of
those left; here a destination draws from the row it would have were the excluded edges not in the graph.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnnhet.errors import FormatError
from gnnhet.jit import frozen, kernel
from gnnhet.samplers import picks
from gnnhet.samplers import rows as rows_of
from gnnhet.samplers.buffers import Scratch
from gnnhet.samplers.laws import Edges, Ints, Rows, check_total

_SLOTS = 16  # of the filter, for each destination of a pair
_NO_ROW = -1

Ids = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Draw = Callable[[Edges, Rows, Scratch], tuple[Ints, Ints]]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsLeft:
    """What is left of the rows that hold excluded edges.

    Attributes:
        edges: the edges that are left, as a relation with a row for each destination of a pair.
        positions: int64, where they stand among the relation's edges, ascending within each row.
        held: bool [m], whether the row held an excluded edge; it is empty here otherwise.
    """

    edges: Edges
    positions: Ids
    held: Bools


class ExcludedPairs:
    """Pairs of one relation whose edges one batch may not draw: all parallel edges of a pair alike.

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
        self.marks, self.src_marks = _marked(self.dst), _marked(self.src)
        self._left: RowsLeft | None = None

    def left(self, edges: Edges) -> RowsLeft:
        """The rows of all destinations of a pair without excluded edges, read once for all layers of the batch.

        Raises:
            FormatError: the graph's arrays are damaged.
        """
        if self._left is None:
            starts, degrees = np.empty(self.dst.size, np.int64), np.empty(self.dst.size, np.int64)
            total = rows_of.find_rows(edges.indptr, self.dst, edges.indices.size, starts, degrees)
            if total < 0:
                raise FormatError("indptr must never fall nor pass the edges: the graph's files are damaged; verify it")
            positions, ends = np.empty(total, np.int64), np.zeros(self.dst.size + 1, np.int64)
            held = np.empty(self.dst.size, np.bool_)
            _list_rows(edges.indices, self.ends, self.src, self.src_marks, starts, degrees, positions, ends, held)
            positions = positions[: ends[-1]]
            self._left = RowsLeft(edges=_restricted(edges, ends, positions), positions=positions, held=held)
        return self._left


def _marked(ids: Ids) -> Bools:
    """A filter: what is not marked at its last bits is none of the ids."""
    marks = np.zeros(1 << max(_SLOTS * ids.size - 1, 1).bit_length(), np.bool_)
    marks[ids & (marks.size - 1)] = True
    return marks


def draw_without(
    pairs: ExcludedPairs, nodes: Ints, edges: Edges, rows: Rows, draw: Draw, scratch: Scratch, aside: Scratch
) -> tuple[Ints, Ints]:
    """(ends, positions) of a draw from rows without excluded edges.

    Rows that hold none are drawn as ever. Of the others what is left is drawn from by the same law and keys, and put in its
    place.

    Args:
        pairs: what may not be drawn.
        nodes: int64 [n], the destinations.
        edges: of the relation.
        rows: of the destinations; degrees are lowered.
        draw: the law.
        scratch: work arrays of the thread.
        aside: others, for the draw from what is left.

    Raises:
        FormatError: the graph's arrays are damaged.
    """
    left = pairs.left(edges)
    moved = scratch.take("moved", nodes.size, np.int64)
    starts, degrees = scratch.take("moved starts", nodes.size, np.int64), scratch.take("moved degrees", nodes.size, np.int64)
    keys = scratch.take("moved keys", nodes.size, np.uint64)
    own = (rows.starts, rows.degrees, rows.keys)
    count = _move_rows(
        nodes, *own, pairs.dst, pairs.marks, left.held, left.edges.indptr, left.positions, moved, starts, degrees, keys
    )
    if not count:
        return draw(edges, rows, scratch)
    few = Rows(starts=starts[:count], degrees=degrees[:count], keys=keys[:count], base=rows.base)
    few_ends, few_places = draw(left.edges, few, aside)
    many_ends, many_positions = draw(edges, rows, scratch)
    ends = scratch.take("joined ends", nodes.size + 1, np.int32)
    positions = scratch.take("joined positions", check_total(few_places.size + many_positions.size), np.int64)
    _join(moved, few_ends, few_places, left.positions, many_ends, many_positions, ends, positions)
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
def _list_rows(
    indices: Ints, pair_ends: Ids, pair_src: Ids, marks: Bools, starts: Ids, degrees: Ids, left: Ids, left_ends: Ids, held: Bools
) -> None:
    """List the edges of rows that are not excluded; a row without excluded edges is not listed.

    Args:
        indices: sources of the relation's edges.
        pair_ends: int64 [m + 1], where each destination's excluded sources end.
        pair_src: int64, excluded sources, ascending for each destination.
        marks: a filter of the excluded sources, a power of two long.
        starts: int64 [m], where each destination's row begins.
        degrees: int64 [m], how many edges it has.
        left: int64, positions of the edges that are left, filled.
        left_ends: int64 [m + 1], filled.
        held: bool [m], filled: whether the row is listed.
    """
    at, mask = np.int64(0), marks.size - 1
    for row in range(starts.size):
        begin = at
        sources = pair_src[pair_ends[row] : pair_ends[row + 1]]
        for e in range(starts[row], starts[row] + degrees[row]):
            source = np.int64(indices[e])
            left[at] = e
            at += 1
            if marks[source & mask]:
                place = np.searchsorted(sources, source)
                if place < sources.size and sources[place] == source:
                    at -= 1
        held[row] = at - begin < degrees[row]
        if not held[row]:
            at = begin
        left_ends[row + 1] = at


@kernel
def _move_rows(
    nodes: Ints,
    starts: Ints,
    degrees: Ints,
    keys: npt.NDArray[np.uint64],
    dst: Ids,
    marks: Bools,
    held: Bools,
    left_ends: Ints,
    left: Ids,
    moved: Ids,
    few_starts: Ids,
    few_degrees: Ids,
    few_keys: npt.NDArray[np.uint64],
) -> int:
    """Make rows of what is left of those that hold excluded edges, and empty the rows they were.

    Args:
        nodes: int64 [n], the destinations.
        starts: int64 [n].
        degrees: int64 [n]; 0 afterwards where the row was moved.
        keys: uint64 [n].
        dst: int64 [m], ascending: destinations of pairs.
        marks: a filter of them, a power of two long.
        held: bool [m], from `_list_rows`.
        left_ends: int64 [m + 1], from `_list_rows`.
        left: int64, from `_list_rows`.
        moved: int64 [n], filled: the number of the moved row, or -1.
        few_starts: int64, filled: where the moved rows begin among `left`.
        few_degrees: int64, filled.
        few_keys: uint64, filled.

    Returns:
        how many rows were moved.
    """
    mask, count = marks.size - 1, 0
    for i in range(nodes.size):
        moved[i] = _NO_ROW
        if not marks[nodes[i] & mask]:
            continue
        row = np.searchsorted(dst, nodes[i])
        if row == dst.size or dst[row] != nodes[i] or not held[row]:
            continue
        kept = np.searchsorted(left[left_ends[row] : left_ends[row + 1]], starts[i] + degrees[i])
        if kept == degrees[i]:  # the tree's time is before that of the excluded edges
            continue
        few_starts[count], few_degrees[count], few_keys[count] = left_ends[row], kept, keys[i]
        degrees[i] = 0
        moved[i] = count
        count += 1
    return count


@kernel
def _join(moved: Ids, few_ends: Ints, few: Ints, left: Ids, many_ends: Ints, many: Ints, ends: Ints, positions: Ints) -> None:
    """Put the draws from moved rows between the others.

    Args:
        moved: int64 [n], the number of the moved row, or -1.
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
    for i in range(moved.size):
        row = moved[i]
        if row < 0:
            for e in range(many_ends[i], many_ends[i + 1]):
                positions[total] = many[e]
                total += 1
        else:
            for e in range(few_ends[row], few_ends[row + 1]):
                positions[total] = left[few[e]]
                total += 1
        ends[i + 1] = total
