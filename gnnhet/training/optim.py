"""Optimisers and learning-rate schedules by name."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from gnnhet.config import TrainConfig

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}

_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1.0 - done,
}


_FUSED = ("adagrad", "adam", "adamw", "sgd")


def make_optimizer(config: TrainConfig, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser a config names; one kernel for all parameters where torch has it: typed models have hundreds of them."""
    fused = config.optimizer in _FUSED and all(parameter.device.type == "cpu" for parameter in parameters)
    options = {"fused": True} if fused else {}
    return _OPTIMIZERS[config.optimizer](parameters, lr=config.lr, weight_decay=config.weight_decay, **options)


def set_rate(optimizer: torch.optim.Optimizer, config: TrainConfig, done_steps: int, total_steps: int) -> None:
    """Set the learning rate of the next step: a function of the position alone, so that a resume needs no state of it."""
    rate = config.lr * _SCHEDULES[config.schedule](min(done_steps / total_steps, 1.0))
    for group in optimizer.param_groups:
        group["lr"] = rate
