"""Graphs in tables: `.npy` pairs, Parquet and CSV, read in pieces. `docs/data.md` shows each by an example."""

from pathlib import Path
from typing import Any

from gnnhet.datasets.files import existing
from gnnhet.datasets.raw import NODE
from gnnhet.datasets.source import Source, Watch, unwatched
from gnnhet.datasets.tables import npy, reader, spec
from gnnhet.datasets.tables.files import TOML
from gnnhet.errors import FormatError, SpecError


def source(
    path: str | Path,
    *,
    on_error: str = "stop",
    memory: int | None = None,
    work: str | Path | None = None,
    num_nodes: int | None = None,
    threads: int | None = None,
    watch: Watch = unwatched,
    **others: Any,
) -> Source:
    """A graph in tables.

    Args:
        path: a folder with `src.npy` and `dst.npy`; a Parquet or text file of edges; or a folder with `edges.parquet` (or .csv,
            .tsv, .txt, these also .gz or .zst; or a folder of such parts) and, if wanted, `nodes` alike; or a `graph.toml` that
            says which tables and columns there are, or a folder with one.
        on_error: `stop` at a bad row, or `skip` it and list it in the source's report.
        memory: bytes that may be used.
        work: folder for what does not fit into memory; by default a temporary one, removed at exit.
        num_nodes: count of nodes of a homogeneous graph whose ids are dense.
        threads: that may be used; all by default.
        watch: told how far each step is.
        others: refused.

    Raises:
        FormatError: a path that is not there or cannot be read, or a bad row.
        SpecError: an option nobody knows.
    """
    if others:
        raise SpecError(f"tables take on_error, memory, work, num_nodes, threads and watch, got {', '.join(sorted(others))}")
    if on_error not in ("stop", "skip"):
        raise SpecError(f"on_error must be stop or skip, got {on_error!r}")
    if num_nodes is not None and num_nodes < 0:
        raise SpecError(f"num_nodes must be 0 or more, got {num_nodes}")
    place = existing(path, "a folder of tables")
    if place.is_dir() and any((place / name).exists() for name in npy.ENDS):
        return npy.source(place, num_nodes)
    toml = place / TOML if place.is_dir() else place
    if toml.suffix == ".toml" and toml.exists():
        if num_nodes is not None:
            raise SpecError(f"num_nodes is not of a graph that {toml.name} describes, got {num_nodes}: say count in [nodes.TYPE]")
        found = spec.read(toml)
    else:
        usual = spec.find(place)
        if usual is None:
            raise FormatError(
                "tables must be src.npy and dst.npy, a Parquet or text file of edges, alone or as `edges` in a folder, or a "
                f"{TOML}, got {path}"
            )
        edges, nodes = usual
        found = spec.usual(edges, nodes, None if nodes else num_nodes)
    made = reader.source(
        found,
        place,
        skip=on_error == "skip",
        memory=memory,
        work=None if work is None else Path(work),
        threads=threads,
        watch=watch,
    )
    if num_nodes is not None and made.num_nodes[NODE] != num_nodes:
        raise SpecError(f"num_nodes must be the rows of {nodes}, {made.num_nodes[NODE]:,}, got {num_nodes:,}: leave it out")
    return made
