"""DuckDB at work in a folder: steps from queries to Parquet files, each kept for a later run, and rows held to rules."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from gnnhet.datasets.files import stamp
from gnnhet.datasets.source import Watch
from gnnhet.datasets.tables.files import MOST_LISTED, Table, quoted
from gnnhet.errors import FormatError

_SHARE = 0.6  # of the memory that is free or given and not yet used, for DuckDB
_LEAST = 128  # MiB
_SPAN_SHARE = 0.25  # for arrays of ids, of at most 8 bytes each
_POLL_SECONDS = 0.2


Advance = Callable[[int], None]


class Rule(NamedTuple):
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


class Database:
    """A connection, the folder for what is made, and what was read and left out.

    Attributes:
        folder: where files are made.
        skip: leave bad rows out.
        most_span: from the least to the largest of ids that may be held as an array.
        files: the person's files that were opened.
        report: lines about rows that were left out.
    """

    def __init__(self, connection: Any, folder: Path, *, skip: bool, most_span: int, watch: Watch) -> None:
        """Hold them."""
        self.folder, self.skip, self.most_span = folder, skip, most_span
        self.files: list[Path] = []
        self.report: list[str] = []
        self._connection, self._watch = connection, watch

    def one(self, query: str) -> Any:
        """The first value of the first row, or None where there is none."""
        row = self._connection.execute(query).fetchone()
        return None if row is None else row[0]

    def all(self, query: str) -> list[tuple[Any, ...]]:
        """All rows."""
        found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return found

    def made(self, name: str, query: str, what: str, left_out: Callable[[], list[str]] = list) -> Path:
        """A Parquet file of what a query gives.

        Args:
            name: of the file.
            query: that gives its rows.
            what: is done, in words.
            left_out: called afterwards, lines for the report.
        """

        def write(path: Path, advance: Advance) -> None:
            self._run(f"COPY ({query}) TO {quoted(path)} (FORMAT parquet)", advance)

        return self.written(name, query, what, 100, "%", write, left_out)

    def written(
        self,
        name: str,
        key: str,
        what: str,
        total: int,
        unit: str,
        write: Callable[[Path, Advance], None],
        left_out: Callable[[], list[str]] = list,
    ) -> Path:
        """A Parquet file; one that an earlier run finished from the same files is used again.

        Args:
            name: of the file.
            key: what is written into it, in words that are equal for equal rows of the same files.
            what: is done, in words.
            total: units of it.
            unit: of what.
            write: writes a file, and tells how far it is.
            left_out: called afterwards, lines for the report.
        """
        file, done = self.folder / f"{name}.parquet", self.folder / f"{name}.json"
        stamped = [key, [stamp(path) for path in self.files]]
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = json.loads(done.read_text())
            if found["key"] == stamped and file.exists():
                self.report += found["report"]
                return file
        done.unlink(missing_ok=True)
        beside = self.folder / f".{name}.part"
        with self._watch(what, total, unit) as progress:
            write(beside, progress.advance)
        lines = left_out()
        with beside.open("rb") as synced:
            os.fsync(synced.fileno())
        beside.replace(file)
        done.write_text(json.dumps({"key": stamped, "report": lines}))
        self.report += lines
        return file

    def kept(
        self,
        table: Table,
        rows: str,
        rules: Sequence[Rule],
        wanted: Sequence[str],
        name: str,
        what: str,
        order: Sequence[str] = ("filename", "row"),
    ) -> tuple[Path, int]:
        """Write the rows that hold to all rules; the others are refused or reported.

        Args:
            table: where the rows are from.
            rows: SQL of them, with `filename` and `row` from 0.
            rules: they must hold to.
            wanted: columns.
            name: of the file.
            what: is done, in words.
            order: columns to sort by; none where rows were only filtered, as DuckDB keeps their order then.

        Returns:
            the file and how many rows it has.

        Raises:
            FormatError: the first row that breaks the first rule.
        """
        good = " AND ".join(f"({rule.holds})" for rule in rules)
        by = f" ORDER BY {', '.join(order)}" if order else ""
        file = self.made(name, f"SELECT {', '.join(wanted)} FROM {rows} WHERE {good}{by}", what)
        count = int(self.one(f"SELECT count(*) FROM read_parquet({quoted(file)})"))
        bad = int(self.one(f"SELECT count(*) FROM {table.sql()}")) - count
        for rule in rules if bad else ():
            found = self.all(
                f"SELECT filename, row, {rule.value} FROM {rows} WHERE ({rule.holds}) IS NOT TRUE "
                f"ORDER BY filename, row LIMIT {MOST_LISTED}"
            )
            lines = [
                f"{table.place(place, row)}, column {rule.column}: {rule.words}, got {value!r}" for place, row, value in found
            ]
            if lines and not self.skip:
                raise FormatError(f"{lines[0][:400]}: mend it, or skip bad rows")
            self.report += lines
        if bad:
            self.report.append(f"{table.path}: rows left out: {bad:,}")
        return file, count

    def _run(self, query: str, advance: Advance) -> None:
        """Run a query on a thread while this one looks how many percent are done; an interruption ends it."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._connection.execute, query)
            shown = 0
            try:
                while not wait([running], _POLL_SECONDS).done:
                    now = min(int(self._connection.query_progress()), 99)
                    if now > shown:
                        advance(now - shown)
                        shown = now
            except BaseException:
                self._connection.interrupt()
                raise
            running.result()
            advance(100 - shown)


@contextlib.contextmanager
def database(folder: Path, *, skip: bool, memory: int | None, threads: int | None, watch: Watch) -> Iterator[Database]:
    """DuckDB with a folder to work in.

    Args:
        folder: for what is made, and for what does not fit into memory.
        skip: leave bad rows out.
        memory: bytes that the process may use; DuckDB gets a share of what is left.
        threads: that may be used.
        watch: told how far each step is.
    """
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    left = psutil.virtual_memory().available if memory is None else memory - psutil.Process().memory_info().rss
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"SET memory_limit = '{max(int(left * _SHARE) >> 20, _LEAST)}MiB'")
        connection.execute(f"SET temp_directory = {quoted(folder / 'spill')}")
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
        if threads:
            connection.execute(f"SET threads = {threads}")
        yield Database(connection, folder, skip=skip, most_span=max(0, int(left * _SPAN_SHARE)) // 8, watch=watch)
