"""Parquet files as streams: those made here, and a person's own whose ids are dense."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnnhet.datasets.raw import Array
from gnnhet.datasets.source import Edges, EdgeStream, RowStream
from gnnhet.datasets.tables.files import Table
from gnnhet.datasets.tables.spans import Span, mapped
from gnnhet.errors import FormatError


def edges_in_place(
    table: Table,
    ends: tuple[str, str],
    sides: Sequence[tuple[int, Span | None]],
    values: Mapping[str, tuple[str, np.dtype, str]],
) -> EdgeStream:
    """Edges straight from a person's Parquet of integers.

    Args:
        table: with no nulls, or these are refused as they are met.
        ends: columns of source and destination.
        sides: for each end the count of nodes, and the ids of these where they are not their numbers.
        values: name -> column, dtype, and what a value must be in words.
    """
    from pyarrow import parquet

    of = dict(zip(("src", "dst"), sides, strict=True))
    wanted = {
        name: (
            column,
            np.dtype(np.int64) if span is None else span.dtype,
            "an end must be the id of a node" + ("" if span else f", 0 to {count - 1}"),
        )
        for column, (name, (count, span)) in zip(ends, of.items(), strict=True)
    }
    wanted |= {name: (column, dtype, f"a {name} must be {rule}") for name, (column, dtype, rule) in values.items()}
    held = {span.ids: span for _, span in sides if span}

    def read(most: int) -> Iterator[Edges]:
        nodes = {path: span.nodes() for path, span in held.items()}
        for file in table.given:
            row = 0
            with parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(most, columns=[column for column, *_ in wanted.values()]):
                    found: dict[str, Array] = {}
                    for name, (column, dtype, rule) in wanted.items():
                        cells = batch.column(column)
                        numbers = cells.to_numpy(zero_copy_only=False)
                        bad = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
                        if bad is None and name in of:
                            count, span = of[name]
                            if span:
                                numbers = mapped(numbers, span.low, nodes[span.ids])
                            bad = (numbers < 0) | (numbers >= count)
                        if bad is not None and bad.any():
                            at = int(bad.argmax())
                            what = f"column {column}: {rule}, got {cells[at].as_py()!r}"
                            raise FormatError(f"{file}, row {row + at + 1:,}, {what}: mend it, or skip bad rows")
                        found[name] = numbers.astype(dtype, copy=False)
                    yield Edges(found.pop("src"), found.pop("dst"), found)
                    row += batch.num_rows

    edges = sum(parquet.read_metadata(file).num_rows for file in table.given)
    return EdgeStream(
        read=read,
        count=edges,
        values={name: dtype for name, (_, dtype, _) in values.items()},
        held_bytes=sum(span.num_bytes for span in held.values()),
    )


def edge_stream(file: Path, first: int, count: int, values: Mapping[str, tuple[str, np.dtype]]) -> EdgeStream:
    """Edges of a Parquet file of ours.

    Args:
        file: with columns `src`, `dst` and those of values; values of several numbers are lists in it.
        first: row.
        count: of rows.
        values: name -> column and dtype.
    """
    from pyarrow import parquet

    def read(most: int) -> Iterator[Edges]:
        with parquet.ParquetFile(file) as opened:
            groups, skipped = _groups(opened.metadata, first, first + count)
            left = count
            for batch in opened.iter_batches(most, row_groups=groups, columns=["src", "dst", *(c for c, _ in values.values())]):
                if skipped >= batch.num_rows:
                    skipped -= batch.num_rows
                    continue
                piece = batch.slice(skipped, left)
                skipped, left = 0, left - piece.num_rows
                src, dst = (piece.column(name).to_numpy(zero_copy_only=False) for name in ("src", "dst"))
                yield Edges(src, dst, {name: _array(piece.column(c), dtype) for name, (c, dtype) in values.items()})
                if not left:
                    return

    return EdgeStream(read=read, count=count, values={name: dtype for name, (_, dtype) in values.items()})


def row_stream(file: Path, column: str, shape: tuple[int, ...], dtype: np.dtype) -> RowStream:
    """A column of a Parquet file of ours."""
    from pyarrow import parquet

    cells = np.dtype((dtype, shape[1:]))

    def read(most: int) -> Iterator[Array]:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(most, columns=[column]):
                yield _array(batch.column(0), cells)

    return RowStream(read=read, shape=shape, dtype=dtype)


def _groups(metadata: Any, first: int, last: int) -> tuple[list[int], int]:
    """The row groups with rows of a range, and how many of their rows lie before it."""
    groups: list[int] = []
    begin = skipped = 0
    for group in range(metadata.num_row_groups):
        end = begin + metadata.row_group(group).num_rows
        if begin < last and first < end:
            if not groups:
                skipped = first - begin
            groups.append(group)
        begin = end
    return groups, skipped


def _array(column: Any, dtype: np.dtype) -> Array:
    """An Arrow column as numbers; lists of equal length, that of the dtype's shape, as rows."""
    flat = column.flatten() if dtype.shape else column
    numbers: Array = flat.to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, *dtype.shape).astype(dtype.base, copy=False)
