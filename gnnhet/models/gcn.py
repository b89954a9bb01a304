"""GCN (Kipf, Welling, 2017): H' = D^-1/2 (A + I) D^-1/2 H W, with D the degrees of A + I."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gnnhet.models.base import Dimensions, HomogeneousModel
from gnnhet.ops import with_self_loops
from gnnhet.ops.adjacency import csr
from gnnhet.samplers.batch import Block


class GCN(HomogeneousModel):
    """PyG's `GCNConv` on blocks.

    The norm uses the graph's degrees, not the sample's, so that with full neighbours a mini-batch equals the full graph.
    Where a destination draws k of its d neighbours each is weighted by d / k: the sum stays unbiased.
    """

    needs_degrees = True

    def __init__(self, dims: Dimensions) -> None:
        """One convolution a layer."""
        super().__init__(dims)
        self.convolutions = nn.ModuleList(
            GCNConv(inner, outer, normalize=False, add_self_loops=False) for inner, outer in dims.layer_widths()
        )

    def convolve(self, number: int, block: Block, h: Tensor) -> Tensor:
        """Normalised sum over the drawn neighbours and the node itself."""
        node_type = self.dims.target_type
        (indptr,), (indices,) = block.indptr_of.values(), block.indices_of.values()
        degree = block.degree_of[node_type].to(h.dtype)
        root = (degree + 1).rsqrt()
        num_dst = indptr.numel() - 1
        drawn = indptr.diff()
        share = degree[:num_dst] / drawn.clamp(min=1) * root[:num_dst]
        rows = torch.repeat_interleave(share, drawn, output_size=indices.numel())
        edges = with_self_loops(indptr, indices, rows * root[indices.long()], root[:num_dst] ** 2)
        out: Tensor = self.convolutions[number](h, csr(*edges, num_src=h.shape[0]))
        return out
