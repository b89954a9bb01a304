"""A run folder: what was run, how it was placed, and what came out, step by step.

    config.json      what was asked for          plan.json      where it computes
    metrics.jsonl    {"kind": "step", "epoch": 0, "step": 0, "global_step": 0, "loss": 3.21}       a line a step
                     {"kind": "epoch", "epoch": 0, "loss": 2.98, "seconds": 1.2, "val": 0.61}      a line an epoch
    checkpoint/      the state to resume from    picture.png    loss and accuracy

JSON is strict: NaN and infinities are written as null. A process killed at any moment leaves every file whole, save
for one partial last line of metrics.jsonl, which reading ignores and the next append removes.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnnhet.errors import FormatError, SpecError
from gnnhet.report.files import dumps, fresh_folder, mend_last_line, parse_object, write_atomically

Record = dict[str, Any]

CONFIG, PLAN, METRICS, CHECKPOINT, PICTURE = "config.json", "plan.json", "metrics.jsonl", "checkpoint", "picture.png"


class RunFolder:
    """The files of one run.

    One process writes at a time: with several ranks, rank 0. No file stays open between calls, so there is nothing
    to close.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Names a folder and touches nothing; use `create` or `open`."""
        self.path = Path(path)
        self._ends_whole = False  # whether metrics.jsonl is known to end at the end of a line

    @classmethod
    def create(
        cls, path: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] = "runs", stem: str = "run"
    ) -> "RunFolder":
        """Makes the folder of a new run.

        Args:
            path: the folder, which may exist as long as it holds no run; None for a fresh one,
                `root/stem-20260131T115959Z`, with `-2`, `-3`, ... where that is taken.
            root: parent of fresh folders.
            stem: start of a fresh folder's name, such as `wordnet-rgcn`; anything but `A-Za-z0-9._-` becomes `-`.

        Raises:
            SpecError: the folder holds a run already, or is a file.
        """
        if path is None:
            return cls(fresh_folder(Path(root), stem))
        folder = cls(path)
        if folder.path.exists() and not folder.path.is_dir():
            raise SpecError(f"a run is kept in a folder: got the file {folder.path}; name another with --run")
        if folder.holds_run():
            raise SpecError(
                f"a new run needs a folder without one: {folder.path} holds a run; "
                f"go on with it by --resume {folder.path}, or name another with --run"
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """Opens the folder of a run. Raises `FormatError` when it is not one."""
        folder = cls(path)
        if not (folder.path / CONFIG).is_file():
            got = f"no {CONFIG} in {folder.path}" if folder.path.is_dir() else f"no folder {folder.path}"
            raise FormatError(f"a run folder holds a {CONFIG}: {got}; name a folder that `gnnhet train` has written")
        return folder

    @property
    def checkpoint(self) -> Path:
        """Where the checkpoint goes; the folder may not exist yet."""
        return self.path / CHECKPOINT

    @property
    def picture(self) -> Path:
        """Where the picture goes; it may not exist yet."""
        return self.path / PICTURE

    def holds_run(self) -> bool:
        """Whether a run has left anything here."""
        return any((self.path / name).exists() for name in (CONFIG, METRICS, CHECKPOINT))

    def write_json(self, name: str, value: object) -> Path:
        """Writes a value as JSON, atomically: whoever reads sees the old file or the new one, whole.

        Args:
            name: file name in the folder, such as `config.json`.
            value: mappings, sequences, numbers (numpy's and one-element tensors too), strings, paths, None.

        Returns:
            The file's path.
        """
        data = (dumps(value, indent=2) + "\n").encode()
        return write_atomically(self.path / name, lambda temporary: temporary.write_bytes(data))

    def read_json(self, name: str) -> Any:
        """Reads a JSON file of the folder. Raises `FormatError` when it is missing or not JSON."""
        path = self.path / name
        try:
            return json.loads(path.read_bytes())
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror}; is this the folder of a run?") from error
        except ValueError as error:
            raise FormatError(f"{path} must be JSON: got {error}; restore the file or start a new run") from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one line to metrics.jsonl and hands it to the operating system before returning."""
        line = (dumps(record) + "\n").encode()
        path = self.path / METRICS
        if not self._ends_whole:
            mend_last_line(path)
            self._ends_whole = True
        with path.open("ab", buffering=0) as file:
            written = file.write(line)
            while written < len(line):  # a signal or a nearly full disk may cut a write short
                written += file.write(line[written:])

    def records(self) -> list[Record]:
        """All records of metrics.jsonl in the order written, without a partial last line.

        Raises:
            FormatError: a line that is not a JSON object; the message names it.
        """
        path = self.path / METRICS
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for number, line in enumerate(lines, start=1):
            record = parse_object(line)
            if record is not None:
                found.append(record)
            elif number < len(lines):  # the last one is empty, or was cut short by the end of its process
                raise FormatError(
                    f"{path} holds a JSON object a line: got {line[:60]!r} at line {number}; remove that line or start a new run"
                )
        return found

    def truncate(self, global_step: int, epoch: int) -> None:
        """Takes back what came after a checkpoint, so that a resumed run records each step once.

        Args:
            global_step: the first step that will run again; steps before it are kept.
            epoch: the first epoch that will end again; epochs before it are kept.
        """
        bounds = {"step": ("global_step", global_step), "epoch": ("epoch", epoch)}

        def kept(record: Record) -> bool:
            key, bound = bounds.get(record.get("kind", ""), ("", 0))
            return not key or self._field(record, key) < bound

        data = "".join(dumps(record) + "\n" for record in self.records() if kept(record)).encode()
        write_atomically(self.path / METRICS, lambda temporary: temporary.write_bytes(data))
        self._ends_whole = True

    def step_losses(self) -> list[float]:
        """The loss of every step in order; NaN where it was not finite. The last record of a step counts."""
        return self._losses("step", "global_step")

    def epoch_losses(self) -> list[float]:
        """The loss of every epoch in order; NaN where it was not finite. The last record of an epoch counts."""
        return self._losses("epoch", "epoch")

    def _losses(self, kind: str, key: str) -> list[float]:
        losses = {self._field(record, key): record.get("loss") for record in self.records() if record.get("kind") == kind}
        return [math.nan if loss is None else float(loss) for _, loss in sorted(losses.items())]

    def _field(self, record: Record, key: str) -> int:
        value = record.get(key)
        if not isinstance(value, int):
            raise FormatError(
                f"{self.path / METRICS}: a {record['kind']} record has an integer {key}: got {value!r}; "
                f"mend that line or start a new run"
            )
        return value
