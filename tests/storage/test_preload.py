"""Topology in memory is the topology on disk."""

from pathlib import Path

import numpy as np
import pytest

from gnnhet.datasets import rmat
from gnnhet.errors import FormatError
from gnnhet.samplers import NeighborSampler
from gnnhet.storage import Graph, preload


def test_a_preloaded_graph_samples_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "_HUGE_FROM", 1000)
    monkeypatch.setattr(preload, "_PIECE", 777)  # pieces that end inside a number
    Graph.from_raw(rmat.generate(10, 9000)).save(tmp_path / "g")
    mapped = Graph.open(tmp_path / "g")
    loaded = mapped.preload()
    for relation in mapped.relations:
        for one, other in zip(mapped.csc(relation), loaded.csc(relation), strict=True):
            assert np.array_equal(one, other)
            assert one.dtype == other.dtype
            assert not other.flags.writeable
    draws = [NeighborSampler(graph, [5, 3], seed=1).sample(np.arange(64)).input_ids for graph in (mapped, loaded)]
    assert np.array_equal(*draws)


def test_a_graph_in_memory_is_itself() -> None:
    graph = Graph.from_raw(rmat.generate(4, 30))
    assert graph.preload() is graph


def test_another_graph_in_the_folder_is_refused(tmp_path: Path) -> None:
    Graph.from_raw(rmat.generate(6, 100)).save(tmp_path / "g")
    mapped = Graph.open(tmp_path / "g")
    Graph.from_raw(rmat.generate(7, 200)).save(tmp_path / "g")
    with pytest.raises(FormatError, match="open it anew"):
        mapped.preload()


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    Graph.from_raw(rmat.generate(6, 100)).save(tmp_path / "g")
    mapped = Graph.open(tmp_path / "g")
    (path,) = (tmp_path / "g" / "arrays").glob("*.indices-*.npy")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 40)
    with pytest.raises(FormatError, match="it was cut"):
        mapped.preload()
