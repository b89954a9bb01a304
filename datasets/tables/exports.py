"""A homogeneous graph in Parquet or text: a table of edges and, if there is one, a table of nodes."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from gnnhet.datasets.files import one_line
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, Array
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source
from gnnhet.datasets.tables.files import MOST_LISTED, Table, is_table, named, open_table, quoted
from gnnhet.errors import FormatError, GnnhetError, MissingDependencyError, SpecError

SOURCE, DESTINATION = ("src", "source", "from", "head"), ("dst", "destination", "target", "to", "tail")
VALUES = {"weight": ("weight", "w"), "time": ("time", "timestamp", "t")}
ID, LABEL, SPLIT, FEATURES = ("id", "node", "node_id"), ("label", "y"), ("split",), ("x", "feat", "features")
_WORDS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "none": -1}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_SHARE = 0.6  # of free memory, where no bound is given


def find_tables(place: Path) -> tuple[Path, Path | None] | None:
    """The tables of edges and of nodes: a file of edges, or a folder with `edges` and `nodes`; None where there are none."""
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
        memory: bytes that DuckDB may use.
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
    made = Path(tempfile.mkdtemp(prefix="gnnhet-tables-")) if work is None else work / "tables"
    if work is None:
        atexit.register(shutil.rmtree, made, ignore_errors=True)
    made.mkdir(parents=True, exist_ok=True)
    report: list[str] = []
    bound = memory if memory is not None else int(psutil.virtual_memory().available * _SHARE)
    try:
        with duckdb.connect() as connection:
            connection.execute(f"SET memory_limit = '{max(bound >> 20, 128)}MiB'")
            connection.execute(f"SET temp_directory = {quoted(made / 'spill')}")
            connection.execute("SET enable_progress_bar = false")
            if threads:
                connection.execute(f"SET threads = {threads}")
            found = _Reader(connection, made, skip, report).read(edges, nodes, num_nodes)
    except GnnhetError:
        raise
    except duckdb.Error as error:
        raise FormatError(f"{edges} must be readable as a table, got {one_line(error)}") from error
    return found


class _Reader:
    """The steps from tables to Parquet files of dense ids."""

    def __init__(self, connection: Any, work: Path, skip: bool, report: list[str]) -> None:
        self._connection, self._work, self._skip, self._report = connection, work, skip, report

    def read(self, edges: Path, nodes: Path | None, num_nodes: int | None) -> Source:
        """All of them."""
        table = self._open(edges)
        src, dst = _ends(table)
        values = {name: column for name, known in VALUES.items() if (column := _column(table, known)) not in (None, src, dst)}
        features: dict[str, RowStream] = {}
        if nodes is not None:
            features, count, text = self._nodes(self._open(nodes))
            if num_nodes is not None and num_nodes != count:
                raise SpecError(f"num_nodes must be the rows of {nodes}, {count:,}, got {num_nodes:,}: leave it out")
        else:
            text = not all(table.columns[end] in _INTEGERS for end in (src, dst))
            if num_nodes is not None and text:
                raise FormatError(f"{edges} must have integers as ids where num_nodes is given, got {table.columns[src]}")
        kind = "VARCHAR" if text else "BIGINT"
        ends = {"src": f"TRY_CAST({named(src)} AS {kind})", "dst": f"TRY_CAST({named(dst)} AS {kind})"}
        if nodes is None and num_nodes is not None:
            self._connection.execute(f"CREATE TABLE ids AS SELECT range AS id, range AS node FROM range({num_nodes})")
            count = num_nodes
        elif nodes is None:
            both = " UNION ".join(f"SELECT {end} AS id FROM {table.sql()}" for end in ends.values())
            self._connection.execute(
                f"CREATE TABLE ids AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS node FROM ({both}) WHERE id IS NOT NULL"
            )
            (count,) = self._connection.execute("SELECT count(*) FROM ids").fetchone()
        stream = self._edges(table, {"src": src, "dst": dst}, ends, {n: str(c) for n, c in values.items()})
        return Source(
            num_nodes={NODE: count},
            edges={HOMOGENEOUS: stream},
            features={NODE: features} if features else {},
            ids=self._ids(),
            report=self._report,
            name=edges.resolve().parent.name if edges.name.startswith("edges") else edges.name.partition(".")[0],
        )

    def _open(self, path: Path) -> Table:
        return open_table(path, self._connection, self._work, skip=self._skip, report=self._report)

    def _bad(self, table: Table, query: str, rule: str) -> None:
        """Refuse or report rows that a query finds: filename, row, column, value."""
        bad = self._connection.execute(query + f" ORDER BY filename, row LIMIT {MOST_LISTED}").fetchall()
        if not bad:
            return
        lines = [f"{table.place(file, row)}, column {column}: {rule}, got {value!r}" for file, row, column, value in bad]
        if not self._skip:
            raise FormatError(f"{lines[0]}: mend it, or skip bad rows")
        (count,) = self._connection.execute(f"SELECT count(DISTINCT (filename, row)) FROM ({query})").fetchone()
        self._report += [*lines, f"{table.path}: {count:,} rows left out, {rule}"]

    def _edges(self, table: Table, given: dict[str, str], ends: dict[str, str], values: dict[str, str]) -> EdgeStream:
        """Map the ends, hold every value to be a number, and write the edges in their order."""
        numbers = {name: _number(table, column) for name, column in values.items()}
        columns = [f"{sql} AS {name}_id" for name, sql in ends.items()] + [f"{sql} AS v_{name}" for name, sql in numbers.items()]
        raw = [f"CAST({named(c)} AS VARCHAR) AS r_{n}" for n, c in {**given, **values}.items()]
        self._connection.execute(
            "CREATE VIEW mapped AS SELECT filename, file_row_number AS row, a.node AS src, b.node AS dst, "
            "e.* EXCLUDE (filename, file_row_number) "
            f"FROM (SELECT filename, file_row_number, {', '.join(columns + raw)} FROM {table.sql()}) e "
            "LEFT JOIN ids a ON e.src_id = a.id LEFT JOIN ids b ON e.dst_id = b.id"
        )
        whole = " AND ".join(f"{column} IS NOT NULL" for column in ("src", "dst", *(f"v_{name}" for name in values)))
        kept = ", ".join(["src", "dst", *(f"v_{name} AS {name}" for name in values)])
        file = self._copy("mapped-edges", f"SELECT {kept} FROM mapped WHERE {whole} ORDER BY filename, row")
        stream = _edge_stream(file, list(values))
        (rows,) = self._connection.execute(f"SELECT count(*) FROM {table.sql()}").fetchone()
        if stream.count != rows:
            for name, column in given.items():
                query = f"SELECT filename, row, {quoted(column)} AS name, r_{name} FROM mapped WHERE {name} IS NULL"
                self._bad(table, query, "an end must be a node's id")
            for name, column in values.items():
                query = f"SELECT filename, row, {quoted(column)} AS name, r_{name} FROM mapped WHERE v_{name} IS NULL"
                self._bad(table, query, f"a {name} must be a number")
        return stream

    def _nodes(self, table: Table) -> tuple[dict[str, RowStream], int, bool]:
        """Number the nodes by their rows and write what is known of them."""
        column = _column(table, ID) or next(iter(table.columns))
        text = table.columns[column] not in _INTEGERS
        kind = "VARCHAR" if text else "BIGINT"
        wanted, names = _node_columns(table, column, self._connection)
        rows = (
            f"(SELECT filename, file_row_number AS row, CAST({named(column)} AS {kind}) AS id, row_number() OVER (PARTITION BY "
            f"{named(column)} ORDER BY filename, file_row_number) AS nth{''.join(', ' + sql for sql in wanted)} "
            f"FROM {table.sql()})"
        )
        width = 0
        if "x" in names:
            first = self._connection.execute(f"SELECT len(x) FROM {rows} ORDER BY filename, row LIMIT 1").fetchone()
            width = int(first[0] or 0) if first else 0
        rules = [("id", "id IS NULL", "a node must have an id"), ("id", "nth > 1 AND id IS NOT NULL", "ids must differ")]
        if "split" in names:
            rules.append(("split", "split IS NULL", "a split must be train, val, test or none"))
        if "time" in names:
            rules.append(("time", "time IS NULL", "a time must be a number or date"))
        if "x" in names:
            wrong = f"(x IS NULL OR len(x) <> {width} OR list_count(x) < {width})"
            rules.append(("x", wrong, f"features must be numbers, {width} in each row as in the first"))
        where = " AND ".join(f"NOT ({wrong})" for _, wrong, _ in rules)
        kept = ", ".join(["id", "row_number() OVER (ORDER BY filename, row) - 1 AS node", *names])
        file = self._copy("mapped-nodes", f"SELECT {kept} FROM {rows} WHERE {where} ORDER BY node")
        self._connection.execute(f"CREATE TABLE ids AS SELECT id, node FROM read_parquet({quoted(file)})")
        (count,) = self._connection.execute("SELECT count(*) FROM ids").fetchone()
        (given,) = self._connection.execute(f"SELECT count(*) FROM {table.sql()}").fetchone()
        for name, wrong, rule in rules if given != count else ():
            value = name if name in ("id", "x") else "NULL"
            title = quoted(column if name == "id" else name)
            self._bad(table, f"SELECT filename, row, {title} AS name, CAST({value} AS VARCHAR) FROM {rows} WHERE {wrong}", rule)
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "x": ((count, width), "float32"),
            "y": ((count,), "int64"),
            "split": ((count,), "int8"),
            "time": ((count,), "int64"),
        }
        return {name: _row_stream(file, name, shapes[name][0], np.dtype(shapes[name][1])) for name in names}, count, text

    def _ids(self) -> dict[str, Path]:
        """The mapping, where there is one."""
        (other,) = self._connection.execute(
            "SELECT count(*) FROM ids WHERE CAST(id AS VARCHAR) <> CAST(node AS VARCHAR)"
        ).fetchone()
        return {NODE: self._copy("ids", "SELECT id, node FROM ids ORDER BY node")} if other else {}

    def _copy(self, name: str, query: str) -> Path:
        file = self._work / f"{name}.parquet"
        self._connection.execute(f"COPY ({query}) TO {quoted(file)} (FORMAT parquet)")
        return file


def _column(table: Table, known: Sequence[str]) -> str | None:
    """The first column that goes by one of the names."""
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in known if name in lower), None)


def _ends(table: Table) -> tuple[str, str]:
    """The columns of source and destination: by their names, else the first two."""
    src, dst = _column(table, SOURCE), _column(table, DESTINATION)
    if src is None and dst is None and len(table.columns) >= 2:
        src, dst = list(table.columns)[:2]
    if src is None or dst is None:
        raise FormatError(f"{table.path} must have columns src and dst, got {', '.join(table.columns)}: rename two of them")
    return src, dst


def _number(table: Table, column: str) -> str:
    """A column as int64 or float32; dates become microseconds since 1970."""
    kind = table.columns[column]
    if kind.startswith(("TIMESTAMP", "DATE")):
        return f"epoch_us(CAST({named(column)} AS TIMESTAMP))"
    return f"TRY_CAST({named(column)} AS {'BIGINT' if kind in _INTEGERS else 'FLOAT'})"


def _node_columns(table: Table, ids: str, connection: Any) -> tuple[list[str], list[str]]:
    """Columns of SQL and their names: y, split, time and x, as far as there are any."""
    found: dict[str, str] = {}
    if (label := _column(table, LABEL)) and label != ids:
        if table.columns[label] in _INTEGERS:
            found["y"] = f"coalesce(CAST({named(label)} AS BIGINT), -1)"
        else:
            sql = f"SELECT DISTINCT CAST({named(label)} AS VARCHAR) AS c FROM {table.sql()} WHERE c IS NOT NULL ORDER BY c"
            classes = ", ".join(quoted(name) for (name,) in connection.execute(sql).fetchall())
            found["y"] = f"coalesce(list_position(CAST([{classes}] AS VARCHAR[]), CAST({named(label)} AS VARCHAR)), 0) - 1"
    if split := _column(table, SPLIT):
        words = " ".join(f"WHEN {quoted(word)} THEN {number}" for word, number in _WORDS.items())
        numbers = " ".join(f"WHEN '{number}' THEN {number}" for number in (-1, 0, 1, 2))
        found["split"] = f"CASE lower(coalesce(CAST({named(split)} AS VARCHAR), 'none')) {words} {numbers} END"
    if time := _column(table, VALUES["time"]):
        found["time"] = f"CAST({_number(table, time)} AS BIGINT)"
    if (x := _column(table, FEATURES)) and "[" in table.columns[x]:
        found["x"] = f"CAST({named(x)} AS FLOAT[])"
    else:
        parts = [c for c in table.columns if c.lower().rstrip("0123456789").rstrip("_") in ("x", "f", "feat", "feature")]
        parts = sorted((c for c in parts if c[-1].isdigit()), key=lambda c: int(c[len(c.rstrip("0123456789")) :]))
        if parts:
            found["x"] = f"[{', '.join(f'TRY_CAST({named(c)} AS FLOAT)' for c in parts)}]"
    return [f"{sql} AS {name}" for name, sql in found.items()], list(found)


def _edge_stream(file: Path, values: list[str]) -> EdgeStream:
    """Edges of a Parquet file that has columns src and dst."""
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        count = opened.metadata.num_rows
        dtypes = {name: np.dtype(opened.schema_arrow.field(name).type.to_pandas_dtype()) for name in values}

    def read(most: int) -> Iterator[Edges]:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(most):
                columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("src", "dst", *values)}
                yield Edges(columns.pop("src"), columns.pop("dst"), columns)

    return EdgeStream(read=read, count=count, values=dtypes)


def _row_stream(file: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> RowStream:
    """A column of a Parquet file."""
    from pyarrow import parquet

    def read(most: int) -> Iterator[Array]:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(most, columns=[name]):
                column = batch.column(0)
                flat = column.flatten() if len(shape) > 1 else column
                yield flat.to_numpy(zero_copy_only=False).reshape(-1, *shape[1:]).astype(dtype, copy=False)

    return RowStream(read=read, shape=shape, dtype=dtype)
