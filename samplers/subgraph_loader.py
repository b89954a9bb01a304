"""`SubgraphLoader`: sampled and gathered subgraphs, made ahead by threads, handed out in strict order."""

from collections.abc import Sequence
from dataclasses import replace as with_changes
from typing import Any

import numpy as np

from gnnhet.errors import SpecError
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.gathering import Tiers
from gnnhet.samplers.induced import SubgraphSampler
from gnnhet.samplers.loader import Loader
from gnnhet.samplers.neighbor import Seeds
from gnnhet.samplers.shares import share_bounds
from gnnhet.samplers.subgraph import Subgraph


class SubgraphLoader(Loader[Subgraph | MiniBatch]):
    """Iterates over the subgraphs of an epoch; each `for` is the next epoch.

    Order, threads, memory, errors and positions are those of `NeighborLoader`. With seeds, step k of epoch e takes the same
    part of a permutation keyed by (seed, epoch). A sampler that chooses its nodes itself (GraphSAINT, Cluster-GCN) needs no
    seeds: an epoch then has the sampler's `steps`.

    With `share`, a step's seeds are divided over the ranks where the sampler draws the same for them apart (ShaDow): together
    they have the subgraphs of the whole step.
    """

    sampler: Any

    def __init__(
        self,
        sampler: SubgraphSampler,
        batch_size: int | None = None,
        seeds: Seeds | None = None,
        *,
        num_layers: int | None = None,
        shuffle: bool = True,
        threads: int = 1,
        prefetch: int = 2,
        share: tuple[int, Sequence[float]] | None = None,
        features: Sequence[str] = ("x",),
        tiers: Tiers | None = None,
        pinned: bool | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """Check the options; nothing runs yet.

        Args:
            sampler: one of `catalogue.SAMPLERS` that returns subgraphs; its seed is the loader's.
            batch_size: seeds a step, of all ranks together; to be left out where the sampler chooses its nodes.
            seeds: ids, or (node type, ids); without, what the sampler chooses, or the training split of the labelled type.
            num_layers: yield MiniBatches of that many blocks; without, Subgraphs.
            shuffle: permute the seeds each epoch; else in the given order.
            threads: that make subgraphs.
            prefetch: finished subgraphs that wait at most.
            share: (rank, weights of all ranks): yield only this rank's part of each step.
            features: names gathered for every node whose type has them.
            tiers: where features are read from, and the cache in front; by default from memory or maps, without a cache.
            pinned: page-locked feature memory; by default where CUDA is present.
            timeout_s: seconds to wait for one subgraph.

        Raises:
            SpecError: a count below its least, a batch size that is missing or has nothing to divide, or a share that is none
                or that the sampler cannot be divided by.
            SeedError: seeds that are not nodes.
        """
        graph = sampler.graph
        self.chooses = sampler.steps > 0 and seeds is None
        if self.chooses and batch_size is not None:
            raise SpecError(f"batch_size must be left out: the sampler has steps of its own, got {batch_size}: or give seeds")
        if not self.chooses and batch_size is None:
            raise SpecError("batch_size must be given: the sampler draws around seeds, got none")
        if num_layers is not None and num_layers < 0:
            raise SpecError(f"num_layers must be 0 or more, got {num_layers}")
        if share is not None and not sampler.divisible:
            raise SpecError(
                f"share must be left out: a step of {type(sampler).__name__} is one subgraph, got {share}: give ranks other steps"
            )
        super().__init__(
            graph,
            1 if batch_size is None else batch_size,
            shuffle=shuffle,
            threads=threads,
            prefetch=prefetch,
            share=share,
            features=features,
            tiers=tiers,
            pinned=pinned,
            timeout_s=timeout_s,
        )
        self.sampler, self.num_layers = sampler, num_layers
        self.seed_type, self.seeds = "", np.empty(0, np.int64)
        if not self.chooses:
            given = (graph.target_type, graph.split_ids(graph.target_type, "train")) if seeds is None else seeds
            self.seed_type, self.seeds = sampler.resolve_seeds(given)

    def __len__(self) -> int:
        """Steps of an epoch."""
        return int(self.sampler.steps) if self.chooses else super().__len__()

    def make(self, places: Any, epoch: int, step: int) -> Subgraph | MiniBatch:
        """Sample and gather this rank's part of one step.

        Args:
            places: integers, positions in `seeds` of the step's seeds, all ranks together.
            epoch: part of the key.
            step: part of the key.
        """
        if self.chooses:
            found: Subgraph = self.sampler.sample(None, epoch, step)
            everyone = found.seeds.numpy()
        else:
            everyone = self.seeds[places]
            count = everyone.size
            first, last = (0, count) if self.share is None else share_bounds(count, self.share[1], self.share[0])
            found = self.sampler.sample((self.seed_type, everyone[first:last]), epoch, step)
        labels, num_labelled = self._labels(found.seed_type, found.seeds, everyone)
        found = with_changes(found, features=self.gather(found.ids_of), y=labels, num_labelled=num_labelled)
        return found if self.num_layers is None else found.to_batch(self.num_layers)
