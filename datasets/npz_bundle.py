"""`.npz` bundles of one graph: CSR arrays with sparse or dense features, or an edge list with masks.

The forms: `adj_data/adj_indices/adj_indptr/adj_shape`, `attr_*` or `attr_matrix`, `labels` (Shchur et al., 2018); the same
with dots (`adj_matrix.data`); and `edges`, `node_features`, `node_labels`, `*_masks` (Platonov et al., 2023).
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gnnhet.datasets.edges import make_undirected
from gnnhet.datasets.files import read_npz
from gnnhet.datasets.raw import HOMOGENEOUS, NO_SPLIT, NODE, TEST, TRAIN, VAL, Array, RawGraph
from gnnhet.errors import FormatError

_PARTS = {"train": TRAIN, "val": VAL, "test": TEST}


def read(file: str | Path, undirected: bool = True) -> RawGraph:
    """Read a bundle.

    Args:
        file: the archive.
        undirected: add the reverse of each edge and drop duplicates, as is usual with these sets; self loops are kept.

    Raises:
        FormatError: none of the forms, or arrays that do not belong together.
    """
    arrays = read_npz(file)
    try:
        src, dst, num_nodes = _edges(arrays)
        features = {"x": _features(arrays), "y": _labels(arrays), "split": _split(arrays, num_nodes)}
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise FormatError(
            f"{file} must hold a graph as adj_data.., attr_.., labels or as edges, node_features, node_labels; got "
            f"{', '.join(sorted(arrays)) or 'nothing'} ({error})"
        ) from error
    if undirected:
        src, dst = make_undirected(src, dst)
    return RawGraph(
        num_nodes={NODE: num_nodes},
        edges={HOMOGENEOUS: (src, dst)},
        features={NODE: {name: array for name, array in features.items() if array is not None}},
        name=Path(file).stem,
    )


def _edges(arrays: dict[str, Array]) -> tuple[Array, Array, int]:
    """(src, dst, nodes)."""
    if "edges" in arrays:
        pairs = arrays["edges"]
        return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64), int(arrays["node_labels"].shape[0])
    matrix = _csr(arrays, "adj")
    if matrix is None:
        raise KeyError("no edges")
    pairs_coo = matrix.tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency of shape {matrix.shape}")
    return pairs_coo.row.astype(np.int64), pairs_coo.col.astype(np.int64), int(matrix.shape[0])


def _csr(arrays: dict[str, Array], stem: str) -> sp.csr_matrix | None:
    """A CSR matrix stored as four arrays, or None."""
    for prefix in (f"{stem}_", f"{stem}.", f"{stem}_matrix."):
        if f"{prefix}indptr" in arrays:
            data, indices, indptr, shape = (arrays[f"{prefix}{part}"] for part in ("data", "indices", "indptr", "shape"))
            matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(int(size) for size in shape))
            matrix.check_format()
            return matrix
    return None


def _features(arrays: dict[str, Array]) -> Array | None:
    """float32 rows, or None."""
    matrix = _csr(arrays, "attr")
    if matrix is not None:
        return np.asarray(matrix.toarray(), np.float32)
    for name in ("attr_matrix", "node_features", "node_attr", "features"):
        if name in arrays:
            return arrays[name].astype(np.float32)
    return None


def _labels(arrays: dict[str, Array]) -> Array | None:
    """int64 classes, or None."""
    for name in ("labels", "node_labels"):
        if name in arrays:
            return arrays[name].astype(np.int64)
    return None


def _split(arrays: dict[str, Array], num_nodes: int) -> Array | None:
    """The bundle's own split, or None; of several masks the first."""
    split = np.full(num_nodes, NO_SPLIT, np.int8)
    for part, code in _PARTS.items():
        for name in (f"{part}_ids", f"idx_{part}"):
            if name in arrays:
                split[arrays[name].astype(np.int64)] = code
        for name in (f"{part}_mask", f"{part}_masks"):
            if name in arrays:
                mask = arrays[name].astype(np.bool_)
                split[mask if mask.ndim == 1 else mask[0]] = code
    return split if (split != NO_SPLIT).any() else None
