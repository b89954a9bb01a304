"""Which edges of its row a destination draws: one kernel a law, from rows and keys to edge positions.

Each fills `positions[ends[i]:ends[i + 1]]` for destination i from `starts[i]`, `degrees[i]` and `keys[i]` (see `rows.py`),
where `ends` comes from the law's counting kernel. `tests/naive.py` has a plain twin of each.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel, prefetch
from gnnhet.samplers.rng import below, draw, fill_below, node_key

LINEAR_PICKS = 32  # up to here a chosen position is searched one by one, above it in a hash table
UNIT = 1.0 / (1 << 53)
_SHIFT11 = np.uint64(11)
_TWO32 = 1 << 32

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]


@kernel
def count_uniform(degrees: Ints, fanout: int, replace: bool, ends: Ints) -> int:
    """Row ends of a block: min(degree, fanout) edges a destination; with replacement `fanout` where there is an edge.

    Args:
        degrees: int64 [n].
        fanout: -1 for all.
        replace: with replacement.
        ends: int32 [n + 1], filled where the sum fits.

    Returns:
        the sum, which may pass int32: `ends` is then no good.
    """
    total = 0
    ends[0] = 0
    for i in range(degrees.size):
        count = degrees[i]
        if fanout >= 0 and (count > fanout or (replace and count > 0)):
            count = fanout
        total += count
        ends[i + 1] = total
    return total


@kernel
def pick_uniform(starts: Ints, degrees: Ints, keys: Keys, ends: Ints, positions: Ints) -> None:
    """Every subset of the row of the wanted size as likely: Floyd's algorithm; a row that is wanted whole in stored order.

    Bentley and Floyd, 1987, "A sample of brilliance".
    """
    table: Ints = np.empty(0, np.int64)
    chosen: npt.NDArray[np.int64] = np.empty(LINEAR_PICKS, np.int64)
    for i in range(starts.size):
        start, degree, first = starts[i], degrees[i], np.int64(ends[i])
        count = ends[i + 1] - first
        if count == degree:
            for j in range(degree):
                positions[first + j] = start + j
        elif count <= LINEAR_PICKS and degree < _TWO32:
            fill_below(keys[i], degree - count + 1, count, chosen)
            for j in range(count):
                taken = False
                for earlier in range(j):  # no early way out: this runs in wide registers
                    taken |= chosen[earlier] == chosen[j]
                if taken:
                    chosen[j] = degree - count + j
                positions[first + j] = start + chosen[j]
        else:
            table = _room(table, count)
            for j in range(count):
                top = degree - count + j
                pick = below(keys[i], j, top + 1)
                if not _put(table, pick):
                    pick = top
                    _put(table, pick)
                positions[first + j] = start + pick


@kernel
def pick_nested(starts: Ints, degrees: Ints, keys: Keys, ends: Ints, positions: Ints) -> None:
    """As `pick_uniform`, with every draw of k edges the beginning of the draw of k + 1: draws that repeat are drawn again."""
    table: Ints = np.empty(0, np.int64)
    for i in range(starts.size):
        start, degree, first = starts[i], degrees[i], np.int64(ends[i])
        count = ends[i + 1] - first
        if count == degree:
            for j in range(degree):
                positions[first + j] = start + j
            continue
        table = _room(table, count)
        found, j = 0, 0
        while found < count:
            pick = below(keys[i], j, degree)
            if _put(table, pick):
                positions[first + found] = start + pick
                found += 1
            j += 1


@kernel
def pick_with_replacement(starts: Ints, degrees: Ints, keys: Keys, ends: Ints, positions: Ints) -> None:
    """Every edge of the row as likely at every draw."""
    for i in range(starts.size):
        first = np.int64(ends[i])
        for j in range(ends[i + 1] - first):
            positions[first + j] = starts[i] + below(keys[i], j, degrees[i])


@kernel
def _room(table: Ints, count: int) -> Ints:
    """An empty open-addressing table of at least 4 * count slots, a power of two; `table` itself where it is that large."""
    if table.size < 4 * count:
        slots = 1
        while slots < 4 * count:
            slots *= 2
        table = np.empty(slots, np.int64)
    table[:] = -1
    return table


@kernel
def _put(table: Ints, pick: int) -> bool:
    """Add a number to a table; whether it was not there yet."""
    mask = table.size - 1
    slot = pick & mask
    while table[slot] >= 0:
        if table[slot] == pick:
            return False
        slot = (slot + 1) & mask
    table[slot] = pick
    return True


@kernel
def count_weighted(starts: Ints, degrees: Ints, weights: Floats, fanout: int, replace: bool, ends: Ints) -> int:
    """As `count_uniform`, of the edges whose weight is not zero.

    Args:
        starts: int64 [n].
        degrees: int64 [n].
        weights: float64 [edges].
        fanout: -1 for all that have a weight.
        replace: with replacement.
        ends: int32 [n + 1], filled.
    """
    total = 0
    ends[0] = 0
    for i in range(starts.size):
        count = 0
        for e in range(starts[i], starts[i] + degrees[i]):
            count += weights[e] > 0
        if fanout >= 0 and (count > fanout or (replace and count > 0)):
            count = fanout
        total += count
        ends[i + 1] = total
    return total


@kernel
def unit(key: np.uint64, i: int) -> float:
    """Draw i of a key as a number of (0, 1]: 53 random bits, never zero."""
    return (np.float64(draw(key, i) >> _SHIFT11) + 1.0) * UNIT


@kernel
def pick_weighted(starts: Ints, degrees: Ints, weights: Floats, keys: Keys, ends: Ints, positions: Ints) -> None:
    """The edges with the smallest -log(u) / weight, in stored order; edges of weight zero never.

    Successive sampling: as if edges were drawn one by one, each in proportion to its weight among those left. Inclusion is
    NOT proportional to weight. Efraimidis and Spirakis, 2006, "Weighted random sampling with a reservoir", algorithm A-Res.
    """
    times = np.empty(0, np.float64)
    for i in range(starts.size):
        start, first = starts[i], np.int64(ends[i])
        count = ends[i + 1] - first
        if count == 0:
            continue
        if times.size < degrees[i]:
            times = np.empty(2 * degrees[i], np.float64)
        worst = np.inf
        weighty = 0
        for j in range(degrees[i]):
            weight = weights[start + j]
            times[j] = -np.log(unit(keys[i], j)) / weight if weight > 0 else np.inf
            weighty += weight > 0
        if count < weighty:
            worst = np.partition(times[: degrees[i]], count - 1)[count - 1]
        found = 0
        for j in range(degrees[i]):
            if weights[start + j] > 0 and times[j] <= worst and found < count:
                positions[first + found] = start + j
                found += 1


@kernel
def add_up_rows(indptr: Ints, weights: Floats, sums: Floats) -> int:
    """Running sums of the weights within each row; the first row with a weight that is negative or not finite, or -1."""
    for v in range(indptr.size - 1):
        total = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            if not (weights[e] >= 0.0 and weights[e] < np.inf):
                return v
            total += weights[e]
            sums[e] = total
    return -1


@kernel
def pick_weighted_with_replacement(starts: Ints, degrees: Ints, sums: Floats, keys: Keys, ends: Ints, positions: Ints) -> None:
    """Each draw an edge in proportion to its weight: bisection of the row's running sums (from `add_up_rows`)."""
    for i in range(starts.size):
        start, first = starts[i], np.int64(ends[i])
        last = start + degrees[i] - 1
        for j in range(ends[i + 1] - first):
            mark = unit(keys[i], j) * sums[last]  # in (0, total]: the first edge whose running sum reaches it
            low, high = start, last
            while low < high:
                middle = (low + high) // 2
                if sums[middle] < mark:
                    low = middle + 1
                else:
                    high = middle
            positions[first + j] = low


@kernel
def pick_labor(starts: Ints, degrees: Ints, indices: Ints, base: np.uint64, fanout: int, ends: Ints, positions: Ints) -> int:
    """Keep the edge from u to v iff u's own number, the same for all destinations of the layer, is at most fanout / degree.

    LABOR-0 (Balin, Catalyurek, 2023, "Layer-neighbor sampling", section 3.1 with uniform probabilities).

    Args:
        starts: int64 [n].
        degrees: int64 [n].
        indices: sources of the relation's edges.
        base: the stream of (seed, epoch, step, layer, source type).
        fanout: 1 or more: expected edges of a longer row.
        ends: int32 [n + 1], filled.
        positions: int64, with room for all edges of the rows; filled.

    Returns:
        how many are kept.
    """
    total = 0
    ends[0] = 0
    for i in range(starts.size):
        last = starts[i] + degrees[i]
        for e in range(starts[i], last):
            if degrees[i] <= fanout or unit(node_key(base, indices[e]), 0) * degrees[i] <= fanout:
                positions[total] = e
                total += 1
        ends[i + 1] = total
        if i + 4 < starts.size:
            prefetch(indices, starts[i + 4])
    return total
