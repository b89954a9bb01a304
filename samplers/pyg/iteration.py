"""How the loaders iterate: epochs that are counted, batches made ahead by threads, features gathered without the lock."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader.mixin import WorkerInitWrapper

from gnnhet.samplers.buffers import BufferPool
from gnnhet.samplers.pyg.ahead import Batches, in_order
from gnnhet.samplers.pyg.remote import PyGFeatureStore
from gnnhet.samplers.pyg.rows import with_row_tensors
from gnnhet.samplers.pyg.sparse import put_back, set_aside

TIMEOUT_S = 600.0  # where the loader's own `timeout` is 0
POOLED = 8  # blocks of memory kept, a thread


class KeyedLoader:
    """What the loaders have in common; stands before PyG's `NodeLoader` or `LinkLoader` among the bases.

    Each `for` is the next epoch. With `num_workers`, threads of this process make batches ahead; processes do only where
    `worker_init_fn` or `multiprocessing_context` is given. A batch is the same whoever makes it, and when.

    `transform` and `transform_sampler_output` are called on the thread that iterates, in order, unless `filter_per_worker`
    is True: they then run on the threads.
    """

    data: Any
    transform: Any
    transform_sampler_output: Any
    filter_per_worker: bool
    input_data: Any
    _epoch = 0
    _epochs_begun = 0
    _told_epoch: Tensor | None = None  # shared with processes that outlive an epoch
    _functions_in_threads = False
    _pool: BufferPool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process's threads."""
        return {key: value for key, value in self.__dict__.items() if key != "_pool"}

    def _sampler(self) -> Any:
        raise NotImplementedError

    def _sample(self, index: Any, epoch: int) -> Any:
        raise NotImplementedError

    def _uses_processes(self) -> bool:
        """Whether workers are processes, as PyG's mixins may decide while they are entered."""
        initialise = self.worker_init_fn  # type: ignore[attr-defined]
        while isinstance(initialise, WorkerInitWrapper):  # what those mixins leave behind
            initialise = initialise.func
        context = self.multiprocessing_context  # type: ignore[attr-defined]
        return self.num_workers > 0 and (initialise is not None or context is not None)  # type: ignore[attr-defined]

    def check_worker_number_rationality(self) -> None:
        """Torch's warning of too many processes, where there are any."""
        if self._uses_processes():
            super().check_worker_number_rationality()  # type: ignore[misc]

    def collate_fn(self, index: Any) -> Any:
        """The sample, or the batch, of places in the loader's input.

        Args:
            index: integers.
        """
        epoch = self._epoch if self._told_epoch is None else int(self._told_epoch)
        out = self._sample(index, epoch)
        return self.filter_fn(out) if self.filter_per_worker else out

    def filter_fn(self, out: Any) -> Any:
        """The batch of a sample, transformed.

        Args:
            out: what the sampler returned.
        """
        batch = self._joined(out)
        return batch if self.transform is None else self.transform(batch)

    def _joined(self, out: Any) -> Any:
        """The sample joined with its features, before `transform`."""
        lean = copy.copy(self)
        lean.data, lean.transform = with_row_tensors(self.data, self._pool), None
        sparse = [] if lean.data is self.data else set_aside(lean.data, self.data)
        batch = super(KeyedLoader, lean).filter_fn(out)  # type: ignore[misc]
        put_back(batch, self.data, sparse)
        if isinstance(batch, Data) and isinstance(self.data, tuple) and isinstance(self.data[0], PyGFeatureStore):
            batch.num_nodes = out.node.numel()  # of a graph without features nothing else tells it
        return batch

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch."""
        epoch = self._epoch = self._epochs_begun
        self._epochs_begun += 1
        if self._uses_processes():
            if self.persistent_workers:  # type: ignore[attr-defined]
                if self._told_epoch is None:
                    self._told_epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
                self._told_epoch.fill_(epoch)
            return super().__iter__()  # type: ignore[misc, no-any-return]
        return Batches(self._batches(epoch), len(self))  # type: ignore[arg-type]

    def _batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch, made on this thread or ahead on others."""
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)  # type: ignore[attr-defined]  # as torch: same order
        places = self.batch_sampler if self.batch_sampler is not None else self.sampler  # type: ignore[attr-defined]
        if self._pool is None:  # batches that nothing refers to leave their memory to those to come
            self._pool = BufferPool(most=POOLED * (self.num_workers + 1))  # type: ignore[attr-defined]
        make, finish = self._stages(epoch)
        if self.num_workers == 0:  # type: ignore[attr-defined]
            yield from (finish(make(index)) for index in places)
            return
        made = in_order(
            make,
            places,
            threads=self.num_workers,  # type: ignore[attr-defined]
            ahead=self.num_workers * max(self.prefetch_factor or 1, 1),  # type: ignore[attr-defined]
            timeout_s=self.timeout or TIMEOUT_S,  # type: ignore[attr-defined]
            what=f"epoch {epoch}, batch",
        )
        try:
            yield from (finish(part) for part in made)
        finally:
            made.close()  # type: ignore[attr-defined]

    def _stages(self, epoch: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """(what may run on a thread, what is left for the thread that iterates)."""

        def sample(index: Any) -> Any:
            return self._sample(index, epoch)

        def join(index: Any) -> Any:
            return self._joined(self._sample(index, epoch))

        def whole(index: Any) -> Any:
            return self._pinned(self.filter_fn(self._sample(index, epoch)))

        def transform(batch: Any) -> Any:
            return self._pinned(batch if self.transform is None else self.transform(batch))

        if self.filter_per_worker and self._functions_in_threads:
            return whole, lambda batch: batch
        if self.filter_per_worker and self.transform_sampler_output is None:
            return join, transform
        return sample, lambda out: self._pinned(self.filter_fn(out))

    def _pinned(self, batch: Any) -> Any:
        """Page-locked, where that was asked for and there is a device to copy to."""
        wanted = self.pin_memory and torch.cuda.is_available()  # type: ignore[attr-defined]
        return batch.pin_memory() if wanted and hasattr(batch, "pin_memory") else batch
