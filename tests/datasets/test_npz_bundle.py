from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet.datasets import npz_bundle
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError, GraphError
from gnnhet.storage import Graph

ADJACENCY = sp.csr_matrix(np.array([[0, 1, 0], [0, 1, 1], [0, 0, 0]], np.float32))  # 0-1, 1-1, 1-2
ROWS = sp.csr_matrix(np.array([[1, 0], [0, 2], [0, 0]], np.float32))


def csr(prefix: str, matrix: sp.csr_matrix) -> dict[str, Any]:
    shape = np.array(matrix.shape)
    return {
        f"{prefix}data": matrix.data,
        f"{prefix}indices": matrix.indices,
        f"{prefix}indptr": matrix.indptr,
        f"{prefix}shape": shape,
    }


@pytest.mark.parametrize(("adjacency", "rows"), [("adj_", "attr_"), ("adj_matrix.", "attr_matrix."), ("adj.", "attr.")])
def test_csr_forms(tmp_path: Path, adjacency: str, rows: str) -> None:
    arrays: dict[str, Any] = {**csr(adjacency, ADJACENCY), **csr(rows, ROWS), "labels": np.array([1, 0, 1], np.int8)}
    np.savez(tmp_path / "some.npz", **arrays, train_ids=np.array([2]), idx_val=np.array([0]), test_mask=np.array([0, 1, 0]))
    raw = npz_bundle.read(tmp_path / "some.npz")
    src, dst = raw.edges[HOMOGENEOUS]
    assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
    node = raw.features["node"]
    assert node["x"].tolist() == [[1, 0], [0, 2], [0, 0]]
    assert node["x"].dtype == np.float32
    assert (node["y"].tolist(), str(node["y"].dtype)) == ([1, 0, 1], "int64")
    assert node["split"].tolist() == [1, 2, 0]
    assert raw.name == "some"
    Graph.from_raw(raw)


def test_as_stored_is_directed(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", **csr("adj_", ADJACENCY))
    raw = npz_bundle.read(tmp_path / "some.npz", undirected=False)
    src, dst = raw.edges[HOMOGENEOUS]
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (1, 1), (1, 2)]
    assert raw.features["node"] == {}


def test_edge_list_with_several_masks(tmp_path: Path) -> None:
    masks = np.array([[True, False, False, False], [False, False, False, True]])
    np.savez(
        tmp_path / "some.npz",
        edges=np.array([[0, 1], [2, 3]]),
        node_labels=np.array([0, 1, 0, 1]),
        node_features=np.ones((4, 2)),
        train_masks=masks,
        val_masks=np.roll(masks, 1, 1),
        test_masks=np.roll(masks, 2, 1),
    )
    raw = npz_bundle.read(tmp_path / "some.npz")
    assert raw.features["node"]["split"].tolist() == [0, 1, 2, -1]  # of the first masks
    assert raw.features["node"]["x"].dtype == np.float32
    assert raw.edges[HOMOGENEOUS][0].size == 4


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"other": np.ones(3)},
        {"edges": np.ones((2, 2), np.int64)},
        {"edges": np.ones(4, np.int64), "node_labels": np.ones(3)},
        {"adj_indptr": np.array([0, 1])},
        csr("adj_", sp.csr_matrix(np.ones((2, 3)))),
        {**csr("adj_", ADJACENCY), "adj_indices": np.array([0, 1, 77])},
        {**csr("adj_", ADJACENCY), "train_ids": np.array([9])},
        {**csr("adj_", ADJACENCY), "train_masks": np.ones((3, 10), np.bool_)},
        {**csr("adj_", ADJACENCY), "labels": np.array(["a", "b", "c"])},
        {**csr("adj_", ADJACENCY), **csr("attr_", ROWS), "attr_indices": np.array([0, -5])},
    ],
)
def test_arrays_that_are_no_bundle_are_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    np.savez(tmp_path / "some.npz", **arrays)
    with refused(FormatError, tmp_path / "some.npz"):
        npz_bundle.read(tmp_path / "some.npz")


def test_rows_and_ids_that_do_not_fit_are_refused_by_the_graph(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", **csr("adj_", ADJACENCY), labels=np.zeros(7, np.int64))
    with refused(GraphError, "y"):
        Graph.from_raw(npz_bundle.read(tmp_path / "rows.npz"))
    np.savez(tmp_path / "ids.npz", edges=np.array([[0, 9]]), node_labels=np.zeros(3, np.int64))
    with refused(GraphError, "9"):
        Graph.from_raw(npz_bundle.read(tmp_path / "ids.npz"))


def test_objects_and_missing_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", edges=np.array([None, {}], object), node_labels=np.zeros(3))
    with refused(FormatError, tmp_path / "some.npz"):
        npz_bundle.read(tmp_path / "some.npz")
    with refused(FormatError, tmp_path / "gone.npz"):
        npz_bundle.read(tmp_path / "gone.npz")


def test_amazon_photo() -> None:
    raw = npz_bundle.read(shared_data("amazon_photo") / "amazon_photo.npz")
    ends: Any = raw.edges[HOMOGENEOUS]
    src, dst = ends
    node = raw.features["node"]
    assert raw.num_nodes == {"node": 7650}
    assert src.size == 238_163
    assert int((src < dst).sum()) == 119_081
    assert int((src == dst).sum()) == 1
    assert 7650 - np.unique(np.concatenate([src, dst])).size == 115
    assert node["x"].shape == (7650, 745)
    assert [int((node["split"] == part).sum()) for part in (0, 1, 2)] == [4590, 1530, 1530]
    assert np.unique(node["y"]).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "columns", "split"),
    [("minesweeper", 10_000, 39_402, 7, [5000, 2500, 2500]), ("tolokers", 11_758, 519_000, 10, [5879, 2939, 2940])],
)
def test_heterophilous(name: str, nodes: int, edges: int, columns: int, split: list[int]) -> None:
    raw = npz_bundle.read(shared_data("heterophilous") / f"{name}.npz")
    node = raw.features["node"]
    assert raw.num_nodes == {"node": nodes}
    assert raw.edges[HOMOGENEOUS][0].size == 2 * edges
    assert node["x"].shape == (nodes, columns)
    assert [int((node["split"] == part).sum()) for part in (0, 1, 2)] == split
    assert np.unique(node["y"]).tolist() == [0, 1]
