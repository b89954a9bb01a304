"""Pairs of `.npy` files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.datasets.source import to_raw
from gnnhet.datasets.tables import source
from gnnhet.errors import FormatError, SpecError


def save(folder: Path, **arrays: object) -> Path:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array))
    return folder


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", ">i4"])
def test_pair_with_everything(tmp_path: Path, dtype: str) -> None:
    src, dst = np.array([0, 1, 2, 0], dtype), np.array([1, 2, 0, 3], dtype)
    weight, time = np.array([0.5, 1, 2, 3], np.float32), np.arange(4)
    x, y, split = np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, -1], np.int32), np.array([0, 1, 2, -1])
    found = source(save(tmp_path, src=src, dst=dst, weight=weight, time=time, x=x, y=y, split=split))
    assert found.num_nodes == {"node": 4}
    pieces = list(found.edges[HOMOGENEOUS].read(3))
    assert [piece.src.size for piece in pieces] == [3, 1]
    raw = to_raw(found)
    np.testing.assert_array_equal(raw.edges[HOMOGENEOUS][0], src.astype(np.int64))
    np.testing.assert_array_equal(raw.edges[HOMOGENEOUS][1], dst.astype(np.int64))
    np.testing.assert_array_equal(raw.edge_features[HOMOGENEOUS]["weight"], weight)
    np.testing.assert_array_equal(raw.edge_features[HOMOGENEOUS]["time"], time)
    np.testing.assert_array_equal(raw.features["node"]["x"], x)
    assert raw.features["node"]["y"].dtype == np.int64
    assert raw.features["node"]["split"].dtype == np.int8
    graph = Graph.from_raw(raw)
    assert graph.num_edges == {HOMOGENEOUS: 4}
    np.testing.assert_array_equal(graph.split_ids("node", "train"), [0])


@given(edges=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99))), most=st.integers(1, 9))
@settings(deadline=None, max_examples=50)
def test_any_pair_twice(tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]], most: int) -> None:
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    stream = source(save(tmp_path_factory.mktemp("pair"), src=pairs[:, 0].copy(), dst=pairs[:, 1].copy())).edges[HOMOGENEOUS]
    for _ in range(2):
        pieces = list(stream.read(most))
        assert all(0 < piece.src.size <= most for piece in pieces)
        assert [edge for piece in pieces for edge in zip(piece.src.tolist(), piece.dst.tolist(), strict=True)] == edges
    assert stream.count == len(edges)


def test_nodes_are_counted_by_an_option_or_by_the_edges(tmp_path: Path) -> None:
    save(tmp_path, src=[0, 5], dst=[1, 1])
    assert source(tmp_path).num_nodes == {"node": None}
    assert to_raw(source(tmp_path)).num_nodes == {"node": 6}
    assert source(tmp_path, num_nodes=9).num_nodes == {"node": 9}
    save(tmp_path, x=np.zeros((7, 1)))
    with refused(SpecError, "x.npy", 7, 9):
        source(tmp_path, num_nodes=9)


def test_refusals(tmp_path: Path) -> None:
    with refused(FormatError, "nowhere"):
        source(tmp_path / "nowhere")
    save(tmp_path, src=[0, 5])
    with refused(FormatError, "dst.npy"):
        source(tmp_path)
    save(tmp_path, dst=[1])
    with refused(FormatError, "dst.npy", 2, 1):
        source(tmp_path)
    save(tmp_path, dst=[0.5, 1])
    with refused(FormatError, "dst.npy", "float64"):
        source(tmp_path)
    save(tmp_path, dst=[[0, 1]])
    with refused(FormatError, "dst.npy", "(1, 2)"):
        source(tmp_path)
    np.save(tmp_path / "dst.npy", np.array([print, 1], object), allow_pickle=True)
    with refused(FormatError, "dst.npy", "object"):
        source(tmp_path)
    save(tmp_path, dst=[0, 1])
    whole = (tmp_path / "dst.npy").read_bytes()
    for size in (0, 5, 20, len(whole) - 1):
        (tmp_path / "dst.npy").write_bytes(whole[:size])
        with refused(FormatError, "dst.npy"):
            source(tmp_path)
    (tmp_path / "dst.npy").write_bytes(whole)
    save(tmp_path, split=[0, 7, 0, 0, 0, 0])
    with refused(FormatError, "split.npy"):
        to_raw(source(tmp_path))
    save(tmp_path, split=[0, 0, 0, 0, 0, 0], y=[1])
    with refused(FormatError, "split.npy", 1, 6):
        source(tmp_path)
    np.save(tmp_path / "x.npy", np.asfortranarray(np.zeros((6, 2))))
    with refused(FormatError, "x.npy", "Fortran"):
        source(tmp_path)


def test_a_file_cut_while_it_is_read(tmp_path: Path) -> None:
    save(tmp_path, src=np.zeros(100, np.int64), dst=np.zeros(100, np.int64))
    found = source(tmp_path)
    whole = (tmp_path / "dst.npy").read_bytes()
    (tmp_path / "dst.npy").write_bytes(whole[:-8])
    with refused(FormatError, "dst.npy", 100):
        list(found.edges[HOMOGENEOUS].read(7))


def test_options_nobody_knows(tmp_path: Path) -> None:
    with refused(SpecError, "frist"):
        source(tmp_path, frist=True)
    with refused(SpecError, "on_error", "ignore"):
        source(tmp_path, on_error="ignore")
