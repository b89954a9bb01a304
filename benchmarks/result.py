"""Result files: what was measured, on what machine, from which commit, with which versions."""

import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gnnhet.devices.discover import cpu_name
from gnnhet.devices.limits import available_threads, total_memory_bytes

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("gnnhet", "torch", "torch-geometric", "numba", "numpy", "scipy")


def write(name: str, config: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """Write `results/NAME.json`."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": {
            "cpu": cpu_name(),
            "threads": available_threads(),
            "memory_gib": round(total_memory_bytes() / 2**30, 1),
            "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            "load_before": os.getloadavg()[0],
        },
        "versions": {package: _version(package) for package in PACKAGES},
        "config": config,
        "rows": rows,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def read(name: str) -> list[dict[str, Any]]:
    """The rows of `results/NAME.json`; none where there is none."""
    path = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=RESULTS.parent
    )
    return found.stdout.strip() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
