"""A graph's nodes cut into parts by METIS, with few edges between parts."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnnhet.errors import GraphError, MissingDependencyError, SpecError
from gnnhet.storage.graph import Graph


def partition(graph: Graph, num_parts: int, seed: int = 0) -> dict[str, npt.NDArray[np.int64]]:
    """Parts of about equal size with few edges between them (Karypis, Kumar, 1998, multilevel k-way partitioning).

    All node types and relations are read as one undirected graph without loops; edges between two nodes count as many as
    they are.

    Args:
        graph: what is cut.
        num_parts: 1 or more.
        seed: of METIS's own random numbers.

    Returns:
        per node type int64 [nodes], the part of each node, 0..num_parts-1.

    Raises:
        SpecError: fewer than one part.
        MissingDependencyError: pymetis is not installed.
        GraphError: 2^31 edges or more, in both directions.
    """
    if num_parts < 1:
        raise SpecError(f"num_parts must be 1 or more, got {num_parts}")
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            f"cutting a graph into parts needs pymetis, got {error}: install pymetis, or give the parts as arrays"
        ) from error
    first = dict(zip(graph.node_types, np.cumsum([0, *graph.num_nodes.values()]).tolist(), strict=False))
    total = sum(graph.num_nodes.values())
    if num_parts == 1 or total == 0:
        parts = np.zeros(total, np.int64)
    else:
        joined = _joined(graph, first, total)
        if joined.nnz >= 2**31:
            raise GraphError(f"METIS must be given fewer than 2^31 edges, got {joined.nnz}: give the parts as arrays")
        adjacency = pymetis.CSRAdjacency(joined.indptr, joined.indices)
        options = pymetis.Options(seed=seed)
        _, member = pymetis.part_graph(num_parts, adjacency, eweights=joined.data, options=options)
        parts = np.asarray(member, np.int64)
    return {kind: parts[first[kind] : first[kind] + count] for kind, count in graph.num_nodes.items()}


def _joined(graph: Graph, first: Mapping[str, int], total: int) -> sparse.csr_matrix:
    """All relations as one symmetric matrix without a diagonal, its entries counts of edges."""
    whole = sparse.csr_matrix((total, total), dtype=np.int64)
    for relation in graph.relations:
        indptr, indices = graph.csc(relation)
        rows = np.repeat(np.arange(indptr.size - 1) + first[relation[2]], np.diff(indptr))
        columns = indices.astype(np.int64) + first[relation[0]]
        apart = rows != columns
        ones = np.ones(int(apart.sum()), np.int64)
        whole = whole + sparse.csr_matrix((ones, (rows[apart], columns[apart])), shape=(total, total))
    both = (whole + whole.T).tocsr()
    both.sort_indices()
    return both
