"""The laws by which a destination draws edges of its row, by name.

A law is a function (edges, rows, fanout, scratch) -> (ends, positions): `ends` int32 [destinations + 1], `positions` int64
[ends[-1]] of the drawn edges in the relation's stored order of edges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.samplers import picks
from gnnhet.samplers.buffers import Scratch

Ints = npt.NDArray[np.integer[Any]]

MOST_EDGES = 2**31 - 1  # a block's local numbers are int32


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges:
    """One relation as samplers read it; rows are sorted by time where there is one.

    Attributes:
        indptr: int64 [destinations + 1].
        indices: int32 or int64 [edges], sources.
        num_src: nodes of the source type.
        weights: float64 [edges], or None where all edges weigh the same.
        sums: float64 [edges], running sums of the weights within each row, or None.
        times: int64 or float64 [edges], ascending within each row, or None.
        edge_ids: int64 [edges], what the edges are called outside, or None where that is their position.
    """

    indptr: Ints
    indices: Ints
    num_src: int
    weights: npt.NDArray[np.float64] | None = None
    sums: npt.NDArray[np.float64] | None = None
    times: npt.NDArray[Any] | None = None
    edge_ids: Ints | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of one layer's destinations in one relation.

    Attributes:
        starts: int64 [n], where each row begins.
        degrees: int64 [n], edges that may be drawn.
        keys: uint64 [n], the key of each destination.
        base: the stream of the layer's sources, shared by all destinations.
    """

    starts: Ints
    degrees: Ints
    keys: npt.NDArray[np.uint64]
    base: np.uint64


Law = Callable[[Edges, Rows, int, Scratch], tuple[Ints, Ints]]


def uniform(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """min(degree, fanout) edges without replacement, every subset as likely (Hamilton, Ying, Leskovec, 2017, algorithm 2)."""
    ends, positions = _counted(rows, fanout, False, scratch)
    picks.pick_uniform(rows.starts, rows.degrees, rows.keys, ends, positions)
    return ends, positions


def nested(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """As `uniform`; the draw of a smaller fanout is the beginning of a larger one's, so layers that share keys share edges."""
    ends, positions = _counted(rows, fanout, False, scratch)
    picks.pick_nested(rows.starts, rows.degrees, rows.keys, ends, positions)
    return ends, positions


def with_replacement(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """Exactly `fanout` edges of each row that has any, drawn independently."""
    if fanout < 0:
        return uniform(edges, rows, fanout, scratch)
    ends, positions = _counted(rows, fanout, True, scratch)
    picks.pick_with_replacement(rows.starts, rows.degrees, rows.keys, ends, positions)
    return ends, positions


def weighted(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """Successive sampling in proportion to weight, without replacement; weight zero never (Efraimidis, Spirakis, 2006).

    Inclusion is not proportional to weight: for weights .7 .2 .1 and two edges it is .954 .689 .357.
    """
    if edges.weights is None:
        return nested(edges, rows, fanout, scratch)
    ends = scratch.take("ends", rows.starts.size + 1, np.int32)
    total = picks.count_weighted(rows.starts, rows.degrees, edges.weights, fanout, False, ends)
    positions = scratch.take("positions", check_total(total), np.int64)
    picks.pick_weighted(rows.starts, rows.degrees, edges.weights, rows.keys, ends, positions)
    return ends, positions


def weighted_with_replacement(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """Exactly `fanout` edges of each row that has a weight, each draw in proportion to weight."""
    if fanout < 0:
        return weighted(edges, rows, fanout, scratch)
    if edges.weights is None or edges.sums is None:
        return with_replacement(edges, rows, fanout, scratch)
    ends = scratch.take("ends", rows.starts.size + 1, np.int32)
    total = picks.count_weighted(rows.starts, rows.degrees, edges.weights, fanout, True, ends)
    positions = scratch.take("positions", check_total(total), np.int64)
    picks.pick_weighted_with_replacement(rows.starts, rows.degrees, edges.sums, rows.keys, ends, positions)
    return ends, positions


def labor(edges: Edges, rows: Rows, fanout: int, scratch: Scratch) -> tuple[Ints, Ints]:
    """LABOR-0: an edge from u is kept iff u's number of the layer is at most fanout / degree (Balin, Catalyurek, 2023).

    Expected min(degree, fanout) edges a row, as independent as a coin an edge; destinations share sources, so a batch has
    fewer of them.
    """
    if fanout < 0:
        return uniform(edges, rows, fanout, scratch)
    ends = scratch.take("ends", rows.starts.size + 1, np.int32)
    room = scratch.take("positions", check_total(int(rows.degrees.sum())), np.int64)
    total = picks.pick_labor(rows.starts, rows.degrees, edges.indices, rows.base, fanout, ends, room)
    return ends, room[:total]


LAWS: dict[str, Law] = {
    "labor": labor,
    "nested": nested,
    "uniform": uniform,
    "weighted": weighted,
    "weighted_with_replacement": weighted_with_replacement,
    "with_replacement": with_replacement,
}


def _counted(rows: Rows, fanout: int, replace: bool, scratch: Scratch) -> tuple[Ints, Ints]:
    """Row ends of an unweighted law, and room for its positions."""
    ends = scratch.take("ends", rows.starts.size + 1, np.int32)
    total = picks.count_uniform(rows.degrees, fanout, replace, ends)
    return ends, scratch.take("positions", check_total(total), np.int64)


def check_total(total: int) -> int:
    """`total`, refused where local numbers could not count it.

    Raises:
        GraphError: 2^31 edges or more.
    """
    if total > MOST_EDGES:
        raise GraphError(f"a block holds at most {MOST_EDGES} edges of a relation, got {total}: use fewer seeds or fanouts")
    return total
