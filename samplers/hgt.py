"""Layer-wise sampling of typed graphs by budget (Hu, Dong, Wang, Sun, 2020, "Heterogeneous Graph Transformer", algorithm 2).

A node's budget is the sum, over the edges that lead from it to sampled nodes, of 1 / (edges of that relation into that node).
In each hop every node type draws nodes without replacement, in proportion to the squared budget among those left.

`tests/samplers/test_hgt.py` has a plain twin.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, SpecError
from gnnhet.jit import kernel
from gnnhet.samplers import numbering, rows
from gnnhet.samplers.buffers import Scratch, Spares
from gnnhet.samplers.expand import MAP_BUDGET_BYTES
from gnnhet.samplers.laws import Edges, Ints, Rows, uniform
from gnnhet.samplers.numbering import Numbering
from gnnhet.samplers.picks import unit
from gnnhet.samplers.rng import node_key, stream

Floats = npt.NDArray[np.float64]


class BudgetSampler:
    """Draws nodes by budget; all types of a hop draw from the budgets that the hop before left.

    A node's draw is a function of the key, the hop, its type and its id. May be used by several threads at once.
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edges: Mapping[Relation, Edges],
        num_samples: Mapping[str, Sequence[int]],
        *,
        budget_bytes: int = MAP_BUDGET_BYTES,
    ) -> None:
        """Check the numbers of samples.

        Args:
            num_nodes: of each node type.
            edges: of each relation.
            num_samples: how many nodes each type draws in each hop; a hop that a list does not reach draws none.
            budget_bytes: of one node type's dense map, a thread; beyond, a hash table is used.

        Raises:
            SpecError: a type that is unknown or has none, or a negative number.
        """
        if set(num_samples) != set(num_nodes):
            raise SpecError(f"num_samples must name each node type of {list(num_nodes)}, got {list(num_samples)}")
        for node_type, counts in num_samples.items():
            if any(count < 0 for count in counts):
                raise SpecError(f"num_samples of {node_type} must be 0 or more, got {list(counts)}")
        self.num_nodes, self.edges = dict(num_nodes), dict(edges)
        self.num_samples = {node_type: tuple(num_samples[node_type]) for node_type in self.num_nodes}
        self.num_hops = max((len(counts) for counts in self.num_samples.values()), default=0)
        self._budget_bytes = budget_bytes
        self._spares = Spares(self._new)

    def _new(self) -> "_Budgets":
        return _Budgets(self.num_nodes, self.edges, self._budget_bytes)

    def sample(self, seeds: Mapping[str, Ints], key: tuple[int, ...]) -> dict[str, Ints]:
        """The sampled nodes of each type: the seeds as given, then hop after hop in the order they were drawn.

        Args:
            seeds: per node type int64 ids within range.
            key: (seed, epoch, step).

        Returns:
            per node type int64 ids.

        Raises:
            FormatError: the graph's arrays are damaged.
        """
        with self._spares.use() as budgets:
            return self._sample(budgets, seeds, key)

    def _sample(self, budgets: "_Budgets", seeds: Mapping[str, Ints], key: tuple[int, ...]) -> dict[str, Ints]:
        """`sample`, with the work arrays of one thread."""
        found: dict[str, list[Ints]] = {
            kind: [np.asarray(seeds.get(kind, np.empty(0, np.int64)), np.int64)] for kind in self.num_nodes
        }
        budgets.begin({kind: parts[0] for kind, parts in found.items()})
        newest: dict[str, Ints] = {kind: np.unique(parts[0]) for kind, parts in found.items()}
        for hop in range(self.num_hops):
            for kind, ids in newest.items():
                budgets.add(kind, ids)
            newest = {}
            for index, (kind, counts) in enumerate(self.num_samples.items()):
                count = counts[hop] if hop < len(counts) else 0
                newest[kind] = budgets.draw(kind, count, stream(*key, hop, index))
                found[kind].append(newest[kind])
        return {kind: np.concatenate(parts) for kind, parts in found.items()}


class _Budgets:
    """One thread's budgets; candidates are numbered in order of first sight."""

    def __init__(self, num_nodes: Mapping[str, int], edges: Mapping[Relation, Edges], budget_bytes: int) -> None:
        self._edges = edges
        self._scratch = Scratch()
        self._numbers = {kind: Numbering(count, budget_bytes) for kind, count in num_nodes.items()}
        self._budget: dict[str, Floats] = {}  # by number; -1 once the node is sampled

    def begin(self, seeds: Mapping[str, Ints]) -> None:
        """Forget all; seeds count as sampled."""
        for kind, ids in seeds.items():
            self._numbers[kind].begin(ids)
            self._budget[kind] = np.full(ids.size, -1.0)

    def add(self, kind: str, nodes: Ints) -> None:
        """Add the shares of the neighbours of newly sampled nodes.

        Args:
            kind: their type.
            nodes: int64, distinct ids.
        """
        if not nodes.size:
            return
        scratch = self._scratch
        for relation, edges in self._edges.items():
            if relation[2] != kind or not edges.indices.size:
                continue
            starts, degrees = scratch.take("starts", nodes.size, np.int64), scratch.take("degrees", nodes.size, np.int64)
            if rows.find_rows(edges.indptr, nodes, edges.indices.size, starts, degrees) < 0:
                raise FormatError(f"indptr of {relation} must never fall nor pass the edges: the graph's files are damaged")
            keys = scratch.take("keys", nodes.size, np.uint64)  # not read: all edges are wanted
            everything = Rows(starts=starts, degrees=degrees, keys=keys, base=np.uint64(0))
            ends, positions = uniform(edges, everything, -1, scratch)
            sources = scratch.take("sources", positions.size, np.int64)
            if numbering.read_sources(edges.indices, positions, edges.num_src, sources) < 0:
                raise FormatError(f"indices of {relation} must be nodes of {relation[0]}: the graph's files are damaged")
            numbers = self._numbers[relation[0]]
            numbers.make_room(positions.size)
            places = scratch.take("places", positions.size, np.int32)
            numbers.number(sources, places)
            self._budget[relation[0]] = _grown(self._budget[relation[0]], numbers.count)
            add_shares(ends, places, self._budget[relation[0]])

    def draw(self, kind: str, count: int, base: np.uint64) -> Ints:
        """At most `count` nodes that have a budget, in the order drawn, which then count as sampled."""
        ids, budget = self._numbers[kind].seen(), self._budget[kind]
        times = np.empty(ids.size, np.float64)
        alive = race(base, ids, budget, times)
        count = min(count, alive)
        if count == 0:
            return np.empty(0, np.int64)
        places = np.argpartition(times, count - 1)[:count] if count < times.size else np.arange(times.size)
        places = places[np.lexsort((ids[places], times[places]))]
        budget[places] = -1.0
        drawn: Ints = ids[places]
        return drawn


def _grown(budget: Floats, size: int) -> Floats:
    """With zeros for the nodes numbered since."""
    if size <= budget.size:
        return budget
    grown = np.zeros(size, np.float64)
    grown[: budget.size] = budget
    return grown


@kernel
def add_shares(ends: Ints, places: Ints, budget: Floats) -> None:
    """Give each source 1 / degree of its destination.

    Args:
        ends: int32 [destinations + 1], all edges of each.
        places: int32 [edges], numbers of the sources.
        budget: float64, by number; those below zero are left alone; raised.
    """
    for i in range(ends.size - 1):
        degree = ends[i + 1] - ends[i]
        for e in range(ends[i], ends[i + 1]):
            if budget[places[e]] >= 0.0:
                budget[places[e]] += 1.0 / degree


@kernel
def race(base: np.uint64, ids: Ints, budget: Floats, times: Floats) -> int:
    """When each candidate arrives, -log(u) / budget^2: the first k are k draws without replacement, one after the other.

    Efraimidis and Spirakis, 2006, "Weighted random sampling with a reservoir", algorithm A-Res.

    Args:
        base: the stream of (seed, epoch, step, hop, type).
        ids: int64 [candidates].
        budget: float64 [candidates]; those of 0 or less never arrive.
        times: float64 [candidates], filled.

    Returns:
        how many arrive.
    """
    alive = 0
    for i in range(ids.size):
        times[i] = np.inf
        if budget[i] > 0.0:
            times[i] = -np.log(unit(node_key(base, ids[i]), 0)) / (budget[i] * budget[i])
            alive += 1
    return alive
