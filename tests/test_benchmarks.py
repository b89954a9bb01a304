"""Benchmarks that run in small: they end well and report every figure, whatever its value."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gnnhet.samplers.gathering import POLICIES

ROOT = Path(__file__).resolve().parents[1]


def run(name: str, *options: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """`benchmarks/NAME.py --quick --no-write`, ended after some seconds."""
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--quick", "--no-write", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def numbers(found: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in found.items() if isinstance(value, (int, float))}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_billion_edges_in_small(tmp_path: Path) -> None:
    results = {path: path.read_bytes() for path in (ROOT / "benchmarks" / "results").iterdir()}
    done = run("billion", "--work", str(tmp_path), seconds=800)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stderr.splitlines()]
    stages = {line[0]: json.loads(line[1]) for line in lines if line[0] in ("ingest", "steps", "parts")}
    assert list(stages) == ["ingest", "steps", "parts"]
    for found in stages.values():
        assert {"seconds", "peak_gib"} <= set(found)
        assert all(math.isfinite(value) and value >= 0 for value in numbers(found).values())
    assert stages["ingest"]["edges"] == 15_625_000
    assert stages["steps"]["steps"] == 20
    assert 0 < stages["steps"]["hit_rate"] <= 1
    assert 0 < stages["steps"]["cache_bytes"] <= 64 << 20
    shown = [line[:34].rstrip() for line in done.stdout.splitlines()]
    gathers = [f"hot gather, {dtype}, {threads} threads" for dtype in ("float16", "float32") for threads in (1, 2)]
    assert shown == [
        *("generate and ingest", "written", "peak of ingest", "train", "a step", "peak of training", "in all"),
        *("hit rate", "loader stall", "sampled, 1 thread", *gathers, "misses"),
    ]
    assert all(math.isfinite(float(line[34:].split()[0])) for line in done.stdout.splitlines())
    assert not list(tmp_path.iterdir())  # it clears up
    assert results == {path: path.read_bytes() for path in (ROOT / "benchmarks" / "results").iterdir()}


def test_caches_beside_the_clairvoyant() -> None:
    done = run("caching", seconds=250)
    assert done.returncode == 0, done.stderr
    shown = [re.findall(r"(\w+) (\d\.\d+)(?![\d.]* of)", line) for line in done.stdout.splitlines() if "% held" in line]
    assert len(shown) == 16  # two cases, four sizes of the cache, two counts of steps
    for line in shown:
        rates = {name: float(rate) for name, rate in line}
        assert set(rates) == {"static", "min", "random", *POLICIES}
        fixed = [rates[name] for name in ("random", *POLICIES)]
        assert all(0 <= rate <= 1 for rate in rates.values())
        assert max(fixed) <= rates["static"] <= rates["min"]
        assert rates["random"] < min(rates[policy] for policy in POLICIES)
    assert re.search(r"^40 steps: presampled is below 0\.95 of static in 0 of 8, at least 0\.\d+$", done.stdout, re.MULTILINE)
