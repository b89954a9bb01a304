"""Planetoid's raw files, `ind.NAME.{x,tx,allx,y,ty,ally,graph,test.index}` (Yang, Cohen, Salakhutdinov, 2016)."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnnhet.datasets.edges import make_undirected
from gnnhet.datasets.files import existing, one_line
from gnnhet.datasets.pickles import ArrayUnpickler
from gnnhet.datasets.raw import HOMOGENEOUS, NO_SPLIT, NODE, TEST, TRAIN, VAL, RawGraph
from gnnhet.errors import FormatError

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph")
_VALIDATION = 500


def read(folder: str | Path, normalize_features: bool = True) -> RawGraph:
    """Read the one data set of a folder.

    Undirected, duplicates and self loops dropped. The public split: the first `len(y)` nodes train, the next 500 validate,
    `test.index` tests. Rows that `test.index` leaves out (citeseer has some) have features of zero, label -1, no split.

    Args:
        folder: with the eight files.
        normalize_features: make each row of features sum to 1, as Kipf and Welling (2017) do; rows of zeros stay.

    Raises:
        FormatError: a file is missing, damaged, or names anything but arrays.
    """
    place = existing(folder, "a Planetoid folder")
    names = sorted(path.name[len("ind.") : -len(".graph")] for path in place.glob("ind.*.graph"))
    if len(names) != 1:
        raise FormatError(
            f"a Planetoid folder holds one ind.NAME.graph, got {names or 'none'} in {place}: name a folder with one"
        )
    name = names[0]
    parts = {part: _load(place / f"ind.{name}.{part}") for part in _PARTS}
    test = _test_index(place / f"ind.{name}.test.index")
    try:
        return _assemble(name, parts, test, normalize_features)
    except (ValueError, IndexError, AttributeError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(f"the files of {place} must belong together, got {one_line(error)}: restore them") from error


def _load(path: Path) -> Any:
    """One pickle of Python 2, through the restricted unpickler."""
    data = existing(path, "a Planetoid file").read_bytes()
    try:
        return ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise FormatError(f"{path} must be a Planetoid pickle of arrays alone, got {one_line(error)}: restore it") from error


def _test_index(path: Path) -> npt.NDArray[np.int64]:
    """The ids of the test nodes, in the order of `tx`."""
    try:
        return np.array([int(line) for line in existing(path, "a Planetoid file").read_text().split()], np.int64)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{path} must hold one node id a line, got {one_line(error)}: restore it") from error


def _assemble(name: str, parts: dict[str, Any], test: npt.NDArray[np.int64], normalize: bool) -> RawGraph:
    """One graph of the parts."""
    if test.min() < 0:
        raise ValueError(f"the test id {test.min()}")
    known = parts["allx"].shape[0]
    for part, count in {"ally": known, "tx": test.size, "ty": test.size}.items():
        if parts[part].shape[0] != count:  # one row would be taken for all
            raise ValueError(f"{parts[part].shape[0]} rows of {part} for {count} nodes")
    num_nodes = max(int(test.max()) + 1, known, len(parts["graph"]))
    features = np.zeros((num_nodes, parts["allx"].shape[1]), np.float32)
    features[:known] = _dense(parts["allx"])
    features[test] = _dense(parts["tx"])
    if normalize:
        total = features.sum(1, keepdims=True)
        features /= np.where(total == 0, 1, total)
    labels = np.full(num_nodes, -1, np.int64)
    labels[:known] = _classes(parts["ally"])
    labels[test] = _classes(parts["ty"])
    split = np.full(num_nodes, NO_SPLIT, np.int8)
    train = parts["y"].shape[0]
    split[:train] = TRAIN
    split[train : train + _VALIDATION] = VAL
    split[test] = TEST
    pairs = [(node, other) for node, others in parts["graph"].items() for other in others]
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
        raise ValueError(f"an edge to node {int(ends.max())} of {num_nodes}")
    return RawGraph(
        num_nodes={NODE: num_nodes},
        edges={HOMOGENEOUS: make_undirected(ends[:, 0], ends[:, 1], self_loops=False)},
        features={NODE: {"x": features, "y": labels, "split": split}},
        name=name,
    )


def _dense(matrix: Any) -> npt.NDArray[Any]:
    """A CSR matrix with every entry."""
    return np.asarray(matrix.toarray())


def _classes(one_hot: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Classes of one-hot rows; -1 for rows of zeros."""
    return np.where(one_hot.any(1), one_hot.argmax(1), -1).astype(np.int64)
