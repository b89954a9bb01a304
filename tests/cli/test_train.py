"""`plan` and `train`: what they print and leave behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.strategies import labelled_graph, typed_labelled_graph

from gnnhet.cli import main
from gnnhet.planning import Plan

Captured = pytest.CaptureFixture[str]

SMALL = ("--hidden", "8", "--fanouts", "4,3", "--batch-size", "32")
KEYS = {"dataset", "model", "strategy", "devices", "shares", "epochs", "loss", "step_loss", "metrics"}
KEYS |= {"epoch_seconds", "seeds_per_second", "run_dir"}


@pytest.fixture(autouse=True)
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two saved graphs, `g` and `t`, in the folder the commands run in."""
    labelled_graph().save(tmp_path / "g")
    typed_labelled_graph().save(tmp_path / "t")
    monkeypatch.chdir(tmp_path)


def printed(capsys: Captured, *words: str) -> str:
    """What a command that succeeds prints."""
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "Traceback" not in err
    return out


def printed_json(capsys: Captured, *words: str) -> dict[str, Any]:
    """The one JSON object that a command prints with --json."""
    value = json.loads(printed(capsys, *words, "--json"))
    assert isinstance(value, dict)
    return value


def test_plan_explains_itself(capsys: Captured) -> None:
    text = printed(capsys, "plan", "g", "--devices", "cpu;cpu@0.5", *SMALL)
    assert "sage, fanouts [4, 3], 32 seeds a step over 2 devices" in text
    assert "cpu@0.5" in text
    assert "Predicted:" in text


def test_train_reads_through_a_cache(capsys: Captured) -> None:
    words = ("train", "g", *SMALL, "--devices", "cpu", "--epochs", "2", "--evaluation", "none")
    plain = printed_json(capsys, *words)
    cached = printed_json(capsys, *words, "--cache", "2KiB", "--cache-policy", "degree", "--reads", "direct", "--no-preload")
    assert cached["step_loss"] == plain["step_loss"]
    assert plain["cache"] is None
    assert 0 < cached["cache"]["hit_rate"] < 1
    assert "of the rows asked for were there" in printed(capsys, *words, "--cache", "2KiB")
    assert main(("train", "g", "--cache", "much")) == 2
    assert not Path("runs", "much").exists()


def test_plan_as_json_is_a_plan(capsys: Captured) -> None:
    text = printed(capsys, "plan", "t", "--devices", "cpu;cpu@0.5", "--seed", "4", "--dropout", "0.1", *SMALL, "--json")
    assert len(text.splitlines()) == 1
    plan = Plan.from_json(text)
    assert plan.config.model == "rgcn"  # the usual one of a typed graph
    assert (plan.config.hidden, plan.config.fanouts, plan.config.batch_size) == (8, (4, 3), 32)
    assert (plan.config.seed, plan.config.dropout) == (4, 0.1)
    assert sum(plan.shares) == pytest.approx(1)
    assert not Path("runs").exists()  # planning leaves nothing behind


def test_train_prints_its_figures_and_fills_a_run_folder(capsys: Captured) -> None:
    words = ("--devices", "cpu", "--epochs", "3", "--run", "run", "--lr", "0.02", "--seed", "1")
    done = printed_json(capsys, "train", "g", *SMALL, *words)
    assert set(done) >= KEYS
    assert (done["dataset"], done["model"], done["strategy"]) == ("labelled", "sage", "data_parallel")
    assert (done["devices"], done["shares"], done["epochs"]) == (["cpu"], [1.0], 3)
    steps = -(-labelled_graph().split_ids("node", "train").size // 32)
    assert len(done["loss"]) == 3
    assert len(done["step_loss"]) == 3 * steps
    assert done["loss"][-1] < done["loss"][0]
    assert all(0 <= done["metrics"][part] <= 1 for part in ("train", "val", "test"))
    assert done["epoch_seconds"] > 0
    assert done["seeds_per_second"] > 0
    run = Path(done["run_dir"])
    assert run == Path("run")
    for name in ("config.json", "plan.json", "metrics.jsonl", "picture.png", "result.json"):
        assert (run / name).stat().st_size, name
    assert list((run / "checkpoint").iterdir())
    assert (run / "picture.png").read_bytes().startswith(b"\x89PNG")
    config = json.loads((run / "config.json").read_text())
    assert (config["dataset"], config["config"]["lr"], config["config"]["seed"]) == ("labelled", 0.02, 1)
    assert Plan.from_json((run / "plan.json").read_text()).config.hidden == 8
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["loss"] for record in records if record["kind"] == "step"] == done["step_loss"]


def test_train_for_people(capsys: Captured) -> None:
    text = printed(capsys, "train", "t", *SMALL, "--devices", "cpu", "--epochs", "1", "--run", "run")
    assert "rgcn" in text  # the usual model of a typed graph
    assert "One device: it takes every seed" in text
    assert "at the best epoch" in text
    assert text.rstrip().endswith("run folder: run")


def test_without_a_run_folder_one_is_made_under_runs(capsys: Captured) -> None:
    done = printed_json(capsys, "train", "g", *SMALL, "--devices", "cpu", "--steps", "1")
    assert len(done["step_loss"]) == 1
    assert Path(done["run_dir"]).parent == Path("runs")
    assert Path(done["run_dir"]).name.startswith("labelled-sage-")


def test_every_option_of_train_reaches_the_config(capsys: Captured) -> None:
    options = {
        "--model": "gcn",
        "--fanouts": "-1,2",
        "--hidden": "6",
        "--dropout": "0.25",
        "--lr": "0.05",
        "--weight-decay": "0.001",
        "--optimizer": "adamw",
        "--schedule": "cosine",
        "--epochs": "2",
        "--steps": "3",
        "--batch-size": "40",
        "--seed": "9",
        "--early-stop": "5",
        "--eval-every": "2",
        "--evaluation": "sampled",
        "--target": "node",
        "--embeddings": "sparse",
    }
    words = [word for pair in options.items() for word in pair]
    done = printed_json(
        capsys, "train", "g", *words, "--replace", "--devices", "cpu", "--strategy", "data_parallel", "--threads", "2"
    )
    config = done["config"]
    assert config.pop("fanouts") == [-1, 2]
    assert config.pop("replace") is True
    given = {name.removeprefix("--").replace("-", "_"): value for name, value in options.items() if name != "--fanouts"}
    assert {name: str(value) for name, value in config.items()} == given


@pytest.mark.slow
def test_resume_goes_on_as_if_it_had_not_stopped(capsys: Captured) -> None:
    words = (*SMALL, "--devices", "cpu", "--seed", "2")
    whole = printed_json(capsys, "train", "g", *words, "--steps", "9", "--run", "whole")
    printed_json(capsys, "train", "g", *words, "--steps", "4", "--run", "part")
    part = printed_json(capsys, "train", "g", "--resume", "part", "--steps", "9")
    assert part["run_dir"] == "part"
    assert part["step_loss"] == pytest.approx(whole["step_loss"], rel=1e-5)
    again = printed_json(capsys, "train", "g", "--resume", "part")  # it has ended: nothing is left to do
    assert again["step_loss"] == part["step_loss"]


@pytest.mark.slow
def test_a_written_plan_is_what_is_run(capsys: Captured) -> None:
    text = printed(capsys, "plan", "t", "--model", "hgt", "--devices", "cpu@0.9", *SMALL, "--json")
    Path("plan.json").write_text(text)
    done = printed_json(capsys, "train", "t", "--plan", "plan.json", "--steps", "2", "--run", "run")
    assert (done["model"], done["devices"], done["config"]["fanouts"]) == ("hgt", ["cpu@0.9"], [4, 3])
    values = json.loads(text)
    values["config"]["hidden"] = 4  # a plan may be edited
    Path("plan.json").write_text(json.dumps(values))
    done = printed_json(capsys, "train", "t", "--plan", "plan.json", "--steps", "2", "--lr", "0.5", "--run", "edited")
    assert (done["config"]["hidden"], done["config"]["lr"]) == (4, 0.5)  # an option given wins over the plan's
    done = printed_json(capsys, "train", "t", "--plan", "plan.json", "--devices", "cpu", "--steps", "2", "--run", "moved")
    assert (done["devices"], done["config"]["hidden"]) == (["cpu"], 4)


@pytest.mark.slow
def test_a_plan_for_unequal_devices_gives_one_devices_losses(capsys: Captured) -> None:
    text = printed(capsys, "plan", "g", "--devices", "cpu;cpu@0.5", "--seed", "6", *SMALL, "--json")
    values = json.loads(text)
    values["shares"] = [0.75, 0.25]
    Path("plan.json").write_text(json.dumps(values))
    two = printed_json(capsys, "train", "g", "--plan", "plan.json", "--steps", "6", "--run", "two")
    assert (two["devices"], two["shares"]) == (["cpu", "cpu@0.5"], [0.75, 0.25])
    one = printed_json(capsys, "train", "g", *SMALL, "--devices", "cpu", "--seed", "6", "--steps", "6", "--run", "one")
    assert two["step_loss"] == pytest.approx(one["step_loss"], rel=1e-4)


def test_sparse_embeddings_are_asked_for_by_an_option(capsys: Captured) -> None:
    done = printed_json(
        capsys, "train", "t", *SMALL, "--devices", "cpu", "--epochs", "2", "--run", "run", "--embeddings", "sparse"
    )
    assert done["config"]["embeddings"] == "sparse"
    assert list(Path("run/checkpoint").glob("embeddings-*/rows.npy"))
    text = printed(capsys, "plan", "t", "--devices", "cpu;cpu", *SMALL, "--embeddings", "sparse", "--json")
    assert Plan.from_json(text).config.embeddings == "sparse"
