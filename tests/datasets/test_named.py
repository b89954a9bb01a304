import builtins
import gzip
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet.datasets import catalogue, named, planetoid
from gnnhet.datasets.raw import HOMOGENEOUS, RawGraph
from gnnhet.errors import FormatError, MissingDependencyError
from gnnhet.storage import Graph

SPLIT = {"train": np.array([0, 2]), "valid": np.array([1]), "test": np.array([3])}


def test_ogb_dict_of_one_type() -> None:
    graph = {"edge_index": np.array([[0, 1, 2], [1, 2, 3]]), "num_nodes": 4, "node_feat": np.ones((4, 2), np.float32)}
    raw = named.from_ogb("some", graph, np.array([[0], [2], [1], [0]]), SPLIT)
    assert raw.num_nodes == {"node": 4}
    assert [end.tolist() for end in raw.edges[HOMOGENEOUS]] == [[0, 1, 2], [1, 2, 3]]
    node = raw.features["node"]
    assert (node["y"].tolist(), str(node["y"].dtype)) == ([0, 2, 1, 0], "int64")
    assert node["split"].tolist() == [0, 1, 0, 2]
    assert node["x"].shape == (4, 2)
    Graph.from_raw(raw)


def test_ogb_dict_without_features_and_with_several_tasks() -> None:
    graph = {"edge_index": np.array([[0], [1]]), "num_nodes": 4, "node_feat": None}
    node = named.from_ogb("some", graph, np.zeros((4, 112), np.int64), SPLIT).features["node"]
    assert set(node) == {"y", "split"}
    assert node["y"].shape == (4, 112)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ogb_labels_that_are_nan_become_none(dtype: type[np.floating[Any]]) -> None:
    graph = {"edge_index": np.array([[0], [1]]), "num_nodes": 4, "node_feat": None}
    labels = np.array([[3], [np.nan], [0], [np.nan]], dtype)
    raw = named.from_ogb("some", graph, labels, SPLIT)
    assert raw.features["node"]["y"].tolist() == [3, -1, 0, -1]
    assert raw.features["node"]["y"].dtype == np.int64
    assert Graph.from_raw(raw).split_ids("node", "val").size == 0


def test_ogb_dict_of_several_types() -> None:
    graph = {
        "edge_index_dict": {
            ("author", "writes", "paper"): np.array([[0, 1], [3, 0]]),
            ("paper", "cites", "paper"): np.array([[0], [1]]),
        },
        "num_nodes_dict": {"author": 2, "paper": 4},
        "node_feat_dict": {"paper": np.ones((4, 3), np.float32)},
    }
    labels = {"paper": np.array([[1.0], [np.nan], [0.0], [2.0]])}
    raw = named.from_ogb("some", graph, labels, {part: {"paper": ids} for part, ids in SPLIT.items()})
    assert raw.num_nodes == {"author": 2, "paper": 4}
    assert set(raw.edges) == {("author", "writes", "paper"), ("paper", "cites", "paper")}
    assert set(raw.features) == {"paper"}
    assert raw.features["paper"]["y"].tolist() == [1, -1, 0, 2]
    assert raw.features["paper"]["split"].tolist() == [0, 1, 0, 2]
    assert Graph.from_raw(raw).target_type == "paper"


def arxiv(root: Path) -> Path:
    """Raw files as OGB's archive of ogbn-arxiv has them, of four nodes."""
    folder = root / "ogb" / "ogbn_arxiv"
    files = {
        "raw/edge.csv.gz": "0,1\n1,2\n2,3\n",
        "raw/num-node-list.csv.gz": "4\n",
        "raw/num-edge-list.csv.gz": "3\n",
        "raw/node-feat.csv.gz": "0.5,1\n1,0\n0,0\n1,1\n",
        "raw/node-label.csv.gz": "0\n1\n2\n1\n",
        "raw/node_year.csv.gz": "2001\n2002\n2003\n2004\n",
        "split/time/train.csv.gz": "0\n2\n",
        "split/time/valid.csv.gz": "1\n",
        "split/time/test.csv.gz": "3\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode()))
    (folder / "processed").mkdir()
    (folder / "RELEASE_v1.txt").touch()
    return folder


def test_ogb_files_are_read_and_read_again_from_what_was_saved(tmp_path: Path) -> None:
    pytest.importorskip("ogb", reason="the package ogb is not installed")
    folder = arxiv(tmp_path)

    def check(raw: RawGraph) -> None:
        assert raw.num_nodes == {"node": 4}
        assert [end.tolist() for end in raw.edges[HOMOGENEOUS]] == [[0, 1, 2], [1, 2, 3]]
        assert raw.features["node"]["y"].tolist() == [0, 1, 2, 1]
        assert raw.features["node"]["split"].tolist() == [0, 1, 0, 2]
        assert raw.features["node"]["x"].tolist() == [[0.5, 1], [1, 0], [0, 0], [1, 1]]

    check(catalogue.read("ogbn-arxiv", str(tmp_path)))
    shutil.rmtree(folder / "raw")
    check(catalogue.read("ogbn-arxiv", str(tmp_path)))
    (folder / "processed" / "data_processed").write_bytes(b"text")
    with refused(FormatError, "ogbn-arxiv", tmp_path):
        catalogue.read("ogbn-arxiv", str(tmp_path))


def test_ogb_never_deletes_files_of_another_release(tmp_path: Path) -> None:
    pytest.importorskip("ogb", reason="the package ogb is not installed")
    folder = arxiv(tmp_path)
    (folder / "RELEASE_v1.txt").unlink()
    catalogue.read("ogbn-arxiv", str(tmp_path))
    assert (folder / "raw" / "edge.csv.gz").exists()


def test_without_ogb_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with refused(MissingDependencyError, "ogbn-products", "pip install 'gnnhet[ogb]'"):
        catalogue.read("ogbn-products", str(tmp_path))


def test_cora_through_pyg_is_what_the_raw_files_hold(tmp_path: Path) -> None:
    raw_folder = tmp_path / "pyg" / "cora" / "Cora" / "raw"
    shutil.copytree(shared_data("cora"), raw_folder)
    found, expected = catalogue.read("cora", str(tmp_path)), planetoid.read(raw_folder)
    for name, array in expected.features["node"].items():
        assert np.allclose(np.asarray(found.features["node"][name]), np.asarray(array), atol=1e-6), name
    pairs = [set(zip(*(end.tolist() for end in raw.edges[HOMOGENEOUS]), strict=True)) for raw in (found, expected)]
    assert pairs[0] == pairs[1]
    assert found.edges[HOMOGENEOUS][0].size == 10_556
    assert found.name == "cora"


@pytest.mark.parametrize("name", sorted(named.PYG_SETS))
def test_a_loader_that_fails_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()  # no folder can be made under it, so that no loader reaches the network
    ask, before = builtins.input, socket.getdefaulttimeout()
    with refused(FormatError, name, tmp_path / "file", "--root"):
        catalogue.read(name, str(tmp_path / "file"))
    assert builtins.input is ask
    assert socket.getdefaulttimeout() == before


def test_a_question_is_answered_and_time_outs_are_set_while_fetching(tmp_path: Path) -> None:
    with named._fetching("some", tmp_path):
        assert socket.getdefaulttimeout() == named._TIMEOUT_S
        assert input("This will download 1.38GB. Will you proceed? (y/N)\n") == "y"
        assert input("Will you update the dataset now? (y/N)\n") == "n"
    assert socket.getdefaulttimeout() is None


def test_a_silent_server_does_not_hold_planetoid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.config import conf  # type: ignore[import-untyped]
    from torch_geometric.datasets import Planetoid

    monkeypatch.setattr(named, "_TIMEOUT_S", 0.3)
    before = dict(conf)
    with socket.create_server(("127.0.0.1", 0)) as server:  # its backlog takes the connection; nobody answers
        monkeypatch.setattr(Planetoid, "url", f"http://127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        with refused(FormatError, "cora", tmp_path, "--root"):
            catalogue.read("cora", str(tmp_path))
    assert time.monotonic() - began < 30
    assert conf == before


@pytest.mark.parametrize("error", [OSError("a\nb"), EOFError(), ValueError("x" * 999), TimeoutError("timed out")])
def test_whatever_fails_while_fetching_is_one_line(tmp_path: Path, error: Exception) -> None:
    with refused(FormatError, "some", tmp_path), named._fetching("some", tmp_path):
        raise error
