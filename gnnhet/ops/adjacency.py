"""Blocks as sparse CSR tensors, which PyG's layers aggregate without one row an edge in memory."""

import warnings

import torch
from torch import Tensor


def csr(indptr: Tensor, indices: Tensor, values: Tensor, num_src: int) -> Tensor:
    """A sparse CSR tensor [destinations, sources], unchecked.

    Args:
        indptr: integers [destinations + 1].
        indices: integers [edges].
        values: floating [edges].
        num_src: columns.
    """
    with warnings.catch_warnings():  # torch calls the layout beta at its first use
        warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support is in beta.*")
        warnings.filterwarnings("ignore", message=".*Sparse invariant checks.*")
        return torch.sparse_csr_tensor(
            indptr.long(), indices.long(), values, (indptr.numel() - 1, num_src), check_invariants=False
        )


def mean_adjacency(indptr: Tensor, indices: Tensor, num_src: int, dtype: torch.dtype) -> Tensor:
    """Ones at the drawn edges: a mean over them is an unbiased estimate of the mean over all neighbours."""
    return csr(indptr, indices, torch.ones(indices.numel(), dtype=dtype, device=indices.device), num_src)


def compact_rows(indptr: Tensor) -> tuple[Tensor, Tensor]:
    """(indptr of the rows that have edges, their numbers).

    Of a typed graph's many relations most reach few destinations: dense products then cost what the edges do.
    """
    rows = torch.nonzero(indptr.diff()).view(-1)
    return torch.cat([indptr[:1], indptr[1:][rows]]), rows


def with_self_loops(indptr: Tensor, indices: Tensor, edge_values: Tensor, loop_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Append to each row the edge from the destination to itself (destinations are the first of the sources).

    Args:
        indptr: integers [destinations + 1].
        indices: integers [edges].
        edge_values: floating [edges].
        loop_values: floating [destinations].

    Returns:
        indptr, indices, values with one edge more a row.
    """
    num_dst, num_edges = indptr.numel() - 1, indices.numel()
    rows = torch.arange(num_dst, device=indptr.device)
    ends = indptr.long()
    owner = torch.repeat_interleave(rows, ends.diff(), output_size=num_edges)
    place = torch.arange(num_edges, device=indptr.device) + owner
    loops = ends[1:] + rows
    sources = torch.empty(num_edges + num_dst, dtype=torch.long, device=indptr.device)
    values = torch.empty(num_edges + num_dst, dtype=edge_values.dtype, device=indptr.device)
    sources[place], sources[loops] = indices.long(), rows
    values[place], values[loops] = edge_values, loop_values
    return ends + torch.arange(num_dst + 1, device=indptr.device), sources, values
