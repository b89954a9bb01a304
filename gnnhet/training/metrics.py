"""Figures of merit for class scores."""

import torch
from torch import Tensor


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of right classes.

    Args:
        predicted: int64 [nodes].
        labels: int64 [nodes], each 0 or more.
    """
    return float((predicted == labels).double().mean())


def macro_f1(predicted: Tensor, labels: Tensor, num_classes: int) -> float:
    """Unweighted mean over classes of F1 = 2 TP / (2 TP + FP + FN); classes in neither labels nor predictions are left out.

    Args:
        predicted: int64 [nodes].
        labels: int64 [nodes].
        num_classes: classes.
    """
    confusion = torch.bincount(labels * num_classes + predicted, minlength=num_classes**2).view(num_classes, num_classes)
    right = confusion.diagonal().double()
    either = (confusion.sum(0) + confusion.sum(1)).double()
    present = either > 0
    return float((2 * right[present] / either[present]).mean())
