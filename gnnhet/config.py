"""What a training run is asked to do; everything that decides its result stands here, nothing of where it runs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnnhet.errors import SpecError

OPTIMIZERS = ("adagrad", "adam", "adamw", "rmsprop", "sgd")
SCHEDULES = ("constant", "cosine", "linear")
EMBEDDINGS = ("dense", "sparse")
EVALUATIONS = ("full", "sampled", "none")
SPARSE_OPTIMIZERS = ("adagrad", "adam", "adamw", "sgd")
DEFAULT_EPOCHS = 20

_WORDS: dict[tuple[type, ...], str] = {
    (int,): "a whole number",
    (int, float): "a number",
    (str,): "text",
    (bool,): "true or false",
}
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("hidden", "epochs", "steps", "batch_size", "seed", "early_stop", "eval_every"), (int,)),
    **dict.fromkeys(("dropout", "lr", "weight_decay"), (int, float)),
    **dict.fromkeys(("model", "optimizer", "schedule", "target", "embeddings", "evaluation"), (str,)),
    "replace": (bool,),
}
_MOST = 2**63 - 1  # what torch takes as a seed, and numpy as a size


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Options of a run.

    Attributes:
        model: name of a built-in model (or the class name of a person's own).
        fanouts: neighbours drawn per layer, the seeds' own first; -1 takes all.
        hidden: columns between layers.
        dropout: probability, before every layer.
        lr: learning rate at the start.
        weight_decay: L2 penalty (decoupled with adamw).
        optimizer: adam, adamw, sgd, rmsprop, adagrad.
        schedule: of the learning rate over the run: constant, cosine or linear down to 0.
        epochs: passes over the training nodes; None: until `steps`, or 20.
        steps: stop after so many steps in all; None: no limit.
        batch_size: seeds a step, of all devices together.
        seed: of parameters, order, draws and dropout.
        replace: draw neighbours with replacement.
        early_stop: stop after so many epochs without a better validation accuracy; None: never.
        eval_every: epochs between evaluations.
        evaluation: full, with every neighbour, layer by layer over all nodes (their rows of two layers must fit into memory);
            sampled, over the evaluated nodes with the run's fanouts; or none.
        target: node type to predict; None: the one that has labels.
        embeddings: of node types without features: dense, parameters on every device; sparse, a table in mapped files of
            which a step updates the rows it reads (moments of the others stay, weight decay spares them).
    """

    model: str = "sage"
    fanouts: tuple[int, ...] = (15, 10)
    hidden: int = 128
    dropout: float = 0.5
    lr: float = 0.003
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str = "constant"
    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 1024
    seed: int = 0
    replace: bool = False
    early_stop: int | None = None
    eval_every: int = 1
    evaluation: str = "full"
    target: str | None = None
    embeddings: str = "dense"

    def __post_init__(self) -> None:
        """Hold every field to its rule.

        Raises:
            SpecError: naming the rule, what was got and the remedy.
        """
        self._check_types()
        object.__setattr__(self, "fanouts", tuple(int(k) for k in self.fanouts))
        for fanout in self.fanouts:
            if fanout < 1 and fanout != -1:
                raise SpecError(f"a fanout must be 1 or more, or -1 for all neighbours, got {fanout}")
        least: dict[str, float] = {
            "hidden": 1,
            "batch_size": 1,
            "epochs": 1,
            "steps": 1,
            "early_stop": 1,
            "eval_every": 1,
        }
        for name, low in (least | {"weight_decay": 0, "seed": 0}).items():
            value = getattr(self, name)
            if value is not None and not value >= low:
                raise SpecError(f"{name} must be {low:g} or more, got {value}")
            if value is not None and value > _MOST:
                raise SpecError(f"{name} must be below 2^63, got {value}")
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout must be a probability in [0, 1), got {self.dropout}")
        if not 0 < self.lr < float("inf"):
            raise SpecError(f"lr must be a finite number above 0, got {self.lr}")
        for name, known in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("embeddings", EMBEDDINGS),
            ("evaluation", EVALUATIONS),
        ):
            if getattr(self, name) not in known:
                raise SpecError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.evaluation == "none" and self.early_stop is not None:
            raise SpecError("stopping early needs evaluations, got early_stop and evaluation none: leave one out")
        if self.embeddings == "sparse" and self.optimizer not in SPARSE_OPTIMIZERS:
            raise SpecError(f"sparse embeddings need one of {', '.join(SPARSE_OPTIMIZERS)}, got optimizer {self.optimizer!r}")

    def _check_types(self) -> None:
        """Options may come from a file that was edited by hand."""
        if isinstance(self.fanouts, str) or not all(isinstance(k, int) for k in self.fanouts):
            raise SpecError(f"fanouts must be a list of whole numbers, got {self.fanouts!r}")
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds != (bool,))):
                raise SpecError(f"{name} must be {_WORDS[kinds]}, got {value!r}")

    def total_steps(self, steps_per_epoch: int) -> int:
        """Steps of the whole run."""
        epochs = self.epochs if self.epochs is not None else (DEFAULT_EPOCHS if self.steps is None else None)
        whole = None if epochs is None else epochs * steps_per_epoch
        limits = [limit for limit in (whole, self.steps) if limit is not None]
        return min(limits)

    def changed(self, **options: Any) -> "TrainConfig":
        """A copy with other options; None leaves an option as it is.

        Raises:
            SpecError: an unknown option or a broken rule.
        """
        known = {field.name for field in dataclasses.fields(self)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise SpecError(f"an option must be one of {', '.join(sorted(known))}, got {', '.join(unknown)}")
        return dataclasses.replace(self, **{name: value for name, value in options.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**dataclasses.asdict(self), "fanouts": list(self.fanouts)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainConfig":
        """The config that `to_dict` described.

        Raises:
            SpecError: an unknown option or a broken rule.
        """
        return cls().changed(**dict(values))
