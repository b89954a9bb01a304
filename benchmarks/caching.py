"""Which rows a cache of features holds, by policy, beside two clairvoyants: `python benchmarks/caching.py` (`--quick`: seconds).

SAGE is sampled on a skewed R-MAT graph whose features lie in a file. For each policy a loader chooses as it always does: by the
next steps of its run, `Tiers.presample` of them, where it looks at steps at all. Then hits are counted in steps that come after
those, which no policy saw. `random` is the floor. The two clairvoyants know the steps that are counted:

- `static` holds the rows most asked for in these very steps, the best choice of fixed rows there is; "optimal" in GNNLab (Yang
  et al., EuroSys 2022) and PaGraph (Lin et al., SoCC 2020). Every policy here holds fixed rows and cannot be above it.
- `min` replaces rows at every step: out goes the one whose next use is farthest, and none comes in that is used later still (MIN:
  Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 1966). It begins with the rows
  that suit it best. No cache that takes in what was asked for is above it.

Hits are counted in few steps and in many: of few, a clairvoyant also knows what is mere chance, which no choice made beforehand
can. Seeds are nodes that have neighbours, all or a tenth of them at random. Each repeat is a run with another seed; what is shown
is the median, and the lowest and highest.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from result import write

import gnnhet as gh
from gnnhet.samplers import Tiers, caching
from gnnhet.samplers.gathering import POLICIES

SPEC, QUICK = "rmat:21:60000000", "rmat:15:500000"
ROW_BYTES = 2  # a float16: what rows weigh changes no choice
HORIZONS = (50, 1000)  # steps that are counted
PERCENTS = (2, 5, 10, 25)  # of the nodes' rows
CASES = [(part, fanouts, size) for part in (10, 100) for fanouts in ((15, 10), (15, 10, 5)) for size in (256, 1024)]
DEFAULT = Tiers().policy
CLAIRVOYANTS = ("static", "min")
PROMISE = 0.95  # of the clairvoyant hit rate

Ids = npt.NDArray[np.int64]


def measure(
    graph: gh.Graph, seeds: Ids, fanouts: tuple[int, ...], size: int, seed: int, horizons: tuple[int, ...]
) -> list[dict[str, Any]]:
    """One run: per percentage and count of steps the hit rates, and the seconds that each policy took to choose.

    Args:
        graph: with features in a file.
        seeds: nodes that steps take theirs from.
        fanouts: neighbours drawn a layer.
        size: seeds a step.
        seed: of the run.
        horizons: steps that are counted, ascending.
    """

    def loader(tiers: Tiers | None = None) -> gh.NeighborLoader:
        features = () if tiers is None else ("x",)
        return gh.NeighborLoader(graph, list(fanouts), size, ("node", seeds), seed=seed, features=features, tiers=tiers)

    count, known = graph.num_nodes["node"], Tiers().presample
    every = list(itertools.islice(_asked(loader()), known + horizons[-1]))
    often = {steps: np.zeros(count, np.int64) for steps in horizons}
    for step, ids in enumerate(every[known:]):
        for steps in horizons:
            if step < steps:
                often[steps][ids] += 1
    alike = {steps: _alike(times) for steps, times in often.items()}
    beforehand = np.arange(count)  # a step that asks for all: what is left of it are the rows that MIN begins with
    found = []
    for percent in PERCENTS:
        rows = count * percent // 100
        some = np.random.default_rng(seed).choice(count, rows, replace=False)
        rates = {}
        for steps, times in often.items():
            hits = caching.clairvoyant([beforehand, *every[known : known + steps]], count, rows).sum()
            best = np.partition(times, count - rows)[count - rows :].sum()
            rates[steps] = {
                name: hit / times.sum() for name, hit in (("static", best), ("min", hits), ("random", times[some].sum()))
            }
        seconds = {}
        for policy in POLICIES:
            budget = count * caching.SLOT_BYTES + rows * ROW_BYTES
            own = loader(Tiers(reads="map", cache=budget, policy=policy))
            started = time.perf_counter()
            own.fill_cache()
            seconds[policy] = time.perf_counter() - started
            for steps, times in often.items():
                rates[steps][policy] = _hits(own, alike[steps]) / times.sum()
        found += [
            {"steps": steps, "held_percent": percent, "rows": times.sum() / steps, "rates": rates[steps], "seconds": seconds}
            for steps, times in often.items()
        ]
    return found


def _asked(loader: gh.NeighborLoader) -> Iterator[Ids]:
    """What each step asks for, epoch after epoch."""
    while True:
        for batch in loader:
            yield batch.input_ids.numpy().copy()


def _alike(times: Ids) -> list[tuple[int, Ids]]:
    """(times, the nodes asked for so often), those that nothing asks for apart."""
    asked = np.flatnonzero(times)
    order = asked[np.argsort(times[asked], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(times[order])) + 1)
    return [(int(times[ids[0]]), ids) for ids in parts]


def _hits(loader: gh.NeighborLoader, alike: list[tuple[int, Ids]]) -> int:
    """Rows that a loader's cache has of so many requests for these nodes."""

    def found() -> int:
        stats = loader.cache_stats()
        assert stats is not None
        return stats.found["node"]

    hits = 0
    for times, ids in alike:
        before = found()
        loader.gather({"node": torch.from_numpy(ids)})
        hits += times * (found() - before)
    return hits


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of one case and percentage as one row."""

    def of(values: list[float]) -> dict[str, Any]:
        digits = [round(float(value), 4) for value in values]
        return {"median": statistics.median(digits), "spread": [min(digits), max(digits)]}

    names = runs[0]["rates"]
    policies = [name for name in names if name not in CLAIRVOYANTS]
    return {
        "steps": runs[0]["steps"],
        "held_percent": runs[0]["held_percent"],
        "rows_a_step": round(statistics.median(run["rows"] for run in runs)),
        "hit_rate": {name: of([run["rates"][name] for run in runs]) for name in names},
        **{
            f"of_{best}": {name: of([run["rates"][name] / run["rates"][best] for run in runs]) for name in policies}
            for best in CLAIRVOYANTS
        },
        "choose_s": {name: of([run["seconds"][name] for run in runs]) for name in runs[0]["seconds"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small graph, two cases, one run")
    parser.add_argument("--no-write", action="store_true", help="leave the result file as it is")
    given = parser.parse_args()
    torch.set_num_threads(1)
    spec, cases, horizons = SPEC, CASES, HORIZONS
    if given.quick:
        spec, cases, horizons, given.repeats = QUICK, CASES[:1] + CASES[-1:], (10, 40), 1
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        graph = saved(spec, Path(folder) / "graph")
        starts = np.flatnonzero(np.diff(graph.csc(graph.relations[0])[0]))
        tenth = np.sort(np.random.default_rng(0).choice(starts, starts.size // 10, replace=False))
        for part, fanouts, size in cases:
            seeds = starts if part == 100 else tenth
            runs = [measure(graph, seeds, fanouts, size, seed, horizons) for seed in range(given.repeats)]
            for same in zip(*runs, strict=True):
                row = {"train_percent": part, "fanouts": list(fanouts), "batch_size": size, **summary(list(same))}
                rows.append(row)
                case = f"{part:3} % train, {'-'.join(map(str, fanouts)):7}, {size:4} a step, {row['steps']:4} steps"
                shown = " ".join(f"{name} {rate['median']:.3f}" for name, rate in row["hit_rate"].items())
                ratios = ", ".join(f"{row[f'of_{best}'][DEFAULT]['median']:.3f} of {best}" for best in CLAIRVOYANTS)
                print(f"{case}, {row['held_percent']:2} % held: {shown}; {ratios}", flush=True)
    for steps in horizons:
        for best in CLAIRVOYANTS:
            ratios_ = sorted(row[f"of_{best}"][DEFAULT]["median"] for row in rows if row["steps"] == steps)
            short = sum(ratio < PROMISE for ratio in ratios_)
            print(
                f"{steps} steps: {DEFAULT} is below {PROMISE} of {best} in {short} of {len(ratios_)}, at least {ratios_[0]:.3f}"
            )
    if not given.no_write:
        config = {"graph": spec, "presample": Tiers().presample, "repeats": given.repeats, "threads": 1}
        print(write("caching", config, rows))


def saved(spec: str, folder: Path) -> gh.Graph:
    """The graph in a folder with a column of features, its topology in memory."""
    gh.Graph.ingest(spec, folder)
    graph = gh.Graph.open(folder)
    graph.set_feature("node", "x", np.zeros((graph.num_nodes["node"], 1), np.float16))
    return gh.Graph.open(folder).preload()


if __name__ == "__main__":
    main()
