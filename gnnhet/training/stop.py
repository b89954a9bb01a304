"""Requests to stop: Ctrl-C and SIGTERM end a run after its step, with a checkpoint."""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether someone asked the run to stop; a file carries the request to ranks in other processes.

    As a context it turns the first SIGINT or SIGTERM into a request; a second one interrupts as usual. Outside the main
    thread signals are left alone.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Nothing is asked yet, unless the file is there.

        Args:
            path: the file that carries the request.
        """
        self._path = path
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def ask(self) -> None:
        """Ask for a stop."""
        self._asked = True
        if self._path is not None:
            self._path.touch()

    def requested(self) -> bool:
        """Whether a stop was asked for, here or through the file."""
        return self._asked or (self._path is not None and self._path.exists())

    def __enter__(self) -> "StopRequest":
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self.ask()
        print("stopping after this step with a checkpoint; once more to stop at once", file=sys.stderr, flush=True)
