"""`metadata.yaml` of GraphBolt's on-disk data sets: its entries, held to what they must be."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NoReturn

from gnnhet.datasets.files import one_line
from gnnhet.errors import FormatError, MissingDependencyError

NAME, PREPROCESSED = "metadata.yaml", "preprocessed"


@dataclass(frozen=True)
class Entry:
    """A mapping of the document.

    Attributes:
        file: the document.
        place: where in it the mapping stands; empty for the whole.
        given: its keys and values.
    """

    file: Path
    place: str
    given: Mapping[Any, Any]

    def entry(self, key: str) -> "Entry":
        """A mapping in this one.

        Raises:
            FormatError: none there, or something else.
        """
        found = self.given.get(key)
        if not isinstance(found, dict):
            self.refuse(key, "a mapping", found)
        return Entry(self.file, self._at(key), found)

    def entries(self, key: str) -> list["Entry"]:
        """A list of mappings in this one; where there is none, no entries.

        Raises:
            FormatError: something else.
        """
        found = self.given.get(key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
            self.refuse(key, "a list of mappings", found)
        return [Entry(self.file, f"{self._at(key)}[{number}]", part) for number, part in enumerate(found)]

    def text(self, key: str) -> str | None:
        """A string, None where there is none.

        Raises:
            FormatError: something else.
        """
        found = self.given.get(key)
        if found is not None and (not isinstance(found, str) or not found):
            self.refuse(key, "a string", found)
        return found

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """One of some words.

        Raises:
            FormatError: none of them.
        """
        found = self.given.get(key)
        if found not in known:
            self.refuse(key, " or ".join(known), found)
        return str(found)

    def count(self, key: str) -> int:
        """A whole number of 0 or more.

        Raises:
            FormatError: none.
        """
        found = self.given.get(key)
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            self.refuse(key, "a whole number of 0 or more", found)
        return int(found)

    def path(self, root: Path) -> Path:
        """The file that `path` names, in the folder; links in there are followed.

        Raises:
            FormatError: no path, or one that leads out of the folder.
        """
        found = self.text("path")
        if found is None:
            self.refuse("path", "the path of a file", found)
        kinds = PurePosixPath(found), PureWindowsPath(found)
        if "\0" in found or any(kind.is_absolute() or kind.drive or ".." in kind.parts for kind in kinds):
            self.refuse("path", "a path within the folder", found)
        return root / found

    def refuse(self, key: str, rule: str, got: object) -> NoReturn:
        """Say what the value of a key must be and is not."""
        shown = "nothing" if got is None else " ".join(repr(got).split())
        raise FormatError(f"{self.file}: {self._at(key)} must be {rule}, got {shown[:100]}: correct it")

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def open_document(place: Path) -> tuple[Path, Entry]:
    """The folder that paths count from, and the document that names the files of edges.

    Args:
        place: the folder of a data set, or the `preprocessed` one in it, which names no edges.

    Raises:
        FormatError: no document, one that cannot be read, or none with `graph`.
        MissingDependencyError: no PyYAML.
    """
    folder = place.resolve()
    above = [folder.parent] if folder.name == PREPROCESSED else []
    files = [file for part in (folder, *above, folder / PREPROCESSED) if (file := part / NAME).is_file()]
    if not files:
        raise FormatError(f"a folder of GraphBolt must hold {NAME}, got {place} without: check the path")
    for file in files:
        document = Entry(file, "", _load(file))
        if "graph" in document.given:
            return file.parent, document
    keys = ", ".join(map(str, _load(files[0])))[:200]
    raise FormatError(
        f"{files[0]} must have the key graph, which names the files of edges, got {keys or 'none'}: graph_topology alone is "
        f"an object of DGL's own; put {NAME} and the edges back that it was made of"
    )


def _load(file: Path) -> dict[Any, Any]:
    """The document; plain values are made of it and nothing else."""
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError(f"graphbolt needs PyYAML, got {error}: pip install 'gnnhet[graphbolt]'") from error
    try:
        found = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:  # ValueError: of dates and decoding
        raise FormatError(f"{file} must be plain YAML, got {one_line(error)}: correct it") from error
    if not isinstance(found, dict):
        raise FormatError(f"{file} must be a mapping with the key graph, got {type(found).__name__}: correct it")
    return found
