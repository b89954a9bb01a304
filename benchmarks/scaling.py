"""One thread and two along the same way: `python benchmarks/scaling.py`.

The reference graph and fanouts; batches a second of `sample` called from threads of one's own, of the loader without features
and of the loader with them. Every round runs each once with 1 thread and with 2, the next round backwards.
"""

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from result import write

import gnnhet as gh

SPEC, COLUMNS, FANOUTS, BATCH_SIZE = "rmat:21:60000000", 100, [15, 10, 5], 1024
WARM = 10


def direct(graph: gh.Graph, seeds: Any, threads: int) -> float:
    """Batches a second of `sample` called from a pool of threads."""
    sampler = gh.NeighborSampler(graph, FANOUTS, seed=0)
    steps = list(enumerate(seeds.reshape(-1, BATCH_SIZE)))

    def draw(job: tuple[int, Any]) -> None:
        sampler.sample(("node", job[1]), step=job[0])

    with ThreadPoolExecutor(threads) as pool:
        deque(pool.map(draw, steps[:WARM]), maxlen=0)
        started = time.perf_counter()
        deque(pool.map(draw, steps[WARM:]), maxlen=0)
        return (len(steps) - WARM) / (time.perf_counter() - started)


def loaded(graph: gh.Graph, seeds: Any, threads: int, features: tuple[str, ...]) -> float:
    """Batches a second of the loader."""
    loader = gh.NeighborLoader(
        graph, FANOUTS, BATCH_SIZE, ("node", seeds), shuffle=False, threads=threads, features=features, seed=0
    )
    started, count = 0.0, 0
    for count, _ in enumerate(loader, start=1):
        if count == WARM:
            started = time.perf_counter()
    return (count - WARM) / (time.perf_counter() - started)


WAYS: dict[str, Callable[..., float]] = {
    "sample, called from threads": direct,
    "loader, blocks alone": partial(loaded, features=()),
    "loader, blocks and features": partial(loaded, features=("x",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = gh.load_dataset(SPEC)
    indptr, indices = made.csc(made.relations[0])
    x = np.random.default_rng(0).standard_normal((made.num_nodes["node"], COLUMNS), dtype=np.float32)
    graph = gh.Graph.from_csc(indptr, indices, x=x)
    starts = np.flatnonzero(np.diff(indptr))
    seeds = np.random.default_rng(0).choice(starts, (given.batches + WARM) * BATCH_SIZE, replace=False)
    cases = [(way, threads) for way in WAYS for threads in (1, 2)]
    rates: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for turn in range(given.rounds):
        for way, threads in cases if turn % 2 == 0 else cases[::-1]:
            rates[way, threads].append(WAYS[way](graph, seeds, threads))
            print(way, threads, round(rates[way, threads][-1], 1), flush=True)
    rows = []
    for way in WAYS:
        ratios = sorted(two / one for one, two in zip(rates[way, 1], rates[way, 2], strict=True))
        rows.append(
            {
                "way": way,
                "one": round(statistics.median(rates[way, 1]), 1),
                "two": round(statistics.median(rates[way, 2]), 1),
                "ratio": round(statistics.median(ratios), 2),
                "ratio_spread": [round(ratios[0], 2), round(ratios[-1], 2)],
            }
        )
    config = {"graph": SPEC, "columns": COLUMNS, "fanouts": FANOUTS, "batch_size": BATCH_SIZE, **vars(given)}
    print(write("scaling", config, rows))


if __name__ == "__main__":
    main()
