"""What threads share and reuse."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from gnnhet.samplers.buffers import BufferPool, Scratch, Spares


def test_spares_are_never_used_by_two_threads_at_once() -> None:
    made: list[threading.Lock] = []

    def make() -> threading.Lock:
        made.append(threading.Lock())
        return made[-1]

    spares = Spares(make)

    def work(_: int) -> bool:
        with spares.use() as lock:
            free = lock.acquire(blocking=False)
            lock.release()
            return free

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(5000)))
    assert len(made) <= 8


def test_a_spare_that_met_an_error_is_dropped() -> None:
    spares = Spares(list[int])
    with pytest.raises(ValueError, match="bad"), spares.use() as first:
        raise ValueError("bad")
    with spares.use() as second:
        assert second is not first
    with spares.use() as third:
        assert third is second


def test_pools_and_spares_begin_anew_in_another_process() -> None:
    pool = BufferPool(most=3)
    kept = pool.take((1 << 18,), torch.uint8)
    other = pickle.loads(pickle.dumps(pool))
    assert other.take((1 << 18,), torch.uint8).data_ptr() != kept.data_ptr()
    spares: Spares[dict[str, int]] = Spares(dict)
    with spares.use() as held:
        held["a"] = 1
    with pickle.loads(pickle.dumps(spares)).use() as fresh:
        assert fresh == {}


def test_a_pool_reuses_what_nobody_refers_to_and_nothing_else() -> None:
    pool = BufferPool(most=2)
    first = pool.take((100_000,), torch.float32)
    place = first.data_ptr()
    second = pool.take((100_000,), torch.float32)
    assert second.data_ptr() != place
    view = first[10:]
    del first
    assert pool.take((100_000,), torch.float32).data_ptr() != place
    del view
    assert pool.take((90_000,), torch.float32).data_ptr() == place
    tiny = pool.take((20_000,), torch.float32)  # a block far too large is left to others
    assert tiny.data_ptr() != place


def test_scratch_grows_and_keeps_its_name() -> None:
    scratch = Scratch()
    small = scratch.take("a", 10, np.int64)
    assert scratch.take("a", 5, np.int64).base is small.base
    assert scratch.take("a", 1000, np.int64).size == 1000
    assert scratch.take("a", 4, np.int32).dtype == np.int32
