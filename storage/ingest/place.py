"""The second pass: buckets of edges become rows of a CSC, in order.

Some buckets that stand side by side are read together and placed by one thread. A bucket that does not fit into memory is
parted again by its next bits; a single row that does not, by the bits of what it is sorted by.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gnnhet.errors import GraphError
from gnnhet.jit import frozen
from gnnhet.storage.ingest import kernels
from gnnhet.storage.ingest.spill import Array, Columns, Parted, Reader, Spill, part

SRC, LOW, TIME = "src", "low", "value.time"
_BITS = 10  # that one parting of a large bucket takes


class Placed(NamedTuple):
    """Rows that follow those before: `degrees` int64 of some destinations, and their edges' columns.

    A row may come in pieces: its degree comes with the last one.
    """

    degrees: Array
    columns: Columns


@dataclass(frozen=True, kw_only=True)
class Placer:
    """How rows are made.

    Attributes:
        what: the relation's name for messages.
        distinct: keep each pair once.
        sort: `source`, `time` or None.
        limit: edges that one thread may hold.
        threads: that place at once.
        work: folder for buckets that are parted again.
    """

    what: str
    distinct: bool
    sort: str | None
    limit: int
    threads: int
    work: Path

    def rows(self, spill: Spill, num_dst: int, shift: int) -> Iterator[Placed]:
        """All rows, in order.

        Args:
            spill: bucket b holds destinations `b << shift` and up.
            num_dst: count of destinations.
            shift: bits of a destination within its bucket.
        """
        sizes = spill.sizes().tolist()
        pending: deque[Future[list[Placed]]] = deque()
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="gnnhet-ingest")
        try:
            with Reader(spill) as reader:
                for first, last in _groups(sizes, self.limit):
                    if last == first + 1 and sizes[first] > self.limit:
                        while pending:
                            yield from pending.popleft().result()
                        yield from self._large(spill, reader, first, min(1 << shift, num_dst - (first << shift)), shift)
                        continue
                    counts = [min(1 << shift, num_dst - (bucket << shift)) for bucket in range(first, last)]
                    pending.append(pool.submit(self._group, reader, first, last, counts))
                    if len(pending) > self.threads:
                        yield from pending.popleft().result()
                while pending:
                    yield from pending.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _group(self, reader: Reader, first: int, last: int, counts: list[int]) -> list[Placed]:
        """Buckets side by side."""
        loaded = reader.load(first, last)
        return [self._place(loaded.pop(0), count) for count in counts]

    def _place(self, columns: Columns, num_dst: int) -> Placed:
        """The rows of a bucket."""
        low = frozen(columns.pop(LOW))
        degrees = np.zeros(num_dst, np.int64)
        kernels.count(low, degrees)
        indptr = _pointers(degrees)
        rows: Columns = {}
        for name in list(columns):
            rows[name] = _scattered(columns.pop(name), low, indptr)
        return self._ordered(rows, indptr, degrees)

    def _ordered(self, rows: Columns, indptr: npt.NDArray[np.int64], degrees: Array) -> Placed:
        """Rows sorted and without duplicates, where that is asked for."""
        if self.distinct or self.sort == "source":
            if len(rows) == 1:
                kernels.sort_rows(indptr, rows[SRC])
            else:
                rows = _taken(rows, _order(indptr, rows[SRC]))
        if self.distinct:
            kept = np.empty(rows[SRC].size, np.int64)
            degrees = np.zeros_like(degrees)
            total = kernels.first_of_equals(indptr, frozen(rows[SRC]), kept, degrees)
            rows, indptr = _taken(rows, kept[:total]), _pointers(degrees)
        if self.sort == "time" and TIME in rows:
            rows = _taken(rows, _order(indptr, rows[TIME]))
        return Placed(degrees, rows)

    def _large(self, spill: Spill, reader: Reader, bucket: int, num_dst: int, shift: int) -> Iterator[Placed]:
        """The rows of a bucket that is larger than memory."""
        if shift == 0:
            yield from self._large_row(reader.pieces(bucket, self.limit), spill)
            return
        inner = max(0, shift - _BITS)

        def parted(columns: Columns) -> Callable[[], Parted]:
            def cut() -> Parted:
                low = columns[LOW]
                counts = np.zeros(1 << _BITS, np.int64)
                number = np.empty(low.size, np.uint16)
                kernels.split_key(frozen(low), inner, number, counts)
                rest = (low & low.dtype.type((1 << inner) - 1)).astype(low.dtype, copy=False)
                return Parted(number, counts, {**columns, LOW: rest})

            return cut

        with _File(self.work / f"{spill.path.name}.{bucket}") as path:
            pieces = (parted(columns) for columns in reader.pieces(bucket, self.limit))
            again = part(pieces, path, spill.columns, 1 << _BITS, self.threads, _nothing)
            count = -(-num_dst >> inner) if inner else num_dst
            kept = Spill(path=path, columns=again.columns, counts=again.counts[:, :count], begins=again.begins)
            yield from self.rows(kept, num_dst, inner)

    def _large_row(self, pieces: Iterator[Columns], spill: Spill) -> Iterator[Placed]:
        """One row that is larger than memory."""
        nothing = np.zeros(0, np.int64)
        total = 0
        by_time = self.sort == "time" and any(column.name == TIME for column in spill.columns)
        if self.distinct and by_time:
            raise GraphError(
                f"a destination of {self.what} has too many edges to be sorted by time and free of duplicates at once in the "
                "memory given: give more, or do it in two ingests"
            )
        if by_time:
            parts = self._sorted(pieces, TIME, spill, 64)
        elif self.distinct or self.sort == "source":
            parts = self._sorted(pieces, SRC, spill, 8 * spill.columns[0].width)
        else:
            parts = ({name: array for name, array in piece.items() if name != LOW} for piece in pieces)
        for columns in parts:
            total += next(iter(columns.values())).shape[0]
            yield Placed(nothing, columns)
        yield Placed(np.array([total], np.int64), {})

    def _sorted(self, pieces: Iterator[Columns], name: str, spill: Spill, bits: int) -> Iterator[Columns]:
        """A row's edges sorted by a column, of which the highest `bits` are not sorted by yet; stable."""
        shift = max(0, bits - _BITS)

        def parted(columns: Columns) -> Callable[[], Parted]:
            def cut() -> Parted:
                counts = np.zeros(1 << _BITS, np.int64)
                number = np.empty(columns[name].shape[0], np.uint16)
                kernels.split_key(frozen(_unsigned(columns[name])), shift, number, counts)
                return Parted(number, counts, columns)

            return cut

        with _File(self.work / f"{spill.path.name}.{name}.{bits}") as path:
            again = part((parted(piece) for piece in pieces), path, spill.columns, 1 << _BITS, self.threads, _nothing)
            with Reader(again) as reader:
                for bucket, size in enumerate(again.sizes().tolist()):
                    if not size:
                        continue
                    if size <= self.limit:
                        (columns,) = reader.load(bucket, bucket + 1)
                        columns.pop(LOW)
                        degrees = np.array([size], np.int64)
                        yield self._ordered(columns, _pointers(degrees), degrees).columns
                    elif shift:
                        yield from self._sorted(reader.pieces(bucket, self.limit), name, again, shift)
                    else:  # all alike
                        for columns in reader.pieces(bucket, self.limit):
                            columns.pop(LOW)
                            if self.distinct:
                                yield {key: array[:1] for key, array in columns.items()}
                                break
                            yield columns


class _File:
    """A path whose file goes when it is done with."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def _groups(sizes: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of buckets that fit into memory together; one that does not fit stands alone."""
    first = held = 0
    for bucket, size in enumerate(sizes):
        if bucket > first and held + size > limit:
            yield first, bucket
            first, held = bucket, 0
        held += size
    if sizes:
        yield first, len(sizes)


def _pointers(degrees: Array) -> npt.NDArray[np.int64]:
    """Where rows of these lengths begin and end."""
    indptr = np.zeros(degrees.size + 1, np.int64)
    np.cumsum(degrees, out=indptr[1:])
    return indptr


def _scattered(column: Array, low: Array, indptr: npt.NDArray[np.int64]) -> Array:
    """A column in the order of rows; stable."""
    out = np.empty_like(column)
    width = column.dtype.itemsize
    if column.ndim == 1 and width in (1, 2, 4, 8):
        plain = column.dtype if column.dtype.kind == "i" else np.dtype(f"u{width}")
        kernels.scatter(frozen(column.view(plain)), low, indptr[:-1].copy(), out.view(plain))
    elif column.size:
        rows = column.reshape(column.shape[0], -1).view(np.uint8)
        kernels.scatter_wide(frozen(rows), low, indptr[:-1] * rows.shape[1], out.reshape(-1).view(np.uint8))
    return out


def _order(indptr: npt.NDArray[np.int64], key: Array) -> npt.NDArray[np.int64]:
    """The stable order of each row by a key."""
    order = np.empty(key.size, np.int64)
    kernels.order_rows(indptr, frozen(key), order)
    return order


def _taken(columns: Columns, order: npt.NDArray[np.int64]) -> Columns:
    """Every column by position."""
    return {name: np.take(array, order, axis=0) for name, array in columns.items()}


def _unsigned(key: Array) -> npt.NDArray[np.uint64]:
    """Numbers as uint64 of the same order."""
    sign = np.uint64(1 << 63)
    if key.dtype.kind == "u":
        return key.astype(np.uint64)
    if key.dtype.kind in "ib":
        return key.astype(np.int64).view(np.uint64) ^ sign
    bits = (key.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 and 0.0 are one number
    negative = bits >> np.uint64(63) != 0
    return np.where(negative, ~bits, bits ^ sign)


def _nothing(edges: int) -> None:
    """Progress that nobody looks at."""
