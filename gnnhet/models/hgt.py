"""HGT (Hu et al., 2020): attention between node types through each relation."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import HGTConv

from gnnhet.errors import SpecError
from gnnhet.models.base import Dimensions, LayeredModel, Position
from gnnhet.samplers.batch import Block


class HGT(LayeredModel):
    """PyG's `HGTConv` on blocks, between a linear map a node type before and one to the classes behind.

    `HGTConv` knows no separate destinations: it runs on the sources, of which the destinations are the first.
    """

    typed = True
    heads = 4

    def __init__(self, dims: Dimensions) -> None:
        """The maps of every layer.

        Raises:
            SpecError: hidden is not a multiple of the heads.
        """
        super().__init__(dims)
        if dims.hidden % self.heads:
            raise SpecError(f"hidden of hgt must be a multiple of its {self.heads} heads, got {dims.hidden}")
        names = {node_type: f"t{number}" for number, node_type in enumerate(dims.node_types)}
        self._names = names
        self._edges = {
            (source, name, destination): (names[source], f"r{number}", names[destination])
            for number, (source, name, destination) in enumerate(dims.relations)
        }
        metadata = (list(names.values()), list(self._edges.values()))
        self.inputs = nn.ModuleList(nn.Linear(dims.input_width(node_type), dims.hidden) for node_type in dims.node_types)
        self.convolutions = nn.ModuleList(
            HGTConv(dims.hidden, dims.hidden, metadata, heads=self.heads) for _ in range(dims.num_layers)
        )
        self.output = nn.Linear(dims.hidden, dims.num_classes)

    def layer(self, number: int, block: Block, h: Mapping[str, Tensor], position: Position | None) -> dict[str, Tensor]:
        """Dropout, then one `HGTConv`; the first layer maps the inputs to `hidden` columns before."""
        h = self.dropped(number, block, h, position)
        if number == 0:
            h = {t: torch.relu(self.inputs[i](h[t])) for i, t in enumerate(self.dims.node_types) if t in h}
        none = next(iter(h.values())).new_empty(0, self.dims.hidden)
        h = {t: h.get(t, none) for t in self.dims.node_types}  # a type without nodes has no rows from the layer below
        edges = {self._edges[relation]: block.edge_index(relation) for relation in self.dims.relations}
        found = self.convolutions[number]({self._names[t]: part for t, part in h.items()}, edges)
        out = {}
        for node_type, name in self._names.items():
            count = block.num_dst[node_type]
            if count:  # a type that no relation reaches keeps what it has
                got = found.get(name)
                out[node_type] = (h[node_type] if got is None else got)[:count]
        return out

    def head(self, h: Tensor, ids: Tensor, position: Position | None) -> Tensor:
        """Class scores."""
        out: Tensor = self.output(h)
        return out
