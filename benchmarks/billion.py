"""A billion edges on one machine: `python benchmarks/billion.py` (40 GB of disk, ten minutes; `--quick` is the same in small).

R-MAT with 128 float16 features a node in files, generated and ingested, then SAGE 15-10-5 trained for 200 steps of 1,024 seeds;
each stage a process of its own, so that its peak memory is its own. Then each part of the way beside what the machine does at
best in the same minute. `--scale 27 --edges 2500000000` goes as far as 24 GiB of memory do.
"""

import argparse
import dataclasses
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from disk import bandwidth, random_reads
from result import write
from roofs import random_reads as memory_reads

import gnnhet as gh
from gnnhet.datasets import catalogue
from gnnhet.datasets.source import RowStream, Source
from gnnhet.jit import kernel
from gnnhet.mixing import GOLDEN, mix
from gnnhet.samplers import Tiers
from gnnhet.storage.tiers import Cache, open_reader
from gnnhet.training import train

COLUMNS, WORDS, CLASSES = 128, 32, 16
FANOUTS, BATCH_SIZE, HIDDEN = (15, 10, 5), 1024, 128
SMALL = "rmat:21:60000000"  # the graph that sampling is compared on
_EVEN = np.uint64(0x83FF83FF83FF83FF)  # sign and fraction of four float16
_ONES = np.uint64(0x3C003C003C003C00)  # 1.0 four times


def source(spec: str) -> Source:
    """R-MAT with features and labels, both a function of the node: the label is in the signs of the first four columns."""
    made = catalogue.source(spec)
    count = made.num_nodes["node"] or 0

    def features(most: int) -> Iterator[npt.NDArray[Any]]:
        def piece(start: int) -> npt.NDArray[Any]:
            words = np.empty((min(most, count - start), WORDS), np.uint64)
            _fill(start * WORDS, words.reshape(-1))
            return words.view(np.float16)

        with ThreadPoolExecutor(1) as pool:  # one is made while another is written
            ahead = pool.submit(piece, 0)
            for start in range(most, count, most):
                ready, ahead = ahead.result(), pool.submit(piece, start)
                yield ready
            yield ahead.result()

    def labels(most: int) -> Iterator[npt.NDArray[Any]]:
        for start in range(0, count, most):
            words = np.empty((min(most, count - start), 1), np.uint64)
            _fill_first(start, words.reshape(-1))
            signs = words.view(np.float16) < 0
            yield signs @ (1 << np.arange(4))

    return dataclasses.replace(
        made,
        features={
            "node": {
                "x": RowStream(read=features, shape=(count, COLUMNS), dtype=np.dtype(np.float16)),
                "y": RowStream(read=labels, shape=(count,), dtype=np.dtype(np.int64)),
            }
        },
    )


@kernel
def _fill(start: int, words: npt.NDArray[np.uint64]) -> None:
    """Four numbers of 1 to 2 or -2 to -1 a word."""
    for i in range(words.size):
        words[i] = mix(np.uint64(start + i) * np.uint64(GOLDEN)) & _EVEN | _ONES


@kernel
def _fill_first(start: int, words: npt.NDArray[np.uint64]) -> None:
    """The first word of each row."""
    for i in range(words.size):
        words[i] = mix(np.uint64((start + i) * WORDS) * np.uint64(GOLDEN)) & _EVEN | _ONES


def ingest(work: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Generate and ingest the graph; then choose the seeds: nodes that have neighbours."""
    graph = gh.Graph.ingest(source(f"rmat:{given.scale}:{given.edges}"), work / "graph", memory=given.memory)
    indptr, _ = graph.csc(graph.relations[0])
    generator = np.random.default_rng(0)
    tried = generator.choice(graph.num_nodes["node"], min(8 * given.steps * BATCH_SIZE, graph.num_nodes["node"]), replace=False)
    seeds = tried[indptr[tried + 1] > indptr[tried]][: given.steps * BATCH_SIZE]
    split = np.full(graph.num_nodes["node"], -1, np.int8)
    split[seeds] = 0
    graph.set_feature("node", "split", split)
    return {"edges": given.edges, "written_bytes": _of_process("io", "write_bytes")}


def steps(work: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Train."""
    run = train(
        str(work / "graph"),
        model="sage",
        devices="cpu",
        fanouts=FANOUTS,
        hidden=HIDDEN,
        batch_size=BATCH_SIZE,
        steps=given.steps,
        evaluation="none",
        tiers=Tiers(cache=given.cache),
        run=str(work / "run"),
        threads=given.threads,
    )
    assert run.cache is not None
    assert run.seeds_per_second is not None
    return {
        "steps": len(run.step_loss),
        "first_loss": round(statistics.mean(run.step_loss[:5]), 3),
        "last_loss": round(statistics.mean(run.step_loss[-5:]), 3),
        "seconds_a_step": BATCH_SIZE / run.seeds_per_second,
        "loader_stall": run.loader_stall,
        "hit_rate": run.cache["hit_rate"],
        "cache_bytes": run.cache["bytes"],
    }


def parts(work: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Each part of the way by itself, and its roof before and after it."""
    graph = gh.Graph.open(work / "graph").preload()
    found: dict[str, Any] = {}
    sampled = _sampled(graph)
    indices = graph.csc(graph.relations[0])[1]
    roofs, rates = [memory_reads(indices)], [sampled() for _ in range(3)]
    roofs.append(memory_reads(indices))
    small = gh.Graph.ingest(given.small, work / "small").preload()
    of_small = _sampled(small)
    pairs = [(sampled(), of_small()) for _ in range(3)]
    found["sampled_edges"] = statistics.median([*rates, *(one for one, _ in pairs)])
    found["memory_reads"] = statistics.median(roofs)
    found["sampled_edges_small"] = statistics.median(other for _, other in pairs)
    found["over_small"] = statistics.median(one / other for one, other in pairs)
    del small, of_small
    rows = graph.features.rows("node", "x")
    assert rows.path is not None
    reader, count, row_bytes = open_reader(rows, "direct"), rows.array.shape[0], COLUMNS * 2
    generator = np.random.default_rng(1)
    held = np.arange(min(gh.storage.ingest.options.parse_bytes(given.cache) // (row_bytes + 4), count))
    cache = Cache(reader, held)
    for dtype in (torch.float16, torch.float32):
        out = torch.empty((400_000, COLUMNS), dtype=dtype)
        for threads in (1, 2):
            rate = _rows_a_second(cache.read, out, lambda n: generator.integers(0, held.size, n), threads)
            found[f"hot_rows_{str(dtype)[6:]}_{threads}"] = rate
    out = torch.empty((200_000, COLUMNS), dtype=torch.float32)
    roofs = [random_reads(rows.path)]
    found["missed_rows"] = _rows_a_second(reader.read, out, lambda n: generator.integers(0, count, n), 1)
    blocks = np.unique(generator.integers(0, count, out.shape[0]) * row_bytes // 4096).size
    found["missed_blocks"] = found["missed_rows"] * blocks / out.shape[0]  # rows of one block are read together
    roofs.append(random_reads(rows.path))
    found["disk_reads"] = statistics.median(roofs)
    return found


def _of_process(file: str, name: str) -> int:
    """A number that the system keeps of this process."""
    return int(re.findall(rf"^{name}:\s*(\d+)", Path(f"/proc/self/{file}").read_text(), re.MULTILINE)[0])


def _sampled(graph: gh.Graph) -> Callable[[], float]:
    """A function that samples 20 batches and says how many edges a CPU second; one thread."""
    indptr, _ = graph.csc(graph.relations[0])
    starts = np.flatnonzero(np.diff(indptr))
    generator, sampler = np.random.default_rng(2), gh.NeighborSampler(graph, list(FANOUTS), seed=0)

    def run() -> float:
        seeds = [generator.choice(starts, BATCH_SIZE, replace=False) for _ in range(25)]
        started = edges = 0.0
        for step, some in enumerate(seeds):
            if step == 5:
                started, edges = time.thread_time(), 0
            edges += sum(block.num_edges for block in sampler.sample(("node", some), step=step).blocks)
        return edges / (time.thread_time() - started)

    return run


def _rows_a_second(
    read: Callable[..., None], out: torch.Tensor, draw: Callable[[int], npt.NDArray[np.int64]], threads: int
) -> float:
    """Rows a second, the median of five reads by each thread at once."""
    outs = [out, *(torch.empty_like(out) for _ in range(threads - 1))]
    spent = []
    with ThreadPoolExecutor(threads) as pool:
        for turn in range(6):
            ids = [draw(out.shape[0]) for _ in outs]
            started = time.perf_counter()
            for _ in pool.map(read, ids, outs):
                pass
            if turn:
                spent.append(time.perf_counter() - started)
    return threads * out.shape[0] / statistics.median(spent)


STAGES = {"ingest": ingest, "steps": steps, "parts": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=26)
    parser.add_argument("--edges", type=int, default=10**9)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--cache", default="4GiB")
    parser.add_argument("--memory", default="2GiB", help="of the ingest")
    parser.add_argument("--threads", type=int, default=1, help="that sample and gather")
    parser.add_argument(
        "--quick", action="store_true", help="1/64 of it: 2^20 nodes, 15,625,000 edges, 64 MiB of cache, 20 steps"
    )
    parser.add_argument("--work", type=Path, help="folder on the disk to be measured")
    parser.add_argument("--name", default="billion", help="of the result file")
    parser.add_argument("--no-write", action="store_true", help="leave the result file as it is")
    parser.add_argument("--stage", choices=sorted(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--small", default=SMALL, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.scale, given.edges, given.steps, given.cache, given.small = 20, 15_625_000, 20, "64MiB", "rmat:18:4000000"
    if given.stage:
        found_here = STAGES[given.stage](given.work, given)
        print(json.dumps({**found_here, "peak_gib": _of_process("status", "VmHWM") / 2**20}))
        return
    work = Path(tempfile.mkdtemp(dir=given.work))
    found: dict[str, dict[str, Any]] = {}
    try:
        for stage in STAGES:
            roof = bandwidth(work, (1 << 30) if given.quick else (4 << 30)) if stage == "ingest" else None
            found[stage] = _process(stage, work, given)
            if roof is not None:
                found[stage]["disk_write"] = statistics.mean([roof[0], bandwidth(work, 1 << 30)[0]])
            print(stage, json.dumps(found[stage]), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(work)
    rows = _summary(found)
    for row in rows:
        print(f"{row['stage']:34} {row['value']:>12} {row['unit']:22} {row['beside']}")
    if not given.no_write:
        config = {
            **{name: getattr(given, name) for name in ("edges", "steps", "cache", "memory", "threads")},
            **{"nodes": 1 << given.scale, "columns": COLUMNS, "fanouts": FANOUTS, "batch_size": BATCH_SIZE, "hidden": HIDDEN},
        }
        write(given.name, config, rows)


def _process(stage: str, work: Path, given: argparse.Namespace) -> dict[str, Any]:
    """A stage in a process of its own: what it found, its seconds from start to end, and its peak memory."""
    options = ["--scale", given.scale, "--edges", given.edges, "--steps", given.steps, "--cache", given.cache]
    options += ["--memory", given.memory, "--threads", given.threads, "--small", given.small]
    started = time.perf_counter()
    run = subprocess.run(
        [sys.executable, __file__, *map(str, options), "--stage", stage, "--work", str(work)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - started
    return {**json.loads(run.stdout.splitlines()[-1]), "seconds": seconds}


def _summary(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a figure."""
    made, trained, part = found["ingest"], found["steps"], found["parts"]
    rate = made["written_bytes"] / made["seconds"]

    def row(stage: str, value: float, unit: str, beside: str = "") -> dict[str, Any]:
        return {"stage": stage, "value": float(f"{value:.4g}"), "unit": unit, "beside": beside}

    return [
        row("generate and ingest", made["seconds"], "s", f"{made['edges'] / made['seconds'] / 1e6:.1f} M edges/s with features"),
        row("written", rate / 1e9, "GB/s", f"{rate / made['disk_write']:.2f} of {made['disk_write'] / 1e9:.2f}, the disk's"),
        row("peak of ingest", made["peak_gib"], "GiB"),
        row("train", trained["seconds"], "s", f"{trained['steps']} steps from process start to end"),
        row("a step", trained["seconds_a_step"], "s", f"loss {trained['first_loss']} to {trained['last_loss']}"),
        row("peak of training", trained["peak_gib"], "GiB"),
        row("in all", made["seconds"] + trained["seconds"], "s"),
        row("hit rate", trained["hit_rate"], "of rows asked for", f"cache of {trained['cache_bytes'] / 2**30:.2f} GiB"),
        row("loader stall", trained["loader_stall"], "of the time"),
        row(
            "sampled, 1 thread",
            part["sampled_edges"] / 1e6,
            "M edges/CPU s",
            f"{part['sampled_edges'] / part['memory_reads']:.2f} of {part['memory_reads'] / 1e6:.0f} M random reads of memory; "
            f"{part['over_small']:.2f} of the smaller graph's {part['sampled_edges_small'] / 1e6:.1f}",
        ),
        *(
            row(f"hot gather, {dtype}, {threads} threads", part[f"hot_rows_{dtype}_{threads}"] / 1e6, "M rows/s")
            for dtype in ("float16", "float32")
            for threads in (1, 2)
        ),
        row(
            "misses",
            part["missed_rows"] / 1e3,
            "k rows/s",
            f"{part['missed_blocks'] / 1e3:.0f} k blocks, {part['missed_blocks'] / part['disk_reads']:.2f} of the disk's "
            f"{part['disk_reads'] / 1e3:.0f} k random reads",
        ),
    ]


if __name__ == "__main__":
    main()
