"""`ingest`: a graph folder from anything that holds a graph."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gnnhet.cli.output import AsJson, Root, number_bytes, print_json


class FeatureDtype(StrEnum):
    """What features are stored as."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"
    int8 = "int8"


class OnError(StrEnum):
    """What happens at a bad row."""

    stop = "stop"
    skip = "skip"


class SortRows(StrEnum):
    """What each destination's edges are sorted by."""

    source = "source"
    time = "time"


_SHOWN = 10  # lines about skipped rows; `--json` has all


def ingest(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="READER:PATH (tables:DIR and others), a name, a generator (rmat:SCALE:EDGES), or a graph folder.",
            show_default=False,
        ),
    ],
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="A new, empty or graph folder.", show_default=False)],
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="Peak of the process, as 2GiB; by default half of what is free, 2 to 16 GiB."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="By default all.")] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=0, help="Count of nodes, where the source does not say: saves a reading of the edges."),
    ] = None,
    drop_duplicates: Annotated[bool, typer.Option("--drop-duplicates", help="Keep each pair of a relation once.")] = False,
    drop_self_loops: Annotated[bool, typer.Option("--drop-self-loops", help="Leave out edges from a node to itself.")] = False,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Store every edge in both directions, each pair once.")
    ] = False,
    add_reverse: Annotated[bool, typer.Option("--add-reverse", help="Give each relation its reverse, rev_NAME.")] = False,
    sort_rows: Annotated[
        SortRows | None, typer.Option("--sort-rows", help="Sort each destination's edges; else as in the input.")
    ] = None,
    keep_edge_ids: Annotated[
        bool, typer.Option("--keep-edge-ids", help="Remember each edge's place in the input (8 bytes an edge).")
    ] = False,
    feature_dtype: Annotated[
        FeatureDtype | None, typer.Option("--feature-dtype", help="Store floating features x so; int8 has a scale a column.")
    ] = None,
    on_error: Annotated[OnError, typer.Option("--on-error", help="Stop at a bad row, or skip and report it.")] = OnError.stop,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what an interrupted ingest finished.")] = False,
    name: Annotated[str | None, typer.Option("--name", help="What the graph is called; by default as its source.")] = None,
    root: Root = None,
    json: AsJson = False,
) -> None:
    """Make a graph folder, out of core: the memory given is kept whatever the size of the graph.

    Interrupted, it leaves no half graph; --resume goes on from the last finished pass.

    Example: gnnhet ingest tables:exports graphs/mine --memory 4GiB
    """
    import logging
    from contextlib import AbstractContextManager

    from gnnhet.report import track
    from gnnhet.report.progress import Progress
    from gnnhet.storage import Graph
    from gnnhet.storage.index import STAGE, file_entries, read_index

    def watch(what: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        return track(total, what, unit, quiet=json)

    skipped: list[str] = []
    try:
        made = Graph.ingest(
            source,
            dest,
            root=root,
            memory=memory,
            threads=threads,
            drop_duplicates=drop_duplicates,
            self_loops=not drop_self_loops,
            undirected=undirected,
            add_reverse=add_reverse,
            sort_rows=None if sort_rows is None else str(sort_rows),
            keep_edge_ids=keep_edge_ids,
            feature_dtype=None if feature_dtype is None else str(feature_dtype),
            num_nodes=num_nodes,
            on_error=str(on_error),
            resume=resume,
            name=name,
            watch=watch,
            report=skipped,
        )
    except BaseException:
        if (dest / STAGE).is_dir():
            logging.getLogger("gnnhet").info(
                "what is finished stays in %s: the same command with --resume goes on from there", dest / STAGE
            )
        raise
    size = sum(int(entry["bytes"]) for entry in file_entries(read_index(dest)))
    if json:
        print_json(
            {
                "graph": str(dest),
                "num_nodes": made.num_nodes,
                "num_edges": sum(made.num_edges.values()),
                "bytes": size,
                "skipped": skipped,
            }
        )
        return
    print(made)
    print(f"{dest}: {number_bytes(size)}")
    if skipped:
        print("\n".join([f"left out, {len(skipped):,} lines:", *skipped[:_SHOWN]]))
        if len(skipped) > _SHOWN:
            print(f"... and {len(skipped) - _SHOWN:,} more (--json lists all)")
