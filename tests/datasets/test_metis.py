"""METIS graph files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet import Graph
from gnnhet.datasets import metis
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError


@pytest.mark.parametrize(
    ("name", "nodes", "edges"), [("4elt", 15606, 45878), ("fe_4elt2", 11143, 32818), ("karate", 34, 78), ("lesmis", 77, 254)]
)
def test_real_files(name: str, nodes: int, edges: int) -> None:
    path = shared_data("metis") / f"{name}.graph"
    raw = metis.read(path)
    src, dst = raw.edges[HOMOGENEOUS]
    assert dict(raw.num_nodes) == {"node": nodes}
    assert src.size == 2 * edges
    lines = [line for line in path.read_text().split("\n") if not line.startswith("%")][1:]
    stride = 2 if name == "lesmis" else 1
    expected = [[int(part) - 1 for part in line.split()[::stride]] for line in lines[:nodes]]
    assert dst.tolist() == [neighbour for row in expected for neighbour in row]
    assert np.bincount(src, minlength=nodes).tolist() == [len(row) for row in expected]
    assert Graph.from_raw(raw).num_edges[HOMOGENEOUS] == 2 * edges


def test_every_format_code() -> None:
    plain, edges, both, three = (metis.read(shared_data("metis") / f"tiny_0{i}.graph") for i in (1, 2, 3, 4))
    for other in (edges, both, three):
        np.testing.assert_array_equal(other.edges[HOMOGENEOUS], plain.edges[HOMOGENEOUS])
    assert not plain.edge_features
    assert not plain.features
    assert edges.edge_features[HOMOGENEOUS]["weight"][:6].tolist() == [1, 2, 1, 1, 2, 1]
    np.testing.assert_array_equal(both.edge_features[HOMOGENEOUS]["weight"], edges.edge_features[HOMOGENEOUS]["weight"])
    assert both.features["node"]["vertex_weight"].tolist() == [4, 2, 5, 3, 1, 6, 2]
    assert three.features["node"]["vertex_weight"][:2].tolist() == [[1, 2, 0], [0, 2, 2]]


@given(
    nodes=st.integers(1, 12),
    pairs=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 9))),
    code=st.sampled_from([0, 1, 10, 11, 100, 111]),
    ends=st.sampled_from(["", "\n", "\n\n \n"]),
)
@example(nodes=2, pairs=[(0, 1, 1), (1, 0, 2)], code=1, ends="")
@settings(deadline=None, max_examples=60)
def test_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, nodes: int, pairs: list[tuple[int, int, int]], code: int, ends: str
) -> None:
    given = [(u, v, w) for u, v, w in pairs if u != v and max(u, v) < nodes]
    both = sorted([*given, *((v, u, w) for u, v, w in given)], key=lambda edge: edge[0])
    sizes, weights, weighted = code // 100, code // 10 % 10, code % 10
    rows = [
        " ".join(
            [*["3"] * sizes, *[str(node)] * weights]
            + [str(part) for u, v, w in both if u == node for part in ((v + 1, w) if weighted else (v + 1,))]
        )
        for node in range(nodes)
    ]
    path = tmp_path_factory.mktemp("metis") / "g.graph"
    path.write_text("\n".join([f"% comment\n{nodes} {len(given)} {code:03}", *rows]) + (ends or "\n"))
    raw = metis.read(path)
    src, dst = (end.tolist() for end in raw.edges[HOMOGENEOUS])
    assert list(zip(src, dst, strict=True)) == [edge[:2] for edge in both]
    if weighted:
        assert raw.edge_features[HOMOGENEOUS]["weight"].tolist() == [edge[2] for edge in both]
    if sizes:
        assert raw.features["node"]["vertex_size"].tolist() == [3] * nodes
    if weights:
        assert raw.features["node"]["vertex_weight"].tolist() == list(range(nodes))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "VERTICES EDGES"),
        ("3\n", "VERTICES EDGES"),
        ("2 1 2\n2\n1\n", "digits 0 and 1"),
        ("2 1 0 3\n2\n1\n", "WEIGHTS"),
        ("2 1 10 0\n2\n1\n", "WEIGHTS"),
        ("3 1\n2\n1\n", "each of 3 vertices, got 2"),
        ("2 1\n2\n1\n1\n", "each of 2 vertices, got 3"),
        ("99999999999999 1\n2\n1\n", "each of 99,999,999,999,999 vertices"),
        ("2 2\n2\n1\n", "each of 2 edges twice, got 2"),
        ("2 1\n2\n-1\n", "line 3 must be whole numbers"),
        ("2 1\n2\n1.0\n", "line 3 must be whole numbers"),
        ("2 1\n%\n3\n1\n", "line 3, vertex 1, must name other vertices of 1 to 2, got 3"),
        ("2 1\n2\n0\n", "line 3, vertex 2"),
        ("2 1\n1 1\n\n", "line 2, vertex 1, must name other vertices"),
        ("3 1\n2\n3\n\n", "line 3, vertex 2, must name vertex 1, since line 2 names 2"),
        ("3 2\n%\n2 2\n1 1\n\n", ""),
        ("3 2\n2\n1 3 3\n\n", "line 4, vertex 3, must name vertex 2"),
        ("2 1 1\n2 5\n1 6\n", "line 2, vertex 1, must give its edge to 2 the weight 6, as line 3 does, got 5"),
        ("2 1 1\n2 5\n1\n", "line 3, vertex 2, must hold 0 weights"),
        ("2 1 1\n2 0\n1 0\n", "line 2, vertex 1, must give its edges weights from 1"),
        ("2 1 10\n\n1 1\n", "line 2, vertex 1, must hold 1 weights"),
    ],
)
def test_slips_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "g.graph"
    path.write_text(text)
    if not said:
        assert metis.read(path).edges[HOMOGENEOUS][0].size == 4  # parallel edges stay
        return
    with refused(FormatError, path, said):
        metis.read(path)
