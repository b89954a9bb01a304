"""What the built-in models share: typed inputs, layers over blocks, keyed dropout.

Any `nn.Module` whose `forward(batch)` returns one row a seed can be trained; a `LayeredModel` can also be evaluated layer
by layer over whole graphs, since its layers can be called one at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from gnnhet.datasets.raw import Relation
from gnnhet.ops import keyed_dropout
from gnnhet.samplers.batch import Block, MiniBatch
from gnnhet.samplers.rng import DROPOUT, stream

Position = tuple[int, int, int]  # (seed, epoch, step): what a training step's dropout is keyed by


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """What a model must fit.

    Attributes:
        relations: of the graph, sorted.
        num_nodes: of each node type.
        widths: columns of `x` of each node type; 0 where it has none and learns an embedding.
        target_type: node type of the seeds.
        num_classes: columns of the output.
        hidden: columns between the layers.
        num_layers: blocks of a batch.
        dropout: probability, before every layer.
        sparse: rows of featureless types come with the batch as `x`, `hidden` columns; else the model has a table of them.
    """

    relations: tuple[Relation, ...]
    num_nodes: Mapping[str, int]
    widths: Mapping[str, int]
    target_type: str
    num_classes: int
    hidden: int
    num_layers: int
    dropout: float
    sparse: bool = False

    @property
    def node_types(self) -> list[str]:
        """Sorted node types."""
        return list(self.num_nodes)

    def input_width(self, node_type: str) -> int:
        """Columns of a node type's encoded input: its features', or of the embedding."""
        return self.widths[node_type] or self.hidden

    def layer_widths(self) -> list[tuple[int, int]]:
        """(in, out) of each layer of a homogeneous model."""
        inner = [self.hidden] * (self.num_layers - 1)
        ends = [self.input_width(self.target_type), *inner, self.num_classes]
        return list(pairwise(ends))


class LayeredModel(nn.Module):
    """A model as encode, one call a layer, and head.

    `needs_degrees` asks the sampler for the graph's degrees; `typed` says whether several relations are understood.
    """

    needs_degrees: ClassVar[bool] = False
    typed: ClassVar[bool] = False
    uses_graph: ClassVar[bool] = True

    def __init__(self, dims: Dimensions) -> None:
        """Make the embeddings of featureless node types (hidden columns, Xavier uniform), unless they are sparse."""
        super().__init__()
        self.dims = dims
        self.num_layers = dims.num_layers
        self.embeddings = nn.ModuleList()
        self._embedding_of: dict[str, int] = {}
        for node_type in dims.node_types:
            if not dims.sparse and not dims.widths[node_type] and (self.uses_graph or node_type == dims.target_type):
                table = nn.Embedding(dims.num_nodes[node_type], dims.hidden)
                nn.init.xavier_uniform_(table.weight)
                self._embedding_of[node_type] = len(self.embeddings)
                self.embeddings.append(table)

    def encode(self, x: Mapping[str, Tensor], ids: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs of the first layer.

        Args:
            x: features, or sparse embeddings, of the node types that have them, [nodes, ...].
            ids: int64 [nodes] of every node type.

        Returns:
            per node type floating [nodes, columns].
        """
        dtype = next(self.parameters()).dtype
        return {
            node_type: x[node_type].flatten(1).to(dtype)
            if node_type in x and x[node_type].dim() > 1
            else x[node_type].unsqueeze(1).to(dtype)
            if node_type in x
            else self.embeddings[self._embedding_of[node_type]](node_ids)
            for node_type, node_ids in ids.items()
            if node_type in x or node_type in self._embedding_of
        }

    def layer(self, number: int, block: Block, h: Mapping[str, Tensor], position: Position | None) -> dict[str, Tensor]:
        """Layer `number` over a block.

        Args:
            number: from 0, the input layer.
            block: whose sources `h` belongs to.
            h: per node type [sources, columns].
            position: of the training step, for dropout; None in evaluation.

        Returns:
            per node type that has destinations [destinations, columns].
        """
        raise NotImplementedError

    def head(self, h: Tensor, ids: Tensor, position: Position | None) -> Tensor:
        """What follows the last layer: [seeds, columns] to [seeds, classes]."""
        return h

    def forward(self, batch: MiniBatch) -> Tensor:
        """One row of class scores a seed."""
        position = (batch.seed, batch.epoch, batch.step) if self.training else None
        x = {node_type: named["x"] for node_type, named in batch.features.items() if "x" in named}
        h = self.encode(x, batch.input_of)
        for number, block in enumerate(batch.blocks):
            h = self.layer(number, block, h, position)
        return self.head(h[batch.seed_type], batch.seeds, position)

    def drop(self, h: Tensor, number: int, node_type: str, ids: Tensor, position: Position | None) -> Tensor:
        """Keyed dropout of a layer's input."""
        if position is None or self.dims.dropout == 0.0:
            return h
        base = stream(DROPOUT, *position, number, self.dims.node_types.index(node_type))
        return keyed_dropout(h, self.dims.dropout, base, ids)

    def dropped(self, number: int, block: Block, h: Mapping[str, Tensor], position: Position | None) -> dict[str, Tensor]:
        """Keyed dropout of every node type's input."""
        return {node_type: self.drop(part, number, node_type, block.src_of[node_type], position) for node_type, part in h.items()}


class HomogeneousModel(LayeredModel):
    """A layered model of graphs with one relation: `convolve` is all it says."""

    def convolve(self, number: int, block: Block, h: Tensor) -> Tensor:
        """[sources, columns] to [destinations, columns]."""
        raise NotImplementedError

    def layer(self, number: int, block: Block, h: Mapping[str, Tensor], position: Position | None) -> dict[str, Tensor]:
        """Dropout, the convolution, and ReLU between layers."""
        node_type = self.dims.target_type
        out = self.convolve(number, block, self.dropped(number, block, h, position)[node_type])
        return {node_type: torch.relu(out) if number < self.num_layers - 1 else out}
