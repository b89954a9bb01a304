"""Folders of GraphBolt, as its documentation lays them out."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tests.datasets.refusals import refused

from gnnhet import Graph
from gnnhet.datasets import catalogue, graphbolt
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.datasets.source import to_raw
from gnnhet.errors import FormatError, MissingDependencyError
from gnnhet.storage import load_dataset, verify

PAIRS = np.array([[0, 1], [4, 1], [2, 0], [3, 3], [1, 0], [0, 4]])  # of 5 nodes
X = np.arange(15, dtype=np.float32).reshape(5, 3)
EDGE_ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)
LIKES, FOLLOWS = ("user", "likes", "item"), ("user", "follows", "user")


def put(root: Path, path: str, values: Any) -> dict[str, Any]:
    """Write a file by the ending of its path; what the document says of it."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".csv"):
        np.savetxt(file, values, fmt="%d", delimiter=",")
        return {"format": "csv", "path": path}
    if path.endswith(".pt"):
        torch.save(values if isinstance(values, torch.Tensor) else torch.as_tensor(np.asarray(values)), file)
        return {"format": "torch", "path": path, "in_memory": False}
    np.save(file, np.asarray(values))
    return {"format": "numpy", "path": path}


def document(root: Path, content: Any, folder: str = "") -> Path:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "metadata.yaml").write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return root


def nodes_task(root: Path, kind: str = "npy", node_type: str | None = None) -> dict[str, Any]:
    typed = {} if node_type is None else {"type": node_type}
    sets = {"train_set": ([4, 0], [1, 2]), "validation_set": ([2], [0]), "test_set": ([1], [1])}
    return {
        "name": "node_classification",
        "num_classes": 3,
        **{
            key: [
                {
                    **typed,
                    "data": [
                        {"name": "seeds", **put(root, f"set/{key}-ids.{kind}", np.array(ids))},
                        {"name": "labels", **put(root, f"set/{key}-labels.{kind}", np.array(labels))},
                    ],
                }
            ]
            for key, (ids, labels) in sets.items()
        },
    }


def one_type(root: Path, edges: str = "edges.npy", kind: str = "npy") -> dict[str, Any]:
    given = PAIRS if edges.endswith(".csv") else PAIRS.T
    link = {"train_set": [{"data": [{"name": "seeds", **put(root, "set/links.npy", PAIRS)}]}]}
    return {
        "dataset_name": "five",
        "graph": {"nodes": [{"num": 5}], "edges": [put(root, edges, given)]},
        "feature_data": [
            {"domain": "node", "type": None, "name": "feat", **put(root, f"node.{kind}", X)},
            {"domain": "node", "name": "year", **put(root, f"year.{kind}", np.arange(5))},
            {"domain": "edge", "name": "feat", **put(root, f"edge.{kind}", EDGE_ROWS)},
            {"domain": "edge", "name": "weight", **put(root, f"weight.{kind}", np.arange(6, dtype=np.float16))},
        ],
        "tasks": [{"name": "links", **link}, nodes_task(root, kind)],
    }


@pytest.mark.parametrize("kind", ["npy", "pt"])
@pytest.mark.parametrize("edges", ["edges.csv", "edges.npy"])
def test_one_node_type(edges: str, kind: str, tmp_path: Path) -> None:
    document(tmp_path, one_type(tmp_path, edges, kind))
    source = graphbolt.source(tmp_path)
    assert source.name == "five"
    stream = source.edges[HOMOGENEOUS]
    assert stream.count == 6
    for most in (1, 4, 9):
        pieces = list(stream.read(most))
        assert all(0 < piece.src.size <= most for piece in pieces)
        assert [pair for piece in pieces for pair in zip(piece.src.tolist(), piece.dst.tolist(), strict=True)] == [
            tuple(pair) for pair in PAIRS.tolist()
        ]
        assert np.array_equal(np.concatenate([piece.values["feat"] for piece in pieces]), EDGE_ROWS)
        split = np.concatenate(list(source.features["node"]["split"].read(most)))
        assert split.tolist() == [0, 2, 1, -1, 0]
        assert np.concatenate(list(source.features["node"]["y"].read(most))).tolist() == [2, 1, 0, -1, 1]
    graph = Graph.ingest(f"graphbolt:{tmp_path}", tmp_path / "g")
    order = np.argsort(PAIRS[:, 1], kind="stable")
    assert graph.num_nodes == {"node": 5}
    assert np.array_equal(graph.csc(HOMOGENEOUS)[1], PAIRS[order, 0])
    assert np.array_equal(graph.features.array(HOMOGENEOUS, "feat"), EDGE_ROWS[order])
    assert graph.features.array(HOMOGENEOUS, "weight").dtype == np.float16
    assert graph.features.array(HOMOGENEOUS, "weight").tolist() == order.tolist()
    assert np.array_equal(graph.features.array("node", "x"), X)
    assert graph.features.array("node", "year").tolist() == [0, 1, 2, 3, 4]
    assert graph.features.array("node", "y").dtype == np.int64
    assert graph.split_ids("node", "train").tolist() == [0, 4]
    assert verify(tmp_path / "g").problems == ()
    held = load_dataset(f"graphbolt:{tmp_path}")
    assert np.array_equal(held.csc(HOMOGENEOUS)[1], graph.csc(HOMOGENEOUS)[1])
    assert np.array_equal(held.features.array(HOMOGENEOUS, "feat"), EDGE_ROWS[order])


def test_several_types(tmp_path: Path) -> None:
    likes, follows = np.array([[0, 1, 2], [1, 0, 1]]), np.array([[2, 0], [0, 1]])
    half = torch.tensor([[1.5, 2.0], [3.0, -1.0], [0.0, 0.25]], dtype=torch.bfloat16)
    labels = torch.tensor([[0.5, 1.0], [2.0, 3.0]])
    document(
        tmp_path,
        {
            "graph": {
                "nodes": [{"type": "user", "num": 3}, {"type": "item", "num": 2}],
                "edges": [
                    {"type": ":".join(LIKES), **put(tmp_path, "likes.npy", likes.astype(">i4"))},
                    {"type": ":".join(FOLLOWS), **put(tmp_path, "follows.csv", follows.T)},
                ],
                "feature_data": [{"domain": "edge", "type": ":".join(LIKES), "name": "p", **put(tmp_path, "p.npy", [0.5, 1, 2])}],
            },
            "feature_data": [
                {"domain": "edge", "type": ":".join(LIKES), "name": "p", **put(tmp_path, "p.npy", [0.5, 1, 2])},
                {"domain": "edge", "type": ":".join(LIKES), "name": "half", **put(tmp_path, "half.pt", half)},
                {"domain": "node", "type": "user", "name": "feat", **put(tmp_path, "user.pt", half)},
                {"domain": "node", "type": "item", "name": "feat", **put(tmp_path, "item.npy", [3, 4])},
                {"domain": "graph", "name": "age", **put(tmp_path, "age.npy", [7])},
            ],
            "tasks": [
                {
                    "train_set": [
                        {"type": ":".join(LIKES), "data": [{"name": "seeds", **put(tmp_path, "links.npy", likes.T)}]},
                        {
                            "type": "item",
                            "data": [
                                {"name": "seed_nodes", **put(tmp_path, "items.pt", np.array([1, 0]))},
                                {"name": "labels", **put(tmp_path, "item-labels.pt", labels)},
                            ],
                        },
                        {"type": "user", "data": [{"name": "seeds", **put(tmp_path, "users.npy", np.array([2], np.int32))}]},
                    ]
                },
                {"train_set": [{"type": "user", "data": [{"name": "seeds", **put(tmp_path, "other.npy", [0, 1])}]}]},
            ],
        },
    )
    graph = Graph.ingest(f"graphbolt:{tmp_path}", tmp_path / "g")
    assert graph.name == tmp_path.name
    assert graph.num_nodes == {"item": 2, "user": 3}
    assert graph.csc(LIKES)[1].tolist() == [1, 0, 2]
    assert graph.csc(FOLLOWS)[1].tolist() == [2, 0]
    assert torch.equal(graph.features.gather(LIKES, "half", np.arange(3)), half[[1, 0, 2]])
    assert graph.features.array(LIKES, "p").tolist() == [1, 0.5, 2]
    assert torch.equal(graph.features.gather("user", "x", np.arange(3)), half)
    assert graph.features.gather("item", "x", np.arange(2)).tolist() == [[3.0], [4.0]]
    assert graph.features.array("item", "y").tolist() == [[2.0, 3.0], [0.5, 1.0]]
    assert graph.features.array("user", "split").tolist() == [-1, -1, 0]  # of the first task
    assert graph.features.names("user") == ["split", "x"]


@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[:2], PAIRS[:0]])
def test_edges_in_either_order_of_axes(pairs: np.ndarray, tmp_path: Path) -> None:
    entries = {"c.npy": np.ascontiguousarray(pairs.T), "f.npy": np.asfortranarray(pairs.T)}
    for name, array in entries.items():
        np.save(tmp_path / name, array)
        document(tmp_path, {"graph": {"nodes": [{"num": 5}], "edges": [{"format": "numpy", "path": name}]}})
        for most in (1, 100):
            pieces = list(graphbolt.source(tmp_path).edges[HOMOGENEOUS].read(most))
            assert [edge for piece in pieces for edge in zip(piece.src, piece.dst, strict=True)] == [tuple(p) for p in pairs]


def test_classes_with_gaps_and_features_of_the_reserved_names(tmp_path: Path) -> None:
    content = one_type(tmp_path)
    np.save(tmp_path / "set/train_set-labels.npy", np.array([[np.nan], [2.0]]))
    raw = to_raw(graphbolt.source(document(tmp_path, content)))
    assert raw.features["node"]["y"].tolist() == [2, 1, 0, -1, -1]
    content["feature_data"] += [
        {"domain": "node", "name": "y", **put(tmp_path, "y.npy", np.arange(5))},
        {"domain": "node", "name": "x", **put(tmp_path, "x.npy", np.arange(5))},
    ]
    raw = to_raw(graphbolt.source(document(tmp_path, content)))
    assert raw.features["node"]["y"].tolist() == [0, 1, 2, 3, 4]
    assert raw.features["node"]["x"].tolist() == [[0], [1], [2], [3], [4]]
    assert np.array_equal(raw.features["node"]["feat"], X)
    assert raw.features["node"]["split"].tolist() == [0, 2, 1, -1, 0]


def test_the_preprocessed_form(tmp_path: Path) -> None:
    content = one_type(tmp_path)
    made = {key: value for key, value in content.items() if key != "graph"}
    made["graph_topology"] = {"type": "FusedCSCSamplingGraph", "path": "preprocessed/fused_csc_sampling_graph.pt"}
    document(tmp_path, made, "preprocessed")
    for place in (tmp_path, tmp_path / "preprocessed"):  # nothing else is left
        with refused(FormatError, tmp_path / "preprocessed" / "metadata.yaml", "key graph", "graph_topology"):
            graphbolt.source(place)
    document(tmp_path, content)
    for place in (tmp_path, tmp_path / "preprocessed"):
        assert to_raw(graphbolt.source(place)).edges[HOMOGENEOUS][0].tolist() == PAIRS[:, 0].tolist()
    (tmp_path / "edges.npy").unlink()
    with refused(FormatError, tmp_path / "edges.npy"):
        graphbolt.source(tmp_path / "preprocessed")


def changed(content: dict[str, Any], *keys: Any) -> dict[str, Any]:
    place = content
    for key in keys[:-2]:
        place = place[key]
    place[keys[-2]] = keys[-1]
    return content


SEEDS = ("tasks", 1, "train_set", 0, "data", 0, "path")
LABELS = ("tasks", 1, "train_set", 0, "data", 1, "path")


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        (("graph", "nodes", 0, "num", -1), ["graph.nodes[0].num", "0 or more", -1]),
        (("graph", "nodes", 0, "num", True), ["graph.nodes[0].num", True]),
        (("graph", "nodes", 0, "type", "a"), ["graph.edges[0].type", "node types a"]),
        (("graph", "nodes", [{"num": 5}, {"num": 6}]), ["graph.nodes[1].type"]),
        (("graph", "nodes", 5), ["graph.nodes", "list of mappings", 5]),
        (("graph", [1]), ["graph", "a mapping"]),
        (("graph", "edges", 0, "type", "a:b"), ["graph.edges[0].type", "source:name:destination", "a:b"]),
        (("graph", "edges", 0, "format", "parquet"), ["graph.edges[0].format", "csv or numpy", "parquet"]),
        (("graph", "edges", 0, "path", "../edges.npy"), ["graph.edges[0].path", "within the folder", "../edges.npy"]),
        (("graph", "edges", 0, "path", "/etc/passwd"), ["within the folder", "/etc/passwd"]),
        (("graph", "edges", 0, "path", "C:\\edges.npy"), ["within the folder"]),
        (("graph", "edges", 0, "path", "a\\..\\..\\b"), ["within the folder"]),
        (("graph", "edges", 0, "path", None), ["graph.edges[0].path", "nothing"]),
        (("graph", "edges", 0, "path", "gone.npy"), ["gone.npy", "check the path"]),
        (("graph", "edges", 0, "path", "node.npy"), ["node.npy", "integers", "float32"]),
        (("graph", "edges", 0, "path", "set/links.npy"), ["links.npy", "[2, edges]", "(6, 2)"]),
        (("feature_data", 0, "path", "edge.npy"), ["feature_data[0].path", "row for each node, 5", "with 6"]),
        (("feature_data", 2, "path", "node.npy"), ["feature_data[2].path", "row for each edge, 6", "with 5"]),
        (("feature_data", 0, "format", "csv"), ["feature_data[0].format", "numpy or torch"]),
        (("feature_data", 0, "domain", "link"), ["feature_data[0].domain", "node or edge"]),
        (("feature_data", 0, "name", None), ["feature_data[0].name", "nothing"]),
        (("feature_data", 1, "name", "feat"), ["feature_data[1].name", "name of its own"]),
        (("feature_data", 0, "type", "user"), ["feature_data[0].type", "node types node", "user"]),
        (("feature_data", 2, "type", "node:of:node"), ["feature_data[2].type", "edge types"]),
        (("feature_data", 0, "format", "torch"), ["node.npy", "tensor"]),
        (("tasks", 1, "train_set", 0, "type", "user"), ["tasks[1].train_set[0].type", "user"]),
        ((*SEEDS, "node.npy"), []),
        ((*SEEDS, "weight.npy"), ["tasks[1].train_set[0].data[0].path", "integers", "float16"]),
        ((*LABELS, "year.npy"), ["tasks[1].train_set[0].data[1].path", "row for each seed, 2", "with 5"]),
    ],
)
def test_documents_that_say_what_cannot_be(keys: tuple[Any, ...], parts: list[Any], tmp_path: Path) -> None:
    document(tmp_path, changed(one_type(tmp_path), *keys))
    if not parts:  # seeds of two axes are pairs
        assert "split" in graphbolt.source(tmp_path).features["node"]
        return
    with refused(FormatError, *parts):
        graphbolt.source(tmp_path)


def test_seeds_and_classes_that_cannot_be(tmp_path: Path) -> None:
    content = document(tmp_path, one_type(tmp_path))
    for ids in ([4, 5], [-1, 0]):
        np.save(tmp_path / "set/train_set-ids.npy", np.array(ids))
        with refused(FormatError, "data[0].path", "0 to 4", "train_set-ids.npy"):
            graphbolt.source(content)
    np.save(tmp_path / "set/train_set-ids.npy", np.array([4, 0]))
    for labels in ([0.5, 1], [np.inf, 1]):
        np.save(tmp_path / "set/train_set-labels.npy", np.array(labels))
        with refused(FormatError, "data[1].path", "whole numbers", "train_set-labels.npy"):
            graphbolt.source(content)
    np.save(tmp_path / "set/train_set-labels.npy", np.zeros((2, 3)))
    with refused(FormatError, "tasks[1].train_set", "wide"):
        graphbolt.source(content)


def test_files_of_other_things(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "gone"):
        graphbolt.source(tmp_path / "gone")
    with refused(FormatError, tmp_path, "metadata.yaml"):
        graphbolt.source(tmp_path)
    for text in ("- a\n", "graph: [\n", "a: !!python/object/apply:os.getcwd []\n", "a: 2001-99-99\n", "\x00"):
        with refused(FormatError, "metadata.yaml"):
            graphbolt.source(document(tmp_path, text))
    content = document(tmp_path, one_type(tmp_path, kind="pt"))
    whole = (tmp_path / "node.pt").read_bytes()
    for broken in (b"", whole[:300], b"text"):
        (tmp_path / "node.pt").write_bytes(broken)
        with refused(FormatError, tmp_path / "node.pt", "tensor"):
            graphbolt.source(content)
    for other in ({"a": torch.ones(2)}, torch.tensor(1.0), torch.eye(5).to_sparse(), PAIRS, torch.ones(5).to(torch.float8_e5m2)):
        torch.save(other, tmp_path / "node.pt")
        with refused(FormatError, tmp_path / "node.pt"):
            graphbolt.source(content)
    torch.save(torch.from_numpy(X), tmp_path / "node.pt", _use_new_zipfile_serialization=False)  # as torch wrote of old
    assert np.array_equal(to_raw(graphbolt.source(content)).features["node"]["x"], X)


def test_files_are_those_that_the_document_names(tmp_path: Path) -> None:
    document(tmp_path, one_type(tmp_path))
    (tmp_path / "notes.txt").write_text("mine")
    wanted = [tmp_path / "metadata.yaml", *sorted(tmp_path.rglob("*.npy"))]
    (tmp_path / "preprocessed").mkdir()
    for place in (tmp_path, tmp_path / "preprocessed"):
        assert catalogue.source(f"graphbolt:{place}").files == wanted


def test_lines_of_edges_that_are_none(tmp_path: Path) -> None:
    content = document(tmp_path, one_type(tmp_path, "edges.csv"))
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n")
    with refused(FormatError, tmp_path / "edges.csv", "line 1"):
        to_raw(graphbolt.source(content))
    np.savetxt(tmp_path / "edges.csv", PAIRS[:4], fmt="%d", delimiter=",")
    with refused(FormatError, tmp_path / "edges.csv", "6 lines", 4):
        to_raw(graphbolt.source(content))


def test_without_pyyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document(tmp_path, "graph: {}")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with refused(MissingDependencyError, "PyYAML", "gnnhet[graphbolt]"):
        catalogue.read(f"graphbolt:{tmp_path}")
