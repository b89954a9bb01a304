"""`NeighborLoader`: sampled and gathered mini-batches, made ahead by threads, handed out in strict order; `Loader`: its order."""

import copy
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace as with_changes
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.errors import SeedError, SpecError, WaitError
from gnnhet.samplers import caching
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.buffers import BufferPool
from gnnhet.samplers.edges import Values
from gnnhet.samplers.gathering import CacheStats, Gatherer, Tiers
from gnnhet.samplers.neighbor import Fanouts, NeighborSampler, Seeds
from gnnhet.samplers.rng import permutation
from gnnhet.samplers.shares import share_bounds
from gnnhet.storage.graph import Graph

_log = logging.getLogger("gnnhet")

Batch = TypeVar("Batch", bound=Any)


class Loader(Generic[Batch]):
    """What loaders have in common: steps made ahead by threads, in strict order, from any position.

    A loader says what a step is by `make`, and which seed, seeds and sampler it has by the attributes of these names. Threads
    make whole batches ahead, at most `prefetch` beyond those being made; their order is kept. An exception in a thread is
    raised here, with its trace. A `for` left early leaves no thread behind; the next one begins the next epoch.
    """

    sampler: Any
    seeds: npt.NDArray[np.int64]

    def __init__(
        self,
        graph: Graph,
        batch_size: int,
        *,
        shuffle: bool,
        threads: int,
        prefetch: int,
        share: tuple[int, Sequence[float]] | None,
        features: Sequence[str],
        tiers: Tiers | None,
        pinned: bool | None,
        timeout_s: float,
    ) -> None:
        """Check the options; see `NeighborLoader`.

        Raises:
            SpecError: a count below its least, or a share that is none.
        """
        for name, value, least in (("batch_size", batch_size, 1), ("threads", threads, 1), ("prefetch", prefetch, 0)):
            if value < least:
                raise SpecError(f"{name} must be {least} or more, got {value}")
        if share is not None:
            rank, weights = share
            if not 0 <= rank < len(weights):
                raise SpecError(f"share must be (rank, weights) with 0 <= rank < {len(weights)}, got rank {rank}")
            share_bounds(batch_size, weights, rank)
        self.graph = graph
        self.batch_size, self.shuffle, self.threads, self.prefetch = batch_size, shuffle, threads, prefetch
        self.share, self.timeout_s = share, timeout_s
        pin = torch.cuda.is_available() if pinned is None else pinned
        self._gatherer = Gatherer(
            graph,
            features,
            tiers or Tiers(),
            lambda count: BufferPool(pinned=pin, most=(threads + prefetch + 2) * count),
        )
        self.gather: Callable[[Mapping[str, Tensor]], dict[str, dict[str, Tensor]]] = self._gatherer
        self._filled = False
        self._epoch, self._step, self._abandoned = 0, 0, False

    def __len__(self) -> int:
        """Steps of an epoch."""
        return -(-self.seeds.size // self.batch_size)

    def state_dict(self) -> dict[str, int]:
        """The whole position of a run: seed, epoch, and the next step of it."""
        return {"seed": self.sampler.seed, "epoch": self._epoch, "step": self._step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue where another loader stood, with any other threads or share.

        Raises:
            SpecError: the other loader had another seed, or the position is not one.
        """
        if state["seed"] != self.sampler.seed:
            raise SpecError(f"a resumed loader must keep its seed, {state['seed']}, got {self.sampler.seed}")
        if state["epoch"] < 0 or not 0 <= state["step"] <= len(self):
            raise SpecError(f"a position must lie in an epoch of {len(self)} steps, got {state}")
        self._epoch, self._step, self._abandoned = state["epoch"], state["step"], False

    def __iter__(self) -> Iterator[Batch]:
        """The batches from the current position to the end of its epoch."""
        if self._abandoned:
            self._epoch, self._step, self._abandoned = self._epoch + 1, 0, False
        self.fill_cache()
        epoch = self._epoch
        order = self._order(epoch)
        pending: deque[Future[Batch]] = deque()
        ahead = iter(range(self._step, len(self)))
        pool = ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="gnnhet-sampler")
        stuck = False
        try:
            for _ in range(self.threads + self.prefetch):
                if (step := next(ahead, None)) is not None:
                    pending.append(pool.submit(self._make, order, epoch, step))
            self._abandoned = True
            while pending:
                batch = self._wait(pending.popleft(), epoch)
                if (step := next(ahead, None)) is not None:
                    pending.append(pool.submit(self._make, order, epoch, step))
                self._step = batch.step + 1
                yield batch
                del batch  # else its memory could not be reused while the next one is made
            self._epoch, self._step, self._abandoned = epoch + 1, 0, False
        except WaitError:
            stuck = True
            raise
        finally:
            pool.shutdown(wait=not stuck, cancel_futures=True)

    def _wait(self, future: Future[Batch], epoch: int) -> Batch:
        """A batch, or the exception of the thread that made it."""
        try:
            return future.result(self.timeout_s)
        except FutureTimeout:
            if future.done():  # the thread itself raised a time-out
                raise
            raise WaitError(
                f"waited {self.timeout_s:.0f} s for the sampler threads to make step {self._step} of epoch {epoch}: "
                "raise timeout_s, or lower fanouts or batch_size"
            ) from None

    def _make(self, order: Any, epoch: int, step: int) -> Batch:
        """One batch by its step; runs on a sampler thread."""
        return self.make(order[step * self.batch_size : (step + 1) * self.batch_size], epoch, step)

    def make(self, places: Any, epoch: int, step: int) -> Batch:
        """This rank's part of one step, from the positions in `seeds` of the step's seeds."""
        raise NotImplementedError

    def cache_stats(self) -> CacheStats | None:
        """What the cache of features did so far; None before it is filled, or where there is none."""
        return self._gatherer.stats()

    def fill_cache(self) -> None:
        """Read the rows that the cache is to hold; the first `for` does so by itself.

        Raises:
            SpecError: the policy is not of this loader, or memory is too small.
            FormatError: a file is gone or cannot be read.
        """
        tiers, slow = self._gatherer.tiers, self._gatherer.slow
        if self._filled or not tiers.cache_bytes or not slow:
            return
        row_bytes = {node_type: size for node_type, (_, size) in slow.items()}
        with ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="gnnhet-presample") as pool:
            steps = partial(self._asked, pool, tiers.presample)
            held = caching.rows_to_hold(self.graph, tiers, row_bytes, steps, self._inclusion)
        _log.info(
            "holding %s of %s rows of features (%s), about %.1f GiB",
            f"{sum(ids.size for ids in held.values()):,}",
            f"{sum(count for count, _ in slow.values()):,}",
            tiers.policy,
            sum(ids.size * row_bytes[t] for t, ids in held.items()) / 2**30,
        )
        self._gatherer.hold(held)
        self._filled = True

    def _asked(self, pool: ThreadPoolExecutor, count: int) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
        """Per node type the nodes whose features the next steps ask for, each once; into the next epoch, not beyond."""
        first = self._epoch + 1 if self._abandoned else self._epoch
        begin = 0 if self._abandoned else self._step
        places = [(first, step) for step in range(begin, len(self))] + [(first + 1, step) for step in range(len(self))]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in places[:count]}}

        def asked(place: tuple[int, int]) -> dict[str, npt.NDArray[np.int64]]:
            probe, found = copy.copy(self), {}

            def note(ids_of: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
                found.update({node_type: np.unique(ids.numpy()) for node_type, ids in ids_of.items()})
                return {}

            probe.gather = note
            probe._make(orders[place[0]], *place)
            return found

        yield from pool.map(asked, places[:count])

    def _inclusion(self) -> dict[str, npt.NDArray[np.float32]] | None:
        """Scores of the policy `inclusion`; None where seeds are no nodes or do not draw by fanouts."""
        return None

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        """Which of the seeds an epoch's steps take, in order."""
        return permutation(self.seeds.size, self.sampler.seed, epoch) if self.shuffle else np.arange(self.seeds.size)

    def _labels(self, seed_type: str, own: Tensor, everyone: Any) -> tuple[Tensor | None, int]:
        """(labels of this rank's seeds, how many of all ranks' seeds are labelled)."""
        if not self.graph.features.has(seed_type, "y"):
            return None, len(everyone)
        labels = self.graph.features.gather(seed_type, "y", own)
        if labels.dtype.is_floating_point:
            return labels, len(everyone)
        return labels, int((self.graph.features.gather(seed_type, "y", everyone) >= 0).sum())


class NeighborLoader(Loader[MiniBatch]):
    """Iterates over mini-batches of an epoch; each `for` is the next epoch.

    Step k of epoch e is the same set of seeds whatever the threads, ranks and shares: a permutation keyed by (seed, epoch)
    cut into batches of `batch_size`. Threads sample and gather whole batches ahead (the kernels release the interpreter's
    lock), at most `prefetch` beyond those being made; their order is kept. An exception in a thread is raised here, with
    its trace. A `for` left early leaves no thread behind; the next one begins the next epoch.

    Feature memory is reused once nothing refers to it: batches that are kept are never overwritten.

    With `share`, every rank yields every step, also where its part is empty: ranks that reduce gradients stay together.
    """

    sampler: NeighborSampler

    def __init__(
        self,
        graph: Graph,
        fanouts: Fanouts,
        batch_size: int,
        seeds: Seeds | None = None,
        *,
        shuffle: bool = True,
        replace: bool = False,
        weight: Values | None = None,
        time: Values | None = None,
        seed_time: npt.ArrayLike | Tensor | None = None,
        seed: int = 0,
        method: str = "uniform",
        strategy: str = "uniform",
        disjoint: bool = False,
        dependent_layers: bool = False,
        threads: int = 1,
        prefetch: int = 2,
        share: tuple[int, Sequence[float]] | None = None,
        features: Sequence[str] = ("x",),
        tiers: Tiers | None = None,
        with_degrees: bool = False,
        with_edge_ids: bool = False,
        pinned: bool | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """Check the options; nothing runs yet.

        Args:
            graph: what to sample from.
            fanouts: as of `NeighborSampler`.
            batch_size: seeds a step, of all ranks together.
            seeds: ids, or (node type, ids); without, the training split of the labelled type.
            shuffle: permute the seeds each epoch; else in the given order.
            replace: as of `NeighborSampler`, like `weight`, `time`, `method`, `strategy`, `disjoint`, `dependent_layers`,
                `with_degrees` and `with_edge_ids`.
            weight: see `replace`.
            time: see `replace`.
            seed_time: with `time`, what each seed may see: numbers, shape [seeds].
            seed: of the order and of all draws.
            method: see `replace`.
            strategy: see `replace`.
            disjoint: see `replace`.
            dependent_layers: see `replace`.
            threads: that make batches.
            prefetch: finished batches that wait at most.
            share: (rank, weights of all ranks): yield only this rank's part of each step.
            features: names gathered for every input node whose type has them.
            tiers: where features are read from, and the cache in front; by default from memory or maps, without a cache.
            with_degrees: see `replace`.
            with_edge_ids: see `replace`.
            pinned: page-locked feature memory; by default where CUDA is present.
            timeout_s: seconds to wait for one batch.

        Raises:
            SpecError: a count below its least, or a share that is none.
            SeedError: seeds that are not nodes, or times that are not one a seed.
        """
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
        self.sampler = NeighborSampler(
            graph,
            fanouts,
            replace,
            weight,
            time,
            seed,
            method=method,
            strategy=strategy,
            disjoint=disjoint,
            dependent_layers=dependent_layers,
            with_degrees=with_degrees,
            with_edge_ids=with_edge_ids,
            pool=pool_of(graph, fanouts, threads + prefetch + 2),
        )
        given = graph.split_ids(graph.target_type, "train") if seeds is None else seeds
        if seeds is None:
            given = (graph.target_type, given)
        self.seed_type, self.seeds = self.sampler.resolve_seeds(given)
        self.seed_time = None if seed_time is None else np.asarray(seed_time)
        if self.seed_time is not None and self.seed_time.shape != self.seeds.shape:
            raise SeedError(f"seed_time must be one number a seed, {self.seeds.size}, got shape {self.seed_time.shape}")

    def make(self, places: Any, epoch: int, step: int) -> MiniBatch:
        """Sample and gather this rank's part of one step.

        Args:
            places: integers, positions in `seeds` of the step's seeds, all ranks together.
            epoch: part of the key.
            step: part of the key.
        """
        everyone = self.seeds[places]
        first, last = (0, everyone.size) if self.share is None else share_bounds(everyone.size, self.share[1], self.share[0])
        times = None if self.seed_time is None else self.seed_time[places][first:last]
        batch = self.sampler.sample((self.seed_type, everyone[first:last]), epoch, step, seed_time=times)
        labels, num_labelled = self._labels(self.seed_type, batch.seeds, everyone)
        return with_changes(batch, features=self.gather(batch.input_of), y=labels, num_labelled=num_labelled)

    def over(self, seeds: Seeds) -> "NeighborLoader":
        """A loader over other seeds in the order given, of all ranks; it samples, reads and caches as this one.

        Args:
            seeds: ids, or (node type, ids).

        Raises:
            SeedError: seeds that are not nodes, or a loader whose seeds have times.
        """
        if self.seed_time is not None:
            raise SeedError("seeds of another loader have times of their own: make it with seed_time")
        other = copy.copy(self)
        other.seed_type, other.seeds = self.sampler.resolve_seeds(seeds)
        other.shuffle, other.share = False, None
        other._epoch, other._step, other._abandoned = 0, 0, False
        return other

    def _inclusion(self) -> dict[str, npt.NDArray[np.float32]] | None:
        """Scores of the policy `inclusion`."""
        return caching.inclusion(self.graph, self.sampler.fanouts, self.seed_type, self.seeds, self.batch_size)


def pool_of(graph: Graph, fanouts: Fanouts, batches: int) -> BufferPool:
    """A pool with room for all arrays of blocks of so many batches."""
    layers = len(next(iter(fanouts.values()), ()) if isinstance(fanouts, Mapping) else fanouts)
    return BufferPool(most=batches * (3 * layers * len(graph.relations) + 2 * len(graph.node_types)))
