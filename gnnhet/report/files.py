"""Strict JSON, and files that are whole or absent."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np


def dumps(value: object, indent: int | None = None) -> str:
    """Writes JSON that any parser reads: numbers that are not finite become null.

    Args:
        value: mappings, sequences, sets, numbers (numpy's and tensors too), strings, paths, None.
        indent: spaces a level; None for a single line.

    Raises:
        TypeError: a value of another type, which is an error of the caller.
    """
    return json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def parse_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line holds, or None when it holds anything else."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Fills a temporary file beside `path` through `write(temporary)`, syncs it to disk and renames it to `path`.

    Whoever reads sees the old file or the new one, whole. A process killed half-way leaves the temporary file, whose
    name starts with a dot.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def mend_last_line(path: Path) -> None:
    """Completes or removes a last line that a killed process left without its line end."""
    try:
        with path.open("rb+") as file:
            data = file.read()
            last = data.rpartition(b"\n")[2]
            if not last:
                return
            if parse_object(last) is None:
                file.truncate(len(data) - len(last))
            else:
                file.write(b"\n")
    except FileNotFoundError:
        return


def fresh_folder(root: Path, stem: str) -> Path:
    """Makes and returns `root/stem-20260131T115959Z`, or the same with `-2`, `-3`, ... where that is taken."""
    # A stem may come from a path or a spec, such as `planetoid:data/cora-gcn`.
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:80] or "run"
    name = f"{stem}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    root.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()  # fails when another process has just made it, unlike a look before it
        except FileExistsError:
            number += 1
        else:
            return path


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic | np.ndarray) or hasattr(value, "tolist"):  # tensors, without importing torch
        return _plain(value.tolist())
    raise TypeError(f"a value for JSON is plain: got {type(value).__name__}")
