"""Which id a person wrote for which node: a graph's tables of ids, searched."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.files import one_line
from gnnhet.errors import FormatError, GraphError, MissingDependencyError
from gnnhet.storage import index

_MOST_NAMED = 3
_WHOLE = re.compile(r"0|-?[1-9]\d{0,18}")


class Lookup:
    """The searching methods of `Graph`, which has these attributes."""

    num_nodes: dict[str, int]
    path: Path | None
    _index: dict[str, Any] | None

    def nodes_of(self, node_type: str, ids: Sequence[int | str]) -> npt.NDArray[np.int64]:
        """Nodes by the ids that they had in the tables they were ingested from.

        Args:
            node_type: their type.
            ids: integers (also as they are written) or strings, shape [n]; where the graph keeps no ids, the nodes' numbers.

        Returns:
            int64, shape [n].

        Raises:
            GraphError: no such node type, or an id that no node has.
            FormatError: the table of ids cannot be read.
            MissingDependencyError: no pyarrow.
        """
        table = self._table(node_type)
        if table is None:
            return self._numbers(node_type, ids)
        kind, found = _search(table, "id", ids)
        node_of = dict(zip(found["id"], found["node"], strict=True))
        keys = _keys(ids, kind)
        if missing := [given for given, key in zip(ids, keys, strict=True) if key not in node_of]:
            named = ", ".join(map(repr, missing[:_MOST_NAMED]))
            more = f" and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
            raise GraphError(f"ids of {node_type} must be those that it was ingested with, of type {kind}, got {named}{more}")
        return np.array([node_of[key] for key in keys], np.int64)

    def ids_of(self, node_type: str, nodes: Sequence[int]) -> list[Any]:
        """The ids that nodes had in the tables they were ingested from: errors are those of `nodes_of`.

        Args:
            node_type: their type.
            nodes: their numbers, shape [n].

        Returns:
            integers or strings; the nodes' numbers where the graph keeps no ids.
        """
        table = self._table(node_type)
        numbers = self._numbers(node_type, nodes).tolist()
        if table is None:
            return list(numbers)
        _, found = _search(table, "node", numbers)
        id_of = dict(zip(found["node"], found["id"], strict=True))
        if missing := [node for node in numbers if node not in id_of]:
            raise FormatError(f"{table} must have an id for each node of {node_type}, got none for {missing[0]}: ingest again")
        return [id_of[node] for node in numbers]

    def _table(self, node_type: str) -> Path | None:
        if node_type not in self.num_nodes:
            raise GraphError(f"a node type must be one of {', '.join(self.num_nodes)}, got {node_type!r}")
        return index.tables(self.path, self._index).get(node_type)

    def _numbers(self, node_type: str, given: Sequence[int | str]) -> npt.NDArray[np.int64]:
        """Numbers of nodes, held to their count."""
        count = self.num_nodes[node_type]
        found = _keys(given, "int64")
        for one, number in zip(given, found, strict=True):
            if number is None or not 0 <= number < count:
                raise GraphError(f"nodes of {node_type} are numbered 0 to {count - 1}, got {one!r}")
        return np.array(found, np.int64)


def _keys(given: Sequence[int | str], kind: str) -> list[Any]:
    """Ids as a table of that kind has them; None for what is no integer of 64 bits."""
    if kind != "int64":
        return [str(one) for one in given]
    whole = [int(one) if not isinstance(one, str) or _WHOLE.fullmatch(one) else None for one in given]
    return [one if one is not None and -(1 << 63) <= one < 1 << 63 else None for one in whole]


def _search(table: Path, column: str, wanted: Sequence[int | str]) -> tuple[str, dict[str, list[Any]]]:
    """The type of ids in a table, and the rows whose column has a value that is wanted."""
    try:
        import pyarrow
        from pyarrow import compute, dataset
    except ImportError as error:
        raise MissingDependencyError(f"{table} needs pyarrow to be read, got {error}: pip install 'gnnhet[tables]'") from error
    try:
        opened = dataset.dataset(table, format="parquet")
        kind = str(opened.schema.field("id").type)
        keys = [key for key in _keys(wanted, kind if column == "id" else "int64") if key is not None]
        values = pyarrow.array(keys, opened.schema.field(column).type)
        found = opened.to_table(columns=["id", "node"], filter=compute.field(column).isin(values)).to_pydict()
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        raise FormatError(
            f"{table} must be a table of id and node, got {one_line(error)}: restore it, or ingest again"
        ) from error
    return kind, found
