"""Folders in OGB's layout, held against OGB's own readers."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet import Graph
from gnnhet.datasets import catalogue
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError

RNG = np.random.default_rng(0)
savez: Any = np.savez  # its stubs know no names in a dict
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def table(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, row if isinstance(row, (list, tuple)) else [row])) for row in np.asarray(rows, object).tolist()]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def splits(folder: Path) -> None:
    for part, ids in {"train": [0, 3], "valid": [1], "test": [2]}.items():
        table(folder / f"{part}.csv.gz", [[node] for node in ids])


def text(root: Path) -> Path:
    raw = root / "raw"
    table(raw / "edge.csv.gz", RNG.integers(0, 5, (7, 2)))
    table(raw / "num-node-list.csv.gz", [[5]])
    table(raw / "num-edge-list.csv.gz", [[7]])
    table(raw / "node-feat.csv.gz", RNG.standard_normal((5, 3)))
    table(raw / "edge-feat.csv.gz", RNG.standard_normal((7, 2)))
    table(raw / "node_year.csv.gz", [[2010 + node] for node in range(5)])
    table(raw / "node-label.csv.gz", [["0"], ["2"], ["nan"], ["1"], ["nan"]])
    splits(root / "split" / "time")
    return root


def typed_text(root: Path) -> Path:
    raw = root / "raw"
    table(raw / "num-node-dict.csv.gz", [["author", "paper"], [4, 6]])
    table(raw / "triplet-type-list.csv.gz", [WRITES, CITES])
    for relation, pairs in {WRITES: [[0, 5], [3, 1]], CITES: [[0, 1], [4, 5], [2, 2]]}.items():
        folder = raw / "relations" / "___".join(relation)
        table(folder / "edge.csv.gz", pairs)
        table(folder / "num-edge-list.csv.gz", [[len(pairs)]])
        table(folder / "edge_reltype.csv.gz", [[len(relation[1])]] * len(pairs))
    table(raw / "node-feat" / "paper" / "node-feat.csv.gz", RNG.standard_normal((6, 2)))
    table(raw / "node-feat" / "paper" / "node_year.csv.gz", [[year] for year in range(6)])
    table(raw / "nodetype-has-label.csv.gz", [["author", "paper"], [False, True]])
    table(raw / "node-label" / "paper" / "node-label.csv.gz", [[node % 3] for node in range(6)])
    table(root / "split" / "time" / "nodetype-has-split.csv.gz", [["author", "paper"], [False, True]])
    splits(root / "split" / "time" / "paper")
    return root


def binary(root: Path, save: Callable[..., None] = savez) -> Path:
    raw = root / "raw"
    raw.mkdir(parents=True)
    save(
        raw / "data.npz",
        edge_index=RNG.integers(0, 5, (2, 9)),
        num_nodes_list=np.array([5]),
        num_edges_list=np.array([9]),
        node_feat=RNG.standard_normal((5, 3)).astype(np.float16),
        node_year=np.arange(5)[:, None],
        edge_weight=RNG.standard_normal(9).astype(np.float32),
    )
    savez(raw / "node-label.npz", node_label=np.array([[0.0], [np.nan], [2], [1], [np.nan]], np.float32))
    splits(root / "split" / "time")
    return root


def typed_binary(root: Path) -> Path:
    raw = root / "raw"
    raw.mkdir(parents=True)
    savez(raw / "num_nodes_dict.npz", author=np.array([4]), paper=np.array([6]))
    savez(raw / "num_edges_dict.npz", **{"___".join(WRITES): np.array([3]), "___".join(CITES): np.array([2])})
    pairs = {"___".join(WRITES): RNG.integers(0, 4, (2, 3)), "___".join(CITES): RNG.integers(0, 6, (2, 2))}
    savez(raw / "edge_index_dict.npz", **pairs)
    np.savez_compressed(raw / "node_feat.npz", paper=RNG.standard_normal((6, 2)).astype(np.float32))
    savez(raw / "edge_reltype.npz", **{"___".join(WRITES): np.array([[0], [1], [2]])})
    savez(raw / "node-label.npz", paper=np.arange(6)[:, None])
    return root


def compressed(root: Path) -> Path:
    return binary(root, np.savez_compressed)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found).reshape(-1), np.asarray(expected).reshape(-1))


@pytest.mark.parametrize("write", [text, binary, compressed])
def test_homogeneous_layouts_are_as_ogb_reads_them(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    raw = pytest.importorskip("ogb.io.read_graph_raw", reason="OGB is not installed")
    read_binary_graph_raw, read_csv_graph_raw = raw.read_binary_graph_raw, raw.read_csv_graph_raw

    root = write(tmp_path / "ogbn_small")
    if write is text:
        (expected,) = read_csv_graph_raw(str(root / "raw"), additional_node_files=["node_year"])
    else:
        (expected,) = read_binary_graph_raw(str(root / "raw"))
    found = catalogue.read(f"ogb:{root}")
    assert found.name == "ogbn_small"
    same(found.edges[HOMOGENEOUS], expected["edge_index"])
    same(found.features["node"]["x"], expected["node_feat"])
    same(found.features["node"]["node_year"], expected["node_year"])
    if write is text:
        assert found.edge_features[HOMOGENEOUS]["edge_feat"].shape == expected["edge_feat"].shape
        same(found.edge_features[HOMOGENEOUS]["edge_feat"], expected["edge_feat"])
    else:
        assert found.features["node"]["x"].dtype == np.float16
        same(found.edge_features[HOMOGENEOUS]["edge_weight"], expected["edge_weight"])
    assert found.features["node"]["y"].tolist() == ([0, 2, -1, 1, -1] if write is text else [0, -1, 2, 1, -1])
    assert found.features["node"]["split"].tolist() == [0, 1, 2, 0, -1]
    assert Graph.from_raw(found).num_nodes == {"node": 5}
    same(catalogue.read(f"ogb:{root / 'raw'}").edges[HOMOGENEOUS], expected["edge_index"])


@pytest.mark.parametrize("write", [typed_text, typed_binary])
def test_typed_layouts_are_as_ogb_reads_them(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    raw = pytest.importorskip("ogb.io.read_graph_raw", reason="OGB is not installed")
    read_binary_heterograph_raw, read_csv_heterograph_raw = raw.read_binary_heterograph_raw, raw.read_csv_heterograph_raw

    root = write(tmp_path / "set")
    if write is typed_text:
        (expected,) = read_csv_heterograph_raw(
            str(root / "raw"), additional_node_files=["node_year"], additional_edge_files=["edge_reltype"]
        )
        features = expected["node_feat_dict"]
    else:
        (expected,) = read_binary_heterograph_raw(str(root / "raw"))
        features = expected["node_feat"]
    found = catalogue.read(f"ogb:{root}")
    assert dict(found.num_nodes) == {"author": 4, "paper": 6}
    assert set(found.edges) == set(expected["edge_index_dict"])
    for relation, pairs in expected["edge_index_dict"].items():
        same(found.edges[relation], pairs)
    for relation, values in expected["edge_reltype"].items():
        same(found.edge_features[relation]["edge_reltype"], values)
    same(found.features["paper"]["x"], features["paper"])
    assert "author" not in found.features
    if write is typed_text:
        same(found.features["paper"]["node_year"], expected["node_year"]["paper"])
        assert found.features["paper"]["split"].tolist() == [0, 1, 2, 0, -1, -1]
        assert found.features["paper"]["y"].tolist() == [0, 1, 2, 0, 1, 2]
    assert Graph.from_raw(found).num_edges[CITES] == found.edges[CITES][0].size


def test_sets_whose_files_list_each_edge_once(tmp_path: Path) -> None:
    raw = pytest.importorskip("ogb.io.read_graph_raw", reason="OGB is not installed")
    read_csv_graph_raw = raw.read_csv_graph_raw

    root = text(tmp_path / "ogbn_products")
    (expected,) = read_csv_graph_raw(str(root / "raw"), add_inverse_edge=True)
    source = catalogue.source(f"ogb:{root}")
    pieces = list(source.edges[HOMOGENEOUS].read(4))
    assert max(piece.src.size for piece in pieces) <= 4
    same(np.concatenate([piece.src for piece in pieces]), expected["edge_index"][0])
    same(np.concatenate([piece.dst for piece in pieces]), expected["edge_index"][1])
    same(np.concatenate([piece.values["edge_feat"] for piece in pieces]), expected["edge_feat"])
    assert source.edges[HOMOGENEOUS].count == 14


def test_many_graphs_are_parts_of_one() -> None:
    raw = pytest.importorskip("ogb.io.read_graph_raw", reason="OGB is not installed")
    read_csv_graph_raw = raw.read_csv_graph_raw

    root = shared_data("ogb_molbace")
    graphs = read_csv_graph_raw(str(root / "raw"))
    found = catalogue.read(f"ogb:{root}")
    first = np.concatenate([[0], np.cumsum([graph["num_nodes"] for graph in graphs])])
    expected = np.concatenate([graph["edge_index"] + begin for graph, begin in zip(graphs, first, strict=False)], axis=1)
    same(found.edges[HOMOGENEOUS], expected)
    assert found.features["node"]["graph"].tolist() == [
        number for number, graph in enumerate(graphs) for _ in range(graph["num_nodes"])
    ]
    same(found.features["node"]["x"], np.concatenate([graph["node_feat"] for graph in graphs]))
    assert "split" not in found.features["node"]


@pytest.mark.parametrize("values", [torch.tensor, np.array])
def test_splits_that_torch_saved(tmp_path: Path, values: Callable[[list[int]], Any]) -> None:
    root = text(tmp_path / "set")
    split = {part: values(ids) for part, ids in {"train": [4], "valid": [0, 1], "test": [2]}.items()}
    torch.save(split, root / "split" / "time" / "split_dict.pt")
    assert catalogue.read(f"ogb:{root}").features["node"]["split"].tolist() == [1, 1, 2, -1, 0]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_pieces_are_read_again(tmp_path: Path, most: int) -> None:
    for number, write in enumerate((text, binary, compressed)):
        source = catalogue.source(f"ogb:{write(tmp_path / f'set{number}')}", memory=1 << 30, threads=1)
        stream = source.edges[HOMOGENEOUS]
        first, again = ([piece.dst.tolist() for piece in stream.read(most)] for _ in range(2))
        assert first == again
        assert all(0 < len(piece) <= most for piece in first)
        rows = np.concatenate(list(source.features["node"]["x"].read(most)))
        assert rows.shape == source.features["node"]["x"].shape


def replaced(path: Path, old: bytes, new: bytes) -> None:
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new, 1)))


def break_counts(root: Path) -> None:
    replaced(root / "raw" / "num-edge-list.csv.gz", b"7", b"8")


def break_fewer(root: Path) -> None:
    replaced(root / "raw" / "num-edge-list.csv.gz", b"7", b"6")


def break_line(root: Path) -> None:
    replaced(root / "raw" / "node_year.csv.gz", b"2012", b"20x2")


def break_columns(root: Path) -> None:
    replaced(root / "raw" / "node_year.csv.gz", b"2012", b"2012,1")


def break_archive(root: Path) -> None:
    file = root / "raw" / "edge.csv.gz"
    file.write_bytes(file.read_bytes()[:-9])


def break_labels(root: Path) -> None:
    replaced(root / "raw" / "node-label.csv.gz", b"nan", b"0.5")


def break_split(root: Path) -> None:
    table(root / "split" / "time" / "test.csv.gz", [[5]])


def break_splits(root: Path) -> None:
    (root / "split" / "other").mkdir()


def break_pickle(root: Path) -> None:
    torch.save({"train": Path("x")}, root / "split" / "time" / "split_dict.pt")


def break_missing(root: Path) -> None:
    (root / "raw" / "edge.csv.gz").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (break_counts, "edge-feat.csv.gz must have 8 lines, as the counts beside it say, got 7"),
        (break_fewer, "must have 6 lines, as the counts beside it say, got more"),
        (break_line, "node_year.csv.gz line 3 must be 1 integers parted by commas, got '20x2'"),
        (break_columns, "line 3"),
        (break_archive, "edge.csv.gz must be a whole file"),
        (break_labels, "node-label.csv.gz must hold classes"),
        (break_split, "must name nodes 0 to 4"),
        (break_splits, "must hold one split"),
        (break_pickle, "split_dict.pt"),
        (break_missing, "must hold one of edge.csv.gz"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    root = text(tmp_path / "set")
    damage(root)
    if damage is break_counts:
        (root / "raw" / "edge.csv.gz").write_bytes(gzip.compress(b"0,1\n" * 8))
    with refused(FormatError, root, said):
        catalogue.read(f"ogb:{root}")


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    root = binary(tmp_path / "set")
    file = root / "raw" / "data.npz"
    content = file.read_bytes()
    for broken in (content[:-30], content[:40], b"", content.replace(b"PK\x03\x04", b"PK\x03\x05")):
        file.write_bytes(broken)
        with refused(FormatError, file):
            catalogue.read(f"ogb:{root}")
    for arrays, said in (
        ({"edge_index": np.zeros((3, 9), int)}, "[2, edges]"),
        ({"node_feat": np.zeros((4, 2))}, "a row for each node, 5"),
        ({"node_feat": np.array([{}] * 5)}, "numbers"),
        ({"node_feat": np.asfortranarray(np.zeros((5, 2)))}, "C order"),
        ({"num_nodes_list": np.array([5, 5])}, "as many graphs"),
    ):
        good = {"edge_index": np.zeros((2, 9), int), "num_nodes_list": np.array([5]), "num_edges_list": np.array([9])}
        savez(file, **{**good, **arrays})
        with refused(FormatError, root / "raw", said):
            catalogue.read(f"ogb:{root}")


def test_names_never_leave_the_folder(tmp_path: Path) -> None:
    root = typed_text(tmp_path / "set")
    table(root / "raw" / "triplet-type-list.csv.gz", [("..", "writes", "paper")])
    with refused(FormatError, "triplet-type-list.csv.gz"):
        catalogue.read(f"ogb:{root}")


def test_stored_members_are_not_copied(tmp_path: Path) -> None:
    root = binary(tmp_path / "set")
    with zipfile.ZipFile(root / "raw" / "data.npz") as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    from gnnhet.datasets.npz_members import open_members
    from gnnhet.datasets.tables.npy import NpyFile

    assert all(isinstance(member, NpyFile) for member in open_members(root / "raw" / "data.npz").values())
