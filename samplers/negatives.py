"""Keyed negatives of link prediction: pairs of nodes that stand for edges that are not there.

What is drawn for a positive edge is a function of (seed, epoch, step, relation, source, destination, the edge's place in the
whole step) alone, never of the rank or the part of the step it is drawn in. Each negative has a key of its own; attempt t of
it takes draw 2t for a source and 2t + 1 for a destination. `tests/naive.py` has a plain twin.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, GraphError, SpecError
from gnnhet.jit import frozen, kernel
from gnnhet.samplers.rng import NEGATIVES, below, node_key, stream
from gnnhet.storage.graph import Graph

Ints = npt.NDArray[np.integer[Any]]
Ids = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

TRIES = 1000  # of a strict negative; a source joined to 99 of 100 nodes uses them up once in 20,000 times
_FINEST = 1_000_000  # ratios are taken to the millionth, so that their multiples are exact
_UNIT = 1 << 20  # the whole number that a degree of one weighs
_MODES, _CORRUPT = ("binary", "triplet"), ("both", "src", "dst")


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """The nodes of one end of a relation.

    Attributes:
        num_nodes: of the type.
        sums: int64 [nodes], running sums of the nodes' whole-number weights; empty where the law needs none.
    """

    num_nodes: int
    sums: Ids


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """Which draw of which keys.

    Attributes:
        keys: uint64 [n], of each negative.
        shared: uint64 [n], of its number alone, the same for all edges of the step.
        number: of the draw.
    """

    keys: Keys
    shared: Keys
    number: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Drawn negatives, those of the first positive edge first.

    Attributes:
        owners: int64 [n], the positive edge of each, counted from the first that was given.
        src: int64 [n].
        dst: int64 [n].
    """

    owners: Ids
    src: Ids
    dst: Ids


NegativeLaw = Callable[[Side, Draws], Ids]


def uniform(side: Side, draws: Draws) -> Ids:
    """Every node as likely."""
    found = np.empty(draws.keys.size, np.int64)
    _fill_uniform(draws.keys, draws.number, side.num_nodes, found)
    return found


def degree(side: Side, draws: Draws) -> Ids:
    """In proportion to the node's degree in the relation to the power `alpha`; a node without edges never.

    Mikolov, Sutskever, Chen, Corrado, Dean, 2013, "Distributed representations of words and phrases and their
    compositionality", section 2.2, where alpha is 3/4. Powers are rounded to 2^-20, and then exact.
    """
    found = np.empty(draws.keys.size, np.int64)
    _fill_weighted(draws.keys, draws.number, side.sums, found)
    return found


def shared(side: Side, draws: Draws) -> Ids:
    """Every node as likely; negative j of all edges of the step is the same node, so that a batch has few of them."""
    found = np.empty(draws.shared.size, np.int64)
    _fill_uniform(draws.shared, draws.number, side.num_nodes, found)
    return found


NEGATIVE_LAWS: dict[str, NegativeLaw] = {"degree": degree, "shared": shared, "uniform": uniform}


class NegativeSampler:
    """Draws negatives for the edges of one relation.

    With mode `binary` positive number p of the step owns ceil((p + 1) * amount) - ceil(p * amount) negatives: n of them have
    ceil(n * amount) in all, as PyG's, and any part of a step knows its own. With `triplet` each has `amount` destinations.
    """

    def __init__(
        self,
        graph: Graph,
        relation: Relation,
        law: str = "uniform",
        mode: str = "binary",
        amount: float = 1.0,
        *,
        corrupt: str | None = None,
        strict: bool = False,
        alpha: float = 0.75,
        seed: int = 0,
    ) -> None:
        """Check the options; degrees are counted and rows sorted here where they are needed.

        Args:
            graph: of the edges.
            relation: of the edges.
            law: of `NEGATIVE_LAWS`.
            mode: `binary` for negative pairs, `triplet` for negative destinations of each edge's own source.
            amount: negatives an edge, above 0; a whole number with `triplet`.
            corrupt: which ends of a binary negative are drawn: `both` (the default, as PyG), `src` or `dst`; the other one
                is the positive edge's. With the law `shared`, and with `triplet`, it is `dst`.
            strict: never an edge of the graph, at any time: such a draw is drawn again. Rows whose sources do not ascend
                are copied and sorted, 4 or 8 bytes an edge.
            alpha: of the law `degree`, 0 or more.
            seed: of all draws.

        Raises:
            SpecError: an unknown name, or options that exclude each other.
            GraphError: no such relation.
            FormatError: the graph's arrays are damaged.
        """
        if law not in NEGATIVE_LAWS:
            raise SpecError(f"negatives must be one of {', '.join(NEGATIVE_LAWS)}, got {law!r}")
        if mode not in _MODES:
            raise SpecError(f"mode must be binary or triplet, got {mode!r}")
        only = "dst" if mode == "triplet" or law == "shared" else None
        if corrupt is None:
            corrupt = only or "both"
        if corrupt not in _CORRUPT or only not in (None, corrupt):
            raise SpecError(f"corrupt must be {only or ', '.join(_CORRUPT)} with {mode} {law} negatives, got {corrupt!r}")
        if strict and law == "shared":
            raise SpecError("strict negatives are drawn for each edge, shared ones for all: leave out one of the two")
        if not 0 <= alpha < np.inf:
            raise SpecError(f"alpha must be 0 or more, got {alpha}")
        self.ratio = check_amount(amount, mode)
        self.relation, self.mode, self.corrupt, self.strict, self.seed = relation, mode, corrupt, strict, seed
        self.name = law
        self._law = NEGATIVE_LAWS[law]
        self._part = graph.part(relation)
        self._index = graph.relations.index(relation)
        num_src, num_dst = graph.num_nodes[relation[0]], graph.num_nodes[relation[2]]
        if law == "degree" or strict:
            self._check(num_src)
        sums = [np.empty(0, np.int64)] * 2
        if law == "degree":
            if not self._part.num_edges:
                raise SpecError(f"degree negatives need edges, got none of {relation}: draw them uniformly")
            if corrupt != "dst":
                sums[0] = degree_sums(np.bincount(self._part.indices, minlength=num_src), alpha)
            if corrupt != "src":
                sums[1] = degree_sums(np.diff(self._part.indptr), alpha)
        self._sides = (Side(num_nodes=num_src, sums=sums[0]), Side(num_nodes=num_dst, sums=sums[1]))
        self._sorted = self._sort() if strict else self._part.indices

    def _check(self, num_src: int) -> None:
        """Refuse damaged arrays before all of them are read."""
        indptr, indices = self._part.indptr, self._part.indices
        if int(indptr[0]) != 0 or int(indptr[-1]) != indices.size or bool((indptr[1:] < indptr[:-1]).any()):
            raise FormatError(f"indptr of {self.relation} must never fall nor pass the edges: the files are damaged; verify them")
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= num_src):
            raise FormatError(
                f"indices of {self.relation} must be nodes of {self.relation[0]}: the files are damaged; verify them"
            )

    def _sort(self) -> Ints:
        """The relation's sources, ascending within each row."""
        if _rows_ascend(self._part.indptr, self._part.indices):
            return self._part.indices
        out = np.empty_like(self._part.indices)
        _sort_rows(self._part.indptr, self._part.indices, out)
        return frozen(out)

    def counts(self, num_edges: int, offset: int = 0) -> Ids:
        """How many negatives each of consecutive positive edges has.

        Args:
            num_edges: how many edges.
            offset: the place of the first in the step.

        Returns:
            int64 [num_edges].
        """
        places = np.arange(offset, offset + num_edges + 1, dtype=np.int64)
        counts: Ids = np.diff(-(-places * self.ratio.numerator // self.ratio.denominator))
        return counts

    def draw(self, src: Ids, dst: Ids, epoch: int, step: int, offset: int = 0) -> Pairs:
        """Negatives of consecutive positive edges of a step.

        Args:
            src: int64 [n], nodes of the source type.
            dst: int64 [n], nodes of the destination type.
            epoch: part of the key.
            step: part of the key.
            offset: the place of the first edge in the whole step.

        Raises:
            GraphError: `strict`, and TRIES draws of a negative were all edges of the graph.
        """
        counts = self.counts(src.size, offset)
        owners = np.repeat(np.arange(src.size), counts)
        numbers = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
        keys, shared_keys = np.empty(owners.size, np.uint64), np.empty(owners.size, np.uint64)
        parts = (self.seed, epoch, step, NEGATIVES, self._index)
        _fill_keys(stream(*parts), src, dst, offset, owners, numbers, keys)
        _fill_shared_keys(stream(*parts, 1), numbers, shared_keys)
        found_src, found_dst = src[owners], dst[owners]
        pending = np.arange(owners.size)
        for attempt in range(TRIES):
            for side, end, into in ((0, "src", found_src), (1, "dst", found_dst)):
                if self.corrupt in ("both", end):
                    draws = Draws(keys=keys[pending], shared=shared_keys[pending], number=2 * attempt + side)
                    into[pending] = self._law(self._sides[side], draws)
            if self.strict:
                joined = np.empty(pending.size, np.bool_)
                _find_edges(self._part.indptr, self._sorted, found_src[pending], found_dst[pending], joined)
                pending = pending[joined]
            if not self.strict or not pending.size:
                return Pairs(owners=owners, src=found_src, dst=found_dst)
        first = owners[pending[0]]
        raise GraphError(
            f"a strict negative must not be an edge of {self.relation}, and {TRIES} draws for the edge {src[first]} -> "
            f"{dst[first]} all were: draw without `strict`, or corrupt both ends"
        )


def check_amount(amount: float, mode: str) -> Fraction:
    """Negatives an edge as an exact fraction.

    Raises:
        SpecError: not above 0, or not whole with `triplet`.
    """
    ratio = Fraction(amount).limit_denominator(_FINEST) if 0 < amount < np.inf else Fraction(0)
    if ratio <= 0:
        raise SpecError(f"amount must be above 0 and finite, got {amount}: for no negatives give mode=None")
    if mode == "triplet" and ratio.denominator != 1:
        raise SpecError(f"amount must be a whole number with triplet negatives, got {amount}")
    return ratio


def degree_sums(degrees: Ints, alpha: float) -> Ids:
    """Running sums of round(2^20 * degree^alpha), 0 for a node without edges.

    Args:
        degrees: [nodes].
        alpha: 0 or more.

    Raises:
        SpecError: the sum passes 2^62.
    """
    powers = np.where(degrees > 0, np.power(np.maximum(degrees, 1).astype(np.float64), alpha), 0.0) * _UNIT
    if not powers.sum() < 2.0**62:
        raise SpecError(f"alpha must leave the sum of all degrees' powers below 2^42, got {alpha}: lower it")
    return np.cumsum(np.rint(powers).astype(np.int64))


@kernel
def _fill_keys(base: np.uint64, src: Ids, dst: Ids, offset: int, owners: Ids, numbers: Ids, keys: Keys) -> None:
    """The key of each negative: of its positive edge (ends and place in the step) and its number among the edge's own."""
    for i in range(owners.size):
        p = owners[i]
        keys[i] = node_key(node_key(node_key(node_key(base, src[p]), dst[p]), offset + p), numbers[i])


@kernel
def _fill_shared_keys(base: np.uint64, numbers: Ids, keys: Keys) -> None:
    """The key of each negative's number alone."""
    for i in range(numbers.size):
        keys[i] = node_key(base, numbers[i])


@kernel
def _fill_uniform(keys: Keys, number: int, bound: int, out: Ids) -> None:
    """One draw below `bound` a key."""
    for i in range(keys.size):
        out[i] = below(keys[i], number, bound)


@kernel
def _fill_weighted(keys: Keys, number: int, sums: Ids, out: Ids) -> None:
    """One draw a key in proportion to whole-number weights: the first node whose running sum passes a number below all."""
    for i in range(keys.size):
        mark = below(keys[i], number, sums[-1])
        low, high = 0, sums.size - 1
        while low < high:
            middle = (low + high) // 2
            if sums[middle] <= mark:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@kernel
def _rows_ascend(indptr: Ints, indices: Ints) -> bool:
    """Whether the sources of every row ascend."""
    for v in range(indptr.size - 1):
        for e in range(indptr[v] + 1, indptr[v + 1]):
            if indices[e - 1] > indices[e]:
                return False
    return True


@kernel
def _sort_rows(indptr: Ints, indices: Ints, out: Ints) -> None:
    """The sources, ascending within each row."""
    for v in range(indptr.size - 1):
        first, last = indptr[v], indptr[v + 1]
        if last > first:
            out[first:last] = np.sort(indices[first:last])


@kernel
def _find_edges(indptr: Ints, indices: Ints, src: Ids, dst: Ids, joined: npt.NDArray[np.bool_]) -> None:
    """Whether each pair is an edge: bisection of the destination's row, whose sources ascend."""
    for i in range(src.size):
        low, end = indptr[dst[i]], indptr[dst[i] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if indices[middle] < src[i]:
                low = middle + 1
            else:
                high = middle
        joined[i] = low < end and indices[low] == src[i]
