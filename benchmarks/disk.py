"""What the disk of a folder can do at best in this minute: large writes and reads past the page cache, and random 4 KiB reads."""

import mmap
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

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


def random_reads(path: Path, seconds: float = 3.0, threads: int = 32) -> float:
    """Reads of 4 KiB a second at random places of a file, direct, so many at once."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    pages = os.fstat(handle).st_size // _PAGE

    def work(number: int) -> int:
        room = mmap.mmap(-1, _PAGE)
        places = (np.random.default_rng(number).integers(0, pages, 200_000) * _PAGE).tolist()
        until, done = time.perf_counter() + seconds, 0
        for place in places:
            done += os.preadv(handle, [room], place) == _PAGE
            if time.perf_counter() > until:
                break
        return done

    try:
        with ThreadPoolExecutor(threads) as pool:
            started = time.perf_counter()
            done = sum(pool.map(work, range(threads)))
            return done / (time.perf_counter() - started)
    finally:
        os.close(handle)
