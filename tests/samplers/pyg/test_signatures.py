"""One import changes and nothing else."""

import inspect
import subprocess
import sys

import pytest
from torch_geometric import loader as pyg

from gnnhet.samplers import pyg as ours


@pytest.mark.parametrize("name", ["NeighborLoader", "LinkNeighborLoader", "HGTLoader"])
def test_parameters_their_order_and_defaults_are_pygs(name: str) -> None:
    theirs = inspect.signature(getattr(pyg, name).__init__).parameters
    found = dict(inspect.signature(getattr(ours, name).__init__).parameters)
    assert found.pop("seed").kind == inspect.Parameter.KEYWORD_ONLY
    assert [(p.name, p.kind, p.default) for p in found.values()] == [(p.name, p.kind, p.default) for p in theirs.values()]
    assert issubclass(getattr(ours, name), getattr(pyg, name))


def test_public_names() -> None:
    assert ours.__all__ == sorted(ours.__all__)
    assert all(getattr(ours, name).__doc__ for name in ours.__all__)


def test_the_samplers_do_without_pyg() -> None:
    code = "import sys, gnnhet.samplers, gnnhet.samplers.hgt; print('torch_geometric' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.strip() == "False"
