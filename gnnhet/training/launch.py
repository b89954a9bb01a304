"""Ranks as processes, through torch's elastic launcher, on one host."""

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from gnnhet.errors import GnnhetError, RankError
from gnnhet.planning import Plan
from gnnhet.planning.make import model_for
from gnnhet.report import RunFolder
from gnnhet.storage import Graph
from gnnhet.training import rendezvous
from gnnhet.training.loop import Trainer
from gnnhet.training.ranks import Ranks
from gnnhet.training.resources import Resources
from gnnhet.training.stop import StopRequest

_SIGNALLED_BY_LAUNCHER = -signal.SIGTERM
_GRACE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every rank is told.

    Attributes:
        graph: folder all ranks map.
        plan: as JSON.
        folder: of the run.
        scratch: folder of the launch: the stop request, and one file a rank with its process id.
        model: a person's own module, or None for the plan's built-in one.
        resources: of each rank.
    """

    graph: str
    plan: str
    folder: str
    scratch: str
    model: nn.Module | None
    resources: Resources

    @property
    def stop_file(self) -> Path:
        """The file that carries a request to stop."""
        return Path(self.scratch) / "stop"


def run_here(
    graph: Graph,
    plan: Plan,
    model: nn.Module,
    folder: RunFolder,
    stop: StopRequest,
    resources: Resources,
) -> None:
    """Train with one device, in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(plan.threads[0])
    try:
        with stop, torch.random.fork_rng(devices=[]):
            ranks = Ranks(0, plan.shares, resources.timeout_s)
            Trainer(resources.loaded(graph, 1, plan.threads[0]), plan, model, ranks, folder, stop, resources).run()
    finally:
        torch.set_num_threads(threads)


def run_ranks(
    graph: Graph,
    plan: Plan,
    model: nn.Module | None,
    folder: RunFolder,
    resources: Resources,
) -> None:
    """Train with one process a device; returns when all have ended.

    Raises:
        RankError: a rank died or lost contact; it says which, why, and how to resume.
        GnnhetError: what a rank raised on purpose.
    """
    with tempfile.TemporaryDirectory(prefix="gnnhet-") as scratch:
        path = graph.path
        if path is None:  # all ranks map the same files, so that the page cache holds one copy
            path = Path(scratch) / "graph"
            graph.save(path)
        job = Job(
            graph=str(path.resolve()),
            plan=plan.to_json(),
            folder=str(folder.path.resolve()),
            scratch=scratch,
            model=model,
            resources=resources,
        )
        _launch(job, plan)


def _launch(job: Job, plan: Plan) -> None:
    """Run the launcher on a thread of its own, so that this one hears signals and can pass them on."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=len(plan.devices),
        run_id=uuid.uuid4().hex,
        rdzv_backend=rendezvous.register(),
        max_restarts=0,
        monitor_interval=0.1,
        start_method="spawn",
        logs_specs=DefaultLogsSpecs(log_dir=job.scratch),
    )
    failures: list[BaseException] = []

    def launch() -> None:
        try:
            elastic_launch(config, rank_main)(job)
        except BaseException as error:  # handed to the thread that waits
            failures.append(error)

    thread = threading.Thread(target=launch, name="gnnhet-launcher", daemon=True)
    with _quiet_launcher(), _temporary_files_in(job.scratch), StopRequest(job.stop_file):
        thread.start()
        try:
            while thread.is_alive():  # each rank's own waits have time-outs; the launcher ends when the ranks do
                thread.join(0.1)
        except KeyboardInterrupt:  # asked twice
            _kill_ranks(Path(job.scratch))
            thread.join(_GRACE_SECONDS)
            raise
    if failures:
        raise _explain(failures[0], job, plan) from failures[0]


def rank_main(job: Job) -> None:
    """One rank, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to every process: the parent decides
    rank = int(os.environ["RANK"])
    (Path(job.scratch) / f"rank{rank}.pid").write_text(str(os.getpid()))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True, name="gnnhet-parent").start()
    plan = Plan.from_json(job.plan)
    torch.set_num_threads(plan.threads[rank])
    graph = job.resources.loaded(Graph.open(job.graph), len(plan.devices), plan.threads[rank])
    model = job.model if job.model is not None else model_for(graph, plan.config)
    ranks = Ranks(rank, plan.shares, job.resources.timeout_s)
    Trainer(graph, plan, model, ranks, RunFolder.open(job.folder), StopRequest(job.stop_file), job.resources).run()
    ranks.close()


def _end_with_parent(parent: int) -> None:
    """End this rank when the process that launched it is gone: nobody would watch it, or free its device."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _kill_ranks(scratch: Path) -> None:
    """Kill the ranks of a launch."""
    for path in scratch.glob("rank*.pid"):
        with contextlib.suppress(psutil.NoSuchProcess, ValueError):
            psutil.Process(int(path.read_text())).kill()


@contextlib.contextmanager
def _temporary_files_in(scratch: str) -> Iterator[None]:
    """Let ranks put temporary files where they are removed with the launch: PyG writes some, and a killed rank keeps them."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = scratch
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before


@contextlib.contextmanager
def _quiet_launcher() -> Iterator[None]:
    """Keep the launcher's log from the terminal: what it has to say is said in one line by `_explain`."""
    loggers = [logging.getLogger(name) for name in ("torch.distributed.elastic", "torch.multiprocessing.spawn")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _explain(error: BaseException, job: Job, plan: Plan) -> BaseException:
    """The failure of a launch as one of our errors."""
    if not isinstance(error, ChildFailedError):
        return error
    rank, failure = _cause(error)
    resume = f"resume with --resume {job.folder}"
    who = f"rank {rank} ({plan.devices[rank].spec}, process {failure.pid})"
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        reason = " (out of memory?)" if -failure.exitcode == signal.SIGKILL else ""
        return RankError(f"{who} was killed by {name}{reason}; the others were stopped: {resume}")
    kind, _, message = _message(failure).partition(": ")
    known = {cls.__name__: cls for cls in _errors()}
    if kind in known:
        text = f"{who}: {message}"
        return known[kind](text if resume in text or not issubclass(known[kind], RankError) else f"{text}; {resume}")
    trace = _trace(failure)
    if trace:
        print(trace, file=sys.stderr)
    return RankError(f"{who} failed with {_message(failure)[:500]}; the others were stopped: {resume}")


def _cause(error: ChildFailedError) -> tuple[int, ProcessFailure]:
    """The failure that caused the others: a signal first, then an error of the rank's own, then lost contact."""

    def order(item: tuple[int, ProcessFailure]) -> tuple[int, float]:
        failure = item[1]
        if failure.exitcode < 0:
            return (3 if failure.exitcode == _SIGNALLED_BY_LAUNCHER else 0), failure.timestamp
        return (2 if _message(failure).startswith("RankError") else 1), failure.timestamp

    return min(error.failures.items(), key=order)


def _message(failure: ProcessFailure) -> str:
    """`Type: text` of what a rank raised."""
    message: Any = failure.message
    return str(message.get("message", message) if isinstance(message, dict) else message)


def _trace(failure: ProcessFailure) -> str:
    """The traceback a rank left, where it did."""
    try:
        document = json.loads(Path(failure.error_file).read_text())
        return str(document["message"]["extraInfo"]["py_callstack"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _errors() -> list[type[GnnhetError]]:
    """Every class of our errors."""
    found, todo = [], [GnnhetError]
    while todo:
        cls = todo.pop()
        found.append(cls)
        todo += cls.__subclasses__()
    return found
