"""Commands that look: `info`, `verify`, `devices`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnnhet.cli.output import AsJson, GraphArgument, Root, number_bytes, print_json, table

if TYPE_CHECKING:
    from gnnhet.storage import Graph

DAMAGED = 1


def info(
    graph: GraphArgument,
    lookup: Annotated[
        tuple[str, str] | None,
        typer.Option("--lookup", metavar="TYPE ID", help="Only the node that was ingested with this id.", show_default=False),
    ] = None,
    node: Annotated[
        tuple[str, int] | None,
        typer.Option(
            "--node", metavar="TYPE NUMBER", help="Only this node, with the id it was ingested with.", show_default=False
        ),
    ] = None,
    root: Root = None,
    json: AsJson = False,
) -> None:
    """Say what a graph holds, or what it holds of one node.

    Examples: gnnhet info wordnet; gnnhet info graphs/papers --lookup paper p9
    """
    from gnnhet.storage import load_dataset

    if lookup is not None and node is not None:
        raise typer.BadParameter("a node is looked up by --lookup or by --node, not both")
    found = load_dataset(graph, root)
    if lookup is not None:
        node_type, written = lookup
        node = node_type, int(found.nodes_of(node_type, [written])[0])
    if node is not None:
        _print_node(_node(found, *node), json)
        return
    if json:
        print_json(_description(found))
        return
    print(found)
    table("Node types", ("type", "nodes"), [(node_type, f"{count:,}") for node_type, count in found.num_nodes.items()])
    print()
    table(
        "Relations",
        ("relation", "edges", "mean degree", "max degree"),
        [
            (
                " -> ".join(entry["relation"]),
                f"{entry['edges']:,}",
                f"{entry['mean_degree']:.2f}",
                f"{entry['max_degree']:,}",
            )
            for entry in _relations(found)
        ],
    )
    print()
    table(
        "Features",
        ("of", "name", "dtype", "shape", "size"),
        [
            (
                str(entry["of"]),
                entry["name"],
                entry["dtype"],
                " x ".join(map(str, entry["shape"])),
                number_bytes(entry["bytes"]),
            )
            for entry in _features(found)
        ],
    )
    for node_type, sizes in _splits(found).items():
        print(f"\nSplits of {node_type}: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items()))


def _node(graph: "Graph", node_type: str, number: int) -> dict[str, Any]:
    """What there is of one node."""
    (written,) = graph.ids_of(node_type, [number])
    splits = [part for part in ("train", "val", "test") if number in graph.split_ids(node_type, part)]
    label = graph.features.array(node_type, "y")[number].tolist() if graph.features.has(node_type, "y") else None
    incoming = [(relation, graph.csc(relation)[0]) for relation in graph.relations if relation[2] == node_type]
    return {
        "type": node_type,
        "id": written,
        "node": number,
        "label": label,
        "split": splits[0] if splits else None,
        "in_edges": [{"relation": list(r), "edges": int(indptr[number + 1] - indptr[number])} for r, indptr in incoming],
    }


def _print_node(of: dict[str, Any], json: bool) -> None:
    if json:
        print_json(of)
        return
    print(f"{of['type']} {of['id']} is node {of['node']:,}")
    for name in ("label", "split"):
        if of[name] is not None:
            print(f"{name}: {of[name]}")
    rows = [(" -> ".join(entry["relation"]), f"{entry['edges']:,}") for entry in of["in_edges"]]
    table("Edges to it", ("relation", "edges"), rows)


def verify(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A graph folder.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Check every byte of a saved graph against its checksum, and its structure.

    Exit code 1 where damage is found. Example: gnnhet verify graphs/wordnet
    """
    from gnnhet.report import track
    from gnnhet.storage import verify as verify_graph
    from gnnhet.storage.index import file_entries, read_index

    total = sum(int(entry["bytes"]) for entry in file_entries(read_index(graph)))
    with track(total, "verifying", "bytes", quiet=json) as progress:
        result = verify_graph(graph, progress.advance)
    if json:
        print_json({"files": result.files, "bytes": result.num_bytes, "problems": list(result.problems)})
    elif not result.problems:
        print(f"{graph}: {result.files} files, {number_bytes(result.num_bytes)}: whole")
    else:
        print("\n".join(result.problems))
    if result.problems:
        raise typer.Exit(DAMAGED)


def devices(
    measure: Annotated[
        bool, typer.Option("--measure", help="Time each device (under 10 s a device, kept in the user cache).")
    ] = False,
    json: AsJson = False,
) -> None:
    """Say what devices are here, and how fast.

    Example: gnnhet devices --measure
    """
    from gnnhet.devices import discover_devices, measure_device

    found = discover_devices()
    profiles = [measure_device(device) for device in found] if measure else []
    if json:
        rows: list[dict[str, Any]] = [{"spec": device.spec, **device.to_dict()} for device in found]
        for row, profile in zip(rows, profiles, strict=False):
            row["profile"] = profile.to_dict()
        print_json({"devices": rows})
        return
    table(
        "Devices",
        ("spec", "name", "memory", "threads"),
        [
            (
                device.spec,
                device.name or "-",
                number_bytes(device.total_memory_bytes) if device.total_memory_bytes else "-",
                str(device.total_threads or "-"),
            )
            for device in found
        ],
    )
    if profiles:
        print()
        table(
            "Measured (median, and the spread of the runs)",
            ("spec", "dense GFLOP/s", "sparse M edges/s", "gather GB/s", "host to device GB/s", "free"),
            [
                (
                    device.spec,
                    _spread(profile.dense_gflops, 1),
                    _spread(profile.sparse_edges_per_second, 1e6),
                    _spread(profile.gather_bytes_per_second, 1e9),
                    _spread(profile.host_to_device_bytes_per_second, 1e9),
                    number_bytes(profile.free_memory_bytes),
                )
                for device, profile in zip(found, profiles, strict=True)
            ],
        )


def _spread(spread: Any, unit: float) -> str:
    return "-" if spread is None else f"{spread.median / unit:.4g} ({spread.min / unit:.4g}-{spread.max / unit:.4g})"


def _description(graph: "Graph") -> dict[str, Any]:
    """All that `info` says, as plain values."""
    return {
        "name": graph.name,
        "num_nodes": graph.num_nodes,
        "num_edges": sum(graph.num_edges.values()),
        "relations": _relations(graph),
        "features": _features(graph),
        "splits": _splits(graph),
    }


def _relations(graph: "Graph") -> list[dict[str, Any]]:
    import numpy as np

    found = []
    for relation in graph.relations:
        indptr, indices = graph.csc(relation)
        rows = indptr.size - 1
        found.append(
            {
                "relation": list(relation),
                "edges": indices.size,
                "mean_degree": indices.size / rows if rows else 0.0,
                "max_degree": int(np.diff(indptr).max()) if rows else 0,
            }
        )
    return found


def _features(graph: "Graph") -> list[dict[str, Any]]:
    return [
        {
            "of": owner if isinstance(owner, str) else list(owner),
            "name": name,
            "dtype": str(rows.dtype).removeprefix("torch."),
            "shape": list(rows.array.shape),
            "bytes": rows.array.nbytes,
        }
        for owner, name, rows in graph.features
    ]


def _splits(graph: "Graph") -> dict[str, dict[str, int]]:
    return {
        node_type: {part: int(graph.split_ids(node_type, part).size) for part in ("train", "val", "test")}
        for node_type in graph.node_types
        if graph.features.has(node_type, "split")
    }
