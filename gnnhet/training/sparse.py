"""Updates of a few rows of a table: each optimiser's lazy law, which leaves untouched rows and their moments as they are."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

_BETAS, _ADAM_EPS, _ADAGRAD_EPS = (0.9, 0.999), 1e-8, 1e-10  # those of torch's optimisers


def sgd(rows: Tensor, grads: Tensor, states: Sequence[Tensor], lr: float, step: int) -> None:
    """`torch.optim.SGD`'s."""
    rows.add_(grads, alpha=-lr)


def adagrad(rows: Tensor, grads: Tensor, states: Sequence[Tensor], lr: float, step: int) -> None:
    """`torch.optim.Adagrad`'s for sparse gradients (Duchi, Hazan, Singer, 2011)."""
    (squares,) = states
    squares.add_(grads.pow(2))
    rows.add_(grads / squares.sqrt().add_(_ADAGRAD_EPS), alpha=-lr)


def adam(rows: Tensor, grads: Tensor, states: Sequence[Tensor], lr: float, step: int) -> None:
    """`torch.optim.SparseAdam`'s (Kingma and Ba, 2015): moments decay when touched, the bias is that of the run's step."""
    mean, square = states
    mean.add_((grads - mean).mul_(1 - _BETAS[0]))
    square.add_((grads.pow(2) - square).mul_(1 - _BETAS[1]))
    size = lr * math.sqrt(1 - _BETAS[1] ** step) / (1 - _BETAS[0] ** step)
    rows.add_(-size * (mean / square.sqrt().add_(_ADAM_EPS)))


Law = Callable[[Tensor, Tensor, Sequence[Tensor], float, int], None]
LAWS: dict[str, tuple[Law, int]] = {"adagrad": (adagrad, 1), "adam": (adam, 2), "adamw": (adam, 2), "sgd": (sgd, 0)}


def update_rows(
    name: str, rows: Tensor, grads: Tensor, states: Sequence[Tensor], *, lr: float, weight_decay: float, step: int
) -> None:
    """Update rows and their states in place.

    Weight decay acts on touched rows alone: before the step with adamw, else as a part of the gradient.

    Args:
        name: of `LAWS`.
        rows: float32 [touched, columns].
        grads: as `rows`.
        states: as many as the law has, each as `rows`, zeros before the first touch.
        lr: learning rate.
        weight_decay: of the config.
        step: of the run, from 1.
    """
    if weight_decay and name == "adamw":
        rows.mul_(1 - lr * weight_decay)
    elif weight_decay:
        grads = grads.add(rows, alpha=weight_decay)
    LAWS[name][0](rows, grads, states, lr, step)


def sum_rows(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Gradients of rows, summed over ranks in double precision, part by part.

    Args:
        parts: (int64 [n] ids, each once, floating [n, columns]) of each rank.

    Returns:
        sorted ids int64 [m]; sums float64 [m, columns].
    """
    found, places = np.unique(torch.cat([ids for ids, _ in parts]).numpy(), return_inverse=True)
    total = torch.zeros((found.size, parts[0][1].shape[1]), dtype=torch.float64)
    first = 0
    for ids, grads in parts:
        total[torch.from_numpy(places[first : first + ids.numel()])] += grads.double()
        first += ids.numel()
    return torch.from_numpy(found), total
