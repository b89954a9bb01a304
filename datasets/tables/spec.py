"""Which tables a graph is in: told by the names of files, or by a `graph.toml`."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.datasets.tables.files import Text, is_table
from gnnhet.errors import FormatError

Columns = Mapping[str, tuple[str, ...]]  # name of a feature -> its columns, in order

_OF_TEXT = {"delimiter": str, "header": bool}
_OF_NODES = {"file": str, "count": int, "id": str, "label": str, "split": str, "time": str, "features": object, **_OF_TEXT}
_ENDS = {"source": str, "relation": str, "destination": str}
_COLUMNS = {f"{end}_column": str for end in _ENDS}
_OF_EDGES = {"file": str, **_ENDS, **_COLUMNS, "weight": str, "time": str, "features": object, **_OF_TEXT}
_OF_GRAPH = {"name": str, "nodes": dict, "edges": list}
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", dict: "tables", list: "an array of tables ([[edges]])"}


@dataclass(frozen=True, kw_only=True)
class NodeTable:
    """A node type.

    Attributes:
        file: its table, or None where its ids are those of edges, or count from 0.
        count: of nodes whose ids count from 0.
        id: column of ids; this and the others are found by their usual names where None.
        label: column of classes.
        split: column of train, val, test.
        time: column of times.
        features: by name; None: those of the usual names, as `x`.
        text: how text is parted.
    """

    file: Path | None = None
    count: int | None = None
    id: str | None = None
    label: str | None = None
    split: str | None = None
    time: str | None = None
    features: Columns | None = None
    text: Text = field(default_factory=Text)


@dataclass(frozen=True, kw_only=True)
class EdgeTable:
    """A table of edges: of one relation, or of as many as its column of relations has names.

    Attributes:
        file: the table.
        source: type of sources.
        relation: name; of no meaning where there is a column of relations.
        destination: type of destinations.
        source_column: of ids; this and the others, but that of relations, are found by their usual names where None.
        relation_column: of names of relations.
        destination_column: of ids.
        weight: column of weights.
        time: column of times.
        features: by name.
        text: how text is parted.
    """

    file: Path
    source: str
    relation: str
    destination: str
    source_column: str | None = None
    relation_column: str | None = None
    destination_column: str | None = None
    weight: str | None = None
    time: str | None = None
    features: Columns = field(default_factory=dict)
    text: Text = field(default_factory=Text)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """A graph in tables.

    Attributes:
        name: of the graph.
        nodes: by type.
        edges: in the order given.
        files: that say so.
    """

    name: str
    nodes: Mapping[str, NodeTable]
    edges: tuple[EdgeTable, ...]
    files: tuple[Path, ...] = ()


def usual(edges: Path, nodes: Path | None, num_nodes: int | None) -> Tables:
    """A homogeneous graph whose columns go by their usual names."""
    source, relation, destination = HOMOGENEOUS
    return Tables(
        name=edges.resolve().parent.name if edges.name.startswith("edges") else edges.name.partition(".")[0],
        nodes={NODE: NodeTable(file=nodes, count=num_nodes)},
        edges=(EdgeTable(file=edges, source=source, relation=relation, destination=destination),),
    )


def find(place: Path) -> tuple[Path, Path | None] | None:
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


def read(path: Path) -> Tables:
    """What a `graph.toml` says; files in it count from its folder.

    Raises:
        FormatError: no TOML, a key nobody knows, a value of another kind, a file that is not there, a node type nobody
            declared, or no edges.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} must be TOML in UTF-8, got {error}: mend it") from error
    _check(path, "", document, _OF_GRAPH)
    nodes: dict[str, NodeTable] = {}
    for node_type, given in document.get("nodes", {}).items():
        where = f"[nodes.{node_type}]"
        entry = _table(path, where, given, _OF_NODES)
        if ("file" in entry) == ("count" in entry) and entry:
            raise FormatError(f"{path}, {where} must say file or count, got {', '.join(entry)}: a table has its own count")
        if "count" in entry and len(entry) > 1:
            raise FormatError(f"{path}, {where} must say count alone where there is no file, got {', '.join(entry)}")
        if entry.get("count", 0) < 0:
            raise FormatError(f"{path}, {where} must have a count of 0 or more, got {entry['count']}")
        nodes[node_type] = NodeTable(**entry)
    edges = []
    for number, given in enumerate(document.get("edges", []), 1):
        where = f"[[edges]] number {number}"
        entry = _table(path, where, given, _OF_EDGES)
        if "file" not in entry:
            raise FormatError(f"{path}, {where} must say its file, got {', '.join(entry) or 'nothing'}: add file = ...")
        if "relation" in entry and "relation_column" in entry:
            raise FormatError(f"{path}, {where} must say relation or relation_column, got both: leave one out")
        for end, name in zip(HOMOGENEOUS, _ENDS, strict=True):
            only = next(iter(nodes)) if len(nodes) == 1 else end
            entry.setdefault(name, end if name == "relation" else only)
            if name != "relation" and nodes and entry[name] not in nodes:
                near = difflib.get_close_matches(entry[name], nodes, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise FormatError(
                    f"{path}, {where} must have a {name} that is one of the node types {', '.join(nodes)}, "
                    f"got {entry[name]!r}{hint}"
                )
        edges.append(EdgeTable(**entry))
    if not edges:
        raise FormatError(f"{path} must name tables of edges, got none: add [[edges]] with file = ...")
    for node_type in dict.fromkeys(end for table in edges for end in (table.source, table.destination)):
        nodes.setdefault(node_type, NodeTable())
    name = document.get("name") or path.resolve().parent.name
    return Tables(name=name, nodes=nodes, edges=tuple(edges), files=(path,))


def _table(path: Path, where: str, given: Any, known: Mapping[str, type]) -> dict[str, Any]:
    """One section: its keys held against those that are known, paths found, columns of features as tuples."""
    if not isinstance(given, dict):
        raise FormatError(f"{path}, {where} must be a table of keys and values, got {given!r}")
    _check(path, where, given, known)
    entry = {key: value for key, value in given.items() if key not in _OF_TEXT}
    if "file" in entry:
        entry["file"] = path.parent / entry["file"]
        if not entry["file"].exists():
            raise FormatError(f"{path}, {where} must name a file that is there, got {entry['file']}, which is not: check it")
    if "features" in entry:
        features = entry["features"] if isinstance(entry["features"], dict) else {"x": entry["features"]}
        entry["features"] = {}
        for name, wanted in features.items():
            columns = (wanted,) if isinstance(wanted, str) else tuple(wanted) if isinstance(wanted, list) else ()
            if not columns or not all(isinstance(column, str) for column in columns):
                raise FormatError(
                    f"{path}, {where} must give features as a column, a list of columns, or a table of these by name, "
                    f"got {wanted!r}"
                )
            entry["features"][name] = columns
    if text := {key: given[key] for key in _OF_TEXT if key in given}:
        entry["text"] = Text(**text)
        if len(text.get("delimiter", ",")) != 1:
            raise FormatError(f"{path}, {where} must have a delimiter of one character, got {text['delimiter']!r}")
    return entry


def _check(path: Path, where: str, given: Mapping[str, Any], known: Mapping[str, type]) -> None:
    """Refuse unknown keys and values of another kind."""
    place = f"{path}, {where}" if where else f"{path}"
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise FormatError(f"{place} may say {', '.join(known)}, got {key!r}{hint}")
        kind = known[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise FormatError(f"{place} must have {_WORDS[kind]} as {key}, got {value!r}")
