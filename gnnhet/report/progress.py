"""Progress of long work, on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PATIENCE_SECONDS = 1.0  # work that ends sooner shows nothing


class Progress:
    """A context that shows how far work has come, once it has taken a second; see `track`.

    Any thread may call `advance`. stdout is never touched.
    """

    def __init__(self, total: int | None, description: str, unit: str, quiet: bool, every_seconds: float) -> None:
        """Shows nothing yet; arguments as `track`."""
        self.done = 0
        self.note = ""
        self._total = total
        self._description = description
        self._unit = unit
        self._quiet = quiet
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._bar: Bar | None = None
        self._timer: threading.Timer | None = None
        self._start = self._last_line = time.monotonic()

    def __enter__(self) -> "Progress":
        """Starts the clock."""
        self._start = self._last_line = time.monotonic()
        # A timer shows the bar, not the first `advance`: a first step that takes long should not look like a hang.
        if not self._quiet and sys.stderr.isatty():
            self._timer = threading.Timer(_PATIENCE_SECONDS, self._show_bar)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Ends the bar; elsewhere says in a last line what was done, unless the work failed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            elif self._plain() and kind is None and self._elapsed() >= _PATIENCE_SECONDS:
                amount = f"{self.done:,} {self._unit} in {_duration(self._elapsed())}"
                self._print(f"{amount}, {_rate(self.done / self._elapsed())} {self._unit}/s")

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Counts `amount` more units as done.

        Args:
            amount: units done since the last call.
            note: shown behind the rest until the next one, such as `loss 0.532`.
        """
        with self._lock:
            self.done += amount
            self.note = note or self.note
            if self._bar is not None:
                task = self._bar.task_ids[0]
                self._bar.update(task, completed=self.done, note=self.note, rate=self._speed())
            elif self._plain():
                now = time.monotonic()
                first = self._last_line == self._start
                if now - self._last_line >= (_PATIENCE_SECONDS if first else self._every_seconds):
                    self._last_line = now
                    self._print(self._line())

    def _plain(self) -> bool:
        return not self._quiet and self._timer is None

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)

    def _speed(self) -> str:
        return f"{_rate(self.done / self._elapsed())} {self._unit}/s"

    def _line(self) -> str:
        parts = [self._speed()]
        if self._total:
            head = f"{self.done:,}/{self._total:,} {self._unit} ({self.done / self._total:.0%})"
            if 0 < self.done < self._total:
                parts.append(f"{_duration(self._elapsed() / self.done * (self._total - self.done))} left")
        else:
            head = f"{self.done:,} {self._unit}"
        return ", ".join([head, *parts, *([self.note] if self.note else [])])

    def _print(self, text: str) -> None:
        print(f"{self._description}: {text}", file=sys.stderr, flush=True)

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
            expand=True,
            redirect_stdout=False,  # stdout may carry one JSON object, which is not ours to move
        )
        with self._lock:
            bar.add_task(self._description, total=self._total, completed=self.done, note=self.note, rate=self._speed())
            bar.start()
            self._bar = bar


def track(
    total: int | None, description: str, unit: str = "steps", *, quiet: bool = False, every_seconds: float = 5.0
) -> Progress:
    """Shows the progress of long work on stderr.

        with track(len(batches), "training", "batches") as progress:
            for batch in batches:
                ...
                progress.advance(note=f"loss {loss:.3f}")

    On a terminal: a bar with rate and time left. Elsewhere: a plain line after a second and every few seconds from
    then on, and one at the end. Work that takes less than a second shows nothing.

    Args:
        total: units of work; None when unknown.
        description: what is done, such as `training`.
        unit: plural of what is counted, such as `batches`.
        quiet: True to show nothing.
        every_seconds: time between plain lines.

    Returns:
        A context with `advance(amount=1, note="")`.
    """
    return Progress(total, description, unit, quiet, every_seconds)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
