"""The first pass: edges parted by the high bits of a key into buckets, written as runs in large pieces.

A chunk of edges becomes one write: bucket after bucket, of each bucket column after column. What is kept in memory is the
count of every bucket in every chunk, from which the places follow.
"""

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gnnhet.jit import frozen
from gnnhet.storage.arrays import BLOCK, open_direct, write_at
from gnnhet.storage.ingest import kernels
from gnnhet.storage.preload import huge_empty

_ALIGN = 8  # bytes; every run of a column begins at a multiple

Array = npt.NDArray[Any]
Columns = dict[str, Array]


class Column(NamedTuple):
    """One number, or some, of every edge: `dtype` is of all of an edge's, maybe with a shape."""

    name: str
    dtype: np.dtype

    @property
    def width(self) -> int:
        """Bytes an edge."""
        return self.dtype.itemsize


class Parted(NamedTuple):
    """A chunk of edges with their buckets: `bucket` uint16 [n], `counts` int64 [buckets], and columns [n]."""

    bucket: Array
    counts: Array
    columns: Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class Spill:
    """A file of parted edges.

    Attributes:
        path: of the file.
        columns: in the order in which they stand in a run.
        counts: int64 [chunks, buckets].
        begins: int64 [chunks], where in the file each chunk begins.
    """

    path: Path
    columns: tuple[Column, ...]
    counts: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]

    def sizes(self) -> npt.NDArray[np.int64]:
        """Edges of each bucket."""
        return np.asarray(self.counts.sum(0), np.int64)

    @property
    def edge_bytes(self) -> int:
        """Of one edge."""
        return sum(column.width for column in self.columns)

    def save(self, path: Path) -> None:
        """Write where everything stands, to be opened again after a kill."""
        with path.open("wb") as file:
            np.savez(file, counts=self.counts, begins=self.begins)
            file.flush()
            os.fsync(file.fileno())


def run_bytes(counts: npt.NDArray[np.int64], columns: Sequence[Column]) -> npt.NDArray[np.int64]:
    """Bytes of each bucket's run of every column, shape [columns, buckets]."""
    widths = np.array([column.width for column in columns], np.int64)
    found: npt.NDArray[np.int64] = -(-widths[:, None] * counts[None, :] // _ALIGN) * _ALIGN
    return found


def part(
    pieces: Iterator[Callable[[], Parted]],
    path: Path,
    columns: tuple[Column, ...],
    num_buckets: int,
    threads: int,
    advance: Callable[[int], None],
) -> Spill:
    """Write chunks of edges as runs of buckets.

    Args:
        pieces: what makes each chunk, in order; made on threads.
        path: the file to write.
        columns: that go into it.
        num_buckets: how many there are.
        threads: that part at once.
        advance: called with the edges done since its last call.
    """
    counts: list[npt.NDArray[np.int64]] = []
    begins: list[int] = []
    rooms = _Rooms()
    lock = threading.Lock()
    end = 0
    handle = open_direct(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def write(number: int, make: Callable[[], Parted]) -> int:
        nonlocal end
        chunk = make()
        sizes = run_bytes(chunk.counts, columns)
        total = -(-int(sizes.sum()) // BLOCK) * BLOCK
        room = rooms.take(total)
        _fill(chunk, columns, sizes, room)
        with lock:
            at, end = end, end + total
        write_at(handle, room[:total].data, at)
        rooms.give(room)
        counts[number], begins[number] = chunk.counts, at
        return int(chunk.counts.sum())

    pending: deque[Future[int]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="gnnhet-ingest")
    try:
        for number, make in enumerate(pieces):
            counts.append(np.zeros(num_buckets, np.int64))
            begins.append(0)
            pending.append(pool.submit(write, number, make))
            del make  # else the piece stays in memory while the next one is read
            if len(pending) >= threads:
                advance(pending.popleft().result())
        while pending:
            advance(pending.popleft().result())
        os.fsync(handle)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        os.close(handle)
    return Spill(
        path=path,
        columns=columns,
        counts=np.stack(counts) if counts else np.zeros((0, num_buckets), np.int64),
        begins=np.array(begins, np.int64),
    )


def _fill(chunk: Parted, columns: Sequence[Column], sizes: npt.NDArray[np.int64], room: npt.NDArray[np.uint8]) -> None:
    """Put a chunk's columns where they stand in its write."""
    ends = np.cumsum(sizes.T.reshape(-1))  # bucket after bucket, of each column after column
    starts = (ends - sizes.T.reshape(-1)).reshape(sizes.shape[1], sizes.shape[0])
    for number, column in enumerate(columns):
        values = chunk.columns[column.name]
        first = np.ascontiguousarray(starts[:, number])
        if column.dtype.shape == () and column.width in (1, 2, 4, 8):
            plain = np.dtype(f"u{column.width}") if column.dtype.kind != "i" else column.dtype
            given = values.view(plain) if values.dtype.itemsize == column.width else values
            kernels.scatter(frozen(given), frozen(chunk.bucket), first // column.width, room.view(plain))
        else:
            rows = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(chunk.bucket.size, column.width)
            kernels.scatter_wide(frozen(rows), frozen(chunk.bucket), first, room)


class _Rooms:
    """Memory for writes, used again and again."""

    def __init__(self) -> None:
        """None yet."""
        self._free: list[npt.NDArray[np.uint8]] = []

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """At least `size` bytes that begin at a page."""
        room = self._free.pop() if self._free else np.empty(0, np.uint8)
        if room.size < size:
            del room
            room = _pages(size + size // 8)
        return room

    def give(self, room: npt.NDArray[np.uint8]) -> None:
        """Back for the next one."""
        self._free.append(room)


def _pages(size: int) -> npt.NDArray[np.uint8]:
    """Bytes that begin at a page; a multiple of the block."""
    whole = -(-max(size, BLOCK) // BLOCK) * BLOCK
    array: npt.NDArray[np.uint8] = huge_empty(whole, np.uint8)
    return array if array.ctypes.data % BLOCK == 0 else np.frombuffer(mmap.mmap(-1, whole), np.uint8)


class Reader:
    """Reads buckets of a spill, by any number of threads; a context."""

    def __init__(self, spill: Spill) -> None:
        """Open the file."""
        self._spill = spill
        self._handle = open_direct(spill.path, os.O_RDONLY)
        self._rooms = _Rooms()

    def __enter__(self) -> "Reader":
        """The reader itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        os.close(self._handle)

    def pieces(self, bucket: int, most: int) -> Iterator[Columns]:
        """A bucket in the order of the input, in pieces of `most` edges or of one chunk; none is empty."""
        chunks: list[int] = []
        held = 0
        for chunk, size in enumerate(self._spill.counts[:, bucket].tolist()):
            if not size:
                continue
            if chunks and held + size > most:
                yield self._load(chunks, bucket, bucket + 1)[0]
                chunks, held = [], 0
            chunks.append(chunk)
            held += size
        if chunks:
            yield self._load(chunks, bucket, bucket + 1)[0]

    def load(self, first: int, last: int) -> list[Columns]:
        """The columns of each of the buckets `first` to `last` (not itself), in the order of the input."""
        return self._load(range(self._spill.begins.size), first, last)

    def _load(self, chunks: Sequence[int], first: int, last: int) -> list[Columns]:
        counts = self._spill.counts
        totals = counts[list(chunks), first:last].sum(0) if len(chunks) else np.zeros(last - first, np.int64)
        loaded = [{c.name: np.empty((int(n), *c.dtype.shape), c.dtype.base) for c in self._spill.columns} for n in totals]
        filled = [0] * (last - first)
        flat = [[loaded[b][c.name].reshape(-1).view(np.uint8) for c in self._spill.columns] for b in range(last - first)]
        widths = [column.width for column in self._spill.columns]
        for chunk in chunks:
            sizes = run_bytes(counts[chunk, :last], self._spill.columns)
            begin = int(self._spill.begins[chunk] + sizes[:, :first].sum())
            length = int(sizes[:, first:].sum())
            if not length:
                continue
            room = self._read(begin, length)
            at = begin % BLOCK
            for bucket in range(last - first):
                n = int(counts[chunk, first + bucket])
                for number, width in enumerate(widths):
                    to = filled[bucket] * width
                    flat[bucket][number][to : to + n * width] = room[at : at + n * width]
                    at += int(sizes[number, first + bucket])
                filled[bucket] += n
            self._rooms.give(room)
        return loaded

    def _read(self, begin: int, length: int) -> npt.NDArray[np.uint8]:
        """Bytes whose first stands at `begin % BLOCK`."""
        low = begin // BLOCK * BLOCK
        size = -(-(begin + length - low) // BLOCK) * BLOCK
        room = self._rooms.take(size)
        done = 0
        while done < begin + length - low:
            got = os.preadv(self._handle, [room[done:size].data], low + done)
            if not got:
                raise OSError(f"{self._spill.path} ended at byte {low + done}: was it cut meanwhile?")
            done += got
        return room
