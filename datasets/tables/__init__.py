"""Graphs in tables: `.npy` pairs, Parquet and CSV, read in pieces. `docs/data.md` shows each by an example."""

from pathlib import Path
from typing import Any

from gnnhet.datasets.files import existing
from gnnhet.datasets.source import Source
from gnnhet.datasets.tables import npy, reader
from gnnhet.errors import FormatError, SpecError


def source(
    path: str | Path,
    *,
    on_error: str = "stop",
    memory: int | None = None,
    work: str | Path | None = None,
    num_nodes: int | None = None,
    threads: int | None = None,
    **others: Any,
) -> Source:
    """A graph in tables.

    Args:
        path: a folder with `src.npy` and `dst.npy`; a Parquet or text file of edges; or a folder with `edges.parquet` (or .csv,
            .tsv, .txt, these also .gz or .zst; or a folder of such parts) and, if wanted, `nodes` alike.
        on_error: `stop` at a bad row, or `skip` it and list it in the source's report.
        memory: bytes that may be used.
        work: folder for what does not fit into memory; by default a temporary one, removed at exit.
        num_nodes: count of nodes of a homogeneous graph whose ids are dense.
        threads: that may be used; all by default.
        others: refused.

    Raises:
        FormatError: a path that is not there or cannot be read, or a bad row.
        SpecError: an option nobody knows.
    """
    if others:
        raise SpecError(f"tables take on_error, memory, work, num_nodes and threads, got {', '.join(sorted(others))}")
    if on_error not in ("stop", "skip"):
        raise SpecError(f"on_error must be stop or skip, got {on_error!r}")
    if num_nodes is not None and num_nodes < 0:
        raise SpecError(f"num_nodes must be 0 or more, got {num_nodes}")
    place = existing(path, "a folder of tables")
    if place.is_dir() and any((place / name).exists() for name in npy.ENDS):
        return npy.source(place, num_nodes)
    found = reader.find_tables(place)
    if found is None:
        raise FormatError(
            f"tables must be src.npy and dst.npy, or a Parquet or text file of edges, alone or as `edges` in a folder, got {path}"
        )
    return reader.source(
        *found,
        skip=on_error == "skip",
        memory=memory,
        work=None if work is None else Path(work),
        num_nodes=num_nodes,
        threads=threads,
    )
