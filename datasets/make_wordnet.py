"""Make `wordnet.npz` from WordNet 3.0's own files (Miller, 1995), as Debian's `wordnet-base` has them.

    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wn
    python -m gnnhet.datasets.make_wordnet wn/usr/share/wordnet datasets/wordnet.npz

The file holds numbers alone: edges, lexicographer categories, and hashes of gloss words. Two runs give the same bytes.
"""

import io
import re
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnnhet.datasets.files import existing
from gnnhet.datasets.raw import Array
from gnnhet.errors import FormatError

SHUFFLE_SEED = 20061206  # any fixed number: the date of WordNet 3.0's files
HASHES = 4096
FILES = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
TYPES = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
POINTERS = {
    "!": "antonym",
    "@": "hypernym",
    "@i": "instance_hypernym",
    "~": "hyponym",
    "~i": "instance_hyponym",
    "#m": "member_holonym",
    "#s": "substance_holonym",
    "#p": "part_holonym",
    "%m": "member_meronym",
    "%s": "substance_meronym",
    "%p": "part_meronym",
    "=": "attribute",
    "+": "derivation",
    ";c": "topic",
    "-c": "topic_member",
    ";r": "region",
    "-r": "region_member",
    ";u": "usage",
    "-u": "usage_member",
    "*": "entailment",
    ">": "cause",
    "^": "also_see",
    "$": "verb_group",
    "&": "similar_to",
    "<": "participle",
    "\\": "pertainym",
}


@dataclass(frozen=True, kw_only=True)
class Synset:
    """One line of a data file: offset, lexicographer file, (pointer, target type, target offset) of each pointer, gloss."""

    offset: str
    category: int
    pointers: frozenset[tuple[str, str, str]]
    gloss: str


def read_synsets(folder: Path) -> dict[str, list[Synset]]:
    """The synsets of each node type, in file order.

    Raises:
        FormatError: a file is missing or a line is no synset.
    """
    found: dict[str, list[Synset]] = {}
    for name, letter in FILES.items():
        path = existing(folder / f"data.{name}", "a data file of WordNet")
        for number, line in enumerate(path.read_text("latin-1").splitlines(), 1):
            if line.startswith("  "):  # the licence
                continue
            try:
                found.setdefault(TYPES[letter], []).append(parse_line(line))
            except (ValueError, IndexError, KeyError) as error:
                raise FormatError(f"{path} line {number} must be a synset as wndb(5) says, got {line[:60]!r}") from error
    return found


def parse_line(line: str) -> Synset:
    """A synset from its line: offset, category, type, words, pointers, frames, and the gloss behind a bar (wndb(5))."""
    head, _, gloss = line.partition("|")
    words = head.split()
    at = 4 + 2 * int(words[3], 16)
    count = int(words[at])
    fields = words[at + 1 : at + 1 + 4 * count]
    pointers = {(POINTERS[fields[k]], TYPES[fields[k + 2]], fields[k + 1]) for k in range(0, 4 * count, 4)}
    return Synset(offset=words[0], category=int(words[1]), pointers=frozenset(pointers), gloss=gloss.strip())


def arrays_of(synsets: dict[str, list[Synset]]) -> dict[str, Array]:
    """What the file holds; ids of each type are shuffled, since in file order neighbours share their category.

    Raises:
        FormatError: a pointer to no synset.
    """
    place: dict[tuple[str, str], int] = {}
    order: dict[str, Array] = {}
    for number, node_type in enumerate(sorted(synsets)):
        order[node_type] = np.random.Generator(np.random.PCG64([SHUFFLE_SEED, number])).permutation(len(synsets[node_type]))
        for new, old in enumerate(order[node_type]):
            place[(node_type, synsets[node_type][old].offset)] = new
    arrays: dict[str, Array] = {"hashes": np.array(HASHES)}
    edges: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for node_type, members in synsets.items():
        for synset in members:
            for name, other, offset in synset.pointers:
                if (other, offset) not in place:
                    raise FormatError(
                        f"pointers must lead to a synset, got {other} {offset} in {synset.offset}: restore the files"
                    )
                pair = (place[(other, offset)], place[(node_type, synset.offset)])
                edges.setdefault((node_type, name, other), []).append(pair)
    relations = sorted(edges)
    arrays["relations"] = np.array(relations)
    for number, relation in enumerate(relations):
        pairs = np.array(sorted(edges[relation]), np.int64)
        degrees = np.bincount(pairs[:, 0], minlength=len(synsets[relation[2]]))
        arrays[f"degrees{number}"] = degrees.astype(np.min_scalar_type(int(degrees.max())))
        arrays[f"sources{number}"] = pairs[:, 1].astype(np.uint32)
    for node_type in sorted(synsets):
        shuffled = [synsets[node_type][old] for old in order[node_type]]
        bags = [sorted(hash_words(synset.gloss)) for synset in shuffled]
        arrays[f"{node_type}_words"] = np.array([word for bag in bags for word in bag], np.uint16)
        arrays[f"{node_type}_lengths"] = np.array([len(bag) for bag in bags], np.uint16)
        arrays[f"{node_type}_category"] = np.array([synset.category for synset in shuffled], np.uint8)
    return arrays


def hash_words(gloss: str) -> list[int]:
    """CRC-32 of each lower-cased word of a gloss, modulo HASHES."""
    return [zlib.crc32(word.encode()) % HASHES for word in re.findall(r"[a-z]+", gloss.lower())]


def write(path: Path, arrays: dict[str, Array]) -> None:
    """A `.npz` whose bytes depend on the arrays alone: entries sorted, without dates."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asanyarray(arrays[name]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m gnnhet.datasets.make_wordnet FOLDER_OF_DATA_FILES OUT.npz")
    write(Path(sys.argv[2]), arrays_of(read_synsets(Path(sys.argv[1]))))
