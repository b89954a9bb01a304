"""Array files on their way to disk: written in order in large pieces, hashed meanwhile, renamed to their checksum when whole.

Large files go past the page cache where the file system lets them (O_DIRECT): the kernel's copies, and what they push out of
memory, cost more than the disk does.
"""

import contextlib
import errno
import io
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from gnnhet.storage.index import ARRAYS

BLOCK = 4096  # bytes; offsets, sizes and addresses of direct writes are multiples of it
_BUFFER = 8 << 20
_DIRECT_FROM = 64 << 20
_DIRECT = getattr(os, "O_DIRECT", 0)  # not on every system


def open_direct(path: Path, flags: int) -> int:
    """Open a file past the page cache, or through it where the file system asks for that.

    Args:
        path: the file.
        flags: of `os.open`.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC | _DIRECT, 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system in memory has no direct access
            raise
        return os.open(path, flags | os.O_CLOEXEC, 0o666)


def write_at(handle: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at an offset."""
    while data:
        done = os.pwrite(handle, data, offset)
        data, offset = data[done:], offset + done


class LargeFile:
    """A new file that is written from its beginning to its end, by a thread of its own; a context."""

    def __init__(self, path: Path, expected: int) -> None:
        """Make the file.

        Args:
            path: where; replaced.
            expected: bytes, about; large ones are written past the page cache.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        large = expected >= _DIRECT_FROM
        self._handle = open_direct(path, flags) if large else os.open(path, flags | os.O_CLOEXEC, 0o666)
        size = _BUFFER if large else min(_BUFFER, -(-max(expected, 1) // BLOCK) * BLOCK)
        self._buffers = [mmap.mmap(-1, size) for _ in range(2 if large else 1)]
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="gnnhet-writer") if large else None
        self._pending: Future[None] | None = None
        self._filled, self._at = 0, 0

    def write(self, data: memoryview) -> None:
        """Append bytes."""
        while data:
            room = self._buffers[0]
            piece = data[: len(room) - self._filled]
            room[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            data = data[len(piece) :]
            if self._filled == len(room):
                self._flush()

    def finish(self) -> None:
        """Write what is left, and sync."""
        whole = self._filled // BLOCK * BLOCK
        rest = bytes(self._buffers[0][whole : self._filled])
        self._filled = whole
        self._flush()
        self._wait()
        if rest:
            if _DIRECT:
                import fcntl

                fcntl.fcntl(self._handle, fcntl.F_SETFL, fcntl.fcntl(self._handle, fcntl.F_GETFL) & ~_DIRECT)
            write_at(self._handle, memoryview(rest), self._at)
            self._at += len(rest)
        os.fsync(self._handle)

    def patch(self, data: bytes) -> None:
        """Overwrite the beginning of a finished file that was written in blocks."""
        write_at(self._handle, memoryview(data), 0)
        os.fsync(self._handle)

    def __enter__(self) -> "LargeFile":
        """The file itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it, finished or not."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self._handle)

    def _flush(self) -> None:
        """Hand the buffer to the writer, and go on with the other one."""
        self._wait()
        if self._filled:
            data, at = memoryview(self._buffers[0])[: self._filled], self._at
            if self._pool is None:
                write_at(self._handle, data, at)
            else:
                self._pending = self._pool.submit(write_at, self._handle, data, at)
            self._at += self._filled
            self._filled = 0
            self._buffers.reverse()

    def _wait(self) -> None:
        """Until the writer is done; what it raised is raised here."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()


class ArrayFile:
    """A `.npy` file of a graph, written in pieces; a context.

        with ArrayFile(arrays, "edges000.indices", np.dtype("int32"), (count,)) as file:
            file.write(piece)
            entry = file.finish()

    Until `finish` it lies beside its place under a name that the next writer removes.
    """

    def __init__(self, arrays: Path, stem: str, dtype: npt.DTypeLike, shape: tuple[int, ...], *, called: str = "") -> None:
        """Begin the file.

        Args:
            arrays: the folder of the graph's arrays.
            stem: the beginning of its name.
            dtype: of what is written.
            shape: rows first; fewer rows may come, then `finish` is told.
            called: the dtype's name in `graph.json`, where numpy has another (bfloat16).
        """
        self._arrays, self._stem = arrays, stem
        self.dtype, self.shape, self._called = np.dtype(dtype), shape, called or np.dtype(dtype).name
        self._beside = arrays / f".{stem}.{os.getpid()}.part"
        header = self._header(shape)
        expected = len(header) + self.dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        self._file = LargeFile(self._beside, expected)
        self._digest = xxhash.xxh3_128()
        self._size = 0
        self._put(memoryview(header))

    def write(self, array: npt.NDArray[Any]) -> None:
        """Append rows, C-contiguous and of the file's dtype."""
        self._put(array.reshape(-1).view(np.uint8).data)

    def finish(self, rows: int | None = None) -> dict[str, Any]:
        """Sync the file and give it its name; its entry of `graph.json`.

        Args:
            rows: how many were written, where that was not known before.
        """
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        self._file.finish()
        if shape != self.shape:
            self._file.patch(self._header(shape))
            self._digest = _digest(self._beside)
        checksum = self._digest.hexdigest()
        path = self._arrays / f"{self._stem}-{checksum[:8]}.npy"
        self._beside.rename(path)
        return {
            "file": f"{ARRAYS}/{path.name}",
            "dtype": self._called,
            "shape": list(shape),
            "bytes": self._size,
            "xxh3_128": checksum,
        }

    def __enter__(self) -> "ArrayFile":
        """The file itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it; one that was not finished goes."""
        self._file.__exit__(kind, error, trace)
        with contextlib.suppress(FileNotFoundError):
            self._beside.unlink()

    def _put(self, data: memoryview) -> None:
        self._digest.update(data)
        self._file.write(data)
        self._size += len(data)

    def _header(self, shape: tuple[int, ...]) -> bytes:
        """The `.npy` header; numpy makes it of one length however many rows there are."""
        written = io.BytesIO()
        description = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(written, description)
        return written.getvalue()


def write_array(arrays: Path, stem: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    """Write one array; its entry of `graph.json`."""
    contiguous = np.ascontiguousarray(array)
    with ArrayFile(arrays, stem, contiguous.dtype, contiguous.shape) as file:
        file.write(contiguous)
        return file.finish()


def copy_table(arrays: Path, number: int, title: str, path: Path) -> dict[str, Any]:
    """Copy a node type's table of ids into a graph's folder; its entry of `graph.json`.

    Args:
        arrays: the folder of the graph's arrays.
        number: of the table among those of the graph.
        title: the node type as it may stand in a file name.
        path: the Parquet file.
    """
    stem = f"ids{number:03d}.{title}"
    beside = arrays / f".{stem}.{os.getpid()}.part"
    digest = xxhash.xxh3_128()
    try:
        with path.open("rb") as source, beside.open("wb") as target:
            while piece := source.read(_BUFFER):
                digest.update(piece)
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
        checksum = digest.hexdigest()
        placed = arrays / f"{stem}-{checksum[:8]}.parquet"
        size = beside.stat().st_size
        beside.rename(placed)
    finally:
        beside.unlink(missing_ok=True)
    return {"file": f"{ARRAYS}/{placed.name}", "bytes": size, "xxh3_128": checksum}


def _digest(path: Path) -> "xxhash.xxh3_128":
    """The checksum of a file that was written in another order than its bytes have."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        room = bytearray(_BUFFER)
        while size := file.readinto(room):
            digest.update(memoryview(room)[:size])
    return digest
