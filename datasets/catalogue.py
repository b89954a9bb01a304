"""Graphs by the words a person types."""

import dataclasses
import difflib
import importlib
from collections.abc import Callable
from pathlib import Path

from gnnhet.datasets import communities, dgl, metis, mtx, named, npz_bundle, planetoid, pyg, rdf, rmat, wordnet
from gnnhet.datasets.raw import RawGraph
from gnnhet.datasets.source import Source, of_raw, to_raw
from gnnhet.errors import SpecError

READERS: dict[str, Callable[[str], RawGraph]] = {
    "dgl": dgl.read,
    "metis": metis.read,
    "mtx": mtx.read,
    "npz": npz_bundle.read,
    "planetoid": planetoid.read,
    "pyg": pyg.read,
    "rdf": rdf.read,
}
STREAMS = {  # read in pieces by `source(path, **options)` of a module that is imported when it is asked for
    "graphbolt": "gnnhet.datasets.graphbolt",
    "ogb": "gnnhet.datasets.ogb",
    "tables": "gnnhet.datasets.tables",
}
GENERATORS: dict[str, Callable[[int, int], RawGraph]] = {"communities": communities.generate, "rmat": rmat.generate}
_SIZES = {"communities": "NODES:EDGES", "rmat": "SCALE:EDGES"}
_MOST = 1 << 40  # ids beyond are a slip of the keyboard; numpy fails on far larger ones in ways of its own


def read(spec: str, root: str | None = None) -> RawGraph:
    """Read or make a graph.

    Args:
        spec: a name (`wordnet`, `cora`, `ogbn-products`), `READER:PATH` (`planetoid:DIR`, `npz:FILE`, `rdf:DIR`, `pyg:FILE`,
            `dgl:FILE#INDEX`, `mtx:FILE`, `metis:FILE`, `ogb:DIR`, `graphbolt:DIR`, `tables:DIR`), or a generator
            (`rmat:SCALE:EDGES`, `communities:NODES:EDGES`).
        root: where raw files of named sets lie or go; by default `data`.

    Raises:
        SpecError: a name nobody knows, or sizes that are none.
        FormatError: a path that is not there or cannot be read.
    """
    kind, colon, rest = spec.partition(":")
    if colon and kind in READERS:
        return READERS[kind](rest)
    if colon and kind in STREAMS:
        return to_raw(source(spec))
    if colon and kind in GENERATORS:
        try:
            return GENERATORS[kind](*_two_sizes(kind, rest))
        except MemoryError as error:
            raise SpecError(f"a generated graph must fit into memory, got {spec}: ask for fewer nodes or edges") from error
    if spec == "wordnet":
        return wordnet.read()
    if spec in named.READERS:
        return named.READERS[spec](spec, root)
    known = [f"{name}:PATH" for name in sorted([*READERS, *STREAMS])] + [f"{name}:{_SIZES[name]}" for name in GENERATORS]
    names = ["wordnet", *named.READERS]
    near = difflib.get_close_matches(kind, [*names, *READERS, *STREAMS, *GENERATORS], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SpecError(f"a graph must be a folder, one of {', '.join(names)}, or {', '.join(known)}, got {spec!r}{hint}")


def source(spec: str, root: str | None = None, **options: object) -> Source:
    """A graph to be ingested, in pieces where its reader can: arguments and errors are those of `read`.

    Args:
        spec: as `read` takes it.
        root: as `read` takes it.
        options: of the reader, where it reads in pieces.
    """
    kind, colon, rest = spec.partition(":")
    if colon and kind in STREAMS:
        made: Source = importlib.import_module(STREAMS[kind]).source(rest, **options)
    elif colon and kind == "rmat":
        return rmat.source(*_two_sizes(kind, rest))
    else:
        made = of_raw(read(spec, root))
    place = dgl.parted(rest)[0] if kind == "dgl" else Path(rest)
    if made.files or not colon or not place.exists():
        return made
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    return dataclasses.replace(made, files=files)


def _two_sizes(kind: str, text: str) -> tuple[int, int]:
    """`SCALE:EDGES` as whole numbers; underscores may part the digits."""
    try:
        first, second = (int(part) for part in text.split(":"))
    except ValueError:
        raise SpecError(f"{kind} needs two whole numbers, {kind}:{_SIZES[kind]}, got {kind}:{text}") from None
    if max(first, second) > _MOST:
        raise SpecError(f"{kind} makes up to {_MOST:,} nodes or edges, got {kind}:{text}: ask for fewer")
    return first, second
