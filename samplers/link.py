"""`LinkSampler`: mini-batches around seed edges and their negatives, for link prediction."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import FormatError, SeedError, SpecError
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.edges import Values
from gnnhet.samplers.exclusion import ExcludedPairs
from gnnhet.samplers.negatives import NegativeSampler
from gnnhet.samplers.neighbor import Fanouts, NeighborSampler
from gnnhet.storage.graph import Graph

Edges = npt.ArrayLike | Tensor | tuple[Any, Any]
Ids = npt.NDArray[np.int64]
Times = npt.NDArray[Any]

EXCLUDE = ("none", "seeds", "seeds_and_reverse")


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkBatch:
    """A part of a step's edges with their negatives, and the mini-batch that embeds their ends.

    The ends of all pairs, each once, are the seeds of the mini-batch: those of a type are the first destinations of that
    type in its last block. `edge_label_index`, `src_index`, `dst_pos_index` and `dst_neg_index` are places among them.

    Attributes:
        batch: the MiniBatch; its `seeds` and `seed_type` are those of the relation's source type. Where trees are disjoint
            they are numbered as `seeds_of`, the source type's first.
        relation: of the edges.
        seeds_of: int64 [seeds] of the source type and of the destination type, global ids; one entry where they are one
            type. Ascending, and by time where the sampler has `time`: an end then stands once a time.
        positions: int64 [n], where the positive edges stand in the relation, or None where they were given by their ends.
        places: int64 [n], which of a loader's edges they are, to look up labels of one's own by; None without a loader.
        edge_label_index: int64 [2, pairs], places of sources and destinations: positives first, then negatives, those of
            the first positive first; None with triplets.
        edge_label: float32 [pairs], 1 of a positive and 0 of a negative; None with triplets.
        src_index: int64 [n], places of the positives' sources; None but with triplets.
        dst_pos_index: int64 [n], places of their destinations.
        dst_neg_index: int64 [n, amount], places of the negative destinations.
        num_examples: pairs (with triplets: positives) of the whole step: what a summed loss is divided by.
    """

    batch: MiniBatch
    relation: Relation
    seeds_of: Mapping[str, Tensor]
    positions: Tensor | None = None
    places: Tensor | None = None
    edge_label_index: Tensor | None = None
    edge_label: Tensor | None = None
    src_index: Tensor | None = None
    dst_pos_index: Tensor | None = None
    dst_neg_index: Tensor | None = None
    num_examples: int = 0

    @property
    def epoch(self) -> int:
        """From 0."""
        return self.batch.epoch

    @property
    def step(self) -> int:
        """From 0 in each epoch."""
        return self.batch.step

    def to(self, device: torch.device | str) -> "LinkBatch":
        """The batch on another device. The copies are done when it returns."""
        there = {f.name: _moved(getattr(self, f.name), torch.device(device)) for f in fields(self)}
        return replace(self, **there)


class LinkSampler:
    """Samples around seed edges of one relation: both ends of each edge and of each negative are seeds.

    Negatives are those of `NegativeSampler`, neighbours those of `NeighborSampler`: both are the same for any batch, part of
    a step, thread or device.

    With `exclude`, the edges of the whole step are in none of its blocks, so that no model can read from the graph what it
    is to predict: whichever rank draws, at every layer, each destination draws by the same law from its row without the
    step's edges. All parallel edges of a pair are excluded with it.

    Attributes:
        graph: what is sampled from.
        relation: of the seed edges.
        exclude: what no block holds.
        seed: of all draws.
        mode: of the negatives, or None.
        neighbors: the NeighborSampler.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        relation: Relation | None = None,
        *,
        negatives: str = "uniform",
        mode: str | None = "binary",
        amount: float = 1.0,
        corrupt: str | None = None,
        strict: bool = False,
        alpha: float = 0.75,
        exclude: str = "none",
        reverse_of: Mapping[Relation, Relation] | None = None,
        seed: int = 0,
        time: Values | None = None,
        **options: Any,
    ) -> None:
        """Check the options.

        Args:
            graph: what to sample from.
            fanouts: as of `NeighborSampler`.
            relation: of the seed edges; may be left out where there is one.
            negatives: the law, of `negatives.NEGATIVE_LAWS`.
            mode: `binary`, `triplet`, or None for no negatives.
            amount: negatives an edge, as of `NegativeSampler`.
            corrupt: as of `NegativeSampler`.
            strict: as of `NegativeSampler`.
            alpha: as of `NegativeSampler`.
            exclude: what no block holds: `none`, `seeds` for the step's own edges, `seeds_and_reverse` for the edges from
                their destinations to their sources too.
            reverse_of: the relation that holds the reverse of another's edges; not needed for a homogeneous graph.
            seed: of all draws.
            time: as of `NeighborSampler`: both ends of an edge, and of its negatives, see what is there at the edge's time.
            options: others of `NeighborSampler`.

        Raises:
            SpecError: an unknown name, options that exclude each other, or a reverse relation that is none.
            GraphError: no such relation.
        """
        if relation is None:
            if len(graph.relations) != 1:
                raise SpecError(f"relation must name the seed edges' own, one of {graph.relations}, got None")
            relation = graph.relations[0]
        if exclude not in EXCLUDE:
            raise SpecError(f"exclude must be one of {', '.join(EXCLUDE)}, got {exclude!r}")
        self.graph, self.relation, self.exclude, self.seed, self.mode = graph, relation, exclude, seed, mode
        self._part = graph.part(relation)
        self._reverse = reverse_relation(graph, relation, reverse_of) if exclude == "seeds_and_reverse" else None
        self._negatives = (
            None
            if mode is None
            else NegativeSampler(graph, relation, negatives, mode, amount, corrupt=corrupt, strict=strict, alpha=alpha, seed=seed)
        )
        self._time = time
        self.neighbors = NeighborSampler(graph, fanouts, time=time, seed=seed, **options)

    def sample(
        self,
        edges: Edges,
        epoch: int = 0,
        step: int = 0,
        *,
        seed_time: npt.ArrayLike | Tensor | None = None,
        offset: int = 0,
        whole: Edges | None = None,
    ) -> LinkBatch:
        """The batch of some of a step's edges.

        Args:
            edges: integers, shape [n], places of edges in the relation's stored order; or (sources, destinations), a pair
                of arrays or one array of shape [2, n], of edges that need not be in the graph.
            epoch: part of the key.
            step: part of the key.
            seed_time: numbers, shape [n], where the sampler has `time`. By default the edges' own, where they are known: an
                edge then sees itself unless it is excluded.
            offset: the place of the first edge in the whole step.
            whole: all edges of the step, where `edges` are only those from `offset` on; in either form.

        Returns:
            a LinkBatch without features.

        Raises:
            SeedError: edges or times that do not fit, or that are not the whole step's.
            GraphError: a strict negative was not found.
            FormatError: the graph's arrays are damaged.
        """
        src, dst, positions = self.resolve_edges(edges)
        all_src, all_dst = (src, dst) if whole is None else self.resolve_edges(whole)[:2]
        if whole is None and offset and self.exclude != "none":
            raise SeedError("whole must be given with an offset and `exclude`: every part of a step excludes all of its edges")
        own = slice(offset, offset + src.size)
        if whole is not None and not (np.array_equal(all_src[own], src) and np.array_equal(all_dst[own], dst)):
            raise SeedError(f"edges must be those of the whole step from place {offset} on, got others")
        times = self._times(src, positions, seed_time)
        count = int(all_src.size if whole is not None else src.size)
        if self._negatives is None:
            owners, negative_src, negative_dst = (np.empty(0, np.int64),) * 3
        else:
            drawn = self._negatives.draw(src, dst, epoch, step, offset)
            owners, negative_src, negative_dst = drawn.owners, drawn.src, drawn.dst
            if self.mode == "binary":
                count += int(self._negatives.counts(count).sum())
        if self.mode == "triplet":
            negative_src = negative_src[:0]
        ends = (np.concatenate([src, negative_src]), np.concatenate([dst, negative_dst]))
        moments = None if times is None else np.concatenate([times, times[owners]])
        seeds, places, limits = self._seeds(ends, moments)
        batch = self.neighbors.grow(seeds, epoch, step, limits=limits, excluded=self._excluded(all_src, all_dst))
        found = {node_type: torch.from_numpy(ids) for node_type, ids in seeds.items()}
        return LinkBatch(
            batch=batch,
            relation=self.relation,
            seeds_of=found,
            positions=None if positions is None else torch.from_numpy(positions),
            num_examples=count,
            **self._labels(src.size, *places),
        )

    def resolve_edges(self, edges: Edges) -> tuple[Ids, Ids, Ids | None]:
        """(sources, destinations, places or None) as int64, checked.

        Raises:
            SeedError: not edges of the relation, or ends that are not nodes.
            FormatError: the graph's arrays are damaged.
        """
        if isinstance(edges, tuple):
            if len(edges) != 2:
                raise SeedError(f"edges must be places, or (sources, destinations), got a tuple of {len(edges)}")
            ends = [np.asarray(part) for part in edges]
        else:
            given = np.asarray(edges)
            if given.ndim == 1:
                return self._ends(_as_ids(given, self._part.num_edges, f"places of edges of {self.relation}"))
            ends = list(given) if given.ndim == 2 else [given]
        if len(ends) != 2 or ends[0].shape != ends[1].shape:
            raise SeedError(f"edges must be places, or two arrays of one length, got shapes {[part.shape for part in ends]}")
        types = (self.relation[0], self.relation[2])
        src, dst = (_as_ids(part, self.graph.num_nodes[t], f"ids of {t} nodes") for part, t in zip(ends, types, strict=True))
        return src, dst, None

    def _ends(self, positions: Ids) -> tuple[Ids, Ids, Ids]:
        """The ends of edges given by their places."""
        src: Ids = self._part.indices[positions].astype(np.int64)
        dst = np.searchsorted(self._part.indptr, positions, side="right") - 1
        counts = (self.graph.num_nodes[self.relation[0]], self.graph.num_nodes[self.relation[2]])
        for ids, count in zip((src, dst), counts, strict=True):
            if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
                raise FormatError(f"edges of {self.relation} must join nodes: the graph's files are damaged; verify it")
        return src, dst.astype(np.int64, copy=False), positions

    def _times(self, src: Ids, positions: Ids | None, seed_time: npt.ArrayLike | Tensor | None) -> Times | None:
        """The time of each edge, where the sampler has `time`."""
        if self._time is not None and seed_time is None:
            given: Any = self._time.get(self.relation) if isinstance(self._time, Mapping) else self._time
            if isinstance(given, str):
                features = self.graph.features
                if not features.has(self.relation, given) and features.has(self.relation[0], given):
                    seed_time = features.array(self.relation[0], given)[src]  # as the edges of the graph: their source's
                given = features.array(self.relation, given) if features.has(self.relation, given) else None
            if given is not None and positions is not None:
                seed_time = np.asarray(given)[positions]
            if seed_time is None:
                raise SeedError(
                    f"seed_time must be given: the sampler's `time` does not say when these {self.relation} edges are"
                )
        times = self.neighbors.resolve_times(src.size, seed_time)
        return None if times is None else times + 0  # -0.0 is 0.0, here as in a tree's key

    def _seeds(
        self, ends: tuple[Ids, Ids], times: Times | None
    ) -> tuple[dict[str, Ids], tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]], Times | None]:
        """(seeds by type, places of sources and destinations among them, times of all seeds).

        Args:
            ends: sources and destinations of all pairs: the sources may be fewer.
            times: of the pairs, or None.
        """
        at = [None if times is None else times[: part.size] for part in ends]
        source, _, destination = self.relation
        if source == destination:
            both = None if times is None else np.concatenate([times[: part.size] for part in ends])
            ids, moments, places = _unique(np.concatenate(ends), both)
            return {source: ids}, (places[: ends[0].size], places[ends[0].size :]), moments
        src, src_times, src_places = _unique(ends[0], at[0])
        dst, dst_times, dst_places = _unique(ends[1], at[1])
        limits = None if src_times is None or dst_times is None else np.concatenate([src_times, dst_times])
        return {source: src, destination: dst}, (src_places, dst_places), limits

    def _excluded(self, src: Ids, dst: Ids) -> dict[Relation, ExcludedPairs]:
        """By relation what no block may hold."""
        if self.exclude == "none" or not src.size:
            return {}
        if self._reverse == self.relation:
            return {self.relation: ExcludedPairs(np.concatenate([src, dst]), np.concatenate([dst, src]))}
        found = {self.relation: ExcludedPairs(src, dst)}
        if self._reverse is not None:
            found[self._reverse] = ExcludedPairs(dst, src)
        return found

    def _labels(self, count: int, src: npt.NDArray[np.intp], dst: npt.NDArray[np.intp]) -> dict[str, Tensor]:
        """What a LinkBatch says of its `count` positives and their negatives, from the places of all ends."""
        if self.mode == "triplet" and self._negatives is not None:
            amount = self._negatives.ratio.numerator
            positive, negative = torch.from_numpy(dst[:count]), torch.from_numpy(dst[count:]).view(count, amount)
            return {"src_index": torch.from_numpy(src), "dst_pos_index": positive, "dst_neg_index": negative}
        label = torch.zeros(src.size)
        label[:count] = 1
        return {"edge_label_index": torch.from_numpy(np.stack([src, dst])), "edge_label": label}


def reverse_relation(graph: Graph, relation: Relation, reverse_of: Mapping[Relation, Relation] | None) -> Relation:
    """The relation that holds the reverse of a relation's edges; of a homogeneous graph the one it has.

    Raises:
        SpecError: it is not said, not a relation of the graph, or joins other types.
    """
    found = dict(reverse_of or {}).get(relation, relation if graph.homogeneous else None)
    if found is None:
        raise SpecError(f"reverse_of must name the relation of the reverse edges of {relation}, got {dict(reverse_of or {})}")
    if found not in graph.relations or (found[0], found[2]) != (relation[2], relation[0]):
        raise SpecError(f"reverse_of {relation} must be a relation of the graph from {relation[2]} to {relation[0]}, got {found}")
    return found


def _as_ids(given: npt.NDArray[Any], count: int, what: str) -> Ids:
    """`given` as int64, checked to be integers of 0..count-1 on one axis."""
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise SeedError(f"edges must be given by integers on one axis, got {given.dtype} of shape {given.shape}")
    if given.size and (int(given.min()) < 0 or int(given.max()) >= count):
        bad = int(given.min()) if int(given.min()) < 0 else int(given.max())
        raise SeedError(f"edges must be given by {what}, 0..{count - 1}, got {bad}")
    return np.ascontiguousarray(given, dtype=np.int64)


def _unique(ids: Ids, times: Times | None) -> tuple[Ids, Times | None, npt.NDArray[np.intp]]:
    """(ids, times, places): every id, or every id and time, once, in ascending order; and where each of the given stands."""
    if times is None:
        once, places = np.unique(ids, return_inverse=True)
        return once, None, places
    order = np.lexsort((times, ids))
    sorted_ids, sorted_times = ids[order], times[order]
    new = np.ones(ids.size, np.bool_)
    new[1:] = (sorted_ids[1:] != sorted_ids[:-1]) | (sorted_times[1:] != sorted_times[:-1])
    places = np.empty(ids.size, np.intp)
    places[order] = np.cumsum(new) - 1
    return sorted_ids[new], sorted_times[new], places


def _moved(value: Any, device: torch.device) -> Any:
    """`value` on another device where it is a tensor, a MiniBatch or a dict of tensors."""
    if isinstance(value, Tensor | MiniBatch):
        return value.to(device)
    return {key: item.to(device) for key, item in value.items()} if isinstance(value, Mapping) else value
