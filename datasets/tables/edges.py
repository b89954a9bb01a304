"""Edge tables: ends mapped to nodes, every value held to its rule, in the order of the rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnnhet.datasets.raw import Relation
from gnnhet.datasets.source import EdgeStream
from gnnhet.datasets.tables import columns, spans
from gnnhet.datasets.tables.database import Database, Rule
from gnnhet.datasets.tables.files import Table, named, open_table, quoted
from gnnhet.datasets.tables.nodes import Nodes
from gnnhet.datasets.tables.spec import EdgeTable
from gnnhet.datasets.tables.streams import edge_stream, edges_in_place
from gnnhet.errors import FormatError

_NUMBERS = (*columns.INTEGERS, "FLOAT", "DOUBLE")


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A table of edges and its columns."""

    given: EdgeTable
    table: Table
    ends: tuple[str, str]
    relation: str | None


@dataclass(frozen=True)
class _Value:
    """A value of edges: column as the person named it, SQL, dtype, and the rule in words."""

    column: str
    sql: str
    dtype: np.dtype
    words: str


def opened(given: EdgeTable, database: Database) -> Opened:
    """Find a table's files and columns.

    Raises:
        FormatError: a table that cannot be read, or a column that is not there.
    """
    table = open_table(given.file, given.text, database)
    relation = None if given.relation_column is None else columns.column_of(table, given.relation_column, ())
    besides = [name for name in (relation, given.weight, given.time, *sum(given.features.values(), ())) if name]
    ends = columns.ends_of(table, (given.source_column, given.destination_column), besides)
    return Opened(given=given, table=table, ends=ends, relation=relation)


def streams(number: int, of: Opened, nodes: Mapping[str, Nodes], database: Database) -> dict[Relation, EdgeStream]:
    """Each relation's edges.

    Args:
        number: of the table, for names of files.
        of: the table.
        nodes: of each type.
        database: where edges are made.

    Raises:
        FormatError: a bad row.
    """
    given, table = of.given, of.table
    values = _values(of, database)
    sides = nodes[given.source], nodes[given.destination]
    plain = [
        table.columns[end] in (columns.INTEGERS if side.ids is None else spans.MAPPED if side.span else ())
        for end, side in zip(of.ends, sides, strict=True)
    ]
    counted = all(value.dtype.shape == () and table.columns[value.column] in _NUMBERS for value in values.values())
    if of.relation is None and not database.skip and all(plain) and counted:
        stored = {name: (value.column, value.dtype, value.words) for name, value in values.items()}
        stream = edges_in_place(table, of.ends, [(side.count, side.span) for side in sides], stored)
        return {(given.source, given.relation, given.destination): stream}
    rows, rules = _mapped(of, sides, values)
    order = [] if all(side.ids is None for side in sides) else ["filename", "row"]
    wanted = ["src", "dst", *(f"v{place}" for place in range(len(values)))]
    if of.relation is not None:
        wanted, order = [*wanted, "relation"], ["relation", "filename", "row"]
        rules.append(Rule(of.relation, "relation IS NOT NULL", "an edge must name its relation", "relation"))
    file, count = database.kept(table, rows, rules, wanted, f"edges-{number}", f"mapping {table.path.name}", order)
    places = {name: (f"v{place}", value.dtype) for place, (name, value) in enumerate(values.items())}
    if of.relation is None:
        return {(given.source, given.relation, given.destination): edge_stream(file, 0, count, places)}
    made, first = {}, 0
    query = f"SELECT relation, count(*) FROM read_parquet({quoted(file)}) GROUP BY relation ORDER BY relation"
    for name, size in database.all(query):
        made[given.source, name, given.destination] = edge_stream(file, first, size, places)
        first += size
    return made


def _mapped(of: Opened, sides: tuple[Nodes, Nodes], values: Mapping[str, _Value]) -> tuple[str, list[Rule]]:
    """SQL of rows with mapped ends, and the rules that they must hold to."""
    table = of.table
    picked, rules, joins, replaced = [], [], [], []
    for name, end, side in zip(("src", "dst"), of.ends, sides, strict=True):
        picked.append(f"{columns.integer(table, end) if side.integers else columns.text(end)} AS {name}")
        picked.append(f"{columns.text(end)} AS shown_{name}")
        if side.ids is None:
            rule = f"an end must be the id of a node, 0 to {side.count - 1}"
            rules.append(Rule(end, f"{name} >= 0 AND {name} < {side.count}", rule, f"shown_{name}"))
        else:
            joins.append(f"LEFT JOIN read_parquet({quoted(side.ids)}) of_{name} ON e.{name} = of_{name}.id")
            replaced.append(f"of_{name}.node AS {name}")
            rules.append(Rule(end, f"{name} IS NOT NULL", "an end must be the id of a node", f"shown_{name}"))
    for place, (name, value) in enumerate(values.items()):
        width, alias = value.dtype.shape, f"v{place}"
        picked.append(f"{value.sql} AS {alias}")
        picked.append(f"CAST({value.sql if width else named(value.column)} AS VARCHAR) AS shown_{alias}")
        holds = f"len({alias}) = {width[0]} AND list_count({alias}) = {width[0]}" if width else f"{alias} IS NOT NULL"
        rules.append(Rule(value.column, holds, f"a {name} must be {value.words}", f"shown_{alias}"))
    if of.relation is not None:
        picked.append(f"{columns.text(of.relation)} AS relation")
    rows = f"(SELECT filename, file_row_number AS row, {', '.join(picked)} FROM {table.sql()})"
    if joins:
        rows = f"(SELECT e.* REPLACE ({', '.join(replaced)}) FROM {rows} e {' '.join(joins)})"
    return rows, rules


def _values(of: Opened, database: Database) -> dict[str, _Value]:
    """What an edge has beside its ends, by the names that it has in a graph."""
    given, table = of.given, of.table
    found: dict[str, _Value] = {}
    taken = {*of.ends, of.relation}
    weight, time = (
        None if (name := columns.column_of(table, *both)) in taken else name
        for both in ((given.weight, columns.WEIGHT), (given.time, columns.TIME))
    )
    if weight:
        found["weight"] = _Value(weight, columns.weight(weight), np.dtype(np.float32), "a number")
    if time:
        sql, dtype, rule = columns.time(table, time, database)
        found["time"] = _Value(time, sql, np.dtype(dtype), rule)
    for name, (sql, width) in columns.features(table, given.features, database).items():
        if name in found:
            raise FormatError(f"features of {table.path} must be named otherwise than weight and time, got {name}: rename it")
        column = name if len(given.features[name]) > 1 else given.features[name][0]
        rule = f"a list of {width} numbers as in the first row"
        found[name] = _Value(column, sql, np.dtype((np.float32, (width,))), rule)
    return found
