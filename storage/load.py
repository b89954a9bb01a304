"""A graph by the words a person types: a folder, a catalogue name, `READER:PATH`, or a generator."""

from pathlib import Path

from gnnhet.datasets import catalogue
from gnnhet.errors import FormatError
from gnnhet.storage.disk import INDEX
from gnnhet.storage.graph import Graph


def load_dataset(spec: str, root: str | None = None) -> Graph:
    """Load or make a graph.

    Args:
        spec: a graph folder, a catalogue name (`wordnet`, `cora`, `ogbn-products`), `READER:PATH` for raw files in place
            (`planetoid:DIR`, `npz:FILE`, `rdf:DIR`, `pyg:FILE`), or a generator (`rmat:SCALE:EDGES`,
            `communities:NODES:EDGES`).
        root: where raw files of named datasets lie or go.

    Raises:
        SpecError: a name nobody knows.
        FormatError: a path that is not there or cannot be read.
    """
    path = Path(spec)
    if (path / INDEX).exists():
        return Graph.open(path)
    if path.is_dir():
        raise FormatError(f"a graph folder holds {INDEX}, got {spec} without: for raw files say READER:{spec}")
    if ":" not in spec and path.parent != Path("."):
        raise FormatError(f"a path must lead to a graph folder, got {spec}, which is not there")
    return Graph.from_raw(catalogue.read(spec, root))
