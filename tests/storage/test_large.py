"""More than 2^31 edges in a relation, and files of more than 2^31 bytes: sparse files, whose holes take no room on the disk."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from gnnhet.datasets.raw import HOMOGENEOUS, NODE
from gnnhet.samplers import NeighborLoader, NeighborSampler
from gnnhet.storage import Graph, verify

NODES = 1 << 22
DEGREE = 520  # of every node; 2^22 nodes of it have 2^31 + 2^25 + 2^23 edges or so
EDGES = NODES * DEGREE
COLUMNS = 260  # float16: 2.03 GiB
LAST = NODES - 1

pytestmark = pytest.mark.slow
assert EDGES > 2**31
assert NODES * COLUMNS * 2 > 2**31


def sparse(path: Path, dtype: str, shape: tuple[int, ...], at_end: np.ndarray) -> dict[str, Any]:
    """A `.npy` file of zeros but for its last entries; its entry of graph.json."""
    with path.open("wb") as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        begin = file.tell()
        size = begin + np.dtype(dtype).itemsize * int(np.prod(shape))
        file.truncate(size)
        file.seek(size - at_end.nbytes)
        file.write(at_end.tobytes())
    if path.stat().st_blocks * 512 > size // 2:
        pytest.skip("the file system has no sparse files")
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(64 << 20):
            digest.update(piece)
    return {
        "file": f"arrays/{path.name}",
        "dtype": dtype,
        "shape": list(shape),
        "bytes": size,
        "xxh3_128": digest.hexdigest(),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A graph folder whose last nodes have edges of their own; all others have edges from node 0."""
    made = tmp_path_factory.mktemp("large")
    (made / "arrays").mkdir()
    indptr = np.arange(0, EDGES + 1, DEGREE, dtype=np.int64)
    np.save(made / "arrays" / "indptr.npy", indptr)
    digest = xxhash.xxh3_128((made / "arrays" / "indptr.npy").read_bytes()).hexdigest()
    sources = (np.arange(2 * DEGREE) * 7919 % NODES).astype(np.int32)
    rows = np.arange(3 * COLUMNS, dtype=np.float16).reshape(3, COLUMNS)
    document = {
        "format": "gnnhet-graph",
        "version": 1,
        "revision": 1,
        "name": "large",
        "node_types": [{"type": NODE, "count": NODES}],
        "relations": [
            {
                "source": NODE,
                "name": "to",
                "destination": NODE,
                "count": EDGES,
                "arrays": {
                    "indptr": {
                        "file": "arrays/indptr.npy",
                        "dtype": "int64",
                        "shape": [NODES + 1],
                        "bytes": (made / "arrays" / "indptr.npy").stat().st_size,
                        "xxh3_128": digest,
                    },
                    "indices": sparse(made / "arrays" / "indices.npy", "int32", (EDGES,), sources),
                },
            }
        ],
        "features": [{"of": NODE, "name": "x", "array": sparse(made / "arrays" / "x.npy", "float16", (NODES, COLUMNS), rows)}],
    }
    (made / "graph.json").write_text(json.dumps(document))
    yield made
    shutil.rmtree(made)


def test_rows_and_edges_beyond(folder: Path) -> None:
    graph = Graph.open(folder)
    assert graph.num_edges[HOMOGENEOUS] == EDGES
    expected = np.arange(2 * DEGREE) * 7919 % NODES
    batch = NeighborSampler(graph, [-1]).sample(np.array([LAST - 1, LAST]))
    block = batch.blocks[0]
    found = np.asarray(block.src_ids)[np.asarray(block.indices)]
    assert np.array_equal(found, expected)
    rows = np.asarray(graph.features.gather(NODE, "x", np.array([LAST, 0, LAST - 2])))
    assert rows.tolist() == [
        list(range(2 * COLUMNS, 3 * COLUMNS)),
        [0] * COLUMNS,
        list(range(COLUMNS)),
    ]


def test_batches_and_edge_ids_beyond(folder: Path) -> None:
    graph = Graph.open(folder)
    loader = NeighborLoader(graph, [4, 3], 2, np.array([LAST, LAST - 1, 1]), shuffle=False, with_edge_ids=True)
    first = next(iter(loader))
    block = first.blocks[-1]
    ids = np.asarray(block.edge_ids)
    assert (ids >= EDGES - 2 * DEGREE).all()
    assert (ids > 2**31).all()
    _, indices = graph.csc(HOMOGENEOUS)
    assert np.array_equal(np.asarray(block.src_ids)[np.asarray(block.indices)], indices[ids])


def test_verify_reads_it_all(folder: Path) -> None:
    assert verify(folder).problems == ()
    with (folder / "arrays" / "indices.npy").open("r+b") as file:
        file.seek(-4 * DEGREE - 4, 2)
        file.write(np.int32(-5).tobytes())
    (problem,) = verify(folder).problems
    assert "indices.npy" in problem
