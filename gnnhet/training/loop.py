"""The training loop of one rank."""

import dataclasses
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnnhet.devices import Throttle
from gnnhet.errors import SpecError, TrainingError
from gnnhet.models.base import LayeredModel
from gnnhet.planning import Plan
from gnnhet.planning.make import training_loader
from gnnhet.report import RunFolder, track
from gnnhet.samplers import MiniBatch, Tiers
from gnnhet.samplers.rng import stream
from gnnhet.storage import Graph
from gnnhet.training import checkpoint, table_files
from gnnhet.training.embeddings import EmbeddingTable
from gnnhet.training.evaluate import predict, refuse_large
from gnnhet.training.metrics import accuracy, macro_f1
from gnnhet.training.optim import make_optimizer, set_rate
from gnnhet.training.ranks import Ranks
from gnnhet.training.resources import Resources
from gnnhet.training.stop import StopRequest

_CHECKPOINT_SECONDS = 60.0
_SPLITS = ("train", "val", "test")


@dataclass
class Position:
    """Where a run stands; with the parameters and the optimiser's moments, all there is to resume.

    Attributes:
        epoch: of the next step.
        step: the next step of that epoch.
        loss_sum: of the epoch so far, each step's loss times its labelled seeds.
        labelled: labelled seeds of the epoch so far.
        best: metrics of the best evaluation, empty before the first.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    labelled: int = 0
    best: dict[str, Any] = field(default_factory=dict)


class Trainer:
    """One rank's side of a run. Rank 0 also keeps the run folder."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        model: nn.Module,
        ranks: Ranks,
        folder: RunFolder,
        stop: StopRequest,
        resources: Resources,
    ) -> None:
        """Put the model on this rank's device, with rank 0's parameters.

        Raises:
            SpecError: the model or the graph cannot be trained.
        """
        self.graph, self.plan, self.config, self.ranks = graph, plan, plan.config, ranks
        self.folder, self.stop, self.quiet = folder, stop, resources.quiet or ranks.rank != 0
        _refuse_batch_norm(model, ranks)
        self.device = plan.devices[ranks.rank]
        self.place = self.device.torch_device
        self.throttle = Throttle(self.device)
        self.model = model.to(self.place)
        self.optimizer = make_optimizer(self.config, list(self.model.parameters()))
        share = (ranks.rank, plan.shares)
        self.loader = training_loader(
            graph,
            self.config,
            model,
            share=share,
            threads=resources.threads,
            timeout_s=resources.timeout_s,
            tiers=_in_dtype_of(model, self.place, resources.tiers),
        )
        if self.config.evaluation == "full":
            refuse_large(model, graph, self.loader.seed_type, self.config.hidden)
        table = EmbeddingTable(graph, self.config, model, ranks) if self.config.embeddings == "sparse" else None
        self.table = table if table is not None and table.types else None
        self._named: dict[str, str] = {}  # checkpoint file to the saved table that it names
        self.total_steps = self.config.total_steps(len(self.loader))
        self.position = Position()
        self._epoch_seconds: list[float] = []
        self._steady: list[tuple[int, float]] = []  # (seeds, seconds) of steps after the first of an epoch
        self._first: list[tuple[int, float]] = []
        self._waited = 0.0  # seconds of the steady steps that the device waited for a batch

    @property
    def global_step(self) -> int:
        """Steps done since the run's beginning."""
        return self.position.epoch * len(self.loader) + self.position.step

    def run(self) -> None:
        """Train from the last checkpoint, or from the start, to the end or a stop; rank 0 writes what came out."""
        self._restore()
        self.ranks.same_state(self.model)
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        stopped = False
        left = max(self.total_steps - self.global_step, 0)
        with track(left, "training", "steps", quiet=self.quiet) as progress:
            while self.global_step < self.total_steps and not stopped and not self._patience_over():
                stopped = self._epoch(parameters, progress)
        self._finish(stopped)

    def _epoch(self, parameters: list[nn.Parameter], progress: Any) -> bool:
        """The rest of one epoch, its evaluation and its checkpoint; whether a stop was asked for."""
        at = self.position
        whole = at.step == 0
        self.loader.load_state_dict({"seed": self.config.seed, "epoch": at.epoch, "step": at.step})
        self.model.train()
        started = saved = mark = time.perf_counter()
        first = True
        for batch in self.loader:
            self._waited += 0.0 if first else time.perf_counter() - mark
            loss, stopped = self._step(batch, parameters)
            now = time.perf_counter()
            (self._first if first else self._steady).append((self._seeds_of_step(at.step), now - mark))
            first, mark = False, now
            if self.ranks.rank == 0:
                self.folder.append(
                    {"kind": "step", "epoch": at.epoch, "step": at.step, "global_step": self.global_step, "loss": loss}
                )
            at.loss_sum += loss * batch.num_labelled
            at.labelled += batch.num_labelled
            at.step += 1
            progress.advance(note=f"loss {loss:.4f}")
            if stopped or (self.global_step == self.total_steps and at.step < len(self.loader)):
                self._save()
                return stopped
            if now - saved > _CHECKPOINT_SECONDS:
                self._save()
                saved = now
        if whole:
            self._epoch_seconds.append(time.perf_counter() - started)
        self._end_epoch(time.perf_counter() - started)
        return False

    def _step(self, batch: MiniBatch, parameters: list[nn.Parameter]) -> tuple[float, bool]:
        """Forward, backward, reduce, update; the global loss, and whether any rank asks to stop."""
        # a person's own nn.Dropout draws from torch's generator: keyed, so that a resumed run repeats it
        torch.manual_seed(int(stream(batch.seed, batch.epoch, batch.step, self.ranks.rank)) >> 1)
        set_rate(self.optimizer, self.config, self.global_step, self.total_steps)
        self.optimizer.zero_grad(set_to_none=True)
        own = 0.0
        rows_of: dict[str, Tensor] = {}  # leaves: sparse embeddings of this rank's inputs
        if batch.seeds.numel() and batch.num_labelled:
            batch = batch if self.table is None else self.table.attach(batch)
            started = time.perf_counter()
            moved = batch.to(self.place)
            self.throttle.transfer(batch.feature_bytes, time.perf_counter() - started)
            if self.table is not None:
                rows_of = {t: moved.features[t]["x"].requires_grad_() for t in self.table.types if t in moved.input_of}
            with self.throttle.compute():
                loss = self._loss(moved)
                torch.autograd.backward(loss)
                own = float(loss.detach())
        loss_sum, stops = self.ranks.sum_gradients(parameters, [own, float(self.stop.requested())])
        if not math.isfinite(loss_sum):
            raise TrainingError(
                f"the loss must stay finite, got {loss_sum} at step {batch.step} of epoch {batch.epoch}: lower --lr, "
                "and look for huge or missing values in the features"
            )
        with self.throttle.compute():
            self.optimizer.step()
        if self.table is not None:
            grads_of = {t: torch.zeros_like(rows) if rows.grad is None else rows.grad for t, rows in rows_of.items()}
            self.table.update(batch.input_of, grads_of, self.optimizer.param_groups[0]["lr"], self.global_step + 1)
        self.throttle.check_memory()
        return loss_sum, stops > 0

    def _loss(self, batch: MiniBatch) -> Tensor:
        """This rank's sum over its seeds, over the labelled seeds of all ranks: summed over ranks, the step's mean."""
        scores = self.model(batch)
        if batch.y is None or not isinstance(scores, Tensor) or scores.shape[:1] != batch.seeds.shape:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise SpecError(f"forward(batch) must return one row a seed, {batch.seeds.numel()}, got {got}")
        return functional.cross_entropy(scores, batch.y.long(), ignore_index=-1, reduction="sum") / batch.num_labelled

    def _end_epoch(self, seconds: float) -> None:
        """Evaluate, record, remember the best, save."""
        at = self.position
        record: dict[str, Any] = {
            "kind": "epoch",
            "epoch": at.epoch,
            "loss": at.loss_sum / at.labelled if at.labelled else 0.0,
            "seconds": seconds,
        }
        last = (at.epoch + 1) * len(self.loader) >= self.total_steps
        if self.config.evaluation != "none" and (last or (at.epoch + 1) % self.config.eval_every == 0):
            found = self.evaluate()
            record |= found
            if self._better(found):
                at.best = {"epoch": at.epoch, **found}
                if self.ranks.rank == 0:
                    self._write(checkpoint.BEST, {"model": self._weights(), "metrics": at.best})
        if self.ranks.rank == 0:
            self.folder.append(record)
        at.epoch, at.step, at.loss_sum, at.labelled = at.epoch + 1, 0, 0.0, 0
        self._save()

    def evaluate(self) -> dict[str, Any]:
        """Accuracy of each split with every neighbour, and macro-F1 of the test split (of validation without one)."""
        node_type = self.loader.seed_type
        ids = {part: self.graph.split_ids(node_type, part) for part in _SPLITS}
        every = torch.cat([torch.from_numpy(ids[part]) for part in _SPLITS])
        where: dict[str, Any] = {"ranks": self.ranks, "place": self.place, "table": self.table}
        sampled = self.config.evaluation == "sampled"
        scores = predict(self.model, self.graph, node_type, every.numpy(), loader=self.loader, sampled=sampled, **where)
        predicted = scores.argmax(1)
        labels = self.graph.features.gather(node_type, "y", every).long()
        found: dict[str, Any] = {}
        start = 0
        for part in _SPLITS:
            inside = slice(start, start + ids[part].size)
            start += ids[part].size
            found[part] = accuracy(predicted[inside], labels[inside]) if ids[part].size else None
            if ids[part].size:
                found["macro_f1"] = macro_f1(predicted[inside], labels[inside], scores.shape[1])
        return found

    def _better(self, found: dict[str, Any]) -> bool:
        """Whether an evaluation beats the best one; without a validation split the last one counts."""
        best = self.position.best
        return not best or found["val"] is None or found["val"] > best["val"]

    def _patience_over(self) -> bool:
        """Whether validation has not improved for `early_stop` epochs."""
        at, patience = self.position, self.config.early_stop
        return bool(patience and at.step == 0 and at.best.get("val") is not None and at.epoch - 1 - at.best["epoch"] >= patience)

    def _finish(self, stopped: bool) -> None:
        """Evaluate a run that ended inside an epoch, and write the result."""
        at = self.position
        best = at.best
        if not stopped and at.step and self.config.evaluation != "none":
            found = self.evaluate()
            if self._better(found):
                best = {"epoch": at.epoch, **found}
        if self.ranks.rank:
            return
        timed = self._steady or self._first
        cache = self.loader.cache_stats()
        self.folder.write_json(
            "result.json",
            {
                "metrics": {name: best.get(name) for name in (*_SPLITS, "macro_f1", "epoch")},
                "epoch_seconds": statistics.median(self._epoch_seconds) if self._epoch_seconds else None,
                "seeds_per_second": sum(n for n, _ in timed) / sum(s for _, s in timed) if timed else None,
                "loader_stall": self._waited / sum(s for _, s in self._steady) if self._steady else None,
                "cache": None if cache is None else cache.to_dict(),
                "finished": not stopped,
            },
        )

    def _seeds_of_step(self, step: int) -> int:
        """Seeds of a step, all ranks together."""
        return min(self.loader.batch_size, self.loader.seeds.size - step * self.loader.batch_size)

    def _weights(self) -> dict[str, Tensor]:
        """Parameters and buffers on the CPU."""
        return {name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()}

    def _save(self) -> None:
        """Write the checkpoint (rank 0; replicas are equal)."""
        if self.ranks.rank == 0:
            state = {
                "model": self._weights(),
                "optimizer": self.optimizer.state_dict(),
                "position": vars(self.position),
                "graph": fingerprint(self.graph),
                "config": self.config.to_dict(),
            }
            self._write(checkpoint.LAST, state)

    def _write(self, name: str, state: dict[str, Any]) -> None:
        """Write a checkpoint, and before it the table that it names; a table that none names any more is removed."""
        place = self.folder.checkpoint
        if self.table is not None:
            self._named[name] = state["embeddings"] = self.table.save(place, self.global_step)
        checkpoint.save(place / name, state)
        if self.table is not None:
            table_files.remove_others(place, list(self._named.values()))

    def _restore(self) -> None:
        """Take up the folder's checkpoint, or make the first one, so that a run can be resumed from its first moment."""
        path = self.folder.checkpoint / checkpoint.LAST
        state = checkpoint.load(path) if path.exists() else None
        if state is None:
            if self.table is not None:
                self.table.open(self.folder.path, None)
            self._save()
            return
        if state["graph"] != fingerprint(self.graph):
            raise SpecError(f"a run resumes on the graph it was started on, {state['graph']}, got {fingerprint(self.graph)}")
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise SpecError(f"a run resumes with the model it was started with, got another: {reason}") from error
        self.position = Position(**state["position"])
        if self.table is not None:
            self.table.open(self.folder.path, self.folder.checkpoint / state["embeddings"])
            best = self.folder.checkpoint / checkpoint.BEST
            for file in (path, best) if best.exists() else (path,):
                self._named[file.name] = checkpoint.load(file)["embeddings"]
        if self.ranks.rank == 0:
            self.folder.truncate(self.global_step, self.position.epoch)


def _in_dtype_of(model: nn.Module, place: torch.device, tiers: Tiers) -> Tiers:
    """Tiers that give a built-in model on the CPU what it would turn features into anyway; another place takes them as stored."""
    if tiers.dtype is not None or place.type != "cpu" or not isinstance(model, LayeredModel):
        return tiers
    return dataclasses.replace(tiers, dtype=next(model.parameters()).dtype)


def fingerprint(graph: Graph) -> str:
    """Counts of a graph as one line: enough to notice that another one was given."""
    nodes = ", ".join(f"{count} {node_type}" for node_type, count in graph.num_nodes.items())
    edges = ", ".join(f"{count} {'-'.join(relation)}" for relation, count in graph.num_edges.items())
    return f"{nodes}; {edges}"


def _refuse_batch_norm(model: nn.Module, ranks: Ranks) -> None:
    """Batch statistics of a rank's part are not those of the step."""
    norms = [name for name, part in model.named_modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if norms and ranks.size > 1:
        raise SpecError(
            f"on several devices a model must not use BatchNorm, whose statistics would be each device's own, got "
            f"{norms[0]!r}: use LayerNorm"
        )
