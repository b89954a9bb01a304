"""Node tables: nodes numbered by their rows, with what is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gnnhet.datasets.source import RowStream
from gnnhet.datasets.tables import columns, spans
from gnnhet.datasets.tables.database import Database, Rule
from gnnhet.datasets.tables.files import Table, named, open_table, quoted
from gnnhet.datasets.tables.spans import Span
from gnnhet.datasets.tables.spec import NodeTable
from gnnhet.datasets.tables.streams import row_stream
from gnnhet.errors import FormatError


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """A node type whose nodes are numbered.

    Attributes:
        count: of nodes.
        integers: whether ids are integers; else all are strings.
        ids: Parquet file of `id` and `node`, ordered by `node`; None where ids count from 0 already.
        span: of `ids`, where they may be held as an array.
        features: by name.
    """

    count: int
    integers: bool = True
    ids: Path | None = None
    span: Span | None = None
    features: Mapping[str, RowStream] = field(default_factory=dict)


@dataclass(frozen=True)
class _Value:
    """What is known of a node: column as the person named it, SQL, dtype, the rule in words, and how many numbers a list has."""

    column: str
    sql: str
    dtype: str
    words: str
    width: int | None = None


def of_table(number: int, node_type: str, given: NodeTable, file: Path, database: Database) -> Nodes:
    """Number the nodes of a table.

    Args:
        number: of the type, for names of files.
        node_type: the type.
        given: what its table has.
        file: the table.
        database: where it is made.

    Raises:
        FormatError: a table that cannot be read, a column that is not there, or a bad row.
    """
    table = open_table(file, given.text, database)
    column = columns.column_of(table, given.id, columns.ID) or next(iter(table.columns))
    integers = columns.all_integers(table, [column], database)
    ids = columns.integer(table, column) if integers else columns.text(column)
    values = _values(table, given, column, database)
    rules = [
        Rule(column, "id IS NOT NULL", "a node must have an id", "id"),
        Rule(column, "nth = 1 OR id IS NULL", "ids must differ", "id"),
    ]
    picked, shown, shapes = [f"{ids} AS id"], [], {}
    for place, (name, value) in enumerate(values.items()):
        alias = f"v{place}"
        picked.append(f"{value.sql} AS {alias}")
        shown.append(f"CAST({value.sql if value.width is not None else named(value.column)} AS VARCHAR) AS shown_{alias}")
        holds = f"{alias} IS NOT NULL"
        if value.width is not None:
            holds = f"len({alias}) = {value.width} AND list_count({alias}) = {value.width}"
        rules.append(Rule(value.column, holds, value.words, f"shown_{alias}"))
        shapes[name] = (alias, () if value.width is None else (value.width,))
    nth = f"row_number() OVER (PARTITION BY {ids} ORDER BY filename, file_row_number) AS nth"
    rows = f"(SELECT filename, file_row_number AS row, {nth}, {', '.join([*picked, *shown])} FROM {table.sql()})"
    wanted = ["id", "row_number() OVER (ORDER BY filename, row) - 1 AS node", *(alias for alias, _ in shapes.values())]
    made, count = database.kept(table, rows, rules, wanted, f"nodes-{number}", f"numbering {node_type}")
    features = {
        name: row_stream(made, alias, (count, *shape), np.dtype(values[name].dtype)) for name, (alias, shape) in shapes.items()
    }
    query = f"SELECT id, node FROM read_parquet({quoted(made)})"
    kept = database.made(f"ids-{number}", query, f"keeping ids of {node_type}")
    return _numbered(kept, count, integers, features, database)


def of_edges(number: int, node_type: str, ends: list[tuple[Table, str]], database: Database) -> Nodes:
    """The nodes that edges name, in the order of their ids.

    Args:
        number: of their type, for names of files.
        node_type: their type.
        ends: tables and their columns of such ids.
        database: where it is made.
    """
    integers = all(columns.all_integers(table, [end], database) for table, end in ends)
    what = f"numbering {node_type}"
    made = spans.numbered(f"spanned-{number}", ends, database, what) if integers else None
    if made is None:
        sql = [(table, columns.integer(table, end) if integers else columns.text(end)) for table, end in ends]
        union = " UNION ".join(f"SELECT DISTINCT {end} AS id FROM {table.sql()}" for table, end in sql)
        query = f"SELECT id, row_number() OVER (ORDER BY id) - 1 AS node FROM ({union}) WHERE id IS NOT NULL ORDER BY node"
        made = database.made(f"named-{number}", query, what)
    count = int(database.one(f"SELECT count(*) FROM read_parquet({quoted(made)})"))
    return _numbered(made, count, integers, {}, database)


def _numbered(ids: Path, count: int, integers: bool, features: Mapping[str, RowStream], database: Database) -> Nodes:
    """Nodes whose ids are in a table, which is of no use where these are their numbers."""
    dense = integers and not database.one(f"SELECT count(*) FROM read_parquet({quoted(ids)}) WHERE id <> node")
    span = spans.span_of(ids, count, database) if integers and not dense else None
    return Nodes(count=count, integers=integers, ids=None if dense else ids, span=span, features=features)


def _values(table: Table, given: NodeTable, column: str, database: Database) -> dict[str, _Value]:
    """What there is beside ids, by the names that arrays have in a graph."""
    found: dict[str, _Value] = {}
    said = (given.label, columns.LABEL), (given.split, columns.SPLIT), (given.time, columns.TIME)
    label, split, time = (None if (name := columns.column_of(table, *both)) == column else name for both in said)
    if label:
        words = "a label must be a whole number or a string"
        found["y"] = _Value(label, columns.label(table, label, database), "int64", words)
    if split:
        found["split"] = _Value(split, columns.split(split), "int8", "a split must be train, val, test or none")
    if time:
        sql, dtype, rule = columns.time(table, time, database)
        found["time"] = _Value(time, sql, dtype, f"a time must be {rule}")
    taken = [column, *(value.column for value in found.values())]
    wanted = columns.usual_features(table, taken) if given.features is None else given.features
    for name, (sql, width) in columns.features(table, wanted, database).items():
        if name in found:
            raise FormatError(f"features of {table.path} must be named otherwise than y, split and time, got {name}: rename it")
        words = f"features must be numbers, {width} in each row as in the first"
        found[name] = _Value(name if len(wanted[name]) > 1 else wanted[name][0], sql, "float32", words, width)
    return found
