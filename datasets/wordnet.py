"""WordNet 3.0 as a typed graph, embedded: made by `make_wordnet.py`, licence in `wordnet.LICENSE` (Miller, 1995)."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gnnhet.datasets.files import read_npz
from gnnhet.datasets.raw import NO_SPLIT, TEST, TRAIN, VAL, Array, RawGraph, Relation
from gnnhet.errors import SpecError

FILE = Path(__file__).with_name("wordnet.npz")
TARGET = "noun"
FIRST_NOUN_CATEGORY = 3  # lexicographer files 03 to 28 are the nouns'


def read(buckets: int = 512) -> RawGraph:
    """The graph: 117,659 synsets (noun, verb, adjective, adverb), 364,552 edges of 61 relations.

    Each pointer type between two node types is a relation; an edge leads from the synset that holds the pointer to the one
    it points to. Features are hashed bags of gloss words, each row of length 1. The task: the 26 lexicographer categories
    of nouns; ids are shuffled, the first tenth trains, the next validates, the rest tests.

    Args:
        buckets: columns of the features, a divisor of 4,096.

    Raises:
        SpecError: buckets that do not divide the 4,096 hashes.
    """
    arrays = read_npz(FILE)
    if buckets < 1 or int(arrays["hashes"].item()) % buckets:
        raise SpecError(f"buckets must divide {arrays['hashes']}, got {buckets}: use 512 or another power of two")
    counts = {name.removesuffix("_lengths"): array.size for name, array in arrays.items() if name.endswith("_lengths")}
    edges: dict[Relation, tuple[Array, Array]] = {}
    for number, (source, name, destination) in enumerate(arrays["relations"].tolist()):
        degrees = arrays[f"degrees{number}"].astype(np.int64)
        rows = np.repeat(np.arange(degrees.size), degrees)
        edges[(source, name, destination)] = (arrays[f"sources{number}"].astype(np.int64), rows)
    features: dict[str, dict[str, Array]] = {
        node_type: {"x": _bags(arrays[f"{node_type}_words"], arrays[f"{node_type}_lengths"], buckets)} for node_type in counts
    }
    features[TARGET]["y"] = arrays[f"{TARGET}_category"].astype(np.int64) - FIRST_NOUN_CATEGORY
    features[TARGET]["split"] = _split(counts[TARGET])
    return RawGraph(num_nodes=counts, edges=edges, features=features, name="wordnet")


def _bags(words: Array, lengths: Array, buckets: int) -> Array:
    """float32 [synsets, buckets]: how often each bucket's words stand in the gloss, each row of Euclidean length 1."""
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    ones = np.ones(words.size, np.float32)
    dense = sp.csr_matrix((ones, words.astype(np.int64) % buckets, indptr), shape=(lengths.size, buckets)).toarray()
    length = np.sqrt(np.einsum("ij,ij->i", dense, dense))[:, None]
    return np.asarray(dense / np.where(length == 0, 1, length), np.float32)


def _split(count: int) -> Array:
    """10 / 10 / 80 by id: ids are shuffled already."""
    split = np.full(count, NO_SPLIT, np.int8)
    tenth = count // 10
    split[:tenth], split[tenth : 2 * tenth], split[2 * tenth :] = TRAIN, VAL, TEST
    return split
