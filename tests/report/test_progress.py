import os
import subprocess
import sys
import threading
import time

import pytest

from gnnhet.report import track
from gnnhet.report.progress import _duration

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), "TERM": "xterm"}

WORK = """
import sys, time
from gnnhet.report.progress import track
with track(16, "training", "batches") as progress:
    for _ in range(16):
        time.sleep(float(sys.argv[1]) / 16)
        progress.advance(note="loss 0.5")
print("{}")
"""


def test_short_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with track(3, "loading") as progress:
        for _ in range(3):
            progress.advance()
    assert progress.done == 3
    assert capsys.readouterr() == ("", "")


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with track(1200, "training", "batches", every_seconds=0.2) as progress:
        for _ in range(12):
            time.sleep(0.11)
            progress.advance(100, note="loss 0.5")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 2 <= len(lines) <= 4
    assert lines[0].startswith("training: 1,000/1,200 batches (83%), ")
    assert lines[0].endswith(" left, loss 0.5")
    assert lines[-1].startswith("training: 1,200 batches in 1.")
    assert lines[-1].endswith(" batches/s")


def test_an_unknown_total(capsys: pytest.CaptureFixture[str]) -> None:
    with track(None, "reading", "rows") as progress:
        time.sleep(1.05)
        progress.advance(7)
    assert capsys.readouterr().err.startswith("reading: 7 rows, 6.")


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with track(2, "training", quiet=True) as progress:
        time.sleep(1.05)
        progress.advance()
    assert capsys.readouterr() == ("", "")


def test_failed_work_says_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with track(2, "training"):
            time.sleep(1.05)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert capsys.readouterr().err == ""


def test_threads_may_advance() -> None:
    with track(None, "counting", quiet=True) as progress:

        def work() -> None:
            for _ in range(1000):
                progress.advance()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert progress.done == 4000


def on_terminal(seconds: float) -> tuple[str, str]:
    """What a process prints on stdout, and on its stderr, which is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-c", WORK, str(seconds)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side has closed
                break
            if not data:
                break
            shown += data
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    return out, shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_on_a_terminal() -> None:
    out, shown = on_terminal(1.6)
    assert out == "{}\n"
    for part in ("training", "16/16", "batches/s", "loss 0.5"):
        assert part in shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_short_work_shows_no_bar() -> None:
    assert on_terminal(0.1) == ("{}\n", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.2 s"), (12.4, "12 s"), (61, "1 min 1 s"), (3599.7, "1 h 0 min"), (7384, "2 h 3 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
