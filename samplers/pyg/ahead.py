"""Work done ahead by threads of this process and handed out in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from gnnhet.errors import WaitError


class Batches:
    """An iterator that knows how many batches an epoch has.

    Args:
        made: what to hand out.
        count: of an epoch.
    """

    def __init__(self, made: Iterator[Any], count: int) -> None:
        """Hold the iterator."""
        self._made, self._count = made, count

    def __iter__(self) -> "Batches":
        """Itself."""
        return self

    def __next__(self) -> Any:
        """The next batch."""
        return next(self._made)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._count


def in_order(
    make: Callable[[Any], Any], given: Iterable[Any], *, threads: int, ahead: int, timeout_s: float, what: str
) -> Iterator[Any]:
    """make(g) for each g, in the order given.

    An exception in a thread is raised here, with its trace. When the iterator is left early, closed or dropped, what is
    being made is waited for and no thread is left.

    Args:
        make: runs on the threads.
        given: read on this thread, ahead of what is handed out.
        threads: that make.
        ahead: made or being made at most, beside the one handed out.
        timeout_s: seconds to wait for one.
        what: is made, for messages.

    Raises:
        WaitError: one took longer.
    """
    pending: deque[Future[Any]] = deque()
    rest = iter(given)
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="gnnhet-pyg")
    stuck, number = False, 0
    try:
        for item in rest:
            pending.append(pool.submit(make, item))
            if len(pending) >= ahead:
                yield _wait(pending.popleft(), timeout_s, f"{what} {number}")
                number += 1
        while pending:
            yield _wait(pending.popleft(), timeout_s, f"{what} {number}")
            number += 1
    except WaitError:
        stuck = True
        raise
    finally:
        pool.shutdown(wait=not stuck, cancel_futures=True)


def _wait(future: "Future[Any]", timeout_s: float, what: str) -> Any:
    """A result, or the exception of the thread that made it."""
    try:
        return future.result(timeout_s)
    except FutureTimeout:
        if future.done():  # the thread itself raised a time-out
            raise
        raise WaitError(
            f"waited {timeout_s:.0f} s for a thread to make {what}: raise `timeout`, or lower num_neighbors or batch_size"
        ) from None
