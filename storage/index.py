"""`graph.json`: what it may say, and where the files lie that it names."""

import json
import re
from pathlib import Path
from typing import Any

from gnnhet.errors import FormatError
from gnnhet.storage.features import Owner

FORMAT = "gnnhet-graph"
VERSION = 1
INDEX = "graph.json"
ARRAYS = "arrays"
STAGE = ".ingest"  # where a graph is made that is not whole yet
_FILE = {"file", "bytes", "xxh3_128"}
_ENTRY = _FILE | {"dtype", "shape"}


def read_index(folder: Path) -> dict[str, Any]:
    """The parsed `graph.json`, its format and version checked.

    Raises:
        FormatError: absent, unreadable, another format, or newer than this version reads.
    """
    path = folder / INDEX
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        begun = (folder / STAGE).is_dir()
        remedy = "an ingest into it was interrupted, go on with it by --resume" if begun else "save or ingest a graph there first"
        raise FormatError(f"a graph folder holds {INDEX}, got none at {folder}: {remedy}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} must be readable JSON, got {error}: save the graph again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'{path} must say "format": "{FORMAT}": it is not a graph of ours')
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FormatError(f"{path} must be of format version {VERSION} or older, got {version}: update gnnhet to read it")
    return document


def array_entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The description of every array file that `graph.json` names.

    Raises:
        FormatError: an entry lacks a part.
    """
    try:
        entries = [array for relation in document["relations"] for array in relation["arrays"].values()]
        for entry in document["features"]:
            entries += [entry[key] for key in ("array", "scale") if key == "array" or isinstance(entry.get(key), dict)]
        for entry in entries:
            if missing := _ENTRY - set(entry):
                raise KeyError(*sorted(missing))
            int(entry["bytes"])
        return entries
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{INDEX} must describe arrays as FORMAT.md says, got a broken entry ({error!r})") from error


def file_entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The description of every file that `graph.json` names: arrays, then the tables of ids.

    Raises:
        FormatError: an entry lacks a part.
    """
    ids = document.get("ids", {})
    tables = list(ids.values()) if isinstance(ids, dict) else [ids]
    for entry in tables:
        if not isinstance(entry, dict) or not set(entry) >= _FILE or not isinstance(entry["bytes"], int):
            raise FormatError(f"{INDEX} must describe tables of ids as FORMAT.md says, got {entry!r}")
    return array_entries(document) + tables


def array_path(folder: Path, entry: dict[str, Any]) -> Path:
    """Where an array lies; a name that leaves the folder is refused.

    Raises:
        FormatError: the name is not a plain file name under `arrays/`.
    """
    name = str(entry["file"])
    if not re.fullmatch(rf"{ARRAYS}/[A-Za-z0-9_.-]+\.npy", name):
        raise FormatError(f"files of a graph must lie in its {ARRAYS}/ folder, got {name!r}")
    return folder / name


def table_path(folder: Path, entry: dict[str, Any]) -> Path:
    """Where a table of ids lies; a name that leaves the folder is refused.

    Raises:
        FormatError: the name does not lead to a file inside.
    """
    name = str(entry["file"])
    if not re.fullmatch(r"(\w[\w.-]*/)*\w[\w.-]*", name, re.ASCII):
        raise FormatError(f"files of a graph must lie in its folder, got {name!r}")
    return folder / name


def tables(folder: Path | None, document: dict[str, Any] | None) -> dict[str, Path]:
    """Node type -> table of ids, of a graph that was opened; none of one in memory."""
    if folder is None or document is None:
        return {}
    return {str(node_type): table_path(folder, entry) for node_type, entry in document.get("ids", {}).items()}


def revision(document: dict[str, Any]) -> int:
    """How often the graph of a folder was written; 1 where an older writer did not count."""
    found = document.get("revision", 1)
    return found if isinstance(found, int) else 1


def owner_of(entry: dict[str, Any]) -> Owner:
    """The node type, or the relation from its list of three, of a feature's entry."""
    value = entry["of"]
    if isinstance(value, list):
        source, name, destination = value
        return str(source), str(name), str(destination)
    return str(value)
