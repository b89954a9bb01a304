"""Workers: the same batches whoever makes them, errors with their trace, and no thread that outlives its loop."""

import threading
import time
import traceback
from typing import Any

import pytest
import torch
from tests.samplers.pyg.graphs import random_data, random_hetero, same
from torch_geometric.data import Data, HeteroData

from gnnhet.errors import WaitError
from gnnhet.samplers.pyg import LinkNeighborLoader, NeighborLoader
from gnnhet.samplers.pyg.ahead import in_order


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("gnnhet-pyg")]


@pytest.mark.parametrize("kind", [random_data, random_hetero])
@pytest.mark.parametrize("where", [None, True, False])
def test_any_number_of_workers_gives_the_same(kind: Any, where: bool | None) -> None:
    data = kind()
    seeds = "paper" if isinstance(data, HeteroData) else None

    def batches(workers: int) -> list[Any]:
        torch.manual_seed(3)
        loader = NeighborLoader(
            data, [3, 2], seeds, batch_size=32, shuffle=True, num_workers=workers, filter_per_worker=where, transform=mark
        )
        assert len(iter(loader)) == len(loader)  # type: ignore[arg-type]
        return [*loader, *loader]

    alone = batches(0)
    assert all(batch.marked for batch in alone)
    for workers in (1, 2, 4):
        assert all(same(a, b) for a, b in zip(alone, batches(workers), strict=True))
    assert threads() == []


def mark(batch: Any) -> Any:
    batch.marked = True
    return batch


def start(worker: int) -> None:
    """Asks for processes."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside threads, which torch has of its own
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("where", [None, False])
def test_processes_give_the_same(persistent: bool, where: bool | None) -> None:
    data = random_data()
    options: dict[str, Any] = {"batch_size": 64, "seed": 5, "filter_per_worker": where}
    processes = NeighborLoader(data, [3, 2], num_workers=2, worker_init_fn=start, persistent_workers=persistent, **options)
    alone = NeighborLoader(data, [3, 2], **options)
    for _ in range(2):
        assert all(same(a, b) for a, b in zip(alone, processes, strict=True))
    if persistent:
        made: Any = processes._iterator  # torch's, or PyG's around it; left to the garbage collector it waits for seconds
        getattr(made, "iterator", made)._shutdown_workers()
    links = LinkNeighborLoader(
        data, [2], num_workers=1, multiprocessing_context="fork", neg_sampling="binary", batch_size=512, seed=5
    )
    here = LinkNeighborLoader(data, [2], neg_sampling="binary", batch_size=512, seed=5)
    assert all(same(a, b) for a, b in zip(here, links, strict=True))


def test_threads_run_in_this_process_unless_processes_are_asked_for() -> None:
    loader = NeighborLoader(random_data(), [2], batch_size=10, num_workers=2)
    made = iter(loader)
    next(made)
    assert 1 <= len(threads()) <= 2
    del made
    assert threads() == []


def test_pygs_contexts_ask_for_processes_while_they_are_entered() -> None:
    loader = NeighborLoader(random_data(), [2], batch_size=10, num_workers=2)
    for _ in range(2):
        with loader.enable_memory_log():
            assert loader._uses_processes()
        assert not loader._uses_processes()


def test_leaving_early_leaves_no_thread_and_begins_another_epoch() -> None:
    loader = NeighborLoader(random_data(), [2], batch_size=10, num_workers=2, seed=1)
    alone = NeighborLoader(random_data(), [2], batch_size=10, seed=1)
    for batch in loader:
        assert same(batch, next(iter(alone)))
        break
    del batch
    assert threads() == []
    assert same(next(iter(loader)), next(iter(alone)))


def test_persistent_workers_are_a_word_without_meaning_for_threads() -> None:
    loader = NeighborLoader(random_data(), [2], batch_size=100, num_workers=2, persistent_workers=True, prefetch_factor=3)
    assert not same(next(iter(loader)), next(iter(loader)))


@pytest.mark.parametrize("where", [None, True])
def test_an_error_comes_with_its_trace(where: bool | None) -> None:
    def broken(batch: Data) -> Data:
        if 50 in batch.input_id.tolist():
            raise RuntimeError("no such batch")
        return batch

    loader = NeighborLoader(random_data(), [2], batch_size=10, num_workers=2, transform=broken, filter_per_worker=where)
    made = iter(loader)
    for _ in range(5):
        next(made)
    with pytest.raises(RuntimeError, match="no such batch") as caught:
        next(made)
    assert "in broken" in "".join(traceback.format_tb(caught.tb))
    assert threads() == []


def test_a_wait_ends_and_says_what_for() -> None:
    release = threading.Event()

    def slow(out: Any) -> Any:
        release.wait(20)
        return out

    loader = NeighborLoader(random_data(), [2], batch_size=10, num_workers=1, timeout=0.2, transform=slow, filter_per_worker=True)
    with pytest.raises(WaitError, match="epoch 0, batch 0"):
        next(iter(loader))
    release.set()
    for thread in threads():
        thread.join(20)


def test_batches_that_are_kept_are_never_overwritten() -> None:
    data = random_data(5000, 20_000)
    data.x = torch.randn(5000, 64)
    kept = list(NeighborLoader(data, [5], batch_size=500, num_workers=2))
    for _ in range(2):
        for batch in NeighborLoader(data, [5], batch_size=500, num_workers=2):
            assert torch.equal(batch.x, data.x[batch.n_id])
    assert all(torch.equal(batch.x, data.x[batch.n_id]) for batch in kept)


def test_order_is_kept_and_work_is_bounded() -> None:
    running, most = [0], [0]
    lock = threading.Lock()

    def make(item: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002 * (item % 3))
        with lock:
            running[0] -= 1
        return item * item

    taken: list[int] = []

    def given() -> Any:
        for item in range(30):
            taken.append(item)
            yield item

    handed = 0
    for result in in_order(make, given(), threads=3, ahead=4, timeout_s=10, what="item"):
        assert result == handed * handed
        handed += 1
        assert len(taken) <= handed + 4
    assert handed == 30
    assert most[0] <= 3
