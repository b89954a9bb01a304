"""What the disk of a folder can do at best in this minute: large writes and reads past the page cache, and random 4 KiB reads."""

import mmap
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gnnhet.jit import kernel, read_at

_BLOCK = 16 << 20
_PAGE = 4096


def bandwidth(folder: Path, size: int = 4 << 30) -> tuple[float, float]:
    """(bytes written a second, bytes read a second) of one file, direct, two blocks of 16 MiB under way."""
    path = folder / ".disk-roof"
    source = mmap.mmap(-1, _BLOCK)
    source.write(np.random.default_rng(0).bytes(_BLOCK))
    own = threading.local()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    places = range(0, size, _BLOCK)

    def read(place: int) -> int:
        if not hasattr(own, "room"):
            own.room = mmap.mmap(-1, _BLOCK)
        return os.preadv(handle, [own.room], place)

    try:
        with ThreadPoolExecutor(2) as pool:
            started = time.perf_counter()
            done = sum(pool.map(lambda place: os.pwrite(handle, memoryview(source), place), places))
            os.fsync(handle)
            written = done / (time.perf_counter() - started)
            started = time.perf_counter()
            done = sum(pool.map(read, places))
            return written, done / (time.perf_counter() - started)
    finally:
        os.close(handle)
        path.unlink()


def random_reads(path: Path, seconds: float = 2.0) -> float:
    """Reads of 4 KiB a second at random places of a file, direct: the best of 64 and 128 threads that do nothing else."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    pages = os.fstat(handle).st_size // _PAGE

    def work(number: int, until: float) -> int:
        room = np.frombuffer(mmap.mmap(-1, _PAGE), np.uint8)
        generator, done = np.random.default_rng(number), 0
        while time.perf_counter() < until:
            done += _read_pages(handle, generator.integers(0, pages, 256), room)
        return done

    def rate(threads: int) -> float:
        with ThreadPoolExecutor(threads) as pool:
            started = time.perf_counter()
            done = sum(pool.map(work, range(threads), [started + seconds] * threads))
            return done / (time.perf_counter() - started)

    try:
        _read_pages(handle, np.zeros(1, np.int64), np.frombuffer(mmap.mmap(-1, _PAGE), np.uint8))  # compiled
        return max(rate(64), rate(128))
    finally:
        os.close(handle)


@kernel
def _read_pages(handle: int, places: npt.NDArray[np.int64], room: npt.NDArray[np.uint8]) -> int:
    """Read pages; how many were read whole."""
    done = 0
    for place in places:
        done += read_at(handle, room, 0, _PAGE, place * _PAGE) == _PAGE
    return done
