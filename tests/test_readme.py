"""What the README shows is true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_two_commands_stand_there() -> None:
    assert "\npip install -e . && gnnhet demo\n" in README
    assert "\npip install -e '.[test]' && pytest\n" in README


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.slow
def test_the_python_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    (tmp_path / "example.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200, env=environment
    )
    assert "data_parallel: rgcn" in done.stdout
    assert "'test': 0." in done.stdout
