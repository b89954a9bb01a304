"""Ingest at scale: `python benchmarks/ingest.py` (10^9 edges, 25 GB of disk, some minutes; `--edges 10000000` for a look).

`--tables` measures Parquet and text instead. Each configuration in a process of its own: edges a second from start to the
published graph, the process's peak memory, and the bytes that it wrote. Beside them what the disk could write and read in the
same minute.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from disk import bandwidth
from pyarrow import csv, parquet
from result import write

from gnnhet.datasets import catalogue

MEMORY = "2GiB"
Case = tuple[str, str, dict[str, Any]]
CHILD = """
import json, re, sys, time
from gnnhet.storage import Graph
source, dest, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if options.pop("warm"):
    Graph.ingest("rmat:10:50000", dest + "-warm", memory=options["memory"], sort_rows=options.get("sort_rows"))
started = time.perf_counter()
graph = Graph.ingest(source, dest, **options)
seconds = time.perf_counter() - started
status, io = open("/proc/self/status").read(), open("/proc/self/io").read()
print(json.dumps({
    "seconds": seconds,
    "edges": sum(graph.num_edges.values()),
    "peak_bytes": 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status)[1]),
    "written_bytes": int(re.search(r"write_bytes: (\\d+)", io)[1]),
}))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=10**9)
    parser.add_argument("--scale", type=int, default=26)
    parser.add_argument("--tables", action="store_true", help="50 M edges in Parquet and CSV; writes table_ingest.json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder on the disk to be measured")
    parser.add_argument("--no-write", action="store_true", help="leave the result file as it is")
    arguments = parser.parse_args()
    if arguments.tables:
        arguments.edges, arguments.scale = min(arguments.edges, 50_000_000), min(arguments.scale, 23)
    work = Path(tempfile.mkdtemp(dir=arguments.work))
    rows: list[dict[str, Any]] = []
    try:
        spec = f"rmat:{arguments.scale}:{arguments.edges}"
        pair = work / "pair"
        _save_pair(spec, pair, arguments.edges)
        npy_cases: list[Case] = [
            ("generator, order of the input", spec, {}),
            ("generator, rows sorted", spec, {"sort_rows": "source"}),
            (".npy int32, nodes given", f"tables:{pair}", {"num_nodes": 1 << arguments.scale}),
            (
                ".npy int32, nodes given, rows sorted",
                f"tables:{pair}",
                {"num_nodes": 1 << arguments.scale, "sort_rows": "source"},
            ),
            (".npy int32, nodes counted", f"tables:{pair}", {}),
        ]
        cases = _table_cases(pair, work, 1 << arguments.scale) if arguments.tables else npy_cases
        for _ in range(arguments.repeats):
            for case, source, options in cases:
                roof = bandwidth(work, 2 << 30)
                found = _run(source, work / "graph", {"memory": MEMORY, "warm": True, **options})
                rows.append({"case": case, **found, "disk_write": roof[0], "disk_read": roof[1]})
                print(f"{case}: {found['edges'] / found['seconds'] / 1e6:.1f} M edges/s", file=sys.stderr)
    finally:
        shutil.rmtree(work)
    summary = [_summary(case, [row for row in rows if row["case"] == case]) for case, *_ in cases]
    print(json.dumps(summary, indent=1))
    if not arguments.no_write:
        config = {"edges": arguments.edges, "nodes": 1 << arguments.scale, "memory": MEMORY, "repeats": arguments.repeats}
        write("table_ingest" if arguments.tables else "ingest", config, summary)


def _table_cases(pair: Path, work: Path, nodes: int) -> list[Case]:
    """The pair's edges in Parquet and CSV; then with ids that must be mapped: with gaps, far apart, strings."""
    ends = {name: np.load(pair / f"{name}.npy", mmap_mode="r") for name in ("src", "dst")}
    dense = pyarrow.table({name: np.asarray(array) for name, array in ends.items()})
    parquet.write_table(dense, work / "dense.parquet")
    csv.write_csv(dense, work / "dense.csv")
    for title, factor in (("gaps", 5), ("far", 1_000_003)):
        far = pyarrow.table({name: array * np.int64(factor) for name, array in ends.items()})
        parquet.write_table(far, work / f"{title}.parquet")
    words = pyarrow.table({name: far.column(name).cast(pyarrow.string()) for name in far.column_names})
    parquet.write_table(words, work / "words.parquet")
    return [
        ("Parquet int32, nodes given", f"tables:{work / 'dense.parquet'}", {"num_nodes": nodes}),
        ("CSV, nodes given", f"tables:{work / 'dense.csv'}", {"num_nodes": nodes}),
        ("Parquet int64, every fifth an id", f"tables:{work / 'gaps.parquet'}", {}),
        ("Parquet int64, ids far apart", f"tables:{work / 'far.parquet'}", {}),
        ("Parquet strings", f"tables:{work / 'words.parquet'}", {}),
    ]


def _save_pair(spec: str, folder: Path, edges: int) -> None:
    """The generator's edges as src.npy and dst.npy."""
    folder.mkdir()
    (stream,) = catalogue.source(spec).edges.values()
    files = [np.lib.format.open_memmap(folder / f"{end}.npy", "w+", np.int32, (edges,)) for end in ("src", "dst")]
    at = 0
    for piece in stream.read(1 << 23):
        for file, ids in zip(files, piece[:2], strict=True):
            file[at : at + ids.size] = ids
        at += piece.src.size
    for file in files:
        file.flush()


def _run(source: str, dest: Path, options: dict[str, Any]) -> dict[str, Any]:
    """One ingest in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, source, str(dest), json.dumps(options)], capture_output=True, text=True, check=True
    )
    for folder in (dest, Path(f"{dest}-warm")):
        shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _summary(case: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The median and spread of some runs."""
    rates = [row["edges"] / row["seconds"] / 1e6 for row in rows]
    return {
        "case": case,
        "medges_per_s": round(statistics.median(rates), 1),
        "medges_per_s_spread": [round(min(rates), 1), round(max(rates), 1)],
        "peak_gib": round(max(row["peak_bytes"] for row in rows) / 2**30, 2),
        "written_bytes_an_edge": round(max(row["written_bytes"] / row["edges"] for row in rows), 1),
        "share_of_disk_write": round(
            statistics.median(row["written_bytes"] / row["seconds"] / row["disk_write"] for row in rows), 2
        ),
        "disk_write_gb_per_s": round(statistics.median(row["disk_write"] for row in rows) / 1e9, 2),
        "disk_read_gb_per_s": round(statistics.median(row["disk_read"] for row in rows) / 1e9, 2),
    }


if __name__ == "__main__":
    main()
