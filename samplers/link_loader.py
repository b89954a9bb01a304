"""`LinkLoader`: mini-batches of edges with negatives, made ahead by threads, handed out in strict order."""

from collections.abc import Sequence
from dataclasses import replace as with_changes
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.datasets.raw import Relation
from gnnhet.errors import SeedError, SpecError
from gnnhet.samplers.gathering import Tiers
from gnnhet.samplers.link import Edges, LinkBatch, LinkSampler
from gnnhet.samplers.loader import Loader, pool_of
from gnnhet.samplers.neighbor import Fanouts
from gnnhet.samplers.shares import share_bounds
from gnnhet.storage.graph import Graph


class LinkLoader(Loader[LinkBatch]):
    """Iterates over LinkBatches of an epoch; each `for` is the next epoch.

    Order, threads, memory, errors and positions are those of `NeighborLoader`: step k of epoch e is the same set of edges
    whatever the threads, ranks and shares.

    With `share`, a step's positive edges are divided over the ranks. Each rank draws the negatives that its edges have in
    any other division, and excludes the edges of the whole step.

    Attributes:
        links: the LinkSampler.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        batch_size: int,
        edges: Edges | None = None,
        relation: Relation | None = None,
        *,
        seed_time: npt.ArrayLike | Tensor | None = None,
        shuffle: bool = True,
        seed: int = 0,
        threads: int = 1,
        prefetch: int = 2,
        share: tuple[int, Sequence[float]] | None = None,
        features: Sequence[str] = ("x",),
        tiers: Tiers | None = None,
        pinned: bool | None = None,
        timeout_s: float = 600.0,
        **options: Any,
    ) -> None:
        """Check the options; nothing runs yet.

        Args:
            graph: what to sample from.
            fanouts: as of `NeighborSampler`.
            batch_size: positive edges a step, of all ranks together.
            edges: as of `LinkSampler.sample`; by default all edges of the relation.
            relation: of the edges; may be left out where there is one.
            seed_time: with `time`, numbers, shape [edges], as of `LinkSampler.sample`.
            shuffle: permute the edges each epoch; else in the given order.
            seed: of the order and of all draws.
            threads: that make batches.
            prefetch: finished batches that wait at most.
            share: (rank, weights of all ranks): yield only this rank's part of each step.
            features: names gathered for every input node whose type has them.
            tiers: where features are read from, and the cache in front; by default from memory or maps, without a cache.
            pinned: page-locked feature memory; by default where CUDA is present.
            timeout_s: seconds to wait for one batch.
            options: others of `LinkSampler`.

        Raises:
            SpecError: a count below its least, a share that is none, or what `LinkSampler` refuses.
            SeedError: edges that are not the relation's, or times that are not one an edge.
        """
        if "pool" in options:
            raise SpecError("pool must be left out: a loader has one of its own")
        super().__init__(
            graph,
            batch_size,
            shuffle=shuffle,
            threads=threads,
            prefetch=prefetch,
            share=share,
            features=features,
            tiers=tiers,
            pinned=pinned,
            timeout_s=timeout_s,
        )
        pool = pool_of(graph, fanouts, threads + prefetch + 2)
        self.links = LinkSampler(graph, fanouts, relation, seed=seed, pool=pool, **options)
        self.sampler, self.seed_type = self.links.neighbors, self.links.relation[0]
        if edges is None:
            ends: tuple[npt.NDArray[np.int64], ...] = (np.arange(graph.num_edges[self.links.relation]),)
        else:
            src, dst, positions = self.links.resolve_edges(edges)
            ends = (src, dst) if positions is None else (positions,)
        self._ends = ends
        self.seeds = np.arange(ends[0].size)
        self.seed_time = None if seed_time is None else np.asarray(seed_time)
        if self.seed_time is not None and self.seed_time.shape != self.seeds.shape:
            raise SeedError(f"seed_time must be one number an edge, {self.seeds.size}, got shape {self.seed_time.shape}")

    def make(self, places: Any, epoch: int, step: int) -> LinkBatch:
        """Sample and gather this rank's part of one step.

        Args:
            places: integers, which of the given edges are the step's, all ranks together.
            epoch: part of the key.
            step: part of the key.
        """
        count = len(places)
        first, last = (0, count) if self.share is None else share_bounds(count, self.share[1], self.share[0])
        own = places[first:last]
        times = None if self.seed_time is None else self.seed_time[own]
        links = self.links.sample(self._edges(own), epoch, step, seed_time=times, offset=first, whole=self._edges(places))
        features = self.gather(links.batch.input_of)
        batch = with_changes(links.batch, features=features, num_labelled=links.num_examples)
        return with_changes(links, batch=batch, places=torch.from_numpy(np.array(own, np.int64)))

    def _edges(self, places: Any) -> Edges:
        """The given edges at some places, in the form they were given in."""
        return self._ends[0][places] if len(self._ends) == 1 else (self._ends[0][places], self._ends[1][places])
