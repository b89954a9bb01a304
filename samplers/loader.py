"""`NeighborLoader`: sampled and gathered mini-batches, made ahead by threads, handed out in strict order; `Loader`: its order."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace as with_changes
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnnhet.errors import SeedError, SpecError, WaitError
from gnnhet.samplers.batch import MiniBatch
from gnnhet.samplers.buffers import BufferPool
from gnnhet.samplers.edges import Values
from gnnhet.samplers.neighbor import Fanouts, NeighborSampler, Seeds
from gnnhet.samplers.rng import permutation
from gnnhet.samplers.shares import share_bounds
from gnnhet.storage.graph import Graph

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
        self._gathered = [
            (node_type, name) for node_type in graph.node_types for name in features if graph.features.has(node_type, name)
        ]
        pin = torch.cuda.is_available() if pinned is None else pinned
        self._rows_pool = BufferPool(pinned=pin, most=(threads + prefetch + 2) * max(len(self._gathered), 1))
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
        epoch = self._epoch
        order = permutation(self.seeds.size, self.sampler.seed, epoch) if self.shuffle else np.arange(self.seeds.size)
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

    def _features(self, ids_of: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """Rows of every node type that has them."""
        features: dict[str, dict[str, Tensor]] = {}
        for node_type, name in self._gathered:
            features.setdefault(node_type, {})[name] = self._gather(node_type, name, ids_of[node_type])
        return features

    def _labels(self, seed_type: str, own: Tensor, everyone: Any) -> tuple[Tensor | None, int]:
        """(labels of this rank's seeds, how many of all ranks' seeds are labelled)."""
        if not self.graph.features.has(seed_type, "y"):
            return None, len(everyone)
        labels = self.graph.features.gather(seed_type, "y", own)
        if labels.dtype.is_floating_point:
            return labels, len(everyone)
        return labels, int((self.graph.features.gather(seed_type, "y", everyone) >= 0).sum())

    def _gather(self, node_type: str, name: str, ids: Tensor) -> Tensor:
        """Rows of the inputs, in reused memory."""
        rows = self.graph.features.rows(node_type, name)
        out = self._rows_pool.take((ids.numel(), *rows.array.shape[1:]), rows.dtype)
        return self.graph.features.gather(node_type, name, ids, out=out)


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
        return with_changes(batch, features=self._features(batch.input_of), y=labels, num_labelled=num_labelled)


def pool_of(graph: Graph, fanouts: Fanouts, batches: int) -> BufferPool:
    """A pool with room for all arrays of blocks of so many batches."""
    layers = len(next(iter(fanouts.values()), ()) if isinstance(fanouts, Mapping) else fanouts)
    return BufferPool(most=batches * (3 * layers * len(graph.relations) + 2 * len(graph.node_types)))
