"""A perceptron on the seeds' own features: what the graph adds is measured against it."""

import torch
from torch import Tensor, nn

from gnnhet.models.base import Dimensions, LayeredModel, Position


class MLP(LayeredModel):
    """Two linear layers; no neighbours are sampled."""

    typed = True
    uses_graph = False

    def __init__(self, dims: Dimensions) -> None:
        """Two linear maps."""
        super().__init__(dims)
        self.num_layers = 0
        self.first = nn.Linear(dims.input_width(dims.target_type), dims.hidden)
        self.second = nn.Linear(dims.hidden, dims.num_classes)

    def head(self, h: Tensor, ids: Tensor, position: Position | None) -> Tensor:
        """Class scores from the encoded features."""
        h = torch.relu(self.first(self.drop(h, 0, self.dims.target_type, ids, position)))
        out: Tensor = self.second(self.drop(h, 1, self.dims.target_type, ids, position))
        return out
