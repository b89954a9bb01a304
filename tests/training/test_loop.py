"""One device: how a run ends, what it records, and what its options do."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.config import OPTIMIZERS, TrainConfig
from gnnhet.errors import FormatError, SpecError, TrainingError, WaitError
from gnnhet.report import RunFolder
from gnnhet.storage import Graph
from gnnhet.training import Run, checkpoint, train
from gnnhet.training.optim import make_optimizer, set_rate

GRAPH = labelled_graph()


def run_in(folder: Path, graph: Graph = GRAPH, **options: Any) -> Run:
    given = {"fanouts": (4, 3), "hidden": 8, "batch_size": 32, "lr": 0.01, "devices": "cpu", **options}
    return train(graph, run=str(folder), quiet=True, **given)


def test_the_run_folder_holds_what_happened(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", epochs=3)
    assert {path.name for path in run.folder.iterdir()} == {
        "config.json", "plan.json", "metrics.jsonl", "result.json", "picture.png", "checkpoint",
    }  # fmt: skip
    steps = -(-GRAPH.split_ids("node", "train").size // 32)
    assert len(run.step_loss) == 3 * steps
    assert len(run.loss) == len(run.history) == run.to_dict()["epochs"] == 3
    for number, record in enumerate(run.history):
        assert record["epoch"] == number
        assert all(0 <= record[name] <= 1 for name in ("train", "val", "test", "macro_f1"))
    best = max(run.history, key=lambda record: (record["val"], -record["epoch"]))
    assert run.metrics == {name: best[name] for name in ("train", "val", "test", "macro_f1", "epoch")}
    assert json.loads((run.folder / "config.json").read_text())["config"]["lr"] == 0.01
    assert run.epoch_seconds is not None
    assert run.seeds_per_second is not None
    assert Run.read(run.folder).to_dict() == run.to_dict()


def test_epoch_losses_weigh_every_labelled_seed_equally(tmp_path: Path) -> None:
    graph = typed_labelled_graph()
    run = run_in(tmp_path / "run", graph, model="rgcn", epochs=2, batch_size=50)
    records = RunFolder.open(run.folder).records()
    seeds = graph.split_ids("a", "train").size
    counts = [50] * (seeds // 50) + [seeds % 50]
    for epoch in range(2):
        losses = [r["loss"] for r in records if r["kind"] == "step" and r["epoch"] == epoch]
        assert run.loss[epoch] == pytest.approx(np.average(losses, weights=counts))


def test_early_stopping_waits_for_validation(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", epochs=60, early_stop=3, lr=0.05)
    epochs = [record["val"] for record in run.history]
    assert len(epochs) < 60
    best = epochs.index(max(epochs))
    assert len(epochs) == best + 1 + 3
    assert run.metrics["epoch"] == best
    assert run.finished


def test_evaluation_may_be_rarer(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", epochs=5, eval_every=2)
    assert ["val" in record for record in run.history] == [False, True, False, True, True]


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run", epochs=4)
    best = checkpoint.load(run.checkpoint / checkpoint.BEST)
    assert best["metrics"]["epoch"] == run.metrics["epoch"]
    last = checkpoint.load(run.checkpoint / checkpoint.LAST)
    assert last["position"]["epoch"] == 4
    assert set(best["model"]) == set(last["model"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_learn_and_resume(tmp_path: Path, name: str) -> None:
    """Moments are part of the checkpoint: a run in two pieces equals one in one piece, to the last bit on one device."""
    options: dict[str, Any] = {"optimizer": name, "weight_decay": 1e-4, "dropout": 0.2, "lr": 0.3 if name == "sgd" else 0.01}
    whole = run_in(tmp_path / "whole", steps=12, **options)
    assert np.mean(whole.step_loss[-4:]) < np.mean(whole.step_loss[:4])
    run_in(tmp_path / "part", steps=5, **options)
    part = train(GRAPH, devices="cpu", resume=str(tmp_path / "part"), steps=12, quiet=True)
    assert part.step_loss == whole.step_loss


def test_schedules() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    expected: dict[str, list[float]] = {"constant": [1, 1, 1], "linear": [1, 0.5, 0], "cosine": [1, 0.5, 0]}
    for name, factors in expected.items():
        config = TrainConfig(schedule=name, lr=0.1)
        optimizer = make_optimizer(config, [parameter])
        for done, factor in zip((0, 5, 10), factors, strict=True):
            set_rate(optimizer, config, done, 10)
            assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * factor)


def test_a_finished_run_goes_on_when_its_end_is_moved(tmp_path: Path) -> None:
    whole = run_in(tmp_path / "whole", epochs=4)
    run_in(tmp_path / "run", epochs=2)
    same = train(GRAPH, resume=str(tmp_path / "run"), quiet=True)
    assert len(same.loss) == 2
    longer = train(GRAPH, resume=str(tmp_path / "run"), epochs=4, quiet=True)
    assert longer.step_loss == whole.step_loss
    assert longer.metrics == whole.metrics


@pytest.mark.parametrize("damage", [b"", b"PK", b"x" * 1000])
def test_a_damaged_checkpoint_is_a_clear_error(tmp_path: Path, damage: bytes) -> None:
    run_in(tmp_path / "run", steps=2)
    (tmp_path / "run" / "checkpoint" / checkpoint.LAST).write_bytes(damage)
    with pytest.raises(FormatError, match=r"last\.pt must be a checkpoint of ours"):
        train(GRAPH, devices="cpu", resume=str(tmp_path / "run"), steps=4, quiet=True)


def test_a_checkpoint_with_code_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    torch.save({"version": 1, "model": Path("x")}, path)  # any object that is no tensor stands for code
    with pytest.raises(FormatError, match="must be a checkpoint of ours"):
        checkpoint.load(path)


@pytest.mark.parametrize("model", ["rgcn", "hgt", "mlp"])
@pytest.mark.parametrize("with_features", [True, False])
def test_a_node_type_without_nodes_is_no_trouble(tmp_path: Path, model: str, with_features: bool) -> None:
    whole = typed_labelled_graph()
    relations: dict[Any, Any] = {
        ("a", "to", "a"): whole.csc(("a", "to", "a")),
        ("a", "to", "z"): ([0], []),
        ("z", "to", "a"): (np.zeros(121, np.int64), []),
    }
    features: dict[str, Any] = {"a": {name: whole.features.array("a", name) for name in ("x", "y", "split")}}
    if with_features:
        features["z"] = {"x": np.empty((0, 3), np.float32)}
    graph = Graph.from_relations(relations, {"a": 120, "z": 0}, features)
    assert len(run_in(tmp_path / "run", graph, model=model, epochs=2).loss) == 2


def test_a_memory_limit_is_held(tmp_path: Path) -> None:
    columns = 2000
    rng = np.random.default_rng(0)
    graph = Graph.from_csc(
        np.zeros(3001, np.int64),
        [],
        x=rng.standard_normal((3000, columns)).astype(np.float32),
        y=rng.integers(0, 3, 3000),
        split=np.zeros(3000, np.int8),
    )
    with pytest.raises(TrainingError, match=r"may use 1MiB of memory: got .* in use; lower --batch-size"):
        run_in(tmp_path / "run", graph, devices="cpu,memory=1MiB", batch_size=3000, hidden=256, steps=20)


def test_what_cannot_be_trained_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    bare = Graph.from_csc([0, 1, 2], [1, 0], x=np.ones((2, 3), np.float32), y=np.array([0, 1]))
    cases: list[tuple[Graph, dict[str, Any], str]] = [
        (bare, {}, "training needs labelled node nodes"),
        (GRAPH, {"fanouts": ()}, "needs one fanout a layer"),
        (GRAPH, {"target": "paper"}, "paper"),
        (GRAPH, {"threads": 0}, "threads must be 1 or more"),
    ]
    for graph, options, rule in cases:
        with pytest.raises(SpecError, match=rule):
            run_in(tmp_path / "run", graph, **options)
        assert not (tmp_path / "run").exists()


def test_a_batch_that_takes_too_long_ends_the_run(tmp_path: Path) -> None:
    graph = labelled_graph(num_nodes=20_000, num_edges=600_000)
    with pytest.raises(WaitError, match="for the sampler threads to make step 0"):
        run_in(tmp_path / "run", graph, fanouts=(-1, -1), batch_size=20_000, timeout_s=1e-3, steps=1)


def test_training_leaves_the_callers_generator_and_threads_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    run_in(tmp_path / "run", steps=2, devices="cpu,threads=1")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert math.isfinite(Run.read(tmp_path / "run").step_loss[-1])
