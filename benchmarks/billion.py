"""A billion edges on one machine, from nothing to trained: `python benchmarks/billion.py --folder FOLDER`.

R-MAT with 2^26 nodes and 10^9 stored edges, 128 float16 features a node on disk (17 GB), GraphSAGE with fanouts 15, 10, 5: made,
ingested, trained for 200 steps of 1,024 seeds. Every stage stands beside the roof that was measured in the same minute: the
disk's bandwidth, random reads of memory, random reads of the disk. `--quick` is the same with 2^20 nodes and 2 x 10^7 edges.
"""

import argparse
import json
import mmap
import os
import resource
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import roofs
import torch
from result import write
from torch.nn import functional

import gnnhet as gh
from gnnhet.datasets import rmat
from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.datasets.source import RowStream, Source, rows_of
from gnnhet.jit import kernel
from gnnhet.mixing import mix, stream
from gnnhet.models import build_model

CLASSES = 16
GIB = 1 << 30


@kernel
def _fill_rows(first: int, key: np.uint64, out: Any) -> None:
    """float16 bits of numbers from 1 to 2, with either sign: a row's words are a function of its id."""
    words = out.shape[1] // 4
    for i in range(out.shape[0]):
        for k in range(words):
            bits = mix(key + np.uint64((first + i) * words + k))
            for part in range(4):
                half = np.uint16(bits >> np.uint64(16 * part))
                out[i, 4 * k + part] = (half & np.uint16(0x83FF)) | np.uint16(0x3C00)


def made_rows(num_nodes: int, columns: int) -> RowStream:
    """Features made in the order of ids."""
    key = stream(1, num_nodes)

    def read(most: int) -> Iterator[Any]:
        for start in range(0, num_nodes, most):
            out = np.empty((min(most, num_nodes - start), columns), np.uint16)
            _fill_rows(start, key, out)
            yield out.view(np.float16)

    return RowStream(read=read, shape=(num_nodes, columns), dtype=np.dtype(np.float16))


def made_source(scale: int, num_edges: int, columns: int, num_seeds: int) -> Source:
    """The graph with features, classes, and a split of `num_seeds` training nodes that have neighbours."""
    plain = rmat.source(scale, num_edges)
    num_nodes = 1 << scale
    rng = np.random.default_rng(0)
    labels = np.full(num_nodes, -1, np.int8)
    split = np.full(num_nodes, -1, np.int8)
    first = next(iter(plain.edges[HOMOGENEOUS].read(32 * num_seeds)))
    seeds = rng.choice(np.unique(first.dst), num_seeds, replace=False)
    labels[seeds], split[seeds] = rng.integers(0, CLASSES, num_seeds), 0
    features = {"x": made_rows(num_nodes, columns), "y": rows_of(labels), "split": rows_of(split)}
    return replace(plain, features={NODE: features})


def disk_rates(folder: Path, size: int = 2 * GIB) -> dict[str, float]:
    """Bytes a second written and read in large pieces past the page cache."""
    path = folder / "roof.bin"
    piece = memoryview(mmap.mmap(-1, 16 << 20))  # whole pages, as direct access wants them
    rates = {}
    for name, flags in (("disk_write", os.O_WRONLY | os.O_CREAT), ("disk_read", os.O_RDONLY)):
        handle = os.open(path, flags | getattr(os, "O_DIRECT", 0))
        started = time.perf_counter()
        for at in range(0, size, len(piece)):
            if flags == os.O_RDONLY:
                os.preadv(handle, [piece], at)
            else:
                os.pwrite(handle, piece, at)
        os.fsync(handle)
        os.close(handle)
        rates[name] = size / (time.perf_counter() - started)
    path.unlink()
    return rates


def peak_rss() -> int:
    """Of this process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def sampling_rate(graph: gh.Graph, fanouts: list[int], batches: int = 30) -> float:
    """Sampled edges a second of one thread."""
    sampler = gh.NeighborSampler(graph, fanouts, seed=0)
    rng = np.random.default_rng(5)
    starts = np.flatnonzero(np.diff(graph.csc(HOMOGENEOUS)[0])[: 1 << 21])
    parts = [rng.choice(starts, 1024, replace=False) for _ in range(batches + 3)]
    for step in range(3):
        sampler.sample(parts[step], step=step)
    started, edges = time.perf_counter(), 0
    for step in range(3, batches + 3):
        edges += sampler.sample(parts[step], step=step).num_edges
    return edges / (time.perf_counter() - started)


def train(graph: gh.Graph, given: argparse.Namespace) -> dict[str, Any]:
    """Steps of plain torch over the loader's batches: seconds of each, and how long each waited for its batch."""
    torch.set_num_threads(given.torch_threads)
    model = build_model("sage", graph, hidden=given.hidden, num_layers=3, dropout=0.0, target_type=NODE, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)
    loader = gh.NeighborLoader(
        graph,
        [15, 10, 5],
        1024,
        threads=given.threads,
        seed=0,
        cache_bytes=given.cache_bytes,
        cache_policy=given.cache_policy,
        feature_dtype=torch.float32,
    )
    waits, steps, losses = [], [], []
    batches = iter(loader)
    while len(steps) < given.steps:
        started = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - started)
        loss = functional.cross_entropy(model(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del batch
        steps.append(time.perf_counter() - started)
    batches.close()
    return {
        "steps": len(steps),
        "step_s": round(statistics.median(steps), 4),
        "seconds": round(sum(steps), 2),
        "stall": round(sum(waits[5:]) / sum(steps[5:]), 4),
        "first_losses": [round(loss, 4) for loss in losses[:3]],
        "last_loss": round(losses[-1], 4),
        "cache": loader.cache_stats(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where 30 GB fit")
    parser.add_argument("--scale", type=int, default=26)
    parser.add_argument("--edges", type=int, default=1_000_000_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--memory", default="2GiB", help="of the ingest")
    parser.add_argument("--cache-bytes", type=int, default=4 * GIB)
    parser.add_argument("--cache-policy", default="degree")
    parser.add_argument("--quick", action="store_true", help="2^20 nodes, 2 x 10^7 edges, 20 steps: a minute")
    parser.add_argument("--keep", action="store_true", help="leave the graph in the folder")
    parser.add_argument("--name", default="billion", help="of the result file; empty writes none")
    given = parser.parse_args()
    if given.quick:
        given.scale, given.edges, given.steps, given.cache_bytes = 20, 20_000_000, 20, 64 << 20
    given.folder.mkdir(parents=True, exist_ok=True)
    dest = given.folder / "graph"
    stages: dict[str, dict[str, Any]] = {}
    begun = mark = time.perf_counter()

    def stage(name: str, **numbers: Any) -> None:
        nonlocal mark
        now = time.perf_counter()
        stages[name] = {"seconds": round(now - mark, 2), "peak_rss_gib": round(peak_rss() / GIB, 2), **numbers}
        print(name, json.dumps(stages[name]), flush=True)
        mark = time.perf_counter()

    if not dest.exists():
        source = made_source(given.scale, given.edges, given.columns, given.steps * 1024)
        gh.Graph.ingest(source, dest, memory=given.memory)
        seconds = time.perf_counter() - mark
        stage("ingest", edges_per_second=round(given.edges / seconds))
    graph = gh.Graph.open(dest).preload(2)
    topology = sum(array.nbytes for array in graph.csc(HOMOGENEOUS))
    stage("preload", gib_per_second=round(topology / (time.perf_counter() - mark) / GIB, 2))
    trained = train(graph, given)
    stage("train", **trained)
    total = time.perf_counter() - begun
    rates = disk_rates(given.folder, min(2 * GIB, 64 * given.edges))
    edges = sampling_rate(graph, [15, 10, 5])
    reads = roofs.random_reads(graph.csc(HOMOGENEOUS)[1])
    small = gh.load_dataset("rmat:21:60000000")
    stage(
        "roofs",
        **{name: round(rate / 1e9, 2) for name, rate in rates.items()},
        sampled_edges_per_second=round(edges),
        random_reads_per_second=round(reads),
        share_of_random_reads=round(edges / reads, 3),
        of_the_60m_graph=round(edges / sampling_rate(small, [15, 10, 5]), 3),
    )
    rows = [{"stage": name, **numbers} for name, numbers in stages.items()]
    config = {key: str(value) if isinstance(value, Path) else value for key, value in vars(given).items() if key != "folder"}
    print(f"{total:.1f} s in all, peak RSS {peak_rss() / GIB:.2f} GiB")
    if given.name:
        print(write(given.name, {**config, "total_s": round(total, 1), "peak_rss_gib": round(peak_rss() / GIB, 2)}, rows))
    if not given.keep:
        shutil.rmtree(dest)


if __name__ == "__main__":
    main()
