"""Every example runs, is short, and learns something."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example(path: Path, tmp_path: Path) -> None:
    if "import dgl" in path.read_text():
        pytest.importorskip("dgl", reason="DGL is not installed", exc_type=ImportError)
    assert len(path.read_text().splitlines()) < 60
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path, env=environment
    )
    losses = [float(value) for value in re.findall(r"loss (\d+\.\d+)", done.stdout)]
    assert losses[-1] < 0.8 * losses[0]
