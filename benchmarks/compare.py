"""gnnhet beside DGL and PyG, interleaved: `python benchmarks/compare.py sampling|loader|typed --peers FOLDER`.

FOLDER holds the environments `dgl` and `pyg`, made by `benchmarks/peers/make_env.sh NAME FOLDER/NAME`. The graphs are made
once, in `--data`. A round runs every configuration once, each in a fresh process; the first round of `loader` tries every
number of threads and workers, the further ones the best of each peer alone. Nothing else should run on the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from result import write

import gnnhet as gh

PEERS = Path(__file__).with_name("peers")
SPEC = "rmat:21:60000000"
COLUMNS = 100
TYPES = {"paper": 1 << 20, "author": 1 << 20, "venue": 1 << 14, "topic": 1 << 16}
RELATIONS = [
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("topic", "of", "paper"),
    ("venue", "prints", "paper"),
    ("paper", "written_by", "author"),
    ("author", "knows", "author"),
    ("paper", "in", "venue"),
    ("paper", "about", "topic"),
]
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}
LIMIT_S = 15  # of a run's timed part: slow configurations do fewer batches
BROKEN_S = 600


class Case(NamedTuple):
    """One configuration of one library."""

    peer: str
    threads: int
    workers: int = 0
    ids: str = ""
    tuned: bool = False

    def __str__(self) -> str:
        """For people."""
        parts = [self.peer, f"{self.threads} threads", f"{self.workers} workers" if self.workers else "", self.ids]
        return ", ".join(part for part in [*parts, "malloc tuned" if self.tuned else ""] if part)


def cases(task: str) -> list[Case]:
    """Every configuration of a task."""
    if task == "loader":
        plain = [Case("gnnhet", 1), Case("gnnhet", 2)]
        plain += [Case("dgl", threads, workers) for threads, workers in ((1, 0), (2, 0), (1, 1), (1, 2))]
        plain += [Case("graphbolt", threads, workers, "int32") for threads, workers in ((1, 0), (2, 0), (1, 1), (1, 2))]
        plain += [Case("pyg", threads, workers) for threads, workers in ((1, 0), (2, 0), (1, 1), (1, 2))]
        return plain + [case._replace(tuned=True) for case in plain]
    return [Case(peer, threads, 0, ids) for peer, ids in SAMPLERS for threads in (1, 2)]


SAMPLERS = (("gnnhet", ""), ("dgl", ""), ("graphbolt", "int32"), ("pyg", ""))


def make_plain(folder: Path) -> None:
    """The reference graph and its features."""
    graph = gh.load_dataset(SPEC)
    indptr, indices = graph.csc(graph.relations[0])
    np.save(folder / "indptr.npy", indptr)
    np.save(folder / "indices.npy", indices)
    rows = np.random.default_rng(0).standard_normal((graph.num_nodes["node"], COLUMNS), dtype=np.float32)
    np.save(folder / "x.npy", rows)


def make_typed(folder: Path) -> None:
    """Eight relations of 2.5 million edges between four node types, degrees skewed on both sides."""
    rng = np.random.default_rng(0)
    for number, (src, _, dst) in enumerate(RELATIONS):
        ends = [(rng.random(2_500_000) ** 3 * TYPES[node_type]).astype(np.int64) for node_type in (src, dst)]
        spread = [rng.permutation(TYPES[node_type]) for node_type in (src, dst)]
        order = np.argsort(spread[1][ends[1]], kind="stable")
        indptr = np.zeros(TYPES[dst] + 1, np.int64)
        np.cumsum(np.bincount(spread[1][ends[1]], minlength=TYPES[dst]), out=indptr[1:])
        np.save(folder / f"{number}.indptr.npy", indptr)
        np.save(folder / f"{number}.indices.npy", spread[0][ends[0]][order].astype(np.int32))
    manifest = {"num_nodes": TYPES, "relations": RELATIONS, "target": "paper"}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def data(task: str, root: Path) -> Path:
    """The folder of a task's graph, made where it is not there."""
    folder = root / ("typed" if task == "typed" else "plain")
    if not folder.exists():
        half = folder.with_suffix(".part")
        half.mkdir(parents=True, exist_ok=True)
        (make_typed if task == "typed" else make_plain)(half)
        half.rename(folder)
    return folder


def run(case: Case, task: str, folder: Path, batches: int, peers: Path) -> dict[str, Any]:
    """One fresh process of one configuration: the line that its worker prints."""
    python = {"gnnhet": sys.executable, "pyg": str(peers / "pyg/bin/python")}.get(case.peer, str(peers / "dgl/bin/python"))
    command = [python, str(PEERS / f"{case.peer}_worker.py"), "--data", str(folder)]
    command += ["--task", {"sampling": "sample"}.get(task, task), "--threads", str(case.threads)]
    command += ["--workers", str(case.workers), "--batches", str(batches)]
    command += ["--seconds-limit", str(LIMIT_S)]
    command += ["--ids", case.ids] if case.ids else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(case.threads), **(TUNED if case.tuned else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=BROKEN_S, check=False)
    if done.returncode:
        raise SystemExit(f"{case}: the worker failed:\n{done.stderr[-2000:]}")
    line: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return line


def rounds(task: str, count: int, peers: Path) -> Iterator[list[Case]]:
    """The configurations of each round, every second round backwards; `results` of the first decide the further ones."""
    every = cases(task)
    yield every
    for number in range(1, count):
        best = chosen(every, RESULTS) if task == "loader" else every
        yield best[::-1] if number % 2 else best


RESULTS: dict[Case, list[dict[str, Any]]] = defaultdict(list)


def chosen(every: list[Case], found: dict[Case, list[dict[str, Any]]]) -> list[Case]:
    """The fastest configuration of each peer, as shipped and tuned."""
    best: dict[tuple[str, bool], Case] = {}
    for case in every:
        seen = best.get((case.peer, case.tuned))
        if seen is None or speed(found[case][0]) > speed(found[seen][0]):
            best[case.peer, case.tuned] = case
    return list(best.values())


def speed(line: dict[str, Any]) -> float:
    """Batches a second."""
    return float(line["batches"] / line["wall_s"])


def summary(case: Case, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the result file: medians and spreads over the rounds."""
    rates = [speed(line) for line in lines]
    per_cpu = [line["edges"] / line["cpu_s"] / 1e6 for line in lines]
    per_wall = [line["edges"] / line["wall_s"] / 1e6 for line in lines]
    row = {
        "case": str(case),
        **case._asdict(),
        "version": lines[0]["version"],
        "rounds": len(lines),
        "edges_a_batch": round(lines[0]["edges"] / lines[0]["batches"]),
        "inputs_a_batch": round(lines[0]["input_nodes"] / lines[0]["batches"]),
        "batches_per_s": round(statistics.median(rates), 2),
        "batches_per_s_spread": [round(min(rates), 2), round(max(rates), 2)],
        "medges_per_cpu_s": round(statistics.median(per_cpu), 2),
        "medges_per_s": round(statistics.median(per_wall), 2),
    }
    for name in ("first_batch_s", "random_reads_per_s"):
        if name in lines[0]:
            row[name] = round(statistics.median(line[name] for line in lines), 3)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("sampling", "loader", "typed"))
    parser.add_argument("--peers", type=Path, default=Path("build/peers"), help="folder of the environments")
    parser.add_argument("--data", type=Path, default=Path("build/graphs"), help="folder of the graphs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=300)
    given = parser.parse_args()
    folder = data(given.task, given.data)
    for cases_now in rounds(given.task, given.rounds, given.peers):
        for case in cases_now:
            line = run(case, given.task, folder, given.batches, given.peers)
            RESULTS[case].append(line)
            print(
                f"{case}: {speed(line):.2f} batches/s, {line['edges'] / line['cpu_s'] / 1e6:.1f} M edges a CPU second", flush=True
            )
    rows = [summary(case, lines) for case, lines in RESULTS.items()]
    config = {
        "graph": "typed" if given.task == "typed" else SPEC,
        "batches": given.batches,
        "batch_size": 1024,
        "fanouts": [15, 10, 5],
    }
    print(write(given.task, config, rows))


if __name__ == "__main__":
    main()
