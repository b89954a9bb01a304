"""`NeighborSampler`: neighbour sampling into layered blocks, under any of the laws of `laws.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import SeedError, SpecError
from gnnhet.samplers import rows
from gnnhet.samplers.batch import Block, MiniBatch
from gnnhet.samplers.buffers import BufferPool, Spares
from gnnhet.samplers.edges import Values, edges_of
from gnnhet.samplers.exclusion import ExcludedPairs
from gnnhet.samplers.expand import MAP_BUDGET_BYTES, Drawn, Expansion, Hop, Trees
from gnnhet.samplers.laws import LAWS
from gnnhet.samplers.rng import ANY_LAYER, TREES, stream
from gnnhet.storage.graph import Graph

Fanouts = Sequence[int] | Mapping[Relation, Sequence[int]]
Seeds = npt.ArrayLike | Tensor | tuple[str, Any]
Ints = npt.NDArray[Any]


class NeighborSampler:
    """Draws each node's neighbours, layer by layer (Hamilton, Ying, Leskovec, 2017, algorithm 2).

    Every layer samples a block of its own for all its destinations, seeds included. What is drawn for a node is a
    function of (seed, epoch, step, layer, relation, node) alone: the same for any batch it stands in, any thread, any
    device. Without replacement a node with no more neighbours than the fanout keeps all, in stored order. The laws, with
    their sources, are the functions of `laws.LAWS`.

    A seed given twice keeps both places among the destinations, with the same draws.

    With `time`, a seed sees no edge later than its own time, at any depth, and grows a tree of its own: a node stands once
    a tree. With `disjoint` it grows a tree without any time. A tree's draws depend on its seed's id and time too.

    `sample` may be called from several threads at once; each needs a map of 4 bytes a node.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        replace: bool = False,
        weight: Values | None = None,
        time: Values | None = None,
        seed: int = 0,
        *,
        method: str = "uniform",
        strategy: str = "uniform",
        disjoint: bool = False,
        dependent_layers: bool = False,
        with_degrees: bool = False,
        with_edge_ids: bool = False,
        pool: BufferPool | None = None,
        map_budget_bytes: int = MAP_BUDGET_BYTES,
    ) -> None:
        """Check the options, the weights and the times.

        Args:
            graph: what to sample from.
            fanouts: neighbours a node draws, the seeds' own first; -1 takes all. One list for every relation, or a list
                a relation.
            replace: draw with replacement: exactly the fanout of each node that has neighbours.
            weight: draw in proportion to a number of 0 or more an edge: a relation feature's name, an array in stored
                order of edges, or arrays by relation.
            time: edges are there from this time on: a relation feature's name or a node feature's (an edge then has its
                source's time), or arrays as for `weight`.
            seed: of all draws.
            method: `uniform`, or `labor` for LABOR-0.
            strategy: of temporal sampling: `uniform` among the edges a seed sees, or `last` for the latest ones.
            disjoint: every seed grows a tree of its own.
            dependent_layers: leave the layer out of the key: a node has one list of neighbours through all layers, and a
                smaller fanout takes its beginning (with weights, its lightest part by the same keys).
            with_degrees: put the graph's degrees of all sources into the blocks.
            with_edge_ids: put the drawn edges' ids into the blocks.
            pool: where the memory of batches comes from; by default one of the sampler's own.
            map_budget_bytes: of one node type's dense map, a thread; beyond, a hash table is used.

        Raises:
            SpecError: a fanout that is neither -1 nor positive, lists of different lengths, a relation without one,
                an unknown method or strategy, options that exclude each other, or weights or times that do not fit.
        """
        self.graph = graph
        self.fanouts = check_fanouts(fanouts, graph.relations)
        self.num_layers = len(next(iter(self.fanouts.values()), ()))
        self.replace, self.seed, self.dependent_layers = replace, seed, dependent_layers
        self.with_degrees, self.with_edge_ids = with_degrees, with_edge_ids
        self.disjoint = disjoint or time is not None
        self.law = choose_law(method, replace=replace, weighted=weight is not None, nested=dependent_layers)
        if strategy not in ("uniform", "last"):
            raise SpecError(f"strategy must be uniform or last, got {strategy!r}")
        if strategy == "last" and (time is None or replace or weight is not None):
            raise SpecError("strategy `last` takes the latest edges: it needs `time`, and neither `replace` nor `weight`")
        self._law = LAWS[self.law]
        self._last_only = strategy == "last"
        self._time = time
        self._edges = edges_of(graph, weight, time, sums=replace)
        self._floating_time = any(edges.times is not None and edges.times.dtype.kind == "f" for edges in self._edges.values())
        self._pool = BufferPool() if pool is None else pool
        self._map_budget_bytes = map_budget_bytes
        self._expansions = Spares(self._new_expansion)

    def sample(
        self, seed_ids: Seeds, epoch: int = 0, step: int = 0, *, seed_time: npt.ArrayLike | Tensor | None = None
    ) -> MiniBatch:
        """The blocks of a batch of seeds.

        Args:
            seed_ids: integers, shape [seeds]; for a typed graph (node type, ids), or ids alone of the labelled type.
            epoch: part of the key.
            step: part of the key.
            seed_time: numbers, shape [seeds], where the sampler has `time`: what each seed may see. By default the seeds'
                own node feature of that name.

        Returns:
            a MiniBatch without features.

        Raises:
            SeedError: an id out of range, an unknown node type, or times that are missing or do not fit.
            FormatError: the graph's arrays are damaged.
        """
        seed_type, seeds = self.resolve_seeds(seed_ids)
        return self.grow({seed_type: seeds}, epoch, step, limits=self._limits(seed_type, seeds, seed_time))

    def grow(
        self,
        seeds: Mapping[str, npt.NDArray[np.int64]],
        epoch: int = 0,
        step: int = 0,
        *,
        limits: npt.NDArray[Any] | None = None,
        excluded: Mapping[Relation, ExcludedPairs] | None = None,
    ) -> MiniBatch:
        """The blocks of seeds of several node types; no argument is checked.

        Args:
            seeds: per node type int64 ids within range; the first type's are the batch's own `seeds`.
            epoch: part of the key.
            step: part of the key.
            limits: [all seeds], type by type, from `as_limits`, where the sampler has `time`.
            excluded: edges that are drawn at no layer.

        Returns:
            a MiniBatch without features; its trees are numbered type by type in the order of `seeds`.

        Raises:
            FormatError: the graph's arrays are damaged.
        """
        trees = grow_trees(self.seed, seeds, self.graph.node_types, limits) if self.disjoint else None
        with self._expansions.use() as expansion:
            expansion.begin(seeds, trees)
            layers = self._layers(expansion, epoch, step, excluded or {})
            first = next(iter(seeds))
            return self._batch(first, seeds[first], layers, expansion, epoch, step)

    def _new_expansion(self) -> Expansion:
        return Expansion(self.graph.num_nodes, self._edges, disjoint=self.disjoint, budget_bytes=self._map_budget_bytes)

    def _limits(self, seed_type: str, seeds: Ints, seed_time: npt.ArrayLike | Tensor | None) -> Ints | None:
        """What each seed may see, where the sampler has `time`."""
        if self._time is not None and seed_time is None:
            if not isinstance(self._time, str) or not self.graph.features.has(seed_type, self._time):
                raise SeedError(f"seed_time must be given: {seed_type} nodes have no feature that is the sampler's `time`")
            seed_time = self.graph.features.array(seed_type, self._time)[seeds]
        return self.resolve_times(seeds.size, seed_time)

    def resolve_times(self, count: int, seed_time: npt.ArrayLike | Tensor | None) -> Ints | None:
        """Seed times in the dtype of the edges' times, checked; None where the sampler has no `time`.

        Args:
            count: of the seeds.
            seed_time: numbers, shape [count], where the sampler has `time`.

        Raises:
            SeedError: times without `time`, or that do not fit the seeds.
        """
        if self._time is None:
            if seed_time is not None:
                raise SeedError("seed_time must come with a sampler that has `time`, got one without")
            return None
        limits = np.asarray(seed_time)
        if limits.shape != (count,) or limits.dtype.kind not in "biuf":
            raise SeedError(f"seed_time must be one number a seed, {count}, got {limits.dtype} of shape {limits.shape}")
        return as_limits(limits, self._floating_time)

    def resolve_seeds(self, seed_ids: Seeds) -> tuple[str, npt.NDArray[np.int64]]:
        """(node type, ids as int64), checked; a mask of all nodes of the type is taken as the ids it marks.

        Raises:
            SeedError: as `sample`.
        """
        if isinstance(seed_ids, tuple):
            seed_type, given = seed_ids
        else:
            given = seed_ids
            types = self.graph.node_types
            seed_type = types[0] if len(types) == 1 else self.graph.target_type
        if seed_type not in self.graph.num_nodes:
            raise SeedError(f"seeds must be of a node type of the graph ({', '.join(self.graph.node_types)}), got {seed_type!r}")
        ids = np.asarray(given)
        count = self.graph.num_nodes[seed_type]
        if ids.dtype == np.bool_ and ids.shape == (count,):
            ids = np.flatnonzero(ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise SeedError(f"seeds must be integers on one axis, got {ids.dtype} of shape {ids.shape}")
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
            bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise SeedError(f"seeds must be ids of {seed_type} nodes, 0..{count - 1}, got {bad}")
        return seed_type, np.ascontiguousarray(ids, dtype=np.int64)

    def _layers(
        self, expansion: Expansion, epoch: int, step: int, excluded: Mapping[Relation, ExcludedPairs]
    ) -> list[tuple[dict[Relation, Drawn], dict[str, int], dict[str, int]]]:
        """(edges, destinations of each type, sources of each type) of each layer, the seeds' own first."""
        layers = []
        everyone = dict.fromkeys(self.graph.node_types, 0)
        for layer in range(self.num_layers):
            hop = Hop(
                law=self._law,
                fanouts={relation: counts[layer] for relation, counts in self.fanouts.items()},
                key=(self.seed, epoch, step, ANY_LAYER if self.dependent_layers else layer),
                last_only=self._last_only,
                with_edge_ids=self.with_edge_ids,
                excluded=excluded,
            )
            num_dst = expansion.counts()
            edges = expansion.expand(hop, everyone, self._pool)
            layers.append((edges, num_dst, expansion.counts()))
        return layers

    def _batch(
        self,
        seed_type: str,
        seeds: npt.NDArray[np.int64],
        layers: list[tuple[dict[Relation, Drawn], dict[str, int], dict[str, int]]],
        expansion: Expansion,
        epoch: int,
        step: int,
    ) -> MiniBatch:
        """The batch as tensors; node lists of all layers are the first parts of one list."""
        inputs: dict[str, Tensor] = {}
        trees: dict[str, Tensor] = {}
        for node_type in self.graph.node_types:
            ids, tree = expansion.nodes(node_type)
            inputs[node_type] = self._own(ids)
            if tree is not None:
                trees[node_type] = self._own(tree)
        degrees = self._degrees(inputs) if self.with_degrees else {}
        blocks = [
            Block(
                indptr_of={relation: drawn.indptr for relation, drawn in edges.items()},
                indices_of={relation: drawn.indices for relation, drawn in edges.items()},
                edge_ids_of={relation: drawn.edge_ids for relation, drawn in edges.items() if drawn.edge_ids is not None},
                src_of={node_type: ids[: num_src[node_type]] for node_type, ids in inputs.items()},
                num_dst=num_dst,
                homogeneous=self.graph.homogeneous,
                degree_of={node_type: ids[: num_src[node_type]] for node_type, ids in degrees.items()},
            )
            for edges, num_dst, num_src in reversed(layers)
        ]
        return MiniBatch(
            seeds=torch.from_numpy(seeds),
            seed_type=seed_type,
            blocks=tuple(blocks),
            input_of=inputs,
            tree_of=trees,
            features={},
            seed=self.seed,
            epoch=epoch,
            step=step,
            homogeneous=self.graph.homogeneous,
        )

    def _own(self, ids: Ints) -> Tensor:
        """A copy in the batch's own memory."""
        copy = self._pool.take((ids.size,), torch.int64)
        copy.numpy()[:] = ids
        return copy

    def _degrees(self, nodes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Edges of the graph into each node, summed over relations."""
        found = {node_type: np.zeros(ids.numel(), np.int64) for node_type, ids in nodes.items()}
        for relation, edges in self._edges.items():
            rows.add_degrees(edges.indptr, nodes[relation[2]].numpy(), found[relation[2]])
        return {node_type: torch.from_numpy(counts) for node_type, counts in found.items()}


def check_fanouts(fanouts: Fanouts, relations: Sequence[Relation]) -> dict[Relation, tuple[int, ...]]:
    """One tuple of fanouts a relation.

    Raises:
        SpecError: a fanout that is neither -1 nor positive, lists of different lengths, or a relation without one.
    """
    if isinstance(fanouts, Mapping):
        if set(fanouts) != set(relations):
            raise SpecError(f"fanouts by relation must name each of {list(relations)}, got {list(fanouts)}")
        given = {relation: tuple(int(k) for k in fanouts[relation]) for relation in relations}
    else:
        given = dict.fromkeys(relations, tuple(int(k) for k in fanouts))
    if len({len(counts) for counts in given.values()}) > 1:
        raise SpecError("fanouts of all relations must have as many layers, got " + str({len(c) for c in given.values()}))
    for counts in given.values():
        for fanout in counts:
            if fanout < 1 and fanout != -1:
                raise SpecError(f"a fanout must be 1 or more, or -1 for all neighbours, got {fanout}")
    return given


def choose_law(method: str, *, replace: bool, weighted: bool, nested: bool) -> str:
    """The name in `LAWS` of what the options ask for.

    Raises:
        SpecError: an unknown method, or options that exclude each other.
    """
    if method == "labor":
        if replace or weighted:
            raise SpecError("labor draws each edge at most once and weighs all the same: leave out `replace` and `weight`")
        return "labor"
    if method != "uniform":
        raise SpecError(f"method must be uniform or labor, got {method!r}")
    if weighted:
        return "weighted_with_replacement" if replace else "weighted"
    if replace:
        return "with_replacement"
    return "nested" if nested else "uniform"


def as_limits(times: npt.NDArray[Any], floating: bool) -> npt.NDArray[Any]:
    """Seed times in the dtype of the edges' times, rounded down where those are integers.

    Raises:
        SeedError: a time is NaN.
    """
    if times.dtype.kind == "f" and bool(np.isnan(times).any()):
        raise SeedError("seed_time must be numbers, got NaN")
    if floating:
        return times.astype(np.float64)
    if times.dtype.kind == "f":
        times = np.clip(np.floor(times), -(2.0**63), 2.0**63 - 1024)
    return times.astype(np.int64, copy=False)


def grow_trees(seed: int, seeds: Mapping[str, Ints], node_types: Sequence[str], limits: npt.NDArray[Any] | None) -> Trees:
    """A tree for each seed, numbered type by type in the given order, keyed by the seed's type, id and time.

    Args:
        seed: of all draws.
        seeds: per node type int64 ids.
        node_types: of the graph.
        limits: [trees], times, or None.
    """
    total = sum(ids.size for ids in seeds.values())
    times = np.zeros(total, np.uint64) if limits is None else limits.view(np.uint64)
    keys = np.empty(total, np.uint64)
    of, first = {}, 0
    for node_type, ids in seeds.items():
        last = first + ids.size
        of[node_type] = np.arange(first, last)
        base = stream(seed, TREES, node_types.index(node_type))
        rows.fill_tree_keys(base, ids, of[node_type], times, keys[first:last])
        first = last
    return Trees(of=of, keys=keys, limits=limits)
