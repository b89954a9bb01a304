"""Which rows a cache should hold: policies that score the nodes, and the choice under a budget of bytes.

Sampling is a function of (seed, epoch, step), so what the next batches will ask for can be known by drawing it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import psutil
import torch

from gnnhet.datasets.raw import Relation
from gnnhet.errors import SpecError
from gnnhet.jit import frozen, kernel, prefetch
from gnnhet.samplers.gathering import Tiers
from gnnhet.storage.csc import Csc
from gnnhet.storage.graph import Graph

SLOT_BYTES = 4  # a node, of the table of where rows are held
_AHEAD = 32  # entries on their way from memory while one is read
_GLANCE = 1 << 30  # edges looked at for how often nodes are sources: 64 M of a billion left a cache 3 points of hits behind
_WALKED = 1 << 28  # edges up to which `inclusion` takes a few seconds; above it counts of sources have to do
_STRETCH = 1 << 20  # of them next to each other
_GROUPS = 8  # of nodes, each time twice as much is expected of them
_LEAST = np.float32(2.0**-30)  # that is expected of any node
NEVER = -1

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


def rows_to_hold(
    graph: Graph,
    tiers: Tiers,
    row_bytes: Mapping[str, int],
    steps: Callable[[], Iterator[dict[str, Ids]]],
    inclusion_of: Callable[[], dict[str, Scores] | None],
) -> dict[str, Ids]:
    """The rows that a policy would hold.

    Args:
        graph: what is sampled.
        tiers: the policy and its budget.
        row_bytes: per node type that is to be cached.
        steps: makes the next steps: per node type the ids asked for, each once.
        inclusion_of: makes the scores of the policy `inclusion`; None where steps are not of its kind.

    Returns:
        per node type int64 ids, ascending.

    Raises:
        SpecError: the budget does not fit into free memory, or the policy is not of this graph.
    """

    def chosen(scores: Mapping[str, Scores]) -> dict[str, Ids]:
        return choose({t: scores[t] for t in row_bytes}, row_bytes, tiers.cache_bytes)

    if tiers.policy == "degree":
        held = chosen(degree(graph))
    else:
        asked_for = tiers.policy == "inclusion"
        expected = inclusion_of() if asked_for or sum(graph.num_edges.values()) <= _WALKED else None
        if asked_for and expected is None:
            raise SpecError("inclusion is of seeds that are nodes and draw by fanouts, got another loader: take presampled")
        expected = sources(graph) if expected is None else expected
        coming = list(steps()) if tiers.policy == "belady" else steps()
        held = chosen(expected if asked_for else presampled(coming, expected))
        if isinstance(coming, list):
            held = chosen(belady(coming, {t: ids.size for t, ids in held.items()}, expected))
    needed, free = sum(ids.size * row_bytes[t] for t, ids in held.items()), psutil.virtual_memory().available
    if needed > free and torch.device(tiers.device).type == "cpu":
        raise SpecError(f"a cache must fit into free memory, {free >> 20:,} MiB, got {needed >> 20:,} MiB: lower it")
    return held


def choose(scores: Mapping[str, Scores], row_bytes: Mapping[str, int], budget: int) -> dict[str, Ids]:
    """Rows of the most score a byte that fit.

    Args:
        scores: per node type float32 [nodes], 0 or more.
        row_bytes: of each node type.
        budget: bytes, of rows and of `SLOT_BYTES` a node of every type.

    Returns:
        per node type int64 ids, ascending; types without any are left out. Among equals the first.
    """
    budget -= sum(SLOT_BYTES * found.size for found in scores.values())
    worth = {t: frozen((found / np.float32(row_bytes[t])).astype(np.float32, copy=False)) for t, found in scores.items()}
    bits = {t: found.view(np.uint32) for t, found in worth.items()}  # numbers of 0 or more are ordered as their bits

    def size(above: int) -> int:
        return sum(int(np.count_nonzero(found > np.uint32(above))) * row_bytes[t] for t, found in bits.items())

    low, high = -1, 2**32 - 1  # all that are above `high` fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if size(middle) <= budget else (middle, high)
    left = budget - size(high)
    chosen = {}
    for node_type, found in bits.items():
        equals = np.flatnonzero(found == np.uint32(high))[: max(left, 0) // row_bytes[node_type]]
        left -= equals.size * row_bytes[node_type]
        held = found > np.uint32(high)
        held[equals] = True
        if (ids := np.flatnonzero(held)).size:
            chosen[node_type] = ids
    return chosen


def presampled(steps: Iterable[Mapping[str, Ids]], expected: Mapping[str, Scores]) -> dict[str, Scores]:
    """How often steps like these ask for each node.

    A few steps say little of a node that they asked for once or never; what is known of it beforehand says more. So each node's
    count is drawn towards what is expected of it, in the scale of its group: nodes of which about equally much is expected. The
    draw is the stronger the less the counts of the group differ from that beyond chance (empirical Bayes, counts that are
    Poisson with rates that are Gamma: Robbins, 1956).

    Args:
        steps: per step and node type the ids asked for, each once.
        expected: per node type float32 [nodes], 0 or more, about in proportion: `inclusion` or `sources`.

    Returns:
        per node type float32 [nodes].
    """
    counts = {t: np.zeros(rates.size, np.int32) for t, rates in expected.items()}
    for ids_of in steps:
        for node_type, ids in ids_of.items():
            _count(frozen(ids), counts[node_type])
    scores = {}
    for node_type, times in counts.items():
        found, rates = times.astype(np.float32), np.maximum(expected[node_type], _LEAST)
        group = (np.log2(rates / _LEAST) * np.float32(_GROUPS)).astype(np.int16)
        size = np.maximum(np.bincount(group), 1)
        total = np.bincount(group, found)
        scale = (total / np.maximum(np.bincount(group, rates), _LEAST)).astype(np.float32)
        middle = rates * scale[group]
        mean = total / size
        spread = np.maximum(np.bincount(group, (found - middle) ** 2) / size - mean, 0)
        trust = (spread / np.maximum(spread + mean, 1e-30)).astype(np.float32)  # in a count, against what is expected
        scores[node_type] = middle + trust[group] * (found - middle)
    return scores


def belady(steps: Sequence[Mapping[str, Ids]], capacity: Mapping[str, int], expected: Mapping[str, Scores]) -> dict[str, Scores]:
    """How often the cache that knows the steps to come would have held each node when it was asked for.

    That cache drops the row whose next use is farthest (Belady, 1966, MIN), or does not take a row in.

    Args:
        steps: per step and node type the ids asked for, each once.
        capacity: rows of the cache, per node type.
        expected: per node type float32 [nodes], 0 or more.

    Returns:
        per node type float32 [nodes]; among equals those of which more is expected are more.
    """
    scores = {t: np.zeros(rates.size, np.float32) for t, rates in expected.items()}
    for node_type, rows in capacity.items():
        asked = [ids_of.get(node_type, np.empty(0, np.int64)) for ids_of in steps]
        rates = expected[node_type]
        clairvoyant(asked, rates.size, rows, scores[node_type])
        scores[node_type] += rates / (rates.max(initial=0) * np.float32(1.001) + _LEAST)
    return scores


def clairvoyant(steps: Sequence[Ids], count: int, capacity: int, hits_of: Scores | None = None) -> Ids:
    """Hits of the cache that knows the steps to come (Belady, 1966, MIN, with rows that are not taken in).

    Args:
        steps: int64 ids asked for, each once a step.
        count: of all rows.
        capacity: rows of the cache, which is empty at first.
        hits_of: float32 [count], to which each row's hits are added.

    Returns:
        int64 [steps], hits of each step.
    """
    bounds = np.cumsum([0, *(ids.size for ids in steps)])
    every = np.concatenate([np.empty(0, np.int64), *steps])
    uses = np.empty(every.size, np.int32)
    _next_uses(frozen(bounds), frozen(every), np.full(count, len(steps), np.int32), uses)
    hits = np.zeros(len(steps), np.int64)
    of = np.zeros(count, np.float32) if hits_of is None else hits_of
    state = np.full((3, count), NEVER, np.int32)
    heads = np.full(len(steps) + 1, NEVER, np.int32)
    _farthest(frozen(bounds), frozen(every), frozen(uses), capacity, state[0], state[1], state[2], heads, hits, of)
    return hits


def inclusion(
    graph: Graph, fanouts: Mapping[Relation, Sequence[int]], seed_type: str, seeds: Ids, batch_size: int
) -> dict[str, Scores]:
    """How probably a batch asks for each node, from the fanouts alone (Kaler et al., SALIENT++, 2023, section 4.2).

    A layer's destinations are all nodes so far, each drawing anew: p_h(u) = 1 - (1 - p_{h-1}(u)) prod over v that u points to
    of (1 - p_{h-1}(v) min(1, fanout / degree of v)), in every relation.

    Args:
        graph: what is sampled.
        fanouts: per relation neighbours drawn a layer, the seeds' own first; -1 takes all.
        seed_type: of the seeds.
        seeds: int64, what batches are drawn from.
        batch_size: of them.
    """
    logs = {t: np.zeros(count, np.float32) for t, count in graph.num_nodes.items()}  # -log of not being in a batch
    with np.errstate(divide="ignore"):  # of certainly being in one: infinite
        logs[seed_type][seeds] = -np.log1p(-np.float32(min(batch_size / max(seeds.size, 1), 1)))
    for layer in range(max(map(len, fanouts.values()), default=0)):
        before = {t: frozen(found.copy()) for t, found in logs.items()}
        for relation, counts in fanouts.items():
            part = graph.part(relation)
            _spread(frozen(part.indptr), frozen(part.indices), counts[layer], before[relation[2]], logs[relation[0]])
    return {t: -np.expm1(-found) for t, found in logs.items()}


def degree(graph: Graph) -> dict[str, Scores]:
    """Edges into each node; 1 for each at least, so that any row is worth something."""
    scores = {t: np.ones(count, np.float32) for t, count in graph.num_nodes.items()}
    for relation in graph.relations:
        scores[relation[2]] += np.diff(graph.part(relation).indptr).astype(np.float32)
    return scores


def sources(graph: Graph) -> dict[str, Scores]:
    """How often each node is a source, in all edges or an even part of them, and 1."""
    often = {t: np.ones(count, np.int32) for t, count in graph.num_nodes.items()}
    for node_type, counts in often.items():
        parts = [graph.part(relation) for relation in graph.relations if relation[0] == node_type]
        edges = sum(part.num_edges for part in parts)
        for part in parts:
            for piece in _glance(part, _GLANCE * part.num_edges // max(edges, 1)):
                _count(frozen(piece), counts)
    return {t: counts.astype(np.float32) for t, counts in often.items()}


def _glance(part: Csc, most: int) -> Iterator[npt.NDArray[np.integer]]:
    """Stretches of sources, evenly over a relation's edges."""
    stretches = max(-(-min(most, part.num_edges) // _STRETCH), 1)
    for first in np.linspace(0, max(part.num_edges - _STRETCH, 0), stretches).astype(np.int64):
        yield part.indices[first : first + _STRETCH]


@kernel
def _count(ids: npt.NDArray[np.integer], counts: npt.NDArray[np.int32]) -> None:
    """counts[ids] += 1; an id that is none is passed over."""
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(counts, ids[min(i + _AHEAD, last)])
        if 0 <= ids[i] < counts.size:
            counts[ids[i]] += 1


@kernel
def _next_uses(bounds: Ids, every: Ids, later: npt.NDArray[np.int32], uses: npt.NDArray[np.int32]) -> None:
    """The step of the next use of each id that is asked for, or the count of steps.

    Args:
        bounds: int64 [steps + 1], where each step's ids begin in `every`.
        every: int64 [n].
        later: int32 [rows], the count of steps, overwritten.
        uses: int32 [n], filled.
    """
    for step in range(bounds.size - 2, -1, -1):
        for i in range(bounds[step], bounds[step + 1]):
            uses[i] = later[every[i]]
            later[every[i]] = step


@kernel
def _farthest(
    bounds: Ids,
    every: Ids,
    uses: npt.NDArray[np.int32],
    capacity: int,
    due: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    before: npt.NDArray[np.int32],
    heads: npt.NDArray[np.int32],
    hits: Ids,
    hits_of: Scores,
) -> None:
    """Run MIN: rows that are held hang in a list by the step of their next use.

    Args:
        bounds: int64 [steps + 1], where each step's ids begin in `every`.
        every: int64 [n].
        uses: int32 [n], from `_next_uses`.
        capacity: rows held at most.
        due: int32 [rows], NEVER at first: the next use of a row that is held.
        after: int32 [rows], next row of the same list.
        before: int32 [rows], the one before.
        heads: int32 [steps + 1], NEVER at first: each list's first row.
        hits: int64 [steps], added to.
        hits_of: float32 [rows], added to.
    """
    held, top, steps = 0, 0, bounds.size - 1
    for step in range(steps):
        for i in range(bounds[step], bounds[step + 1]):
            row = every[i]
            if due[row] != NEVER:  # held: it leaves its list and may come back below
                hits[step] += 1
                hits_of[row] += 1
                if before[row] == NEVER:
                    heads[due[row]] = after[row]
                else:
                    after[before[row]] = after[row]
                if after[row] != NEVER:
                    before[after[row]] = before[row]
                due[row] = NEVER
                held -= 1
        for i in range(bounds[step], bounds[step + 1]):
            row, use = every[i], uses[i]
            if use == steps or capacity == 0:
                continue
            while top > 0 and heads[top] == NEVER:
                top -= 1
            if held == capacity:
                if top <= use:
                    continue
                out = heads[top]  # the farthest makes room
                heads[top] = after[out]
                if after[out] != NEVER:
                    before[after[out]] = NEVER
                due[out] = NEVER
                held -= 1
            due[row], after[row], before[row] = use, heads[use], NEVER
            if heads[use] != NEVER:
                before[heads[use]] = row
            heads[use] = row
            held += 1
            top = max(top, use)


@kernel
def _spread(indptr: npt.NDArray[np.integer], indices: npt.NDArray[np.integer], fanout: int, before: Scores, logs: Scores) -> None:
    """One relation in a layer of `inclusion`: logs[u] -= log(1 - p(v) min(1, fanout / degree of v)), every edge from u to v."""
    for v in range(indptr.size - 1):
        first, last = indptr[v], indptr[v + 1]
        if last > first and before[v] > 0:
            part = 1.0 if fanout < 0 else min(1.0, fanout / (last - first))
            more = np.float32(-np.log1p(np.expm1(-np.float64(before[v])) * part))
            for e in range(first, last):
                prefetch(logs, indices[min(e + _AHEAD, indices.size - 1)])
                logs[indices[e]] += more
