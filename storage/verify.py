"""Re-check of a saved graph: every byte against its checksum, every array against the rules of the graph."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from gnnhet.errors import ChecksumError, FormatError, GnnhetError
from gnnhet.storage import csc, disk
from gnnhet.storage.features import FeatureStore

_CHUNK_BYTES = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What `verify` found.

    Attributes:
        files: array files read.
        num_bytes: their bytes.
        problems: one line for each damaged file or broken rule; empty where the graph is whole.
    """

    files: int
    num_bytes: int
    problems: tuple[str, ...]


def verify(path: str | Path, advance: Callable[[int], None] = lambda num_bytes: None) -> Verified:
    """Read a graph folder whole.

    Args:
        path: the folder.
        advance: called with the bytes read since its last call, from several threads.

    Raises:
        FormatError: there is no readable `graph.json`.
    """
    folder = Path(path)
    document = disk.read_index(folder)
    entries = disk.array_entries(document)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        damage = [line for line in pool.map(lambda entry: _check_file(folder, entry, advance), entries) if line]
    problems = damage or _check_structure(folder)
    return Verified(files=len(entries), num_bytes=sum(int(entry["bytes"]) for entry in entries), problems=tuple(problems))


def _check_file(folder: Path, entry: dict[str, Any], advance: Callable[[int], None]) -> str:
    """What is wrong with one file's bytes, or an empty line."""
    try:
        path = disk.array_path(folder, entry)
        disk.map_array(folder, entry)
        digest = xxhash.xxh3_128()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                advance(len(chunk))
        if digest.hexdigest() != entry["xxh3_128"]:
            raise ChecksumError(f"{path} must have checksum {entry['xxh3_128']}, got {digest.hexdigest()}: restore it")
    except (GnnhetError, OSError, KeyError) as error:
        return str(error)
    return ""


def _check_structure(folder: Path) -> list[str]:
    """Broken rules of the graph in files whose bytes are right."""
    problems = []
    try:
        stored = disk.read(folder)
    except FormatError as error:
        return [str(error)]
    for relation, part in stored.relations.items():
        try:
            csc.from_csc(
                part.indptr,
                part.indices,
                num_src=stored.num_nodes[relation[0]],
                num_dst=stored.num_nodes[relation[2]],
                what=str(relation),
                edge_ids=part.edge_ids,
            )
        except GnnhetError as error:
            problems.append(f"{folder}: {error}")
    for owner, name, rows in stored.features:
        try:
            bits = rows.array.view(np.int16) if rows.array.dtype == np.uint16 else rows.array  # torch may not have uint16
            FeatureStore().add(owner, name, bits, bits.shape[0])
        except GnnhetError as error:
            problems.append(f"{folder}: {error}")
    return problems
