"""Ingest, save and training killed at random moments, 50 each: every graph that is left opens and is whole, nothing is lost."""

import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.strategies import labelled_graph

from gnnhet.config import TrainConfig
from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.devices import parse_devices
from gnnhet.errors import FormatError
from gnnhet.planning import Plan
from gnnhet.storage import Graph, update, verify
from gnnhet.training import train

KILLS = 50
SPEC = "rmat:15:1_000_000"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
context = multiprocessing.get_context("forkserver")


def _run(work: Callable[..., None], arguments: tuple[Any, ...], ready: Connection) -> None:
    ready.send("begun")
    work(*arguments)


def run(work: Callable[..., None], *arguments: Any, moment: float | None = None) -> tuple[bool, float]:
    """(whether a process of its own did all the work before it was killed at `moment`, seconds that it ran)."""
    context.set_forkserver_preload(["gnnhet.storage", "gnnhet.training"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(work, arguments, theirs))
    process.start()
    assert ours.poll(60), "waited 60 s for a process to begin"
    ours.recv()
    started = time.monotonic()
    if moment is not None:
        process.join(moment)
        if process.exitcode is None:
            process.kill()
    process.join(120)
    seconds = time.monotonic() - started
    assert process.exitcode in ((0,) if moment is None else (0, -signal.SIGKILL)), process.exitcode
    return process.exitcode == 0, seconds


def moments(whole: float) -> list[float]:
    """When to kill, in seconds after the beginning."""
    found: list[float] = np.random.default_rng(0).uniform(0, 1.1 * whole, KILLS).tolist()
    return found


def ingest(dest: str, resume: bool) -> None:
    Graph.ingest(SPEC, dest, sort_rows="source", resume=resume)


@pytest.mark.parametrize("resume", [False, True])
def test_ingest(resume: bool, tmp_path: Path) -> None:
    whole = Graph.ingest(SPEC, tmp_path / "whole", sort_rows="source").csc(HOMOGENEOUS)
    run(ingest, str(tmp_path / "warm"), False)
    _, seconds = run(ingest, str(tmp_path / "warm"), False)
    dest = tmp_path / "g"
    outcomes = []
    for moment in moments(seconds):
        done, _ = run(ingest, str(dest), resume, moment=moment)
        try:
            found = Graph.open(dest)
            assert all(np.array_equal(a, b) for a, b in zip(found.csc(HOMOGENEOUS), whole, strict=True))
            assert verify(dest).problems == ()
            shutil.rmtree(dest)
            outcomes.append("whole")
        except FormatError as error:
            assert not done
            outcomes.append("resumable" if "--resume" in str(error) else "nothing")
    assert {"whole", "resumable"} <= set(outcomes)
    run(ingest, str(dest), resume)
    assert verify(dest).problems == ()
    assert sorted(path.name for path in dest.iterdir()) == ["arrays", "graph.json"]
    assert len(list((dest / "arrays").iterdir())) == 2


def test_ingest_over_a_graph(tmp_path: Path) -> None:
    """The old graph is there until the new one is."""
    dest = tmp_path / "g"
    labelled_graph().save(dest)
    _, seconds = run(ingest, str(tmp_path / "warm"), False)
    old = 0
    for moment in moments(seconds):
        run(ingest, str(dest), True, moment=moment)
        assert verify(dest).problems == ()
        if Graph.open(dest).num_nodes[NODE] == 200:
            old += 1
        else:
            shutil.rmtree(dest)
            labelled_graph().save(dest)
    assert 0 < old < KILLS


def save(dest: str, number: int) -> None:
    labelled_graph(num_nodes=10_000, num_edges=100_000, seed=number).save(dest)


def change(dest: str, number: int) -> None:
    for step in range(4):
        update.put_feature(dest, NODE, f"f{step}", np.full((10_000, 16), number))


@pytest.mark.parametrize("work", [save, change])
def test_save(work: Callable[..., None], tmp_path: Path) -> None:
    dest = tmp_path / "g"
    save(str(dest), 1)
    run(work, str(dest), 2)
    _, seconds = run(work, str(dest), 3)
    last = Graph.open(dest).revision
    for number, moment in enumerate(moments(seconds), start=4):
        run(work, str(dest), number, moment=moment)
        found = Graph.open(dest)
        assert verify(dest).problems == ()
        assert found.revision >= last
        last = found.revision
        for name in found.features.names(NODE):
            if name.startswith("f"):
                assert len(np.unique(found.features.array(NODE, name))) == 1
    run(work, str(dest), 99)
    assert verify(dest).problems == ()
    named = {path.name for path in (dest / "arrays").iterdir()}
    assert len(named) == 2 + len(list(Graph.open(dest).features))  # nothing of the killed ones is left


def plan_of(epochs: int) -> Plan:
    config = TrainConfig().changed(fanouts=(4, 3), hidden=8, batch_size=32, seed=3, dropout=0.2, epochs=epochs)
    return Plan(strategy="data_parallel", devices=tuple(parse_devices("cpu")), shares=(1.0,), threads=(1,), config=config)


def learn(graph: str, folder: str, epochs: int) -> None:
    if Path(folder).exists():
        train(graph, resume=folder, devices="cpu", epochs=epochs, quiet=True)
    else:
        train(graph, plan_of(epochs), run=folder, quiet=True)


def test_training(tmp_path: Path) -> None:
    """The losses of a run that was killed 50 times are those of one that was not."""
    graph, folder = str(tmp_path / "graph"), tmp_path / "run"
    labelled_graph().save(graph)
    run(learn, graph, str(tmp_path / "warm"), 30)
    _, seconds = run(learn, graph, str(tmp_path / "warm2"), 30)
    killed = 0
    for number, moment in enumerate(moments(min(seconds, 2.0))):
        done, _ = run(learn, graph, str(folder), 30 + 6 * number, moment=0.02 + moment)
        killed += not done
    assert killed >= KILLS // 2
    epochs = 30 + 6 * KILLS
    resumed = train(graph, resume=str(folder), devices="cpu", epochs=epochs, quiet=True)
    straight = train(graph, plan_of(epochs), run=str(tmp_path / "straight"), quiet=True)
    assert len(resumed.step_loss) == len(straight.step_loss) > 0
    assert np.allclose(resumed.step_loss, straight.step_loss, rtol=0, atol=0)
    assert verify(graph).problems == ()
