"""`Run`: what a training run left behind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnhet.config import TrainConfig
from gnnhet.planning import Plan
from gnnhet.report import RunFolder


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, read from its folder.

    Attributes:
        dataset: name of the graph.
        config: its options.
        plan: where it computed last.
        history: one record an epoch: loss, accuracies, seconds.
        loss: mean training loss of each epoch.
        step_loss: global loss of each step, from step 0 also after a resume.
        metrics: accuracy of train, val and test at the best validation epoch (at the last where there is no validation),
            macro-F1 of test beside it, and the epoch.
        epoch_seconds: median training time of a whole epoch, evaluation apart.
        seeds_per_second: of the steady state.
        loader_stall: part of that time that rank 0's device waited for a batch; None where no two steps followed each other.
        cache: what rank 0's cache of features did (`CacheStats`), None without one.
        finished: whether it came to its end, or stopped on request.
        folder: the run folder.
    """

    dataset: str
    config: TrainConfig
    plan: Plan
    history: list[dict[str, Any]]
    loss: list[float]
    step_loss: list[float]
    metrics: dict[str, Any]
    epoch_seconds: float | None
    seeds_per_second: float | None
    loader_stall: float | None
    cache: dict[str, Any] | None
    finished: bool
    folder: Path

    @property
    def checkpoint(self) -> Path:
        """The state the run can go on from."""
        return RunFolder(self.folder).checkpoint

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `gnnhet train --json` prints them."""
        return {
            "dataset": self.dataset,
            "model": self.config.model,
            "strategy": self.plan.strategy,
            "devices": [device.spec for device in self.plan.devices],
            "shares": list(self.plan.shares),
            "epochs": len(self.loss),
            "loss": self.loss,
            "step_loss": self.step_loss,
            "metrics": self.metrics,
            "epoch_seconds": self.epoch_seconds,
            "seeds_per_second": self.seeds_per_second,
            "loader_stall": self.loader_stall,
            "cache": self.cache,
            "finished": self.finished,
            "run_dir": str(self.folder),
            "config": self.config.to_dict(),
        }

    @classmethod
    def read(cls, path: str | Path) -> "Run":
        """Read a run folder.

        Raises:
            FormatError: it is not one, or damaged.
        """
        folder = RunFolder.open(path)
        document, result = folder.read_json("config.json"), folder.read_json("result.json")
        return cls(
            dataset=document["dataset"],
            config=TrainConfig.from_dict(document["config"]),
            plan=Plan.from_dict(folder.read_json("plan.json")),
            history=[record for record in folder.records() if record.get("kind") == "epoch"],
            loss=folder.epoch_losses(),
            step_loss=folder.step_losses(),
            metrics=result["metrics"],
            epoch_seconds=result["epoch_seconds"],
            seeds_per_second=result["seeds_per_second"],
            loader_stall=result.get("loader_stall"),
            cache=result.get("cache"),
            finished=result["finished"],
            folder=folder.path,
        )
