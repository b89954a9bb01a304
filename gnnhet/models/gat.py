"""GATv2 (Brody, Alon, Yahav, 2022): attention over the drawn neighbours and the node itself."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv

from gnnhet.errors import SpecError
from gnnhet.models.base import Dimensions, HomogeneousModel
from gnnhet.samplers.batch import Block


class GAT(HomogeneousModel):
    """PyG's `GATv2Conv` on blocks; `hidden` is divided over the heads, the last layer has one."""

    heads = 4

    def __init__(self, dims: Dimensions) -> None:
        """One convolution a layer.

        Raises:
            SpecError: hidden is not a multiple of the heads.
        """
        super().__init__(dims)
        if dims.hidden % self.heads:
            raise SpecError(f"hidden of gat must be a multiple of its {self.heads} heads, got {dims.hidden}")
        last = dims.num_layers - 1
        self.convolutions = nn.ModuleList(
            GATv2Conv((inner, inner), outer, heads=1, add_self_loops=False)
            if number == last
            else GATv2Conv((inner, inner), outer // self.heads, heads=self.heads, add_self_loops=False)
            for number, (inner, outer) in enumerate(dims.layer_widths())
        )

    def convolve(self, number: int, block: Block, h: Tensor) -> Tensor:
        """Attention; the graph's own self loops are replaced by the one each node gets, as PyG does."""
        (relation,) = block.indptr_of
        edges = block.edge_index(relation)
        num_dst = block.indptr_of[relation].numel() - 1
        loops = torch.arange(num_dst, device=h.device)
        own = block.src_of[self.dims.target_type][edges[0]] == block.src_of[self.dims.target_type][edges[1]]
        edges = torch.cat([edges[:, ~own], torch.stack([loops, loops])], dim=1)
        out: Tensor = self.convolutions[number]((h, h[:num_dst]), edges)
        return out
