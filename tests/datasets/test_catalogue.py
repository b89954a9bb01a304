from pathlib import Path

import numpy as np
import pytest
from tests.datasets.refusals import refused
from tests.shared_data import shared_data

from gnnhet.datasets import catalogue
from gnnhet.datasets.raw import HOMOGENEOUS
from gnnhet.errors import FormatError, SpecError


def test_generators_by_their_words() -> None:
    assert catalogue.read("rmat:4:1_0").edges[HOMOGENEOUS][0].size == 10
    assert sum(catalogue.read("communities:300:60").num_nodes.values()) == 300


def test_readers_by_their_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "a:b.npz", edges=np.array([[0, 1]]), node_labels=np.array([0, 1]))
    assert catalogue.read(f"npz:{tmp_path / 'a:b.npz'}").name == "a:b"
    assert catalogue.read(f"planetoid:{shared_data('cora')}").name == "cora"


@pytest.mark.parametrize("kind", sorted(catalogue.READERS))
def test_paths_that_are_not_there_are_named(tmp_path: Path, kind: str) -> None:
    with refused(FormatError, tmp_path / "gone"):
        catalogue.read(f"{kind}:{tmp_path / 'gone'}")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("wordnt", "wordnet"),
        ("Cora", "cora"),
        ("ogbn-product", "ogbn-products"),
        ("planetoids:x", "planetoid"),
        ("comunities:1000:1000", "communities"),
        ("rmat", "rmat"),
    ],
)
def test_unknown_names_are_refused_with_what_was_meant(spec: str, meant: str) -> None:
    with refused(SpecError, repr(spec), f"did you mean {meant}?"):
        catalogue.read(spec)


@pytest.mark.parametrize("spec", ["", ":", "qqqqqqqq", "qqqqqqqq:1:2"])
def test_what_resembles_nothing_is_refused_with_the_list(spec: str) -> None:
    with refused(SpecError, repr(spec), "wordnet", "ogbn-arxiv", "rdf:PATH", "rmat:SCALE:EDGES") as _:
        catalogue.read(spec)


@pytest.mark.parametrize("rest", ["", "5", "5:", "5:5:5", "a:b", "5:1e6", "5:2.0"])
@pytest.mark.parametrize("kind", sorted(catalogue.GENERATORS))
def test_sizes_that_are_no_numbers_are_refused(kind: str, rest: str) -> None:
    with refused(SpecError, f"{kind}:{rest}"):
        catalogue.read(f"{kind}:{rest}")


@pytest.mark.parametrize(
    "spec",
    [
        "rmat:5:99999999999999999999",
        "rmat:20:999999999999",
        "communities:99999999999999999999:10",
        "communities:300:1099511627776",
    ],
)
def test_sizes_beyond_any_memory_are_refused(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError  # a machine that promises more than it has would be killed here

    for kind in list(catalogue.GENERATORS):
        monkeypatch.setitem(catalogue.GENERATORS, kind, full)
    with refused(SpecError, spec, "fewer"):
        catalogue.read(spec)


@pytest.mark.parametrize("spec", ["rmat:0:5", "rmat:99:5", "rmat:5:-5", "communities:5:5", "communities:300:-9"])
def test_sizes_out_of_range_are_refused(spec: str) -> None:
    with refused(SpecError, spec.split(":")[1]):
        catalogue.read(spec)
