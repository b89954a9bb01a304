"""Matrix Market files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet import Graph
from gnnhet.datasets import mtx
from gnnhet.datasets.raw import HOMOGENEOUS, RawGraph
from gnnhet.errors import FormatError

READ = [
    *("A", "LFAT5", "LFAT5_hypersparse", "bcsstk13", "comments_west0067", "cover", "empty", "karate", "ldbc-directed-example"),
    *("ldbc-undirected-example-unweighted", "lp_afiro", "matrix_bool", "matrix_int16", "skew_fp64", "tree-example", "west0067"),
]
REFUSED = {
    **dict.fromkeys(("comments_full", "complex", "full_symmetric", "mangled_format"), "dense"),
    "full_noheader": "%%MatrixMarket",
    **dict.fromkeys(("mangled1", "mangled2"), "line 1"),
    **dict.fromkeys(("mangled3", "mangled4", "mangled5", "mangled6"), "line 1 must name a field"),
    "mangled7": "gunk",
    "mangled8": "line 4 must be three counts",
    "mangled_int8": "line 8",
}


def as_matrix(raw: RawGraph) -> scipy.sparse.coo_array:
    relation = next(iter(raw.edges))
    weights = raw.edge_features.get(relation, {}).get("weight", np.ones(raw.edges[relation][0].size))
    return scipy.sparse.coo_array((weights, raw.edges[relation]), (raw.num_nodes[relation[0]], raw.num_nodes[relation[2]]))


@pytest.mark.parametrize("name", READ)
def test_real_files_are_as_scipy_reads_them(name: str) -> None:
    path = shared_data("matrix_market") / f"{name}.mtx"
    raw, expected = mtx.read(path), scipy.io.mmread(path)
    found = as_matrix(raw)
    assert found.shape == expected.shape
    assert found.nnz == expected.nnz
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    assert Graph.from_raw(raw).num_edges[next(iter(raw.edges))] == expected.nnz


def test_files_that_scipy_refuses() -> None:
    folder = shared_data("matrix_market")
    jumbled, plain = mtx.read(folder / "west0067_jumbled.mtx"), mtx.read(folder / "west0067.mtx")
    np.testing.assert_array_equal(as_matrix(jumbled).toarray(), as_matrix(plain).toarray())
    doubles = mtx.read(folder / "matrix_fp64.mtx").edge_features[HOMOGENEOUS]["weight"]
    assert doubles[:4].tolist() == [-np.inf, np.inf, 0, 5]
    assert mtx.read(folder / "matrix_uint64.mtx").edge_features[HOMOGENEOUS]["weight"].max() == 2.0**64


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_broken_files_are_refused(name: str) -> None:
    path = shared_data("matrix_market") / f"{name}.mtx"
    with refused(FormatError, path, REFUSED[name]):
        mtx.read(path)


def save(folder: Path, banner: str, body: str) -> Path:
    path = folder / "m.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {banner}\n{body}")
    return path


def test_rectangles_symmetries_and_archives(tmp_path: Path) -> None:
    raw = mtx.read(save(tmp_path, "integer general", "2 3 2\n1 3 7\n2 1 -8\n"))
    assert dict(raw.num_nodes) == {"row": 2, "column": 3}
    assert raw.edge_features["row", "to", "column"]["weight"].dtype == np.int64
    path = save(tmp_path, "Real Skew-Symmetric", "3 3 2\r\n% between\r\n\r\n2 1 5\r\n3 2 -1e-3")
    (tmp_path / "n.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
    raw = mtx.read(tmp_path / "n.mtx.gz")
    assert raw.name == "n"
    assert [end.tolist() for end in raw.edges[HOMOGENEOUS]] == [[1, 2, 0, 1], [0, 1, 1, 2]]
    assert raw.edge_features[HOMOGENEOUS]["weight"].tolist() == [5, -1e-3, -5, 1e-3]
    raw = mtx.read(save(tmp_path, "pattern symmetric", "3 3 3\n1 2\n3 1\n2 2\n"))  # either triangle will do
    assert [end.tolist() for end in raw.edges[HOMOGENEOUS]] == [[0, 2, 1, 1, 0], [1, 0, 1, 0, 2]]


@pytest.mark.parametrize(
    ("banner", "body", "said"),
    [
        ("real general", "3 3 1\n1 1 2\n2 2 3\n", "got more, from line 4"),
        ("real general", "3 3 3\n1 1 2\n2 2 3\n", "got 2"),
        ("real general", "3 3 99999999999999\n1 1 2\n", "got fewer"),
        ("real general", "3 3 1\n4 1 2\n", "got 4 1"),
        ("real general", "3 3 1\n0 1 2\n", "got 0 1"),
        ("real general", "3 3 1\n-1 1 2\n", "line 3"),
        ("real general", "3 3 1\n1 1 2 junk\n", "line 3"),
        ("pattern general", "3 3 1\n1 1 2\n", "line 3"),
        ("integer general", "3 3 2\n1 1 2\n1 2 2.5\n", "line 4 must end in an integer"),
        ("real general", "3 3 1\n1 1 2x\n", "line 3 must end in a number"),
        ("real general", "3 3 2\n1 1\n2 2 2 3\n", "line 3"),
        ("real symmetric", "3 4 1\n1 2 2\n", "square"),
        ("real symmetric", "3 3 2\n1 2 2\n2 1 2\n", "2 1 in both"),
        ("real skew-symmetric", "3 3 1\n2 2 2\n", "diagonal"),
        ("pattern skew-symmetric", "3 3 1\n2 1\n", "values"),
        ("complex hermitian", "3 3 1\n2 1 1 0\n", "complex"),
        ("real general", "-3 3 1\n1 1 2\n", "three counts"),
        ("real general", "% only comments\n", "its end before one"),
    ],
)
def test_slips_are_refused(tmp_path: Path, banner: str, body: str, said: str) -> None:
    path = save(tmp_path, banner, body)
    with refused(FormatError, path, said):
        mtx.read(path)
