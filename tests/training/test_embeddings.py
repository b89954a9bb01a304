"""Runs with sparse embeddings: equal to dense ones where the laws are, on any devices, within memory, through kills."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor, nn

from gnnhet.config import TrainConfig
from gnnhet.devices import parse_devices
from gnnhet.errors import FormatError, SpecError, TrainingError
from gnnhet.models import MODELS, build_model
from gnnhet.models.embeddings import embedded_types, initial_rows
from gnnhet.planning import Plan
from gnnhet.planning import plan as make_plan
from gnnhet.samplers import MiniBatch
from gnnhet.storage import Graph
from gnnhet.training import Run, checkpoint, table_files, train

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, Any] = {"fanouts": (4, 3), "hidden": 8, "batch_size": 16, "seed": 3}


def featureless() -> Graph:
    """One node type, labels and a split, no `x`."""
    whole = labelled_graph()
    indptr, indices = whole.csc(whole.relations[0])
    return Graph.from_csc(indptr, indices, y=whole.features.array("node", "y"), split=whole.features.array("node", "split"))


def plan_of(devices: str, shares: list[float], **options: Any) -> Plan:
    chosen = tuple(parse_devices(devices))
    config = TrainConfig().changed(**{**OPTIONS, **options})
    return Plan(strategy="data_parallel", devices=chosen, shares=tuple(shares), threads=(1,) * len(chosen), config=config)


def difference(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other) > 0
    return max(abs(a - b) / abs(a) for a, b in zip(one, other, strict=True))


def saved_rows(run: Run, num_rows: int, columns: int = 8) -> dict[str, np.ndarray]:
    """The table of a run's last checkpoint, untouched rows as zeros."""
    folder = run.checkpoint / checkpoint.load(run.checkpoint / checkpoint.LAST)["embeddings"]
    ids = np.load(folder / "ids.npy")
    found = {"touched": np.zeros(num_rows, np.uint8)}
    found["touched"][ids] = 1
    for path in folder.glob("*.npy"):
        if path.stem != "ids":
            found[path.stem] = np.zeros((num_rows, columns), np.float32)
            found[path.stem][ids] = np.load(path)
    return found


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize(("optimizer", "limit"), [("sgd", 1e-5), ("adagrad", 1e-3)])  # whose first step is lr times a sign
def test_sparse_is_dense_where_untouched_rows_stay_anyhow(tmp_path: Path, name: str, optimizer: str, limit: float) -> None:
    """The same initial values, models and data: equal losses and evaluations, with dropout."""
    graph = typed_labelled_graph() if name in ("rgcn", "hgt") else featureless()
    options: dict[str, Any] = {"optimizer": optimizer, "lr": 0.1, "steps": 12, "dropout": 0.3}
    shape: dict[str, Any] = {"hidden": 8, "num_layers": 2, "dropout": 0.3, "target_type": graph.target_type, "seed": 3}
    dense = build_model(name, graph, **shape)
    sparse = build_model(name, graph, **shape, sparse_embeddings=True)
    rest = {key: value for key, value in dense.state_dict().items() if not key.startswith("embeddings")}
    sparse.load_state_dict(rest)
    (node_type,) = embedded_types(graph, graph.target_type, dense.uses_graph)
    count = graph.num_nodes[node_type]
    rows = initial_rows(3, graph.node_types.index(node_type), count, np.arange(count), 8)
    weight = dense.embeddings.get_parameter("0.weight")
    weight.data.copy_(rows)
    one = train(graph, plan_of("cpu", [1.0], **options), model=dense, run=str(tmp_path / "one"), quiet=True)
    two = train(graph, plan_of("cpu", [1.0], embeddings="sparse", **options), model=sparse, run=str(tmp_path / "two"), quiet=True)
    assert difference(one.step_loss, two.step_loss) < limit
    assert two.metrics == pytest.approx(one.metrics, abs=0.02)
    learned = weight.detach().numpy()
    table = saved_rows(two, count)
    touched = table["touched"] == 1
    np.testing.assert_allclose(table["rows"][touched], learned[touched], rtol=1e-4, atol=10 * limit)
    assert np.array_equal(learned[~touched], rows.numpy()[~touched])
    assert not np.array_equal(learned[touched], rows.numpy()[touched])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_losses_are_one_devices_for_any_shares(tmp_path: Path, optimizer: str) -> None:
    graph = typed_labelled_graph()
    rate = {"adam": 0.02, "sgd": 0.5}[optimizer]
    options = {"model": "rgcn", "steps": 30, "dropout": 0.3, "lr": rate, "optimizer": optimizer, "embeddings": "sparse"}
    one = train(graph, plan_of("cpu", [1.0], **options), run=str(tmp_path / "one"), quiet=True)
    assert sum(one.step_loss[-5:]) < 0.9 * sum(one.step_loss[:5])
    for number, (devices, shares) in enumerate([("cpu;cpu@0.5", [0.7, 0.3]), ("cpu;cpu@0.9;cpu", [0.9, 0.0, 0.1])]):
        run = train(graph, plan_of(devices, shares, **options), run=str(tmp_path / f"{number}"), threads=2, quiet=True)
        assert difference(one.step_loss, run.step_loss) < 1e-5
        assert run.metrics == pytest.approx(one.metrics, abs=0.03)
        ours, theirs = saved_rows(one, 15), saved_rows(run, 15)
        assert np.array_equal(ours.pop("touched"), theirs.pop("touched"))
        for name, rows in ours.items():
            np.testing.assert_allclose(theirs[name], rows, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "adamw", "sgd"])
def test_a_resumed_run_is_an_uninterrupted_one_to_the_last_bit(tmp_path: Path, optimizer: str) -> None:
    graph = featureless()
    options: dict[str, Any] = {"optimizer": optimizer, "embeddings": "sparse", "lr": 0.05, "weight_decay": 0.01}
    whole = train(graph, plan_of("cpu", [1.0], steps=20, **options), run=str(tmp_path / "whole"), quiet=True)
    train(graph, plan_of("cpu", [1.0], steps=9, **options), run=str(tmp_path / "part"), quiet=True)
    part = train(graph, resume=str(tmp_path / "part"), steps=20, quiet=True)
    assert part.step_loss == whole.step_loss
    assert part.metrics == whole.metrics
    ours, theirs = saved_rows(whole, 200), saved_rows(part, 200)
    assert set(ours) == set(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_tables_that_no_checkpoint_names_are_removed(tmp_path: Path) -> None:
    run = train(featureless(), plan_of("cpu", [1.0], epochs=4, embeddings="sparse"), run=str(tmp_path / "run"), quiet=True)
    (run.checkpoint / ".embeddings-9-half").mkdir()
    run = train(featureless(), resume=str(run.folder), epochs=5, quiet=True)
    named = {checkpoint.load(run.checkpoint / name)["embeddings"] for name in (checkpoint.LAST, checkpoint.BEST)}
    assert {path.name for path in run.checkpoint.iterdir()} == named | {checkpoint.LAST, checkpoint.BEST}
    assert not list(run.folder.glob(".*"))  # the live table has no name


@pytest.mark.parametrize("damage", ["cut", "absent", "other"])
def test_a_damaged_table_is_a_clear_error(tmp_path: Path, damage: str) -> None:
    graph = featureless()
    run = train(graph, plan_of("cpu", [1.0], steps=3, embeddings="sparse"), run=str(tmp_path / "run"), quiet=True)
    folder = run.checkpoint / checkpoint.load(run.checkpoint / checkpoint.LAST)["embeddings"]
    path = folder / "state1.npy"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    elif damage == "absent":
        path.unlink()
    else:
        np.save(path, np.zeros((3, 3), np.float32))
    with pytest.raises(FormatError, match="must hold"):
        train(graph, resume=str(run.folder), steps=5, quiet=True)


def test_a_disk_without_room_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"sparse embeddings need .* GiB at .*: .*; free it"):
        table_files.reserve(tmp_path / "rows", 2**62)


def test_an_optimizer_without_a_sparse_law_is_refused() -> None:
    with pytest.raises(SpecError, match="sparse embeddings need one of adagrad, adam, adamw, sgd, got optimizer 'rmsprop'"):
        TrainConfig(embeddings="sparse", optimizer="rmsprop")


def wide_graph(num_nodes: int) -> Graph:
    """2,000 labelled nodes, each with ten in-edges from many featureless ones."""
    rng = np.random.default_rng(0)
    features: dict[str, Any] = {
        "x": rng.standard_normal((2000, 8)).astype(np.float32),
        "y": rng.integers(0, 3, 2000),
        "split": rng.choice([0, 0, 1, 2], 2000).astype(np.int8),
    }
    edges = (np.arange(2001) * 10, rng.integers(0, num_nodes, 20_000))
    return Graph.from_relations({("b", "of", "a"): edges}, {"a": 2000, "b": num_nodes}, {"a": features})


def test_a_table_larger_than_the_devices_memory_trains(tmp_path: Path) -> None:
    """400,000 rows of 256 bytes, with two moments 293 MiB, under a limit of 64 MiB, which dense parameters break."""
    graph = wide_graph(400_000)
    options: dict[str, Any] = {"model": "rgcn", "hidden": 64, "fanouts": (4,), "batch_size": 128, "quiet": True}
    small = {**options, "embeddings": "sparse", "steps": 2}
    train(wide_graph(1000), devices="cpu", run=str(tmp_path / "warm"), **small)  # compiles kernels outside the measured run
    held = {**options, "devices": "cpu,memory=64MiB", "steps": 20}
    run = train(graph, run=str(tmp_path / "sparse"), embeddings="sparse", **held)
    assert len(run.step_loss) == 20
    with pytest.raises(TrainingError, match="may use 64MiB of memory"):
        train(graph, run=str(tmp_path / "dense"), **held)
    saved = checkpoint.load(run.checkpoint / checkpoint.LAST)["embeddings"]
    touched = np.load(run.checkpoint / saved / "ids.npy").size
    assert 1000 < touched < 20_000  # what is saved is what was touched, not the table


class Sum(nn.Module):
    """A person's own model: it finds the rows as features."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 3)

    def forward(self, batch: MiniBatch) -> Tensor:
        out: Tensor = self.linear(batch.x[: batch.seeds.numel()])
        return out


def test_a_persons_own_module_gets_the_rows(tmp_path: Path) -> None:
    options = {"steps": 60, "lr": 0.1, "embeddings": "sparse"}
    run = train(featureless(), plan_of("cpu", [1.0], **options), model=Sum(), run=str(tmp_path / "run"), quiet=True)
    assert sum(run.step_loss[-5:]) < 0.5 * sum(run.step_loss[:5])  # rows are learned by heart
    assert run.metrics["train"] > 0.8


def test_planning_measures_with_the_rows() -> None:
    made = make_plan(typed_labelled_graph(), "rgcn", "cpu;cpu@0.5", embeddings="sparse", fanouts=(3, 3), hidden=8)
    assert made.config.embeddings == "sparse"
    assert Plan.from_json(made.to_json()) == made
    graph = wide_graph(50_000)
    dense, sparse = (
        make_plan(graph, "rgcn", "cpu;cpu", embeddings=kind, fanouts=(4,), hidden=64, batch_size=128)
        for kind in ("dense", "sparse")
    )
    assert dense.predicted is not None
    assert sparse.predicted is not None
    assert sparse.predicted.memory_bytes[0] < 0.1 * dense.predicted.memory_bytes[0]


def started(tmp_path: Path, devices: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "gnnhet", "train", str(tmp_path / "graph")]
    if (tmp_path / "run").exists():
        command += ["--resume", str(tmp_path / "run"), "--devices", devices]
    else:
        command += ["--plan", str(tmp_path / "plan.json"), "--run", str(tmp_path / "run")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def wait_for_checkpoint(run: Path, beyond: int, process: "subprocess.Popen[bytes]") -> int:
    """Epochs done in the last checkpoint, once there are more than `beyond`."""
    deadline = time.monotonic() + 120
    path = run / "checkpoint" / checkpoint.LAST
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (epoch := int(checkpoint.load(path)["position"]["epoch"])) > beyond:
            return epoch
        time.sleep(0.02)
    raise AssertionError(f"waited for a checkpoint beyond epoch {beyond} in {run}, process ended with {process.poll()}")


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "limit"), [(("cpu", "cpu", "cpu"), 0.0), (("cpu", "cpu;cpu@0.5", "cpu"), 1e-4)])
def test_kills_lose_nothing(tmp_path: Path, devices: tuple[str, ...], limit: float) -> None:
    """Killed by SIGKILL wherever it stood, several times, on several devices: the losses are an uninterrupted run's."""
    typed_labelled_graph().save(tmp_path / "graph")
    options: dict[str, Any] = {"model": "rgcn", "embeddings": "sparse", "dropout": 0.2, "lr": 0.01}
    (tmp_path / "plan.json").write_text(plan_of("cpu", [1.0], epochs=100_000, **options).to_json())
    run, epoch = tmp_path / "run", 0
    for number, where in enumerate(devices):
        process = started(tmp_path, where)
        try:
            epoch = wait_for_checkpoint(run, epoch + 2, process)
            time.sleep(0.017 * number)  # another place in the step, the save, the evaluation
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        time.sleep(1.5 if ";" in where else 0.0)  # ranks whose parent is gone end themselves within a second
    resumed = train(str(tmp_path / "graph"), devices="cpu", resume=str(run), epochs=epoch + 6, quiet=True)
    plan = plan_of("cpu", [1.0], epochs=epoch + 6, **options)
    whole = train(str(tmp_path / "graph"), plan, run=str(tmp_path / "whole"), quiet=True)
    assert difference(whole.step_loss, resumed.step_loss) <= limit
    assert not list(run.glob(".table*"))
