"""Seconds that a first run spends compiling kernels, and a second one reading them: `python benchmarks/compilation.py`.

The main path: a loader's first batch, sampled and gathered, in a fresh process with an empty cache; then in another with it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from result import write

CODE = """
import json, time
import numpy as np
import gnnhet as gh
from gnnhet.storage import Graph
graph = Graph.from_csc(np.arange(0, 4001, 4), np.arange(4000) % 1000, x=np.zeros((1000, 100), np.float32), y=np.arange(1000) % 7)
started = time.perf_counter()
next(iter(gh.NeighborLoader(graph, [3, 2], 64, np.arange(500))))
print(json.dumps(time.perf_counter() - started))
"""
REPEATS = 3


def main() -> None:
    rows = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            for run in ("first", "second"):
                done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
                rows.append({"run": run, "first_batch_s": round(float(json.loads(done.stdout)), 3)})
    for run in ("first", "second"):
        print(run, statistics.median(row["first_batch_s"] for row in rows if row["run"] == run))
    print(write("compilation", {"repeats": REPEATS}, rows))


if __name__ == "__main__":
    main()
