"""What the workers share: arguments, graph folders, seeds, clocks and the line of JSON. Needs numpy and psutil alone.

A plain folder holds `indptr.npy` (int64, a destination), `indices.npy` (int32, sources) and `x.npy` (float32). A typed one
holds `manifest.json` with "num_nodes" ({type: count}), "relations" ([[source, name, destination], ...]) and "target" (the
seeds' type), and relation k as `<k>.indptr.npy` and `<k>.indices.npy`.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import psutil

TASKS = ("sample", "loader", "typed")
WARM = 10  # batches before the clock starts; more with workers, whose queues fill first
PREFETCH = 2  # batches a worker process holds ready: the default of torch's loader

Array = npt.NDArray[Any]
Batch = TypeVar("Batch")


def arguments(about: str | None, ids: tuple[str, ...]) -> argparse.Namespace:
    """The command line of a worker, `fanouts` as a list with the seeds' own first.

    Args:
        about: what the worker is.
        ids: the dtypes of node ids that the peer does right, the default first.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--data", type=Path, required=True, help="folder of a graph")
    parser.add_argument("--task", choices=TASKS, default="sample")
    parser.add_argument("--threads", type=int, default=1, help="threads of the process that samples")
    parser.add_argument("--workers", type=int, default=0, help="worker processes of the loader; 0 loads in the main process")
    parser.add_argument("--batches", type=int, default=50, help="timed batches")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", default="15,10,5", help="neighbours a node draws, the seeds' own first")
    parser.add_argument("--ids", choices=ids, default=ids[0], help="dtype of node ids")
    parser.add_argument("--seconds-limit", type=float, default=0.0, help="stop after the batch that passes it; 0 never")
    given = parser.parse_args()
    given.fanouts = [int(part) for part in given.fanouts.split(",")]
    if given.workers and given.task != "loader":
        parser.error(f"worker processes are for the loader, got {given.workers} for {given.task}: leave --workers out")
    return given


def plain(folder: Path, *, with_x: bool) -> tuple[Array, Array, Array | None]:
    """`indptr`, `indices` and, where wanted, `x`, read into memory."""
    return (
        np.load(folder / "indptr.npy"),
        np.load(folder / "indices.npy"),
        np.load(folder / "x.npy") if with_x else None,
    )


def typed(folder: Path) -> tuple[dict[str, int], dict[tuple[str, str, str], tuple[Array, Array]], str]:
    """Node counts, (indptr, indices) of each relation, and the seeds' type."""
    manifest = json.loads((folder / "manifest.json").read_text())
    parts = {
        tuple(relation): (np.load(folder / f"{k}.indptr.npy"), np.load(folder / f"{k}.indices.npy"))
        for k, relation in enumerate(manifest["relations"])
    }
    return manifest["num_nodes"], parts, manifest["target"]


def warm_batches(given: argparse.Namespace) -> int:
    """Batches before the clock starts."""
    return WARM + PREFETCH * int(given.workers)


def seeds_of(given: argparse.Namespace) -> npt.NDArray[np.int64]:
    """All seeds a worker goes through, batch after batch: those of the warm-up, the timed ones, and a few to spare.

    Seeds have at least one edge to draw. The timed ones are the first of `RandomState(0).permutation`, for every peer. The
    spare ones keep worker processes busy to the end: the clock then starts and stops with full queues.
    """
    order = np.random.RandomState(0).permutation(_drawing(given))
    size, warm = given.batch_size, warm_batches(given)
    first = np.resize(order[::-1], warm * size)
    return np.concatenate([first, np.resize(order, (given.batches + warm) * size)])


def _drawing(given: argparse.Namespace) -> npt.NDArray[np.int64]:
    """Nodes with at least one edge, of a typed graph those of the seeds' type."""
    if given.task != "typed":
        return np.flatnonzero(np.diff(np.load(given.data / "indptr.npy", mmap_mode="r")))
    num_nodes, parts, target = typed(given.data)
    drawing = np.zeros(num_nodes[target], np.bool_)
    for relation, (indptr, _) in parts.items():
        if relation[2] == target:
            drawing |= np.diff(indptr) > 0
    return np.flatnonzero(drawing)


def batches_of(given: argparse.Namespace) -> list[npt.NDArray[np.int64]]:
    """`seeds_of`, cut into batches."""
    return list(seeds_of(given).reshape(-1, given.batch_size))


def cpu_seconds() -> float:
    """CPU time of this process and its children, those alive and those that ended."""
    own = psutil.Process()
    total = sum(own.cpu_times()[:4])
    for child in own.children(recursive=True):
        try:
            total += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return float(total)


def report(
    given: argparse.Namespace,
    peer: str,
    version: str,
    batches: Iterator[Batch],
    sizes: Callable[[Batch], tuple[int, int]],
    **extra: Any,
) -> None:
    """Go through the batches, time those after the warm-up, and print the line.

    Args:
        given: the command line.
        peer: whose batches.
        version: of the peer.
        batches: a batch at every `next`.
        sizes: sampled edges and input nodes of a batch.
        extra: further entries of the line.
    """
    for _ in itertools.islice(batches, warm_batches(given)):
        pass
    edges = inputs = done = 0
    cpu, started = cpu_seconds(), time.perf_counter()
    for batch in itertools.islice(batches, given.batches):
        more_edges, more_inputs = sizes(batch)
        edges, inputs, done = edges + more_edges, inputs + more_inputs, done + 1
        if given.seconds_limit and time.perf_counter() - started > given.seconds_limit:
            break
    wall = time.perf_counter() - started
    line = {
        "peer": peer,
        "version": version,
        "task": given.task,
        "threads": given.threads,
        "workers": given.workers,
        "ids": given.ids,
        "batches": done,
        "edges": edges,
        "input_nodes": inputs,
        "wall_s": round(wall, 4),
        "cpu_s": round(cpu_seconds() - cpu, 2),
        **extra,
    }
    print(json.dumps(line), flush=True)
