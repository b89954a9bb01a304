import functools

import numpy as np
import pytest
from tests.datasets.refusals import refused

from gnnhet.datasets import wordnet
from gnnhet.datasets.raw import RawGraph
from gnnhet.errors import SpecError
from gnnhet.storage import Graph


@functools.cache
def raw() -> RawGraph:
    return wordnet.read()


def test_counts() -> None:
    assert raw().num_nodes == {"adjective": 18_156, "adverb": 3_621, "noun": 82_115, "verb": 13_767}
    assert sum(raw().num_nodes.values()) == 117_659
    assert sum(src.size for src, _ in raw().edges.values()) == 364_552
    assert len(raw().edges) == 61
    y, split = raw().features["noun"]["y"], raw().features["noun"]["split"]
    assert np.unique(y).tolist() == list(range(26))
    assert [int((split == part).sum()) for part in (0, 1, 2)] == [8_211, 8_211, 65_693]
    graph = Graph.from_raw(raw())
    assert graph.target_type == "noun"
    assert graph.num_classes("noun") == 26


def test_features_are_rows_of_length_one() -> None:
    for features in raw().features.values():
        x = np.asarray(features["x"], np.float64)
        assert features["x"].dtype == np.float32
        assert x.shape[1] == 512
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
        assert np.allclose(lengths, 1, atol=1e-5)


def test_pointers_and_their_reverses_agree() -> None:
    src, dst = raw().edges[("noun", "hypernym", "noun")]
    back_src, back_dst = raw().edges[("noun", "hyponym", "noun")]
    assert set(zip(src.tolist(), dst.tolist(), strict=True)) == set(zip(back_dst.tolist(), back_src.tolist(), strict=True))
    # a synset has few hypernyms and may have many hyponyms: edges lead from the holder of the pointer
    assert np.bincount(src).max() < 10 < np.bincount(dst).max()


def test_ids_say_nothing_of_the_label() -> None:
    y, split = raw().features["noun"]["y"], raw().features["noun"]["split"]
    train, tested = np.flatnonzero(split == 0), np.flatnonzero(split == 2)
    chance = np.square(np.bincount(y) / y.size).sum()  # two nouns drawn at random have one label
    right = np.searchsorted(train, tested).clip(0, train.size - 1)
    left = (right - 1).clip(0)
    nearest = np.where(tested - train[left] < np.abs(train[right] - tested), train[left], train[right])
    assert np.mean(y[nearest] == y[tested]) < np.bincount(y).max() / y.size + 0.02
    # the split is by id: what matters is that any two nouns side by side are strangers
    assert abs(np.mean(y[1:] == y[:-1]) - chance) < 0.01
    ranks = np.arange(y.size) - (y.size - 1) / 2
    assert max(abs(np.corrcoef(ranks, y == k)[0, 1]) for k in range(26)) < 0.02


def test_splits_have_one_mix_of_labels() -> None:
    y, split = raw().features["noun"]["y"], raw().features["noun"]["split"]
    mixes = [np.bincount(y[split == part], minlength=26) / (split == part).sum() for part in (0, 1, 2)]
    assert np.abs(mixes[0] - mixes[2]).max() < 0.02
    assert np.abs(mixes[1] - mixes[2]).max() < 0.02


def test_the_file_is_small_and_its_licence_lies_beside_it() -> None:
    assert wordnet.FILE.stat().st_size <= 4 << 20
    licence = wordnet.FILE.with_suffix(".LICENSE").read_text()
    assert "WordNet" in licence
    assert "Princeton University" in licence


def test_fewer_buckets_and_buckets_that_do_not_divide() -> None:
    assert wordnet.read(16).features["verb"]["x"].shape == (13_767, 16)
    for buckets in (0, -1, 500, 8192):
        with refused(SpecError, buckets):
            wordnet.read(buckets)


@pytest.mark.parametrize("node_type", ["adjective", "adverb", "noun", "verb"])
def test_only_nouns_are_labelled(node_type: str) -> None:
    assert set(raw().features[node_type]) == ({"x", "y", "split"} if node_type == "noun" else {"x"})
