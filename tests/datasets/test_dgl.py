"""Files of DGL, with the real one where it is installed."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.datasets.refusals import refused

from gnnhet.datasets import catalogue
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError, MissingDependencyError, SpecError
from gnnhet.storage import Graph, load_dataset

SRC, DST = torch.tensor([0, 3, 1, 1]), torch.tensor([2, 0, 2, 0])


@pytest.fixture
def dgl() -> Any:
    return pytest.importorskip("dgl", reason="DGL is not installed", exc_type=ImportError)


def test_one_graph_of_a_file(dgl: Any, tmp_path: Path) -> None:
    one = dgl.graph((SRC, DST), num_nodes=5)
    one.ndata["feat"] = torch.rand(5, 3)
    one.ndata["label"] = torch.tensor([0, 1, 0, 1, 1])
    one.ndata["train_mask"] = torch.tensor([True, False, False, True, False])
    one.edata["w"] = torch.arange(8.0).reshape(4, 2)
    dgl.save_graphs(str(tmp_path / "one.bin"), [one])
    graph = Graph.ingest(f"dgl:{tmp_path / 'one.bin'}", tmp_path / "g")
    assert graph.name == "one"
    assert [array.tolist() for array in graph.csc(HOMOGENEOUS)] == [[0, 2, 2, 4, 4, 4], [3, 1, 0, 1]]
    assert np.array_equal(graph.features.array("node", "x"), one.ndata["feat"].numpy())
    assert graph.split_ids("node", "train").tolist() == [0, 3]
    assert graph.features.array(HOMOGENEOUS, "w").tolist() == [[2.0, 3.0], [6.0, 7.0], [0.0, 1.0], [4.0, 5.0]]
    assert load_dataset(f"dgl:{tmp_path / 'one.bin'}").num_edges == graph.num_edges


def test_several_graphs_in_a_file(dgl: Any, tmp_path: Path) -> None:
    typed = dgl.heterograph({("u", "likes", "i"): ([0, 1], [1, 0]), ("i", "of", "u"): ([2], [1])}, {"u": 2, "i": 3})
    file = tmp_path / "a#1.bin"
    dgl.save_graphs(str(file), [dgl.graph((SRC, DST)), typed])
    assert catalogue.read(f"dgl:{file}#0").num_nodes == {"node": 4}
    assert catalogue.read(f"dgl:{file}#1").num_nodes == {"i": 3, "u": 2}
    assert catalogue.source(f"dgl:{file}#1").files == [file]
    with refused(FormatError, file, "one graph", 2, f"{file}#0"):
        catalogue.read(f"dgl:{file}")
    with refused(SpecError, file, "graph 2"):
        catalogue.read(f"dgl:{file}#2")
    file.write_bytes(b"text" * 2000)
    for spec in (f"dgl:{file}", f"dgl:{file}#0"):
        with refused(FormatError, file, "dgl.save_graphs"):
            catalogue.read(spec)


def test_words_that_choose_none(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"")
    for index in ("", "-1", "x", "1.5"):
        with refused(SpecError, "FILE#INDEX", f"a.bin#{index}"):
            catalogue.read(f"dgl:{tmp_path / 'a.bin'}#{index}")
    with refused(FormatError, tmp_path / "gone.bin"):
        catalogue.read(f"dgl:{tmp_path / 'gone.bin'}#0")


def test_without_dgl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bin").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "dgl", None)
    with refused(MissingDependencyError, "dgl"):
        catalogue.read(f"dgl:{tmp_path / 'a.bin'}")
