"""Real processes: unequal and empty shares give one device's losses; deaths, stops and resumes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.strategies import labelled_graph, typed_labelled_graph
from torch import Tensor, nn

from gnnhet.config import TrainConfig
from gnnhet.devices import parse_devices
from gnnhet.errors import RankError, SpecError, TrainingError
from gnnhet.planning import Plan
from gnnhet.samplers import MiniBatch
from gnnhet.storage import Graph
from gnnhet.training import Run, train

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {"fanouts": (4, 3), "hidden": 8, "batch_size": 16, "seed": 3, "quiet": True}


def plan_of(devices: str, shares: list[float], **options: object) -> Plan:
    chosen = tuple(parse_devices(devices))
    config = TrainConfig().changed(**{"fanouts": (4, 3), "hidden": 8, "batch_size": 16, "seed": 3, **options})
    return Plan(strategy="data_parallel", devices=chosen, shares=tuple(shares), threads=(1,) * len(chosen), config=config)


def difference(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other) > 0
    return max(abs(a - b) / abs(a) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "graph"), [("gcn", labelled_graph()), ("rgcn", typed_labelled_graph())])
def test_losses_are_one_devices_for_any_shares(tmp_path: Path, name: str, graph: Graph) -> None:
    """Dropout is on: masks are keyed as draws are."""
    options: dict[str, object] = {"model": name, "steps": 30, "dropout": 0.3, "lr": 0.02}
    one = train(graph, plan_of("cpu", [1.0], **options), run=str(tmp_path / "one"), quiet=True)
    assert sum(one.step_loss[-5:]) < 0.9 * sum(one.step_loss[:5])
    for number, (devices, shares, threads) in enumerate(
        [("cpu;cpu@0.5", [0.7, 0.3], 2), ("cpu;cpu@0.9;cpu", [0.9, 0.0, 0.1], 4)]
    ):
        run = train(graph, plan_of(devices, shares, **options), run=str(tmp_path / f"{number}"), threads=threads, quiet=True)
        assert difference(one.step_loss, run.step_loss) < 1e-4
        assert run.metrics["test"] == pytest.approx(one.metrics["test"], abs=0.03)
        assert run.finished


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one_on_other_devices(tmp_path: Path) -> None:
    graph = labelled_graph()
    options: dict[str, object] = {"model": "sage", "dropout": 0.3, "optimizer": "adamw", "schedule": "constant"}
    whole = train(graph, plan_of("cpu", [1.0], steps=20, **options), run=str(tmp_path / "whole"), quiet=True)
    train(graph, plan_of("cpu;cpu", [0.6, 0.4], steps=9, **options), run=str(tmp_path / "part"), quiet=True)
    part = train(graph, devices="cpu", resume=str(tmp_path / "part"), steps=20, quiet=True)
    assert difference(whole.step_loss, part.step_loss) < 1e-4
    assert difference(whole.loss, part.loss) < 1e-4
    assert part.metrics == pytest.approx(whole.metrics, abs=0.05)


def test_resuming_keeps_the_options_and_the_graph(tmp_path: Path) -> None:
    graph = labelled_graph()
    train(graph, plan_of("cpu", [1.0], steps=2), run=str(tmp_path / "run"), quiet=True)
    with pytest.raises(SpecError, match=r"keeps its options: lr was 0\.003, got 0\.5"):
        train(graph, resume=str(tmp_path / "run"), lr=0.5)
    with pytest.raises(SpecError, match="resumes on the graph"):
        train(typed_labelled_graph(), resume=str(tmp_path / "run"))
    other = labelled_graph(seed=9)
    with pytest.raises(SpecError, match="resumes on the graph it was started on"):
        train(other, resume=str(tmp_path / "run"), steps=4, quiet=True)
    with pytest.raises(SpecError, match="go on with it by --resume"):
        train(graph, plan_of("cpu", [1.0], steps=2), run=str(tmp_path / "run"), quiet=True)


def started(tmp_path: Path, *words: str) -> tuple["subprocess.Popen[str]", Path]:
    """`gnnhet train` in a process, once its ranks have done some steps."""
    labelled_graph(num_nodes=400, num_edges=8000).save(tmp_path / "graph")
    command = [sys.executable, "-m", "gnnhet", "train", str(tmp_path / "graph"), "--model", "sage", "--hidden", "8"]
    command += [
        "--batch-size",
        "16",
        "--epochs",
        "100000",
        "--plan",
        str(tmp_path / "plan.json"),
        "--run",
        str(tmp_path / "run"),
    ]
    (tmp_path / "plan.json").write_text(plan_of("cpu;cpu@0.9", [0.5, 0.5], model="sage", dropout=0.2).to_json())
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*command, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wait_for_steps(tmp_path / "run", 20)
    return process, tmp_path / "run"


def wait_for_steps(run: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        path = run / "metrics.jsonl"
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"waited 120 s for {count} records in {run}")


def rank_processes(tmp_path: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(tmp_path.glob("gnnhet-*/rank*.pid"))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_run_clearly_and_the_run_resumes(tmp_path: Path, victim: int) -> None:
    process, run = started(tmp_path)
    pids = rank_processes(tmp_path)
    assert len(pids) == 2
    os.kill(pids[victim], signal.SIGKILL)
    _, errors = process.communicate(timeout=30)  # the promise: within 30 s
    assert process.returncode == 2
    last = errors.strip().splitlines()[-1]
    assert re.search(rf"error: rank {victim} \(cpu\S*, process {pids[victim]}\) was killed by SIGKILL", last)
    assert f"--resume {run}" in last
    assert "Traceback" not in errors
    assert not any(alive(pid) for pid in pids)
    assert not list(tmp_path.glob("gnnhet-*"))  # nothing is left of the launch
    before = json.loads((run / "config.json").read_text())
    steps = 60 if before["config"]["batch_size"] == 16 else 0
    resumed = train(str(tmp_path / "graph"), devices="cpu", resume=str(run), steps=steps, epochs=None, quiet=True)
    plan = replace(plan_of("cpu", [1.0]), config=resumed.config)
    whole = train(str(tmp_path / "graph"), plan, run=str(tmp_path / "whole"), quiet=True)
    assert difference(whole.step_loss, resumed.step_loss) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    process, run = started(tmp_path)
    pids = rank_processes(tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"--resume {run}" in errors.strip().splitlines()[-1]
    assert "Traceback" not in errors
    assert not any(alive(pid) for pid in pids)
    done = Run.read(run)
    assert not done.finished
    resumed = train(str(tmp_path / "graph"), devices="cpu", resume=str(run), steps=len(done.step_loss) + 5, quiet=True)
    assert resumed.step_loss[: len(done.step_loss)] == done.step_loss  # not one step was lost
    assert len(resumed.step_loss) == len(done.step_loss) + 5


@pytest.mark.slow
def test_ranks_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    process, _ = started(tmp_path)
    pids = rank_processes(tmp_path)
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)


class Own(nn.Module):
    """A person's own model: any module whose forward takes a batch."""

    def __init__(self, wrong_rows: int = 0, fails_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 3)
        self.dropout = nn.Dropout(0.2)
        self.wrong_rows, self.fails_at = wrong_rows, fails_at

    def forward(self, batch: MiniBatch) -> Tensor:
        if self.fails_at is not None and batch.step == self.fails_at and self.training:
            raise ZeroDivisionError("a bug in the model")
        block = batch.blocks[-1]
        count = batch.seeds.numel() + self.wrong_rows
        ends = block.indptr.long()
        rows = torch.repeat_interleave(torch.arange(ends.numel() - 1), ends.diff())
        summed = torch.zeros(ends.numel() - 1, 8).index_add(0, rows, batch.x[block.indices.long()])
        out: Tensor = self.linear(self.dropout(torch.cat([batch.x[: ends.numel() - 1], summed], 1)))[:count]
        return out if self.wrong_rows <= 0 else torch.cat([out, out])


@pytest.mark.slow
def test_a_persons_own_module_trains_on_several_ranks(tmp_path: Path) -> None:
    model = Own()
    before = model.linear.weight.detach().clone()
    plan = plan_of("cpu;cpu", [0.5, 0.5], fanouts=(4,), steps=30, lr=0.02)
    run = train(labelled_graph(), plan, model=model, run=str(tmp_path / "run"), quiet=True)
    assert sum(run.step_loss[-5:]) < 0.9 * sum(run.step_loss[:5])
    assert run.config.model == "Own"
    assert not torch.equal(model.linear.weight, before)  # the caller's module holds the result


@pytest.mark.slow
def test_a_bug_in_a_model_is_told_with_its_rank_and_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = plan_of("cpu;cpu", [0.5, 0.5], fanouts=(4,), steps=30)
    with pytest.raises(RankError, match=r"rank \d \(cpu.*ZeroDivisionError: a bug in the model.*--resume"):
        train(labelled_graph(), plan, model=Own(fails_at=3), run=str(tmp_path / "run"), quiet=True)
    assert "in forward" in capfd.readouterr().err


def test_refuses_models_that_cannot_be_trained(tmp_path: Path) -> None:
    graph = labelled_graph()
    with pytest.raises(SpecError, match=r"must return one row a seed, 16, got \(15, 3\)"):
        train(graph, plan_of("cpu", [1.0], fanouts=(4,)), model=Own(-1), run=str(tmp_path / "a"), quiet=True)
    with pytest.raises(TrainingError, match="loss must stay finite"):
        train(graph, plan_of("cpu", [1.0], lr=1e30, optimizer="sgd"), run=str(tmp_path / "b"), quiet=True)
    model = nn.Sequential(nn.BatchNorm1d(3))
    with pytest.raises(SpecError, match="LayerNorm"):
        train(graph, plan_of("cpu;cpu", [0.5, 0.5]), model=model, run=str(tmp_path / "c"), quiet=True)
