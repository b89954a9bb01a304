"""What of an ingest is done, so that one that was interrupted goes on from there."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from gnnhet.errors import FormatError, SpecError
from gnnhet.storage.index import ARRAYS, STAGE

FILES = "files"  # the step of files as they were when the ingest began
_JOURNAL = "journal.json"


class Journal:
    """The finished steps of an ingest, kept in the folder where it works.

    Attributes:
        folder: `DEST/.ingest`.
        arrays: where finished arrays wait until all are.
        work: where the source works.
    """

    def __init__(self, dest: Path) -> None:
        """Nothing is read or made yet."""
        self.folder = dest / STAGE
        self.arrays, self.work = self.folder / ARRAYS, self.folder / "source"
        self._dest = dest
        self._asked: dict[str, Any] = {}
        self._done: dict[str, Any] = {}

    def begin(self, asked: dict[str, Any], *, resume: bool) -> None:
        """Make the folder, or take up what an interrupted ingest left in it.

        Args:
            asked: what the ingest is of: plain values, the same again for the same ingest.
            resume: go on from what is done; else it is removed.

        Raises:
            SpecError: another ingest was interrupted here.
            FormatError: its journal cannot be read.
        """
        path = self.folder / _JOURNAL
        self._asked = json.loads(json.dumps(asked))
        if resume and path.exists():
            try:
                found = json.loads(path.read_bytes())
                left, done = found["asked"], found["done"]
            except (ValueError, KeyError, TypeError) as error:
                raise FormatError(f"{path} must be a journal of an ingest, got {error}: leave --resume out") from error
            if left != self._asked:
                differ = sorted(key for key in {*left, *self._asked} if left.get(key) != self._asked.get(key))
                raise SpecError(
                    f"an ingest is resumed with what it was begun with, got another {', '.join(differ)} "
                    f"({', '.join(str(left.get(key)) for key in differ)} before): leave --resume out to begin anew"
                )
            self._done = done
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.arrays.mkdir(parents=True, exist_ok=True)
        self._write()

    def found(self, step: str) -> Any:
        """What a finished step left, or None; a step whose files are gone is not finished."""
        value = self._done.get(step)
        if value is not None and all(self.where(entry) for entry in _entries(value)):
            return value
        return None

    def finish(self, step: str, value: Any) -> None:
        """Note a step as finished; its files are synced already."""
        self._done[step] = value
        self._write()

    def _write(self) -> None:
        beside = self.folder / f".{_JOURNAL}.part"
        with beside.open("w") as file:
            json.dump({"asked": self._asked, "done": self._done}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.folder / _JOURNAL)

    def where(self, entry: dict[str, Any]) -> Path | None:
        """Where a finished file lies whole: here, or where it belongs already."""
        for place in (self.folder, self._dest):
            path = place / str(entry["file"])
            if path.exists() and path.stat().st_size == entry["bytes"]:
                return path
        return None

    @property
    def finished(self) -> bool:
        """Whether any step is; that files were looked at is none."""
        return bool(self._done.keys() - {FILES})

    @property
    def started(self) -> bool:
        """Whether there is anything to go on with: a finished step, or what the source made for itself."""
        return self.finished or any(path.is_file() for path in self.work.rglob("*"))

    def remove(self) -> None:
        """The folder and all in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _entries(value: Any) -> list[dict[str, Any]]:
    """The descriptions of files in a step's value."""
    if isinstance(value, dict):
        if "xxh3_128" in value:
            return [value]
        return [entry for part in value.values() for entry in _entries(part)]
    return []
