"""Test accuracy on real graphs, means over seeds: `python benchmarks/accuracy.py --data FOLDER [--only NAME]`.

FOLDER holds `cora/` (Planetoid raw files), `aifb/` (N-Triples and tables), `amazon_photo/amazon_photo.npz`. WordNet is
embedded. The epoch is the best on validation where there is a validation split (Cora, Photo, WordNet), the last one on AIFB.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from result import read, write

import gnnhet as gh
from gnnhet.datasets.raw import HOMOGENEOUS, NODE, RawGraph
from gnnhet.storage import Graph

WORDNET: dict[str, Any] = {
    "fanouts": (8, 8),
    "hidden": 64,
    "dropout": 0.2,
    "lr": 0.01,
    "weight_decay": 0.0,
    "epochs": 8,
    "batch_size": 512,
}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "cora-gcn": (
        "planetoid:{data}/cora",
        {"model": "gcn", "fanouts": (-1, -1), "hidden": 16, "dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4, "epochs": 200},
    ),
    "aifb-rgcn": (
        "rdf:{data}/aifb",
        {"model": "rgcn", "fanouts": (-1, -1), "hidden": 16, "dropout": 0.5, "lr": 0.01, "weight_decay": 0.0, "epochs": 50},
    ),
    "photo-sage": (
        "npz:{data}/amazon_photo/amazon_photo.npz",
        {"model": "sage", "fanouts": (10, 10), "hidden": 128, "dropout": 0.5, "lr": 0.003, "epochs": 40, "batch_size": 512},
    ),
    "wordnet-rgcn": ("wordnet", {"model": "rgcn", **WORDNET}),
    "wordnet-blind": ("wordnet", {"model": "rgcn", **WORDNET}),
    "wordnet-mlp": ("wordnet", {"model": "mlp", **WORDNET}),
}


def blind(graph: Graph) -> Graph:
    """WordNet with all its node types and relations made one: the same network cannot tell them apart."""
    first = dict(zip(graph.node_types, np.cumsum([0, *graph.num_nodes.values()]), strict=False))
    src, dst = [], []
    for relation in graph.relations:
        indptr, indices = graph.csc(relation)
        src.append(indices + first[relation[0]])
        dst.append(np.repeat(np.arange(indptr.size - 1), np.diff(indptr)) + first[relation[2]])
    count = sum(graph.num_nodes.values())
    target = slice(first["noun"], first["noun"] + graph.num_nodes["noun"])
    y, split = np.full(count, -1), np.full(count, -1, np.int8)
    y[target], split[target] = graph.features.array("noun", "y"), graph.features.array("noun", "split")
    x = np.concatenate([graph.features.array(node_type, "x") for node_type in graph.node_types])
    edges = {HOMOGENEOUS: (np.concatenate(src), np.concatenate(dst))}
    features = {NODE: {"x": x, "y": y, "split": split}}
    return Graph.from_raw(RawGraph(num_nodes={NODE: count}, edges=edges, features=features, name="wordnet, blind"))


def propagation(graph: Graph) -> float:
    """Test accuracy of labels that spread along hypernyms and hyponyms from the training nouns, without any learning."""
    y, classes = graph.features.array("noun", "y"), graph.num_classes("noun")
    train = graph.split_ids("noun", "train")
    scores = np.zeros((y.size, classes), np.float32)
    ends = [
        (indices, np.repeat(np.arange(indptr.size - 1), np.diff(indptr)))
        for name in ("hypernym", "hyponym", "instance_hypernym", "instance_hyponym")
        for indptr, indices in [graph.csc(("noun", name, "noun"))]
    ]
    for _ in range(30):
        scores[train] = np.eye(classes, dtype=np.float32)[y[train]]
        spread = np.zeros_like(scores)
        for src, dst in ends:
            np.add.at(spread, dst, scores[src])
        scores = spread / np.maximum(spread.sum(1, keepdims=True), 1e-9)
    test = graph.split_ids("noun", "test")
    return float((scores[test].argmax(1) == y[test]).mean())


def measure(name: str, data: str, seeds: int, runs: Path) -> dict[str, Any]:
    """Accuracy of one run over seeds."""
    spec, options = RUNS[name]
    graph = gh.load_dataset(spec.format(data=data))
    change: Callable[[Graph], Graph] = blind if name.endswith("-blind") else lambda same: same
    graph = change(graph)
    started = time.perf_counter()
    done = [
        gh.train(graph, devices="cpu", run=str(runs / f"{name}-{seed}"), quiet=True, seed=seed, **options)
        for seed in range(seeds)
    ]
    test = [run.metrics["test"] for run in done]
    row = {
        "run": name,
        "test_mean": statistics.mean(test),
        "test_std": statistics.stdev(test) if seeds > 1 else 0.0,
        "test": test,
        "macro_f1_mean": statistics.mean(run.metrics["macro_f1"] for run in done),
        "seconds_per_seed": (time.perf_counter() - started) / seeds,
        "epoch_seconds": statistics.median(run.epoch_seconds or 0.0 for run in done),
        "options": {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()},
    }
    print(f"{name}: {row['test_mean']:.2%} +- {row['test_std']:.2%}, {row['seconds_per_seed']:.1f} s a seed", file=sys.stderr)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data", help="folder of the raw files")
    parser.add_argument("--only", choices=RUNS, help="one run; the others of the result file are kept")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    names = [given.only] if given.only else list(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, given.data, given.seeds, Path(folder)) for name in names]
    if given.only:
        rows += [row for row in read("accuracy") if row["run"] != given.only]
    else:
        rows.append({"run": "wordnet-propagation", "test_mean": propagation(gh.load_dataset("wordnet"))})
        print(f"label propagation along hypernyms: {rows[-1]['test_mean']:.2%}", file=sys.stderr)
    print(write("accuracy", {"seeds": given.seeds}, sorted(rows, key=lambda row: str(row["run"]))))


if __name__ == "__main__":
    main()
