"""gnnhet's sampler and loader, timed: `python benchmarks/peers/gnnhet_worker.py --data FOLDER --task sample`.

Layered blocks, as DGL's. One thread samples in the calling thread; several are the loader's, with or without rows of `x`.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import measure
import torch

import gnnhet as gh

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import roofs


def graph_of(given: argparse.Namespace) -> tuple[Any, str]:
    """The graph and the seeds' type."""
    if given.task == "typed":
        num_nodes, parts, target = measure.typed(given.data)
        return gh.Graph.from_relations(parts, num_nodes), target
    indptr, indices, x = measure.plain(given.data, with_x=given.task == "loader")
    return gh.Graph.from_csc(indptr, indices, x=x), "node"


def batches(given: argparse.Namespace, graph: Any, target: str, seeds: measure.Array) -> Iterator[Any]:
    """Batches, one at every `next`."""
    if given.task != "loader" and given.threads == 1:
        sampler = gh.NeighborSampler(graph, given.fanouts, seed=0)
        for step, part in enumerate(seeds.reshape(-1, given.batch_size)):
            yield sampler.sample((target, part), step=step)
        return
    features = ("x",) if given.task == "loader" else ()
    yield from gh.NeighborLoader(
        graph, given.fanouts, given.batch_size, (target, seeds), shuffle=False, threads=given.threads, features=features
    )


def sizes(batch: Any) -> tuple[int, int]:
    return batch.num_edges, sum(ids.numel() for ids in batch.input_of.values())


def main() -> None:
    given = measure.arguments(__doc__, ("int32",))
    torch.set_num_threads(given.threads)
    graph, target = graph_of(given)
    seeds = measure.seeds_of(given)
    started = time.perf_counter()
    gh.NeighborSampler(graph, given.fanouts).sample((target, seeds[: given.batch_size]))
    first_s = time.perf_counter() - started
    made = batches(given, graph, target, seeds)
    extra = {"first_batch_s": round(first_s, 3)}
    if given.task == "sample" and given.threads == 1:
        extra["random_reads_per_s"] = roofs.random_reads(graph.csc(graph.relations[0])[1])
    measure.report(given, "gnnhet", version("gnnhet"), made, sizes, **extra)


if __name__ == "__main__":
    main()
