"""How commands end: bad input is one line on stderr and exit code 2; help, version, Ctrl-C, a closed pipe."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.strategies import labelled_graph, typed_labelled_graph

import gnnhet.storage
from gnnhet.cli import main
from gnnhet.config import TrainConfig
from gnnhet.devices import Device
from gnnhet.planning import Plan
from gnnhet.storage import Graph

Captured = pytest.CaptureFixture[str]

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("demo", "info", "verify", "devices", "plan", "train")
CPU = ("--devices", "cpu", "--run", "run")


@pytest.fixture
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved graphs `g`, `t` and `bare` (no labels) in the folder the commands run in."""
    labelled_graph().save(tmp_path / "g")
    typed_labelled_graph().save(tmp_path / "t")
    Graph.from_coo([0, 1], [1, 0], 2).save(tmp_path / "bare")
    monkeypatch.chdir(tmp_path)


def refused(capsys: Captured, *words: str) -> str:
    """The one line that a command ends with."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("frobnicate",), r"No such command 'frobnicate'.*see gnnhet --help"),
        (("trian", "g"), "'train'"),
        (("--frobnicate",), "No such option"),
        (("info",), r"Missing argument.*see gnnhet info --help"),
        (("info", "g", "more"), "unexpected extra argument"),
        (("info", "g", "--jsno"), r"No such option.*--json"),
        (("train", "g", "--epochs", "many"), "--epochs"),
        (("train", "g", "--epochs"), "requires an argument"),
        (("info", "absent"), "a graph must be a folder, one of wordnet"),
        (("info", "no/such/folder"), "a path must lead to a graph folder, got no/such/folder"),
        (("info", "."), "graph.json"),
        (("verify", "absent"), "got none at absent"),
        (("verify", "."), "holds graph.json"),
        (("plan", "absent"), "a graph must be a folder"),
        (("plan", "g", "--model", "sagee"), "did you mean sage"),
        (("plan", "g", "--devices", "cpu@2"), r"a share in \(0, 1\]"),
        (("plan", "g", "--fanouts", "3,,3"), "whole numbers with commas"),
        (("plan", "t", "--model", "sage"), "use one of hgt, mlp, rgcn"),
        (("plan", "t", "--target", "nope"), r"node type of the graph \(a, b, c\), got 'nope'"),
        (("plan", "bare"), "labels"),
        (("train", "absent", *CPU), "a graph must be a folder"),
        (("train", "g", *CPU, "--model", "rgnc"), "did you mean rgcn"),
        (("train", "g", *CPU, "--fanouts", "10,0"), "a fanout must be 1 or more, or -1"),
        (("train", "g", *CPU, "--fanouts", "x"), "whole numbers with commas between, such as 15,10 or -1,-1, got 'x'"),
        (("train", "g", *CPU, "--devices", "warp:9"), "kind is one of cuda, xpu, mps, cpu: got 'warp:9'"),
        (("train", "g", *CPU, "--devices", "cpu@0"), "got 'cpu@0'; write cpu@0.5"),
        (("train", "g", *CPU, "--devices", "cuda:97"), "no cuda device 97 here"),
        (("train", "g", *CPU, "--strategy", "nope"), "strategy must be one of data_parallel, got 'nope'"),
        (("train", "g", *CPU, "--epochs", "0"), "epochs must be 1 or more, got 0"),
        (("train", "g", *CPU, "--lr", "nan"), "lr must be a finite number"),
        (("train", "g", *CPU, "--threads", "0"), "threads must be 1 or more"),
        (("train", "g", *CPU, "--timeout", "0"), "timeout must be above 0 seconds, got 0"),
        (("train", "g", *CPU, "--timeout", "nan"), "timeout must be above 0 seconds, got nan"),
        (("train", "g", *CPU, "--target", "nope"), "must be a node type of the graph"),
        (("train", "bare", *CPU), "must have labels `y`, got none"),
        (("train", "g", "--resume", "g"), "no config.json in g"),
        (("train", "g", "--resume", "absent"), "no folder absent"),
        (("train", "g", "--resume", "a", "--run", "b"), "give either run or resume"),
        (("train", "g", "--run", "g/graph.json", "--devices", "cpu"), "--run"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys: Captured, graphs: None, words: tuple[str, ...], rule: str) -> None:
    assert re.search(rule, refused(capsys, *words))
    assert not Path("run").exists()  # what was refused left nothing behind
    assert not Path("runs").exists()


def plan_on(device: Device) -> str:
    config = TrainConfig(hidden=8, fanouts=(3,))
    return Plan(strategy="data_parallel", devices=(device,), shares=(1.0,), threads=(1,), config=config).to_json()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "a plan must be JSON"),
        ("{}", "every part"),
        ("\xff\x00", "--plan needs a readable file"),
        (plan_on(Device(kind="cpu")).replace('"shares": [\n  1.0', '"shares": [\n  0.9'), "sum to 1"),
        (plan_on(Device(kind="cuda", index=97)), "no cuda device 97 here"),
    ],
)
def test_a_bad_plan_file_is_one_line(capsys: Captured, graphs: None, text: str, rule: str) -> None:
    Path("plan.json").write_bytes(text.encode("latin-1"))
    assert re.search(rule, refused(capsys, "train", "g", "--plan", "plan.json", "--run", "run"))
    assert not Path("run").exists()


def test_a_plan_that_is_not_there_or_a_folder_is_one_line(capsys: Captured, graphs: None) -> None:
    assert "got absent: No such file" in refused(capsys, "train", "g", "--plan", "absent")
    assert "got g: Is a directory" in refused(capsys, "train", "g", "--plan", "g")


def test_a_full_run_folder_says_how_to_go_on(capsys: Captured, graphs: None) -> None:
    words = ("train", "g", "--devices", "cpu", "--hidden", "4", "--fanouts", "2", "--steps", "1", "--run", "run", "--json")
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["run_dir"] == "run"
    assert "--resume run" in refused(capsys, *words)
    assert "it was started on, 'labelled', got 'typed'" in refused(capsys, "train", "t", "--resume", "run")
    assert "hidden was 4, got 5" in refused(capsys, "train", "g", "--resume", "run", "--hidden", "5")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_option(capsys: Captured, command: str) -> None:
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"Usage: gnnhet {command}" in out
    assert "--json" in out
    assert f"gnnhet {command} " in out.partition("Options:")[0].partition("\n")[2] or command == "demo"  # an example
    options = out.partition("Options:")[2]
    assert not re.findall(r"^  --[a-z-]+(?: \S+)?$", options.replace("\n   ", " "), re.MULTILINE)  # each says what it does


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_lists_every_command(capsys: Captured, words: tuple[str, ...]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(re.search(rf"^  {command} ", out, re.MULTILINE) for command in COMMANDS)


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*|unknown \(a bare checkout\)", capsys.readouterr().out.strip())


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (OSError(28, "No space left on device", "/x"), 2, "error: No space left on device: /x"),
    ],
)
def test_interrupts_and_full_disks_end_in_one_line(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    monkeypatch.setattr(gnnhet.storage, "load_dataset", raising(error))
    assert main(["info", "g"]) == code
    assert capsys.readouterr().err == line + "\n"


def test_bugs_keep_their_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gnnhet.storage, "load_dataset", raising(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        main(["info", "g"])


def process(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "gnnhet", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    """One good and one bad command line from end to end."""
    typed_labelled_graph().save(tmp_path / "t")
    words = ("train", "t", "--devices", "cpu", "--hidden", "4", "--fanouts", "2,2", "--steps", "2", "--run", "run")
    good = process(tmp_path, *words, "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["model"] == "rgcn"
    assert "Warning" not in good.stderr
    bad = process(tmp_path, "info", "no/such")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"error: a path must lead to a graph folder, got no/such, which is not there\n", bad.stderr)


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m gnnhet info rmat:5:40 --json | true; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("compiling kernels")]  # on a machine's first run
    assert (done.returncode, said) == (141, [])
