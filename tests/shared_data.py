"""Where the real graphs lie that tests read: GNNHET_SHARED_DATA, or `shared/data` beside the checkout."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """The file or folder `name`; the test that asks is skipped where it is absent."""
    path = Path(os.environ.get("GNNHET_SHARED_DATA") or BESIDE) / name
    if not path.exists():
        pytest.skip(f"no {name} in GNNHET_SHARED_DATA or shared/data beside the checkout")
    return path
