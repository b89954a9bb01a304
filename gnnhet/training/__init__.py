"""Training: the same losses on any devices."""

from gnnhet.training.run import Run
from gnnhet.training.train import train

__all__ = ["Run", "train"]
