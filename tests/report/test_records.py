import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnhet.errors import FormatError, SpecError
from gnnhet.report import RunFolder
from gnnhet.report.files import dumps, parse_object
from gnnhet.report.records import METRICS


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_json("config.json", {"dataset": "wordnet"})
    return folder


def step(number: int, loss: float | None = 1.0) -> dict[str, object]:
    return {"kind": "step", "epoch": number // 3, "step": number % 3, "global_step": number, "loss": loss}


def epoch(number: int, loss: float | None = 1.0) -> dict[str, object]:
    return {"kind": "epoch", "epoch": number, "loss": loss, "seconds": 0.5, "val": 0.5}


def strict(text: str) -> object:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def test_fresh_folders_are_unique(tmp_path: Path) -> None:
    made = [RunFolder.create(root=tmp_path / "runs", stem="planetoid:data/cora gcn").path for _ in range(3)]
    assert len(set(made)) == 3
    for path in made:
        assert re.fullmatch(r"planetoid-data-cora-gcn-\d{8}T\d{6}Z(-\d+)?", path.name)
        assert path.is_dir()


def test_fresh_folders_are_unique_among_threads(tmp_path: Path) -> None:
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(RunFolder.create(root=tmp_path).path)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8


def test_a_folder_with_a_run_is_not_taken(run: RunFolder) -> None:
    with pytest.raises(SpecError, match=rf"holds a run; go on with it by --resume {re.escape(str(run.path))}"):
        RunFolder.create(run.path)


def test_a_folder_without_a_run_is_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert RunFolder.create(tmp_path).path == tmp_path
    with pytest.raises(SpecError, match="got the file"):
        RunFolder.create(tmp_path / "notes.txt")


def test_open(run: RunFolder, tmp_path: Path) -> None:
    assert RunFolder.open(run.path).read_json("config.json") == {"dataset": "wordnet"}
    with pytest.raises(FormatError, match="no folder"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(FormatError, match=r"no config\.json in"):
        RunFolder.open(tmp_path)


def test_json_that_cannot_be_read(run: RunFolder) -> None:
    with pytest.raises(FormatError, match=r"plan\.json cannot be read: No such file"):
        run.read_json("plan.json")
    (run.path / "plan.json").write_bytes(b'{"a": \xff')
    with pytest.raises(FormatError, match=r"plan\.json must be JSON"):
        run.read_json("plan.json")


def test_json_is_strict(run: RunFolder) -> None:
    value = {
        "nan": math.nan,
        "deep": [{"inf": math.inf}, (1, -math.inf)],
        "numpy": np.float32("nan"),
        "array": np.array([1.0, np.nan]),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "tensor": torch.tensor(float("inf")),
        "path": Path("a/b"),
        "set": {2, 1},
        "text": "é",
        3: None,
    }
    path = run.write_json("plan.json", value)
    assert strict(path.read_text()) == {
        "nan": None,
        "deep": [{"inf": None}, [1, None]],
        "numpy": None,
        "array": [1.0, None],
        "count": 3,
        "flag": True,
        "tensor": None,
        "path": "a/b",
        "set": [1, 2],
        "text": "é",
        "3": None,
    }
    with pytest.raises(TypeError, match="got object"):
        run.write_json("plan.json", object())
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []


def test_a_write_that_fails_keeps_the_old_file(run: RunFolder) -> None:
    with pytest.raises(TypeError):
        run.write_json("config.json", {"dataset": object()})
    assert run.read_json("config.json") == {"dataset": "wordnet"}


def test_records_and_losses(run: RunFolder) -> None:
    assert run.records() == []
    assert run.step_losses() == run.epoch_losses() == []
    for number, loss in enumerate([3.0, math.nan, 1.0]):
        run.append(step(number, loss))
    run.append(epoch(0, 2.0))
    run.append({"kind": "note", "text": "line\nend"})
    assert run.records() == [
        step(0, 3.0),
        step(1, None),
        step(2, 1.0),
        epoch(0, 2.0),
        {"kind": "note", "text": "line\nend"},
    ]
    np.testing.assert_array_equal(run.step_losses(), [3.0, math.nan, 1.0])
    assert run.epoch_losses() == [2.0]
    run.append(step(0, 9.0))
    np.testing.assert_array_equal(run.step_losses(), [9.0, math.nan, 1.0])


@given(
    st.lists(st.dictionaries(st.text(), st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
)
def test_any_record_reads_back(records: list[dict[str, object]]) -> None:
    for record in records:
        line = dumps(record).encode()
        assert b"\n" not in line
        assert parse_object(line) == record


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_partial_last_line_is_ignored_and_mended(run: RunFolder, cut: int) -> None:
    run.append(step(0))
    path = run.path / METRICS
    with path.open("ab") as file:
        file.write(dumps(step(1)).encode()[:cut])
    again = RunFolder.open(run.path)
    assert again.records() == [step(0)]
    again.append(step(1))
    assert again.records() == [step(0), step(1)]
    assert path.read_bytes().endswith(b"}\n")


def test_a_last_line_that_lacks_only_its_end_is_kept(run: RunFolder) -> None:
    (run.path / METRICS).write_text(dumps(step(0)))
    assert run.records() == [step(0)]
    run.append(step(1))
    assert run.records() == [step(0), step(1)]


@pytest.mark.parametrize("garbage", ["{", "[1]", "", "\x00\x00", "3"])
def test_garbage_elsewhere_names_its_line(run: RunFolder, garbage: str) -> None:
    (run.path / METRICS).write_text(f"{dumps(step(0))}\n{garbage}\n{dumps(step(1))}\n")
    with pytest.raises(FormatError, match="at line 2; "):
        run.records()


def test_a_record_without_its_place_is_refused(run: RunFolder) -> None:
    run.append({"kind": "step", "loss": 1.0})
    with pytest.raises(FormatError, match="a step record has an integer global_step: got None"):
        run.step_losses()
    with pytest.raises(FormatError, match="global_step"):
        run.truncate(global_step=0, epoch=0)


def test_truncate_keeps_what_came_before_the_checkpoint(run: RunFolder) -> None:
    for number in range(7):
        run.append(step(number, number))
        if number % 3 == 2:
            run.append(epoch(number // 3))
    run.append({"kind": "note"})
    run.truncate(global_step=5, epoch=1)
    assert run.records() == [*map(step, range(3), range(3)), epoch(0), step(3, 3), step(4, 4), {"kind": "note"}]
    run.append(step(5, 5.5))
    assert run.step_losses() == [0, 1, 2, 3, 4, 5.5]
    run.truncate(global_step=0, epoch=0)
    assert run.records() == [{"kind": "note"}]


def test_truncate_before_the_first_record(run: RunFolder) -> None:
    run.truncate(global_step=0, epoch=0)
    assert run.records() == []


WRITER = """
import itertools, sys
from gnnhet.report.records import RunFolder
run = RunFolder.open(sys.argv[1])
print("ready", flush=True)
for number in itertools.count(len(run.records())):
    run.append({"kind": "step", "epoch": 0, "step": number, "global_step": number, "loss": 1.0, "fill": "x" * 20000})
    run.write_json("plan.json", {"number": number, "fill": ["x" * 100] * 2000})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX")
def test_a_killed_writer_leaves_whole_files(run: RunFolder) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    run.write_json("plan.json", {"number": -1})
    seen = 0
    for attempt in range(5):
        command = [sys.executable, "-P", "-c", WRITER, str(run.path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(0.1 + 0.037 * attempt)
            writer.send_signal(signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        again = RunFolder.open(run.path)
        numbers = [record["global_step"] for record in again.records()]
        assert numbers == list(range(len(numbers)))  # none lost, none twice, in order
        assert len(numbers) > seen
        assert len(numbers) - 2 <= again.read_json("plan.json")["number"] < len(numbers)
        seen = len(numbers)


def test_a_reader_beside_a_writer_sees_whole_files(run: RunFolder) -> None:
    run.write_json("plan.json", {"numbers": [0] * 5000})
    stop = threading.Event()
    done: list[int] = []

    def write() -> None:
        writer = RunFolder.open(run.path)
        for number in range(10**6):
            if stop.is_set():
                return
            writer.write_json("plan.json", {"numbers": [number] * 5000})
            writer.append(step(number))
            done.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while len(done) < 20:
            assert len(set(run.read_json("plan.json")["numbers"])) == 1
            assert set(run.step_losses()) <= {1.0}
    finally:
        stop.set()
        thread.join()
