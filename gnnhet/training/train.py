"""`train`: a run from beginning or checkpoint to its end."""

import dataclasses
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import nn

from gnnhet.config import TrainConfig
from gnnhet.devices import require_present
from gnnhet.errors import FormatError, SpecError
from gnnhet.planning import Plan
from gnnhet.planning import plan as make_plan
from gnnhet.planning.make import model_for
from gnnhet.report import RunFolder, draw
from gnnhet.samplers import Tiers
from gnnhet.storage import Graph, load_dataset
from gnnhet.training import checkpoint
from gnnhet.training.launch import run_here, run_ranks
from gnnhet.training.resources import Resources
from gnnhet.training.run import Run
from gnnhet.training.stop import StopRequest

_FREE_ON_RESUME = {"epochs", "steps", "early_stop", "eval_every", "evaluation"}  # these say when to stop, not what is computed


def train(
    graph: Graph | str,
    plan: Plan | None = None,
    *,
    model: str | nn.Module | None = None,
    devices: Any = None,
    run: str | None = None,
    resume: str | None = None,
    threads: int = 1,
    timeout_s: float = 300.0,
    tiers: Tiers | None = None,
    preload: bool | None = None,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a model; the losses are the same on any devices, threads and shares, also after a resume on others.

    One device trains in this process, several in a process each. Scripts that use several must be importable
    (`if __name__ == "__main__":`), as with any spawned process.

    Args:
        graph: a graph, or what `load_dataset` takes.
        plan: from `gnnhet.plan`; without one, devices are measured and a plan is made.
        model: name of a built-in model, or a person's own module: `forward(batch)` returns a row of class scores a seed.
            The module ends with the run's last parameters.
        devices: as of `gnnhet.plan`, where no plan is given; by default `auto`, and on a resume those of before.
        run: folder of a new run; by default `runs/DATASET-MODEL-TIME`.
        resume: folder of a run to go on with.
        threads: sampler threads a rank.
        timeout_s: seconds a rank waits for the others, or for a batch.
        tiers: where each rank reads features from, and the cache it holds in front; by default from memory or maps, without one.
        preload: read the topology into each rank's memory first; by default where all fit into half of what is free.
        quiet: no progress on stderr.
        options: fields of `TrainConfig`; they override the plan's. On a resume only those may change that say when to stop.

    Raises:
        SpecError: options that do not exist, do not fit the graph, or differ from those of the run to resume.
        RankError: a rank died; the message says which and how to resume.
        TrainingError: the run cannot go on.
    """
    graph = load_dataset(graph) if isinstance(graph, str) else graph
    own = model if isinstance(model, nn.Module) else None
    if model is not None:
        options["model"] = model if isinstance(model, str) else type(model).__name__
    if resume is not None and run is not None:
        raise SpecError("a resumed run stays in its folder: give either run or resume, got both")
    resources = Resources(threads=threads, timeout_s=timeout_s, tiers=tiers or Tiers(), preload=preload, quiet=quiet)
    if resume is None:
        config = (TrainConfig() if plan is None else plan.config).changed(**options)
        folder = None
    else:
        folder = RunFolder.open(resume)
        config = _resumed(folder, graph, options)
        if plan is None and devices is None:
            plan = Plan.from_dict(folder.read_json("plan.json"))
    if plan is None or devices is not None:
        fields = {name: value for name, value in config.to_dict().items() if name != "model"}
        plan = make_plan(graph, config.model if own is None else own, devices or "auto", **fields)
    plan = _replaced(plan, config)
    require_present(plan.devices)
    module = own if own is not None else model_for(graph, config)
    if folder is None:
        folder = RunFolder.create(run, stem=f"{graph.name or 'graph'}-{config.model}")
    folder.write_json("config.json", _document(graph, config))
    folder.write_json("plan.json", plan.to_dict())
    if len(plan.devices) == 1:
        run_here(graph, plan, module, folder, StopRequest(), resources)
    else:
        run_ranks(graph, plan, own, folder, resources)
        if own is not None:
            own.load_state_dict(checkpoint.load(folder.checkpoint / checkpoint.LAST)["model"])
    draw(folder)
    return Run.read(folder.path)


def _resumed(folder: RunFolder, graph: Graph, options: dict[str, Any]) -> TrainConfig:
    """The config of a run to go on with, its end moved where asked.

    Raises:
        SpecError: another graph, or an option that would change what is computed.
    """
    document = folder.read_json("config.json")
    if not isinstance(document, dict) or not {"dataset", "config"} <= set(document):
        raise FormatError(f"{folder.path}/config.json must name dataset and config, as `train` writes it: restore it")
    before = TrainConfig.from_dict(document["config"])
    after = before.changed(**options)
    if document["dataset"] != graph.name:
        raise SpecError(f"a run resumes on the graph it was started on, {document['dataset']!r}, got {graph.name!r}")
    old, new = before.to_dict(), after.to_dict()
    changed = [name for name in old if old[name] != new[name] and name not in _FREE_ON_RESUME]
    if changed:
        name = changed[0]
        raise SpecError(f"a resumed run keeps its options: {name} was {old[name]}, got {new[name]}; start a new run instead")
    return after


def _replaced(plan: Plan, config: TrainConfig) -> Plan:
    """The plan with the run's options; what was measured for others is dropped."""
    if _same_work(plan.config, config):
        return dataclasses.replace(plan, config=config)
    return dataclasses.replace(plan, config=config, costs=(), predicted=None)


def _same_work(one: TrainConfig, other: TrainConfig) -> bool:
    """Whether two runs' steps cost the same."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("model", "fanouts", "hidden", "batch_size", "replace", "target", "embeddings")
    )


def _document(graph: Graph, config: TrainConfig) -> dict[str, Any]:
    """What config.json holds: enough to repeat the run."""
    try:
        ours = version("gnnhet")
    except PackageNotFoundError:  # a bare checkout
        ours = "unknown"
    return {
        "dataset": graph.name,
        "model": config.model,
        "config": config.to_dict(),
        "versions": {"gnnhet": ours, "torch": torch.__version__},
    }
