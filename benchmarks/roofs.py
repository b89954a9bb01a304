"""What the memory of this machine can do at best: random reads and random rows, prefetched, one thread."""

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel, prefetch

_AHEAD = 32


@kernel
def _read_at(array: npt.NDArray[Any], places: npt.NDArray[np.int64]) -> int:
    total = 0
    for i in range(places.size):
        if i + _AHEAD < places.size:
            prefetch(array, places[i + _AHEAD])
        total += array[places[i]]
    return total


@kernel
def _read_rows(words: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], width: int) -> np.uint64:
    total = np.uint64(0)
    for i in range(places.size):
        if i + 16 < places.size:
            first = places[i + 16] * width
            for k in range(0, width, 8):
                prefetch(words, first + k)
            prefetch(words, first + width - 1)
        first = places[i] * width
        for k in range(0, width, 8):  # a word of each line: the whole line comes
            total += words[first + k]
    return total


def random_reads(array: npt.NDArray[np.int32], reads: int = 4_000_000, repeats: int = 5) -> float:
    """Random 4-byte reads a second, the median of some repeats."""
    places = np.random.default_rng(0).integers(0, array.size, reads)
    return reads / _median_seconds(lambda: _read_at(array, places), repeats)


def random_rows(rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], repeats: int = 5) -> float:
    """Bytes a second of rows whose every line is read by id, the median of some repeats.

    Args:
        rows: C-contiguous, a multiple of 8 bytes a row.
        ids: int64.
        repeats: timed, after one that is not.
    """
    words = rows.reshape(-1).view(np.uint64)
    width = words.size // rows.shape[0]
    return ids.size * width * 8 / _median_seconds(lambda: _read_rows(words, ids, width), repeats)


def _median_seconds(work: Any, repeats: int) -> float:
    work()
    spent = []
    for _ in range(repeats):
        started = time.thread_time()
        work()
        spent.append(time.thread_time() - started)
    return float(np.median(spent))
