"""A homogeneous graph in Parquet or text: a table of edges and, if there is one, a table of nodes."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source
from gnnhet.datasets.tables import columns
from gnnhet.datasets.tables.files import MOST_LISTED, Table, is_table, open_table, quoted, reading
from gnnhet.errors import FormatError, MissingDependencyError, SpecError

_SHARE = 0.6  # of the memory that is free or given and not yet used, for DuckDB
_LEAST = 128  # MiB


class _Rule(NamedTuple):
    """What a row must hold to.

    Attributes:
        column: as the person named it.
        holds: SQL that is true of good rows.
        words: the rule.
        value: SQL of what to show of a bad row.
    """

    column: str
    holds: str
    words: str
    value: str


def find_tables(place: Path) -> tuple[Path, Path | None] | None:
    """The tables of edges and of nodes: a file of edges, or a folder with `edges` and `nodes`; None where there are none.

    Raises:
        FormatError: two tables of one name.
    """
    if place.is_file():
        return (place, None) if is_table(place) else None
    found: dict[str, Path] = {}
    for path in sorted(place.iterdir()):
        name = path.name.lower().partition(".")[0]
        if name in ("edges", "nodes") and (path.is_dir() or is_table(path)):
            if name in found:
                raise FormatError(f"a folder of tables must hold one table of {name}, got {found[name].name} and {path.name}")
            found[name] = path
    return (found["edges"], found.get("nodes")) if "edges" in found else None


def source(
    edges: Path,
    nodes: Path | None,
    *,
    skip: bool,
    memory: int | None,
    work: Path | None,
    num_nodes: int | None,
    threads: int | None,
) -> Source:
    """A graph whose ids are integers or strings of any kind.

    Nodes are in the order of their table, or of their ids where there is none. Ids that are 0, 1, 2, ... already stay; all
    others are mapped, and `Source.ids` keeps them.

    Args:
        edges: table of edges.
        nodes: table of nodes.
        skip: leave bad rows out and report them.
        memory: bytes that the process may use; DuckDB gets a share of what is left.
        work: folder for what is made; by default a temporary one, removed at exit.
        num_nodes: of a graph whose ids are dense already.
        threads: that may be used.

    Raises:
        FormatError: a table that cannot be read, or a bad row.
        SpecError: `num_nodes` beside a table of nodes that says otherwise.
        MissingDependencyError: no DuckDB or pyarrow.
    """
    try:
        import duckdb
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"tables need duckdb and pyarrow, got {error}: pip install 'gnnhet[tables]'") from error
    if work is None:
        work = Path(tempfile.mkdtemp(prefix="gnnhet-tables-"))
        atexit.register(shutil.rmtree, work, ignore_errors=True)
    made = work / "tables"
    made.mkdir(parents=True, exist_ok=True)
    left = psutil.virtual_memory().available if memory is None else memory - psutil.Process().memory_info().rss
    with reading(edges), duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"SET memory_limit = '{max(int(left * _SHARE) >> 20, _LEAST)}MiB'")
        connection.execute(f"SET temp_directory = {quoted(made / 'spill')}")
        connection.execute("SET enable_progress_bar = false")
        if threads:
            connection.execute(f"SET threads = {threads}")
        return _Reader(connection, made, skip).read(edges, nodes, num_nodes)


class _Reader:
    """The steps from tables to Parquet files of dense ids."""

    def __init__(self, connection: Any, work: Path, skip: bool) -> None:
        self._connection, self._work, self._skip = connection, work, skip
        self._report: list[str] = []

    def read(self, edges: Path, nodes: Path | None, num_nodes: int | None) -> Source:
        """All of them."""
        table = self._open(edges)
        ends = columns.ends_of(table)
        features: dict[str, RowStream] = {}
        if nodes is not None:
            features, count, integers = self._nodes(self._open(nodes))
            if num_nodes is not None and num_nodes != count:
                raise SpecError(f"num_nodes must be the rows of {nodes}, {count:,}, got {num_nodes:,}: leave it out")
        elif num_nodes is not None:
            count, integers = num_nodes, True
        else:
            integers = columns.all_integers(table, ends, self._connection)
            sql = [columns.integer(table, end) if integers else columns.text(end) for end in ends]
            both = " UNION ".join(f"SELECT {end} AS id FROM {table.sql()}" for end in sql)
            self._connection.execute(
                f"CREATE TABLE ids AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS node FROM ({both}) WHERE id IS NOT NULL"
            )
            count = self._one("SELECT count(*) FROM ids")
        dense = integers and (
            (nodes is None and num_nodes is not None) or not self._one("SELECT count(*) FROM ids WHERE id <> node")
        )
        return Source(
            num_nodes={NODE: count},
            edges={HOMOGENEOUS: self._edges(table, ends, integers, count if dense else None)},
            features={NODE: features} if features else {},
            ids={} if dense else {NODE: self._copy("ids", "SELECT id, node FROM ids ORDER BY node")},
            report=self._report,
            name=edges.resolve().parent.name if edges.name.startswith("edges") else edges.name.partition(".")[0],
        )

    def _open(self, path: Path) -> Table:
        return open_table(path, self._connection, self._work, skip=self._skip, report=self._report)

    def _edges(self, table: Table, ends: tuple[str, str], integers: bool, dense: int | None) -> EdgeStream:
        """Map the ends, where they are not dense, hold every value to its rule, and keep the order."""
        values: dict[str, tuple[str, str, str, str]] = {}  # name -> column, SQL, dtype, rule
        if (weight := columns.column_of(table, columns.WEIGHT)) and weight not in ends:
            values["weight"] = weight, columns.weight(weight), "float32", "a number"
        if (time := columns.column_of(table, columns.TIME)) and time not in ends:
            values["time"] = time, *columns.time(table, time, self._connection)
        kinds = [table.columns[column] for column in (*ends, *(column for column, *_ in values.values()))]
        numbers = (*columns.INTEGERS, "FLOAT", "DOUBLE")
        if dense is not None and not self._skip and set(kinds[:2]) <= set(columns.INTEGERS) and set(kinds[2:]) <= set(numbers):
            stored = {name: (column, np.dtype(dtype), rule) for name, (column, _, dtype, rule) in values.items()}
            return _dense_edges(table, ends, stored, dense)
        ids = [columns.integer(table, end) if integers else columns.text(end) for end in ends]
        given = [*zip(("src", "dst"), ids, strict=True), *((name, sql) for name, (_, sql, *_) in values.items())]
        shown = [f"{columns.text(end)} AS shown_{name}" for name, end in zip(("src", "dst"), ends, strict=True)]
        shown += [f"{columns.text(column)} AS shown_{name}" for name, (column, *_) in values.items()]
        picked = ", ".join([*(f"{sql} AS {name}" for name, sql in given), *shown])
        rows = f"(SELECT filename, file_row_number AS row, {picked} FROM {table.sql()})"
        if dense is None:
            rows = (
                f"(SELECT e.* REPLACE (a.node AS src, b.node AS dst) FROM {rows} e "
                "LEFT JOIN ids a ON e.src = a.id LEFT JOIN ids b ON e.dst = b.id)"
            )
        inside = "{0} IS NOT NULL" if dense is None else f"{{0}} >= 0 AND {{0}} < {dense}"
        what = "the id of a node" if dense is None else f"the id of a node, 0 to {dense - 1}"
        rules = [
            _Rule(end, inside.format(name), f"an end must be {what}", f"shown_{name}")
            for name, end in zip(("src", "dst"), ends, strict=True)
        ]
        rules += [_Rule(c, f"{n} IS NOT NULL", f"a {n} must be {rule}", f"shown_{n}") for n, (c, _, _, rule) in values.items()]
        file, count = self._kept(table, rows, rules, ["src", "dst", *values], "edges", in_order=dense is not None)
        return _edge_stream(file, count, {name: np.dtype(dtype) for name, (_, _, dtype, _) in values.items()})

    def _nodes(self, table: Table) -> tuple[dict[str, RowStream], int, bool]:
        """Number the nodes by their rows and write what is known of them; whether ids are integers."""
        column = columns.column_of(table, columns.ID) or next(iter(table.columns))
        integers = columns.all_integers(table, [column], self._connection)
        ids = columns.integer(table, column) if integers else columns.text(column)
        rules = [_Rule(column, "id IS NOT NULL", "a node must have an id", "id")]
        rules.append(_Rule(column, "nth = 1 OR id IS NULL", "ids must differ", "id"))
        wanted: dict[str, tuple[str, str]] = {}  # name -> SQL, dtype
        label, split, time = (columns.column_of(table, known) for known in (columns.LABEL, columns.SPLIT, columns.TIME))
        if label and label != column:
            wanted["y"] = columns.label(table, label, self._connection), "int64"
            rules.append(_Rule(label, "y IS NOT NULL", "a label must be a whole number or a string", "shown_y"))
        if split and split != column:
            wanted["split"] = columns.split(split), "int8"
            rules.append(_Rule(split, "split IS NOT NULL", "a split must be train, val, test or none", "shown_split"))
        if time and time != column:
            sql, dtype, rule = columns.time(table, time, self._connection)
            wanted["time"] = sql, dtype
            rules.append(_Rule(time, "time IS NOT NULL", f"a time must be {rule}", "shown_time"))
        shown = [
            f"{columns.text(c)} AS shown_{n}" for n, c in (("y", label), ("split", split), ("time", time)) if n in wanted and c
        ]
        width = 0
        if x := columns.features(table, [column, *(c for c in (label, split, time) if c)]):
            wanted["x"] = x, "float32"
            shown.append(f"CAST({x} AS VARCHAR) AS shown_x")
            first = self._connection.execute(f"SELECT len({x}) FROM {table.sql()} WHERE {x} IS NOT NULL LIMIT 1").fetchone()
            width = int(first[0]) if first else 0
            words = f"features must be numbers, {width} in each row as in the first"
            rules.append(_Rule("x", f"len(x) = {width} AND list_count(x) = {width}", words, "shown_x"))
        picked = ", ".join([f"{ids} AS id", *(f"{sql} AS {name}" for name, (sql, _) in wanted.items()), *shown])
        nth = f"row_number() OVER (PARTITION BY {ids} ORDER BY filename, file_row_number) AS nth"
        rows = f"(SELECT filename, file_row_number AS row, {nth}, {picked} FROM {table.sql()})"
        number = "row_number() OVER (ORDER BY filename, row) - 1 AS node"
        file, count = self._kept(table, rows, rules, ["id", number, *wanted], "nodes")
        self._connection.execute(f"CREATE TABLE ids AS SELECT id, node FROM read_parquet({quoted(file)})")
        shapes = {name: (count, width) if name == "x" else (count,) for name in wanted}
        return {n: _row_stream(file, n, shapes[n], np.dtype(dtype)) for n, (_, dtype) in wanted.items()}, count, integers

    def _kept(
        self, table: Table, rows: str, rules: Sequence[_Rule], wanted: Sequence[str], name: str, *, in_order: bool = False
    ) -> tuple[Path, int]:
        """Write the rows that hold to all rules, in their order; the others are refused or reported.

        DuckDB keeps the order of files that it only filters (`in_order`); what was joined or numbered is sorted again.

        Raises:
            FormatError: the first row that breaks the first rule.
        """
        good = " AND ".join(f"({rule.holds})" for rule in rules)
        order = "" if in_order else " ORDER BY filename, row"
        file = self._copy(f"good-{name}", f"SELECT {', '.join(wanted)} FROM {rows} WHERE {good}{order}")
        count = self._one(f"SELECT count(*) FROM read_parquet({quoted(file)})")
        bad = self._one(f"SELECT count(*) FROM {table.sql()}") - count
        for rule in rules if bad else ():
            found = self._connection.execute(
                f"SELECT filename, row, {rule.value} FROM {rows} WHERE ({rule.holds}) IS NOT TRUE "
                f"ORDER BY filename, row LIMIT {MOST_LISTED}"
            ).fetchall()
            lines = [
                f"{table.place(place, row)}, column {rule.column}: {rule.words}, got {value!r}" for place, row, value in found
            ]
            if lines and not self._skip:
                raise FormatError(f"{lines[0][:400]}: mend it, or skip bad rows")
            self._report += lines
        if bad:
            self._report.append(f"{table.path}: rows left out: {bad:,}")
        return file, count

    def _copy(self, name: str, query: str) -> Path:
        file = self._work / f"{name}.parquet"
        self._connection.execute(f"COPY ({query}) TO {quoted(file)} (FORMAT parquet)")
        return file

    def _one(self, query: str) -> int:
        """The number that a query gives."""
        return int(self._connection.execute(query).fetchone()[0])


def _dense_edges(table: Table, ends: tuple[str, str], values: dict[str, tuple[str, np.dtype, str]], count: int) -> EdgeStream:
    """Edges straight from the person's Parquet, whose ids must lie below `count`."""
    from pyarrow import parquet

    end = f"an end must be the id of a node, 0 to {count - 1}"
    wanted = {name: (column, np.dtype(np.int64), end) for name, column in zip(("src", "dst"), ends, strict=True)}
    wanted |= {name: (column, dtype, f"a {name} must be {rule}") for name, (column, dtype, rule) in values.items()}

    def read(most: int) -> Iterator[Edges]:
        for file in table.given:
            row = 0
            with parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(most, columns=[column for column, *_ in wanted.values()]):
                    found: dict[str, Array] = {}
                    for name, (column, dtype, rule) in wanted.items():
                        cells = batch.column(column)
                        numbers = cells.to_numpy(zero_copy_only=False)
                        bad = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
                        if bad is None and name in ("src", "dst"):
                            bad = (numbers < 0) | (numbers >= count)
                        if bad is not None and bad.any():
                            at = int(bad.argmax())
                            what = f"column {column}: {rule}, got {cells[at].as_py()!r}"
                            raise FormatError(f"{file}, row {row + at + 1:,}, {what}: mend it, or skip bad rows")
                        found[name] = numbers.astype(dtype, copy=False)
                    yield Edges(found.pop("src"), found.pop("dst"), found)
                    row += batch.num_rows

    edges = sum(parquet.read_metadata(file).num_rows for file in table.given)
    return EdgeStream(read=read, count=edges, values={name: dtype for name, (_, dtype, _) in values.items()})


def _edge_stream(file: Path, count: int, values: dict[str, np.dtype]) -> EdgeStream:
    """Edges of a Parquet file of ours."""
    from pyarrow import parquet

    def read(most: int) -> Iterator[Edges]:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(most):
                found = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("src", "dst", *values)}
                yield Edges(found.pop("src"), found.pop("dst"), found)

    return EdgeStream(read=read, count=count, values=values)


def _row_stream(file: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> RowStream:
    """A column of a Parquet file of ours."""
    from pyarrow import parquet

    def read(most: int) -> Iterator[Array]:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(most, columns=[name]):
                column = batch.column(0)
                flat = column.flatten() if len(shape) > 1 else column
                yield flat.to_numpy(zero_copy_only=False).reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=dtype)
