import os
import pickle
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet.datasets import planetoid
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError
from gnnhet.storage import Graph

# nodes 0-2 train, 3-9 have no split but for validation, 10, 12 and 13 test; 11 is left out, as in citeseer
TEST = [13, 10, 12]
EDGES = {0: [1, 1, 0], 1: [0], 2: [13], 3: [12], 13: [2, 10], 10: [], 11: [12]}


def one_hot(classes: list[int]) -> np.ndarray:
    return np.eye(3, dtype=np.int32)[classes]


def parts() -> dict[str, Any]:
    graph: dict[int, list[int]] = defaultdict(list)
    graph.update(EDGES)
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    tx = np.array([[1, 0, 0, 0], [0, 2, 2, 0], [0, 0, 0, 5]], np.float32)
    ally = one_hot([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    ally[9] = 0  # no label
    return {
        "x": sp.csr_matrix(rows[:3]),
        "tx": sp.csr_matrix(tx),
        "allx": sp.csr_matrix(rows),
        "y": one_hot([0, 1, 2]),
        "ty": one_hot([2, 1, 0]),
        "ally": ally,
        "graph": graph,
    }


def write(folder: Path, name: str = "tiny", test: str = "\n".join(map(str, TEST)), **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for part, value in {**parts(), **changed}.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, 2))
    (folder / f"ind.{name}.test.index").write_text(test)
    return folder


def test_gaps_in_the_test_index(tmp_path: Path) -> None:
    raw = planetoid.read(write(tmp_path), normalize_features=False)
    node = raw.features["node"]
    assert raw.num_nodes == {"node": 14}
    assert raw.name == "tiny"
    assert node["x"][[13, 10, 12, 11]].tolist() == [[1, 0, 0, 0], [0, 2, 2, 0], [0, 0, 0, 5], [0, 0, 0, 0]]
    assert node["x"][4].tolist() == [16, 17, 18, 19]
    assert node["y"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, -1, 1, -1, 0, 2]
    assert node["split"].tolist() == [0, 0, 0] + [1] * 7 + [2, 1, 2, 2]
    graph = Graph.from_raw(raw)
    assert graph.split_ids("node", "val").tolist() == [3, 4, 5, 6, 7, 8]  # 9 and 11 have no label
    assert graph.split_ids("node", "test").tolist() == [10, 12, 13]


def test_edges_are_undirected_without_duplicates_and_loops(tmp_path: Path) -> None:
    src, dst = planetoid.read(write(tmp_path)).edges[HOMOGENEOUS]
    once = {(0, 1), (2, 13), (3, 12), (13, 10), (11, 12)}
    assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == sorted(once | {(d, s) for s, d in once})


def test_rows_sum_to_one_or_stay_zero(tmp_path: Path) -> None:
    x = planetoid.read(write(tmp_path)).features["node"]["x"]
    sums = x.sum(1)
    assert np.allclose(np.delete(sums, 11), 1)
    assert sums[11] == 0


def test_names_with_dots(tmp_path: Path) -> None:
    assert planetoid.read(write(tmp_path, name="nell.0.001")).name == "nell.0.001"


def test_a_pickle_that_runs_commands_is_refused_and_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'owned'}",)

    write(tmp_path, allx=Evil())
    with refused(FormatError, "ind.tiny.allx", "system"):
        planetoid.read(tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["eval", "getattr", "__import__"])
def test_builtins_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / "ind.tiny.graph").write_bytes(f"cbuiltins\n{name}\n.".encode())
    with refused(FormatError, "ind.tiny.graph", name):
        planetoid.read(tmp_path)


@pytest.mark.parametrize("part", ["x", "tx", "allx", "y", "ty", "ally", "graph"])
def test_truncated_and_missing_files_are_named(tmp_path: Path, part: str) -> None:
    file = write(tmp_path) / f"ind.tiny.{part}"
    whole = file.read_bytes()
    for end in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:end])
        with refused(FormatError, file):
            planetoid.read(tmp_path)
    file.unlink()
    with refused(FormatError, "one ind.NAME.graph, got none" if part == "graph" else file):
        planetoid.read(tmp_path)


@pytest.mark.parametrize("text", ["a\nb", "1.5", "99999999999999999999999"])
def test_a_test_index_of_other_things_is_refused(tmp_path: Path, text: str) -> None:
    with refused(FormatError, "test.index"):
        planetoid.read(write(tmp_path, test=text))


@pytest.mark.parametrize("text", ["", "-1\n10\n12", "1\n2", "9000000000000000000\n1\n2"])
def test_a_test_index_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    with refused(FormatError, tmp_path):
        planetoid.read(write(tmp_path, test=text))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("graph", {0: [99]}),
        ("graph", {0: [-1]}),
        ("graph", [1, 2]),
        ("graph", {0: 1}),
        ("allx", np.zeros(3)),
        ("allx", None),
        ("tx", sp.csr_matrix(np.ones((3, 9)))),
        ("ally", one_hot([0])),
        ("ty", 3),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path, part: str, value: Any) -> None:
    with refused(FormatError, tmp_path):
        planetoid.read(write(tmp_path, **{part: value}))


def test_matrix_indices_outside_the_matrix_are_refused(tmp_path: Path) -> None:
    matrix = parts()["tx"]
    matrix.indices[0] = 1_000_000  # scipy would write outside the array
    with refused(FormatError, tmp_path):
        planetoid.read(write(tmp_path, tx=matrix))


def test_no_folder_and_two_sets_are_refused(tmp_path: Path) -> None:
    with refused(FormatError, tmp_path / "gone"):
        planetoid.read(tmp_path / "gone")
    write(tmp_path, name="one")
    write(tmp_path, name="two")
    with refused(FormatError, "one", "two"):
        planetoid.read(tmp_path)


def test_cora() -> None:
    raw = planetoid.read(shared_data("cora"))
    node = raw.features["node"]
    assert raw.num_nodes == {"node": 2708}
    assert raw.edges[HOMOGENEOUS][0].size == 10_556
    assert node["x"].shape == (2708, 1433)
    assert np.allclose(node["x"].sum(1), 1)
    assert np.bincount(node["y"]).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert [int((node["split"] == part).sum()) for part in (0, 1, 2)] == [140, 500, 1000]
    assert np.bincount(node["y"][:140]).tolist() == [20] * 7
    assert Graph.from_raw(raw).homogeneous


def test_cora_without_a_file(tmp_path: Path) -> None:
    for file in shared_data("cora").glob("ind.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "ind.cora.ty").unlink()
    with refused(FormatError, tmp_path / "ind.cora.ty"):
        planetoid.read(tmp_path)
