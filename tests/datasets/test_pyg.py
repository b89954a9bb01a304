import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.datasets.refusals import refused
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from gnnhet.datasets import pyg
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError, GraphError
from gnnhet.storage import Graph

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])


def homogeneous() -> Any:
    return Data(
        x=torch.arange(6.0).view(3, 2),
        y=torch.tensor([0, 1, -1]),
        edge_index=EDGES,
        edge_attr=torch.ones(4, 2),
        train_mask=torch.tensor([True, False, False]),
        val_mask=torch.tensor([False, True, False]),
        test_mask=torch.tensor([False, False, True]),
        year=torch.tensor([2001, 2002, 2003]),
        title="three",
    )


def typed() -> Any:
    data = HeteroData()
    data["paper"].x = torch.arange(6.0).view(3, 2)
    data["paper"].y = torch.tensor([0, 1, 1])
    data["paper"].train_mask = torch.tensor([True, False, True])
    data["author"].num_nodes = 4
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 3], [2, 1]])
    data["author", "writes", "paper"].edge_weight = torch.ones(2)
    return data


def csr(rows: list[int], columns: list[int], shape: tuple[int, int]) -> torch.Tensor:
    """A torch CSR tensor made without torch's warning that the layout is in beta."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = torch.tensor(rows), torch.tensor(columns), torch.ones(len(columns))
        return torch.sparse_csr_tensor(*parts, size=shape, check_invariants=True)


def check_homogeneous(graph: Graph) -> None:
    data = homogeneous()
    assert graph.num_nodes == {"node": 3}
    indptr, indices = graph.csc(HOMOGENEOUS)
    destinations = np.repeat(np.arange(3), np.diff(indptr))
    assert sorted(zip(indices.tolist(), destinations.tolist(), strict=True)) == sorted(zip(*EDGES.tolist(), strict=True))
    assert graph.features.names("node") == ["split", "x", "y", "year"]
    assert graph.features.array("node", "x").tolist() == data.x.tolist()
    assert graph.features.array("node", "y").tolist() == [0, 1, -1]
    assert graph.features.array("node", "split").tolist() == [0, 1, 2]


def check_typed(graph: Graph) -> None:
    assert graph.num_nodes == {"author": 4, "paper": 3}
    indptr, indices = graph.csc(("author", "writes", "paper"))
    assert (indptr.tolist(), indices.tolist()) == ([0, 0, 1, 2], [3, 0])
    assert graph.features.names("paper") == ["split", "x", "y"]
    assert graph.features.names("author") == []
    assert graph.features.array("paper", "split").tolist() == [0, -1, 0]


def test_data() -> None:
    check_homogeneous(Graph.from_pyg(homogeneous()))


def test_hetero_data() -> None:
    check_typed(Graph.from_pyg(typed()))


def test_of_masks_in_columns_the_first_counts() -> None:
    data = homogeneous()
    data.train_mask = torch.tensor([[True, False], [False, True], [False, False]])
    data.val_mask = torch.tensor([[False, True], [True, False], [False, False]])
    assert pyg.from_data(data).features["node"]["split"].tolist() == [0, 1, 2]


def test_without_masks_there_is_no_split() -> None:
    assert "split" not in pyg.from_data(Data(x=torch.ones(3, 1), edge_index=EDGES)).features["node"]


def test_labels_in_one_column_lose_it() -> None:
    data = Data(x=torch.ones(3, 1), edge_index=EDGES, y=torch.tensor([[2], [0], [1]]))
    assert pyg.from_data(data).features["node"]["y"].tolist() == [2, 0, 1]
    data.y = torch.zeros(3, 4)
    assert pyg.from_data(data).features["node"]["y"].shape == (3, 4)


def test_transposed_adjacency() -> None:
    data = Data(x=torch.ones(3, 1), adj_t=csr([0, 1, 1, 3], [2, 0, 1], (3, 3)))  # rows are destinations
    raw = pyg.from_data(data)
    src, dst = raw.edges[HOMOGENEOUS]
    assert (src.tolist(), dst.tolist()) == ([2, 0, 1], [0, 2, 2])
    assert set(raw.features["node"]) == {"x"}


def test_transposed_adjacency_between_types() -> None:
    data = HeteroData()
    data["a"].x, data["b"].x = torch.ones(3, 1), torch.ones(2, 1)
    data["a", "to", "b"].adj_t = csr([0, 2, 3], [0, 2, 1], (2, 3))
    src, dst = pyg.from_data(data).edges[("a", "to", "b")]
    assert (src.tolist(), dst.tolist()) == ([0, 2, 1], [0, 0, 1])


def test_sparse_features_are_made_dense() -> None:
    rows = torch.eye(3)
    data = Data(x=rows.to_sparse(), edge_index=EDGES)
    assert pyg.from_data(data).features["node"]["x"].tolist() == rows.tolist()


@pytest.mark.parametrize("edges", [None, torch.ones(3, 4, dtype=torch.long), torch.ones(4, dtype=torch.long)])
def test_no_edges_in_a_known_form_are_refused(edges: torch.Tensor | None) -> None:
    with refused(GraphError, "edge_index"):
        pyg.from_data(Data(x=torch.ones(3, 1), edge_index=edges))


def test_relations_without_edges_are_named() -> None:
    data = typed()
    del data["author", "writes", "paper"].edge_index
    with refused(GraphError, "writes", "edge_index"):
        pyg.from_data(data)


def test_edges_that_are_no_ids_of_the_graph_are_refused() -> None:
    for edges in (EDGES.float(), EDGES + 1, EDGES - 1):
        with refused(GraphError, "node"):
            Graph.from_pyg(Data(x=torch.ones(3, 1), edge_index=edges))


@pytest.mark.parametrize("thing", ["text", {}, [1], None, torch.ones(2)])
def test_what_is_no_graph_is_refused(thing: object) -> None:
    with refused(GraphError, type(thing).__name__):
        pyg.from_data(thing)


@pytest.mark.filterwarnings("ignore:Unable to accurately infer:UserWarning")  # PyG's, before it gives up
def test_without_a_count_of_nodes_it_is_refused() -> None:
    with refused(GraphError, "num_nodes"):
        pyg.from_data(Data(title="nothing"))
    data = typed()
    del data["author"].num_nodes
    data["author"].title = "nothing"
    with refused(GraphError, "author"):
        pyg.from_data(data)


@pytest.mark.parametrize("form", ["object", "dict", "dataset", "dataset of old"])
@pytest.mark.parametrize("kind", ["homogeneous", "typed"])
def test_saved_files(tmp_path: Path, kind: str, form: str) -> None:
    data, file = homogeneous() if kind == "homogeneous" else typed(), tmp_path / "saved.pt"
    if form == "dataset":
        InMemoryDataset.save([data], str(file))
    else:
        torch.save({"object": data, "dict": data.to_dict(), "dataset of old": (data, None)}[form], file)
    raw = pyg.read(file)
    assert raw.name == "saved"
    (check_homogeneous if kind == "homogeneous" else check_typed)(Graph.from_raw(raw))


def test_reading_leaves_pygs_own_files_readable(tmp_path: Path) -> None:
    torch.save(homogeneous(), tmp_path / "saved.pt")
    pyg.read(tmp_path / "saved.pt")
    assert isinstance(torch.load(tmp_path / "saved.pt", weights_only=True), Data)


def test_several_graphs_in_one_file_are_refused(tmp_path: Path) -> None:
    # they lie end to end with ids that all start from 0: read as one they would be a wrong graph
    InMemoryDataset.save([homogeneous(), homogeneous()], str(tmp_path / "two.pt"))
    with refused(FormatError, tmp_path / "two.pt", "several"):
        pyg.read(tmp_path / "two.pt")


def test_files_that_run_commands_are_refused_and_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'owned'}",)

    torch.save({"x": torch.ones(3, 1), "edge_index": EDGES, "y": Evil()}, tmp_path / "evil.pt")
    with refused(FormatError, tmp_path / "evil.pt", "system"):
        pyg.read(tmp_path / "evil.pt")
    assert not (tmp_path / "owned").exists()


def test_foreign_objects_are_named(tmp_path: Path) -> None:
    torch.save({"edge_index": EDGES, "where": Path("x")}, tmp_path / "foreign.pt")
    with refused(FormatError, tmp_path / "foreign.pt", "pathlib", "to_dict"):
        pyg.read(tmp_path / "foreign.pt")


@pytest.mark.filterwarnings("ignore:Unable to accurately infer:UserWarning")
@pytest.mark.parametrize(
    "thing",
    [
        3,
        [1, 2],
        torch.ones(3),
        {},
        {"x": "text"},
        {"x": torch.ones(3, 1)},
        {"x": torch.ones(3, 1), "edge_index": "text"},
        {"x": torch.ones(3, 1), "edge_index": EDGES.float().to_sparse()},
        {"x": torch.ones(3, 1), "edge_index": EDGES, "train_mask": torch.ones(3, 0)},
        {"a": 3, ("a", "to", "a"): {"edge_index": EDGES}},
        {("a", "to"): {"edge_index": EDGES}},
        {3: EDGES},
    ],
    ids=range(12),
)
def test_files_of_other_things_are_refused(tmp_path: Path, thing: object) -> None:
    torch.save(thing, tmp_path / "other.pt")
    with refused(FormatError, tmp_path / "other.pt"):
        pyg.read(tmp_path / "other.pt")


def test_damaged_and_missing_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "saved.pt"
    torch.save(homogeneous(), file)
    whole = file.read_bytes()
    for data in (b"", whole[:1], whole[:100], whole[: len(whole) // 2], whole[:-1], b"text"):
        file.write_bytes(data)
        with refused(FormatError, file):
            pyg.read(file)
    for path in (tmp_path, tmp_path / "gone.pt"):
        with refused(FormatError, path):
            pyg.read(path)


def test_edge_level_tensors_follow_their_edges_into_stored_order(tmp_path: Path) -> None:
    edge_index = torch.tensor([[2, 0, 1, 2], [1, 2, 1, 0]])
    data = Data(edge_index=edge_index, num_nodes=4, edge_attr=torch.arange(8.0).view(4, 2), edge_weight=torch.arange(4.0))
    graph = Graph.from_pyg(data)
    relation = graph.relations[0]
    assert graph.features.names(relation) == ["edge_attr", "edge_weight"]
    assert graph.csc(relation)[1].tolist() == [2, 2, 1, 0]
    assert graph.features.array(relation, "edge_weight").tolist() == [3.0, 0.0, 2.0, 1.0]
    graph.save(tmp_path / "g")
    opened = Graph.open(tmp_path / "g")
    assert opened.features.array(relation, "edge_attr")[:, 0].tolist() == [6.0, 0.0, 4.0, 2.0]
    typed = HeteroData({"a": {"num_nodes": 3}, "b": {"num_nodes": 2}})
    typed["a", "to", "b"].edge_index = torch.tensor([[2, 0], [1, 0]])
    typed["a", "to", "b"].time = torch.tensor([5, 7])
    assert Graph.from_pyg(typed).features.array(("a", "to", "b"), "time").tolist() == [7, 5]
