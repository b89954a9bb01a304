"""Checkpoints: everything a run needs to go on, anywhere, replaced in one rename."""

import os
from pathlib import Path
from typing import Any

import torch

from gnnhet.errors import FormatError
from gnnhet.report.files import write_atomically

LAST, BEST = "last.pt", "best.pt"
VERSION = 1


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors and plain values; a kill or a full disk leaves the one before.

    Raises:
        OSError: the disk refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda beside: torch.save({"version": VERSION, **state}, beside))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path) -> dict[str, Any]:
    """Read a state; nothing in it is executed.

    Raises:
        FormatError: absent, damaged, or of a newer version.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FormatError(f"a run resumes from {path}, got none: it ended before its first checkpoint; start it anew") from None
    except Exception as error:  # torch raises RuntimeError, UnpicklingError, EOFError, ... by what is broken
        raise FormatError(f"{path} must be a checkpoint of ours, got {type(error).__name__}: restore it or start anew") from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise FormatError(f"{path} must be a checkpoint of version {VERSION}: resume with the gnnhet that wrote it")
    return state
