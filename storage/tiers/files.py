"""Rows read from a file at their places, by many threads at once, past the page cache or through it.

A map reads a page at a time and waits for each; what it reads pushes other files out of memory. A disk answers tens of
requests at once, so the rows of a batch are asked for by that many threads, in kernels that hold no lock.
"""

import fcntl
import mmap
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnnhet.errors import FormatError
from gnnhet.jit import copy_1, copy_8, frozen, kernel, read_at
from gnnhet.storage.arrays import BLOCK, open_direct
from gnnhet.storage.convert import put_rows
from gnnhet.storage.features import Rows
from gnnhet.storage.gather import check_ids, gather_rows

READS = ("auto", "map", "buffered", "direct")
_THREADS = 64  # requests under way; a solid-state disk is slower with fewer
_PIECE = 32 << 20  # bytes of rows that are in memory before they go to their places
_SCAN = 4 << 20  # bytes of one read of a scan
_SCANNERS = 4
_SPARSE = 64  # rows of a scan's read, below which they are read one by one

Ids = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class FileReader:
    """Rows of a `.npy` file.

    Attributes:
        direct: whether reads go past the page cache; a file system in memory has no such way.
    """

    def __init__(self, rows: Rows, path: Path, *, direct: bool = True) -> None:
        """Open the file.

        Args:
            rows: the feature; its array is not touched.
            path: where it lies.
            direct: past the page cache.

        Raises:
            FormatError: the file is not there or of another size.
        """
        self.rows, self._path = rows, path
        self._row_bytes = rows.array.nbytes // max(rows.array.shape[0], 1)
        try:
            self._handle = open_direct(path, os.O_RDONLY) if direct else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise FormatError(f"{path} must be readable, got {error}: open the graph anew") from error
        self._begin = os.fstat(self._handle).st_size - rows.array.nbytes
        self.direct = bool(fcntl.fcntl(self._handle, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0))
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="gnnhet-reads")
        self._own = threading.local()
        weakref.finalize(self, _close, self._handle, self._pool)
        if self._begin < 0:
            raise FormatError(
                f"{path} must have {rows.array.nbytes} bytes of rows, got {self._begin} fewer: it was cut; restore it"
            )

    def read(self, ids: Ids, out: Tensor, places: Ids | None = None) -> None:
        """As `Reader.read`."""
        check_ids(ids, self.rows.array.shape[0])
        step = max(_PIECE // max(self._row_bytes, 1), 1)
        order = np.argsort(ids, kind="stable")  # rows of one block are read together
        for first in range(0, ids.size, step):
            some = order[first : first + step]
            raw = self._rows_of(ids[some])
            to = some if places is None else places[some]
            put_rows(raw, self.rows.dtype, self.rows.scale, np.arange(some.size), out, to)

    def read_sorted(self, ids: Ids, out: npt.NDArray[Any]) -> None:
        """As `Reader.read_sorted`: in large reads wherever more than a few rows of one are wanted."""
        check_ids(ids, self.rows.array.shape[0])
        count = self.rows.array.shape[0]
        step = max(_SCAN // max(self._row_bytes, 1), 1)
        starts = np.arange(0, count, step)
        bounds = np.searchsorted(ids, np.append(starts, count))
        wanted = np.diff(bounds)
        crowded = wanted > (_SPARSE if self._row_bytes * _SPARSE < _SCAN else 0)

        def scan(number: int) -> None:
            low, high = bounds[number], bounds[number + 1]
            rows = self._stretch(int(starts[number]), int(min(step, count - starts[number])))
            gather_rows(rows, ids[low:high] - starts[number], out[low:high])

        for _ in self._pool.map(scan, np.flatnonzero(crowded)):
            pass
        for number in np.flatnonzero(~crowded & (wanted > 0)):
            low, high = bounds[number], bounds[number + 1]
            out[low:high] = self._rows_of(ids[low:high])

    def _rows_of(self, ids: Ids) -> npt.NDArray[Any]:
        """Rows as they are stored, read by many threads; ids ascend and are in range."""
        raw = np.empty(ids.size * self._row_bytes, np.uint8)
        share = max(-(-ids.size // _THREADS), 8)

        def some(first: int) -> None:
            mine, size = ids[first : first + share], self._row_bytes
            to = raw[first * size : (first + mine.size) * size]
            if self.direct:
                room = self._room(size + 2 * BLOCK)
                bad = _read_past(self._handle, self._begin, BLOCK, frozen(mine), to, size, room)
            else:
                bad = _read_through(self._handle, self._begin, frozen(mine), to, size)
            if bad >= 0:
                self._complain(int(mine[bad]))

        if ids.size <= share:
            some(0)
        else:
            for _ in self._pool.map(some, range(0, ids.size, share)):
                pass
        return raw.view(self.rows.array.dtype).reshape(ids.size, *self.rows.array.shape[1:])

    def _stretch(self, first: int, count: int) -> npt.NDArray[Any]:
        """Rows next to each other, a view of this thread's room."""
        begin = self._begin + first * self._row_bytes
        skip = begin % BLOCK
        size = skip + count * self._row_bytes
        whole = -(-size // BLOCK) * BLOCK
        room = self._room(whole)
        if os.preadv(self._handle, [room.data[:whole]], begin - skip) < size:
            self._complain(first + count - 1)
        return room[skip:size].view(self.rows.array.dtype).reshape(count, *self.rows.array.shape[1:])

    def _room(self, size: int) -> Bytes:
        """Memory of this thread that begins at a block."""
        held: Bytes | None = getattr(self._own, "room", None)
        if held is None or held.size < size:
            held = self._own.room = np.frombuffer(mmap.mmap(-1, -(-size // BLOCK) * BLOCK), np.uint8)
        return held

    def _complain(self, row: int) -> None:
        """Raise what reading a row meets.

        Raises:
            FormatError: always.
        """
        end = self._begin + (row + 1) * self._row_bytes
        size = os.fstat(self._handle).st_size
        if size < end:
            raise FormatError(f"{self._path} must have row {row} up to byte {end}, got {size} bytes: it was cut; restore it")
        raise FormatError(
            f"{self._path} must be readable, the system refused row {row} at byte {end - self._row_bytes}: restore it"
        )


def _close(handle: int, pool: ThreadPoolExecutor) -> None:
    """When the reader is gone."""
    pool.shutdown(wait=False)
    os.close(handle)


@kernel
def _read_through(handle: int, begin: int, ids: Ids, out: Bytes, size: int) -> int:
    """Read rows into `out`, one after the other.

    Args:
        handle: of the open file.
        begin: byte of the file where row 0 begins.
        ids: int64 [n], in range.
        out: uint8 [n * size], filled.
        size: bytes of a row.

    Returns:
        the first id's position that could not be read, or -1.
    """
    for i in range(ids.size):
        done = 0
        while done < size:
            got = read_at(handle, out, i * size + done, size - done, begin + ids[i] * size + done)
            if got <= 0:
                return i
            done += got
    return -1


@kernel
def _read_past(handle: int, begin: int, block: int, ids: Ids, out: Bytes, size: int, room: Bytes) -> int:
    """As `_read_through`, by whole blocks into `room` and from there; rows of one block are read once.

    Args:
        handle: of the open file, direct.
        begin: byte of the file where row 0 begins.
        block: offsets and lengths of reads are multiples of it.
        ids: int64 [n], ascending, in range.
        out: uint8 [n * size], filled.
        size: bytes of a row.
        room: uint8 [size + 2 * block], begins at a multiple of `block`.
    """
    held, end = 0, 0  # what of the file lies in `room`
    for i in range(ids.size):
        come = begin + ids[i] * size
        if come + size > end:
            held = come // block * block
            length = (come + size - held + block - 1) // block * block
            end = held + read_at(handle, room, 0, length, held)
            if come + size > end:
                return i
        for k in range(0, size - 7, 8):
            copy_8(out, i * size + k, room, come - held + k)
        for k in range(size // 8 * 8, size):
            copy_1(out, i * size + k, room, come - held + k)
    return -1
