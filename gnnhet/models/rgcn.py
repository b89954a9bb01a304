"""R-GCN (Schlichtkrull et al., 2018, eq. 2): h_v' = W_0 h_v + sum over relations of W_r times the mean of v's neighbours."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from gnnhet.models.base import Dimensions, LayeredModel, Position
from gnnhet.ops import compact_rows, mean_adjacency
from gnnhet.samplers.batch import Block


class RGCN(LayeredModel):
    """One PyG `SAGEConv` (mean, without root weight) a relation, one linear map a node type for W_0.

    Only rows that have edges go through a relation's product: with many relations most reach few nodes.
    """

    typed = True

    def __init__(self, dims: Dimensions) -> None:
        """The maps of every layer."""
        super().__init__(dims)
        self.relations = nn.ModuleList()
        self.roots = nn.ModuleList()
        for number in range(dims.num_layers):
            outer = dims.num_classes if number == dims.num_layers - 1 else dims.hidden
            width = {t: dims.hidden if number else dims.input_width(t) for t in dims.node_types}
            self.relations.append(
                nn.ModuleList(
                    SAGEConv((width[source], width[destination]), outer, root_weight=False, bias=False)
                    for source, _, destination in dims.relations
                )
            )
            self.roots.append(nn.ModuleList(nn.Linear(width[node_type], outer) for node_type in dims.node_types))

    def layer(self, number: int, block: Block, h: Mapping[str, Tensor], position: Position | None) -> dict[str, Tensor]:
        """Dropout, the sum over relations, and ReLU between layers."""
        h = self.dropped(number, block, h, position)
        out = {
            node_type: root(h[node_type][: block.num_dst[node_type]])
            for node_type, root in zip(self.dims.node_types, _parts(self.roots, number), strict=True)
            if block.num_dst[node_type]
        }
        for relation, convolution in zip(self.dims.relations, _parts(self.relations, number), strict=True):
            indptr, indices = block.indptr_of[relation], block.indices_of[relation]
            if not indices.numel():
                continue
            source, _, destination = relation
            ends, rows = compact_rows(indptr)
            adjacency = mean_adjacency(ends, indices, h[source].shape[0], h[source].dtype)
            messages = convolution((h[source], None), adjacency)
            out[destination] = out[destination].index_add(0, rows, messages)
        return {t: torch.relu(part) if number < self.num_layers - 1 else part for t, part in out.items()}


def _parts(layers: nn.ModuleList, number: int) -> nn.ModuleList:
    """The maps of one layer."""
    return cast(nn.ModuleList, layers[number])
