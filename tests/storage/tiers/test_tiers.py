"""Rows of features through every tier: the same numbers wherever they lie."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive

from gnnhet.errors import FormatError, GraphError, SpecError
from gnnhet.storage import Graph
from gnnhet.storage.features import Rows
from gnnhet.storage.tiers import ArrayReader, Cache, DeviceCache, FileReader, Reader, open_reader
from gnnhet.storage.tiers.cache import Slots

NODES = 3000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A saved graph with features of several dtypes and widths, narrow to longer than a block."""
    folder = tmp_path_factory.mktemp("tiers") / "g"
    rng = np.random.default_rng(0)
    Graph.from_coo([0], [0], num_nodes=NODES).save(folder)
    made = Graph.open(folder)
    for name, width in (("narrow", 3), ("odd", 129), ("wide", 1500)):
        made.set_feature("node", name, rng.standard_normal((NODES, width), np.float32))
    made.set_feature("node", "half", rng.standard_normal((NODES, 128), np.float32), dtype="float16")
    made.set_feature("node", "brain", rng.standard_normal((NODES, 16), np.float32), dtype="bfloat16")
    made.set_feature("node", "byte", rng.standard_normal((NODES, 100), np.float32), dtype="int8")
    made.set_feature("node", "time", rng.integers(0, 1 << 40, NODES))
    return made


NAMES = ("narrow", "odd", "wide", "half", "brain", "byte", "time")


def readers(rows: Rows) -> dict[str, Reader]:
    """Every way to the same rows."""
    held = np.unique(np.random.default_rng(1).integers(0, NODES, 400))
    below = {kind: open_reader(rows, kind) for kind in ("map", "buffered", "direct")}
    return {
        **below,
        **{f"cache over {kind}": Cache(reader, held) for kind, reader in below.items()},
        "cache over cache": Cache(Cache(below["direct"], held), held[::2].copy()),
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_tier_gives_the_same_rows(graph: Graph, name: str) -> None:
    rows = graph.features.rows("node", name)
    rng = np.random.default_rng(2)
    few = np.sort(rng.integers(0, NODES, 90))
    for ids in (rng.integers(0, NODES, 700), np.arange(NODES), np.empty(0, np.int64), np.array([NODES - 1, 0, NODES - 1])):
        right = graph.features.gather("node", name, ids)
        places = rng.permutation(ids.size)
        for kind, reader in readers(rows).items():
            out = torch.empty_like(right)
            reader.read(ids, out)
            assert torch.equal(out, right), kind
            reader.read(ids, out, places)
            assert torch.equal(out[torch.from_numpy(places)], right), kind
            if right.is_floating_point():
                half = torch.empty(right.shape, dtype=torch.bfloat16)
                reader.read(ids, half)
                assert torch.equal(half, right.to(torch.bfloat16)), kind
            for some in (few, np.arange(NODES), np.empty(0, np.int64)):
                raw = np.empty((some.size, *rows.array.shape[1:]), rows.array.dtype)
                reader.read_sorted(some, raw)
                assert np.array_equal(raw, rows.array[some]), kind


def test_ids_out_of_range_are_refused_by_every_tier(graph: Graph) -> None:
    rows = graph.features.rows("node", "half")
    for reader in readers(rows).values():
        for ids in ([NODES], [0, -1]):
            with pytest.raises(GraphError, match="2999"):
                reader.read(np.array(ids), torch.empty(len(ids), 128))
            with pytest.raises(GraphError, match="2999"):
                reader.read_sorted(np.sort(np.array(ids)), np.empty((len(ids), 128), np.float16))


@pytest.mark.parametrize("kind", ["buffered", "direct"])
def test_a_file_that_is_cut_is_named_with_the_row(graph: Graph, tmp_path: Path, kind: str) -> None:
    graph.save(tmp_path / "g")
    rows = Graph.open(tmp_path / "g").features.rows("node", "half")
    assert rows.path is not None
    reader, cut = open_reader(rows, kind), rows.path.stat().st_size - 300 * 256
    os.truncate(rows.path, cut)
    out = torch.empty(2, 128)
    reader.read(np.array([0, 2600]), out)
    with pytest.raises(FormatError, match=r"row 2999.*it was cut"):
        reader.read(np.array([2999, 5]), out)
    with pytest.raises(FormatError, match="it was cut"):
        reader.read_sorted(np.arange(NODES), np.empty((NODES, 128), np.float16))
    os.truncate(rows.path, 4096)
    with pytest.raises(FormatError, match="it was cut"):
        open_reader(rows, kind)
    rows.path.unlink()
    with pytest.raises(FormatError, match="readable"):
        open_reader(rows, kind)


def test_a_file_system_in_memory_is_read_through_the_page_cache() -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir():
        pytest.skip("no file system in memory at /dev/shm")
    path = shm / f"gnnhet-{os.getpid()}.npy"
    x = np.random.default_rng(0).standard_normal((500, 7))
    try:
        np.save(path, x)
        rows = Rows(array=np.load(path, mmap_mode="r"), dtype=torch.float64, path=path)
        reader = FileReader(rows, path, direct=True)
        out = torch.empty(2, 7, dtype=torch.float64)
        reader.read(np.array([499, 1]), out)
        assert np.array_equal(out.numpy(), x[[499, 1]])
    finally:
        path.unlink(missing_ok=True)


@given(st.lists(st.integers(0, 29), unique=True).map(sorted), st.lists(st.integers(0, 29), max_size=50))
def test_slots_equal_their_twin(held: list[int], ids: list[int]) -> None:
    slots = Slots(np.array(held, np.int64), 30)
    part = slots.split(np.array(ids, np.int64))
    assert (part.slots.tolist(), part.hits.tolist(), part.ids.tolist(), part.misses.tolist()) == naive.split(held, ids)
    assert (slots.looked, slots.found) == (len(ids), len(part.hits))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([0, 1, 5, 30]), st.lists(st.integers(0, 29), max_size=40), st.sampled_from([torch.float32, torch.float16]))
def test_caches_of_any_size_never_change_a_number(size: int, ids: list[int], dtype: torch.dtype) -> None:
    x = torch.randn(30, 6)
    held = np.sort(np.random.default_rng(size).permutation(30)[:size])
    wanted = np.array(ids, np.int64)
    right = x[torch.from_numpy(wanted)].to(dtype)
    below = ArrayReader(Rows.of(x, "x"))
    out = torch.empty(right.shape, dtype=dtype)
    cache = Cache(below, held)
    cache.read(wanted, out)
    assert torch.equal(out, right)
    assert cache.size == size * 24
    device = DeviceCache(below, held, torch.device("cpu"), dtype)
    assert torch.equal(device.take(wanted), right)
    assert device.size == size * 6 * dtype.itemsize


def test_only_known_ways_to_read(graph: Graph) -> None:
    rows = graph.features.rows("node", "half")
    with pytest.raises(SpecError, match="auto, map, buffered, direct"):
        open_reader(rows, "mmap")
    assert isinstance(open_reader(rows), ArrayReader)  # small: a map
    assert isinstance(open_reader(Rows.of(torch.ones(2, 2), "x"), "direct"), ArrayReader)  # it lies in memory
