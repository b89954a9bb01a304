"""GraphSAGE with mean aggregation (Hamilton, Ying, Leskovec, 2017)."""

from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from gnnhet.models.base import Dimensions, HomogeneousModel
from gnnhet.ops import mean_adjacency
from gnnhet.samplers.batch import Block


class SAGE(HomogeneousModel):
    """PyG's `SAGEConv` on blocks: W1 h_v + W2 mean of the neighbours."""

    def __init__(self, dims: Dimensions) -> None:
        """One convolution a layer."""
        super().__init__(dims)
        self.convolutions = nn.ModuleList(SAGEConv((inner, inner), outer) for inner, outer in dims.layer_widths())

    def convolve(self, number: int, block: Block, h: Tensor) -> Tensor:
        """Mean over the drawn neighbours."""
        (indptr,), (indices,) = block.indptr_of.values(), block.indices_of.values()
        adjacency = mean_adjacency(indptr, indices, h.shape[0], h.dtype)
        out: Tensor = self.convolutions[number]((h, h[: indptr.numel() - 1]), adjacency)
        return out
