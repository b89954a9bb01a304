import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from gnnhet.devices import Device
from gnnhet.report import RunFolder, draw
from gnnhet.report.picture import _thin, _titles, smooth


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_json("config.json", {"dataset": "wordnet", "model": "rgcn", "devices": "cpu;cpu@0.5"})
    return folder


def fill(run: RunFolder, epochs: int, steps: int, splits: tuple[str, ...] = ("train", "val", "test")) -> None:
    for epoch in range(epochs):
        for step in range(steps):
            number = epoch * steps + step
            run.append({"kind": "step", "epoch": epoch, "step": step, "global_step": number, "loss": 3 / (1 + number)})
        values = {split: 0.5 + 0.1 * epoch / epochs for split in splits}
        run.append({"kind": "epoch", "epoch": epoch, "loss": 3 / (1 + epoch), "seconds": 1.0, **values})


def check(run: RunFolder) -> None:
    path = draw(run)
    assert path == run.picture
    height, width, _ = imread(path).shape
    assert width > height > 500
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(("epochs", "steps"), [(0, 0), (1, 0), (1, 1), (1, 3), (3, 30), (200, 1)])
def test_any_length_is_drawn(run: RunFolder, epochs: int, steps: int) -> None:
    fill(run, epochs, steps)
    check(run)
    check(run)  # and replaced


@pytest.mark.parametrize("splits", [(), ("train",), ("val", "test"), ("test",)])
def test_missing_splits_are_left_out(run: RunFolder, splits: tuple[str, ...]) -> None:
    fill(run, 3, 5, splits)
    check(run)


def test_losses_that_are_not_finite_are_left_out(run: RunFolder) -> None:
    for number in range(30):
        loss = math.nan if number % 3 else 1.0
        run.append({"kind": "step", "epoch": 0, "step": number, "global_step": number, "loss": loss})
    run.append({"kind": "epoch", "epoch": 0, "loss": math.inf, "val": math.nan, "train": None})
    check(run)


def test_a_run_that_has_not_finished_an_epoch(run: RunFolder) -> None:
    run.append({"kind": "step", "epoch": 0, "step": 0, "global_step": 0, "loss": 1.0})
    check(run)


def test_titles(run: RunFolder) -> None:
    assert _titles(run) == ("wordnet, rgcn", "cpu · cpu@0.5")
    devices = [Device(kind="cpu").to_dict(), Device(kind="cpu", speed=0.5).to_dict()]
    run.write_json("plan.json", {"devices": devices, "shares": [2 / 3, 1 / 3]})
    assert _titles(run)[1] == "cpu 67 % · cpu@0.5 33 %"
    run.write_json("plan.json", {"devices": ["cpu@0.25"] * 64, "shares": [1 / 64] * 64})
    assert _titles(run)[1] == "64 x cpu@0.25 2 %"
    run.write_json("plan.json", {"devices": [f"cuda:{index}" for index in range(64)]})
    assert len(_titles(run)[1]) <= 120
    (run.path / "config.json").unlink()
    (run.path / "plan.json").write_text("[")
    assert _titles(run) == ("run", "")


def test_smooth_is_the_mean_of_its_neighbours() -> None:
    values = np.array([1.0, 2.0, np.nan, 4.0, 9.0])
    naive = [np.nanmean(values[max(0, i - 1) : i + 2]) for i in range(5)]
    np.testing.assert_allclose(smooth(values, 3), naive)
    assert np.isnan(smooth(np.array([np.nan, np.inf]), 3)).all()


def test_thinning_keeps_the_extremes() -> None:
    y = np.random.default_rng(0).normal(size=100_003)
    y[5000:6000] = np.nan
    x = np.arange(len(y), dtype=np.float64)
    thin_x, thin_y = _thin(x, y)
    assert len(thin_x) <= 8000
    assert (np.diff(thin_x) > 0).all()
    assert (thin_y.min(), thin_y.max()) == (np.nanmin(y), np.nanmax(y))
    np.testing.assert_array_equal(y[thin_x.astype(int)], thin_y)


def test_importing_the_report_imports_no_matplotlib() -> None:
    code = "import sys\nimport gnnhet.report\nprint('matplotlib.figure' in sys.modules, 'rich.progress' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    result = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False False"
