"""What an ingest may be of: words, a folder, or a `Source`."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnhet.datasets import catalogue
from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.datasets.source import Edges, EdgeStream, RowStream, Source, Watch
from gnnhet.errors import FormatError, SpecError
from gnnhet.storage import disk, index
from gnnhet.storage.csc import Csc
from gnnhet.storage.features import Rows
from gnnhet.storage.index import INDEX
from gnnhet.storage.ingest.options import parse_bytes


def open_source(
    source: str | Path | Source,
    root: str | None,
    *,
    on_error: str,
    num_nodes: int | None,
    memory: int | str | None,
    threads: int | None,
    watch: Watch,
) -> tuple[Callable[[Path], Source], str]:
    """What opens a source, given a folder for its own work, and words that are equal for equal sources.

    Args:
        source: as of `Graph.ingest`, like the others.
        root: see `source`.
        on_error: see `source`.
        num_nodes: see `source`.
        memory: see `source`.
        threads: see `source`.
        watch: see `source`.

    Raises:
        SpecError: an option nobody knows.
    """
    if on_error not in ("stop", "skip"):
        raise SpecError(f"on_error must be stop or skip, got {on_error!r}")
    if num_nodes is not None and num_nodes < 0:
        raise SpecError(f"num_nodes must be 0 or more, got {num_nodes}")
    asked = f"{source.name if isinstance(source, Source) else source}" + (
        f" of {num_nodes} nodes" if num_nodes is not None else ""
    )
    given = None if memory is None else parse_bytes(memory)

    def opened(work: Path) -> Source:
        if isinstance(source, Source):
            found = source
        elif (Path(source) / INDEX).exists():
            found = of_folder(Path(source))
        elif isinstance(source, Path) or Path(source).is_dir():
            raise FormatError(f"a graph folder holds {INDEX}, got {source} without: for raw files say READER:{source}")
        else:
            found = catalogue.source(
                source, root, on_error=on_error, memory=given, work=work, num_nodes=num_nodes, threads=threads, watch=watch
            )
        return found if num_nodes is None else _counted(found, num_nodes)

    return opened, asked


def _counted(source: Source, num_nodes: int) -> Source:
    """The source with the count that a person gave for its one node type."""
    if set(source.num_nodes) != {NODE} or set(source.edges) != {HOMOGENEOUS}:
        raise SpecError(f"num_nodes is of a graph of one node type and relation, got {len(source.num_nodes)} types: leave it out")
    held = source.num_nodes[NODE]
    if held is not None and held != num_nodes:
        raise SpecError(f"num_nodes must be what the source says, {held:,}, got {num_nodes:,}: leave it out")
    return dataclasses.replace(source, num_nodes={NODE: num_nodes})


def of_folder(folder: Path) -> Source:
    """A saved graph as a source, to be made undirected, sorted, or given reverses."""
    stored = disk.read(folder)
    edge_rows: dict[Any, dict[str, Rows]] = {relation: {} for relation in stored.relations}
    features: dict[str, dict[str, RowStream]] = {}
    for owner, name, rows in stored.features:
        if isinstance(owner, str):
            features.setdefault(owner, {})[name] = _rows(rows)
        else:
            edge_rows[owner][name] = rows
    return Source(
        num_nodes=stored.num_nodes,
        edges={relation: _edges(part, edge_rows[relation]) for relation, part in stored.relations.items()},
        features=features,
        ids=index.tables(folder, stored.index),
        name=stored.name,
        files=(folder / INDEX,),
    )


def _rows(rows: Rows) -> RowStream:
    """Rows of a mapped array, copied piece by piece."""
    array = rows.array

    def read(most: int) -> Iterator[np.ndarray]:
        for first in range(0, array.shape[0], most):
            yield np.array(array[first : first + most])

    half = rows.dtype == torch.bfloat16
    return RowStream(read=read, shape=array.shape, dtype=array.dtype, bfloat16=half, scale=rows.scale)


def _edges(part: Csc, values: dict[str, Rows]) -> EdgeStream:
    """A CSC's edges in their stored order."""

    def read(most: int) -> Iterator[Edges]:
        for first in range(0, part.num_edges, most):
            last = min(first + most, part.num_edges)
            low = int(np.searchsorted(part.indptr, first, "right")) - 1
            high = int(np.searchsorted(part.indptr, last, "left"))
            ends = np.clip(part.indptr[low : high + 1], first, last)
            dst = np.repeat(np.arange(low, high), np.diff(ends))
            copies = {name: np.array(rows.array[first:last]) for name, rows in values.items()}
            yield Edges(part.indices[first:last], dst, copies)

    return EdgeStream(
        read=read,
        count=part.num_edges,
        values={name: np.dtype((rows.array.dtype, rows.array.shape[1:])) for name, rows in values.items()},
        bfloat16=frozenset(name for name, rows in values.items() if rows.dtype == torch.bfloat16),
        scales={name: rows.scale for name, rows in values.items() if rows.scale is not None},
    )
