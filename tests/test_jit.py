"""Compilation is announced once, and only where it happens."""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import logging, numpy as np
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
from gnnhet.samplers import NeighborSampler
from gnnhet.storage import Graph
graph = Graph.from_csc(np.array([0, 1, 2]), np.array([1, 0]))
print(NeighborSampler(graph, [1]).sample(np.array([0])).input_ids.tolist())
"""


def test_a_first_run_says_that_it_compiles_and_a_second_does_not(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=250, env=environment
        )
        assert done.stdout.strip() == "[0, 1]"
        said.append(done.stderr.count("compiling kernels"))
    assert said == [1, 0]
