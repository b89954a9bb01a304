"""A graph in Parquet or text: node types numbered first, then the ends of edges mapped to them."""

import atexit
import shutil
import tempfile
from pathlib import Path

from gnnhet.datasets.raw import Relation
from gnnhet.datasets.source import EdgeStream, Source, Watch
from gnnhet.datasets.tables import edges, nodes
from gnnhet.datasets.tables.database import Database, database
from gnnhet.datasets.tables.files import Table, reading
from gnnhet.datasets.tables.spec import Tables
from gnnhet.errors import FormatError, MissingDependencyError


def source(
    tables: Tables, place: Path, *, skip: bool, memory: int | None, work: Path | None, threads: int | None, watch: Watch
) -> Source:
    """A graph whose ids are integers or strings of any kind.

    Nodes are in the order of their table, or of their ids where there is none. Ids that are 0, 1, 2, ... already stay; all
    others are mapped, and `Source.ids` keeps them.

    Args:
        tables: what there is.
        place: what the person gave, for messages.
        skip: leave bad rows out and report them.
        memory: bytes that the process may use; DuckDB gets a share of what is left.
        work: folder for what is made; by default a temporary one, removed at exit. What an interrupted run finished in it
            of the same files is used again.
        threads: that may be used.
        watch: told how far each step is.

    Raises:
        FormatError: a table that cannot be read, or a bad row.
        MissingDependencyError: no DuckDB or pyarrow.
    """
    try:
        import duckdb  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"tables need duckdb and pyarrow, got {error}: pip install 'gnnhet[tables]'") from error
    if work is None:
        work = Path(tempfile.mkdtemp(prefix="gnnhet-tables-"))
        atexit.register(shutil.rmtree, work, ignore_errors=True)
    with (
        reading(place),
        database(work / "tables", skip=skip, memory=memory, threads=threads, watch=watch) as opened,
    ):
        return _read(tables, opened)


def _read(tables: Tables, opened: Database) -> Source:
    """All tables."""
    found = {
        t: nodes.of_table(n, t, given, given.file, opened) for n, (t, given) in enumerate(tables.nodes.items()) if given.file
    }
    tables_of_edges = [edges.opened(given, opened) for given in tables.edges]
    for number, (node_type, given) in enumerate(tables.nodes.items()):
        if given.count is not None:
            found[node_type] = nodes.Nodes(count=given.count)
        elif given.file is None:
            ends: list[tuple[Table, str]] = []
            for of in tables_of_edges:
                types = of.given.source, of.given.destination
                ends += [(of.table, end) for t, end in zip(types, of.ends, strict=True) if t == node_type]
            found[node_type] = nodes.of_edges(number, node_type, ends, opened)
    streams: dict[Relation, EdgeStream] = {}
    for number, of in enumerate(tables_of_edges):
        for relation, stream in edges.streams(number, of, found, opened).items():
            if relation in streams:
                raise FormatError(f"a relation's edges must be in one table or folder of parts, got two of {relation}: move them")
            streams[relation] = stream
    return Source(
        num_nodes={node_type: found[node_type].count for node_type in tables.nodes},
        edges=streams,
        features={node_type: of.features for node_type, of in found.items() if of.features},
        ids={node_type: of.ids for node_type, of in found.items() if of.ids is not None},
        report=opened.report,
        name=tables.name,
        files=(*tables.files, *opened.files),
    )
