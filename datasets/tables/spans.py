"""Integer ids with gaps: while all between the least and the largest fit into memory, arrays number and map them, not joins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.raw import Array
from gnnhet.datasets.tables import columns
from gnnhet.datasets.tables.database import Database
from gnnhet.datasets.tables.files import Table, named, quoted

_PIECE = 1 << 20
# Differences from the least id must be those of int64.
MAPPED = tuple(kind for kind in columns.INTEGERS if kind != "UBIGINT")


@dataclass(frozen=True, kw_only=True)
class Span:
    """A table of integer ids that may be held as an array.

    Attributes:
        ids: Parquet file of `id` and `node`.
        low: the least id.
        size: from it to the largest, both counted.
        count: of ids.
    """

    ids: Path
    low: int
    size: int
    count: int

    @property
    def num_bytes(self) -> int:
        """Of what `nodes` makes."""
        return self.size * self.dtype.itemsize

    @property
    def dtype(self) -> np.dtype:
        """Of nodes."""
        return np.dtype(np.int32 if self.count < 1 << 31 else np.int64)

    def nodes(self) -> Array:
        """The node of each id, counted from the least; -1 where there is none. Shape [size]."""
        from pyarrow import parquet

        made = np.full(self.size, -1, self.dtype)
        with parquet.ParquetFile(self.ids) as opened:
            for batch in opened.iter_batches(_PIECE):
                made[batch.column("id").to_numpy() - self.low] = batch.column("node").to_numpy()
        return made


def mapped(ids: Array, low: int, nodes: Array) -> Array:
    """Nodes of ids, -1 where there is none.

    Args:
        ids: integers of at most 64 bits with sign, shape [n].
        low: the least id that has a node.
        nodes: of `Span.nodes`.
    """
    place = ids.astype(np.int64) - low  # wraps only outside of the span
    found: Array = nodes.take(place, mode="clip")
    outside = (place < 0) | (place >= nodes.size)
    if outside.any():
        found[outside] = -1
    return found


def span_of(ids: Path, count: int, database: Database) -> Span | None:
    """The span of a table of integer ids, or None where it is too large."""
    found = _bounds([f"SELECT min(id), max(id) FROM read_parquet({quoted(ids)})"], database)
    return None if found is None else Span(ids=ids, low=found[0], size=found[1], count=count)


def numbered(name: str, ends: Sequence[tuple[Table, str]], database: Database, what: str) -> Path | None:
    """A Parquet file of all ids in columns and of their nodes, in the order of ids.

    None where a column has other values than integers with sign, or the span of ids is too large.

    Args:
        name: of the file.
        ends: tables and their columns.
        database: where it is made.
        what: is done, in words.
    """
    if any(table.columns[end] not in MAPPED for table, end in ends):
        return None
    found = _bounds([f"SELECT min({named(end)}), max({named(end)}) FROM {table.sql()}" for table, end in ends], database)
    if found is None:
        return None
    low, size = found
    rows = sum(int(database.one(f"SELECT count(*) FROM {table.sql()}")) for table, _ in ends)

    def write(path: Path, advance: Any) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        seen = np.zeros(size, np.bool_)
        for table, end in ends:
            for ids in _column(table, end):
                seen[ids.astype(np.int64) - low] = True
                advance(ids.size)
        first = 0
        with parquet.ParquetWriter(path, pa.schema([("id", pa.int64()), ("node", pa.int64())])) as writer:
            for begin in range(0, size, _PIECE):
                ids = np.flatnonzero(seen[begin : begin + _PIECE]) + (low + begin)
                writer.write_table(pa.table({"id": ids, "node": np.arange(first, first + ids.size)}))
                first += ids.size

    return database.written(name, f"ids of {[(str(table.path), end) for table, end in ends]}", what, rows, "ids", write)


def _bounds(queries: Sequence[str], database: Database) -> tuple[int, int] | None:
    """The least value and how many there may be from it to the largest; None where there are none, or too many."""
    rows = [database.all(query)[0] for query in queries]
    lows, highs = ([row[side] for row in rows if row[side] is not None] for side in (0, 1))
    if not lows:
        return None
    size = int(max(highs)) - int(min(lows)) + 1
    return (int(min(lows)), size) if size <= database.most_span else None


def _column(table: Table, column: str) -> Iterator[Array]:
    """A column's values that are not null."""
    from pyarrow import parquet

    for file in table.parquet:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_PIECE, columns=[column]):
                yield batch.column(0).drop_null().to_numpy()
