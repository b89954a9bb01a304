"""Rows gathered by id, one thread, beside `torch.index_select` and `numpy.take`: `python benchmarks/gather.py`.

Every repeat runs all three on the same ids, in turn, into the same memory; ratios are medians over the repeats of the better of
the two divided by ours. Rows lie in RAM or in a file in the page cache. The roof is the same rows read and added up.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import roofs
import torch
from result import write

from gnnhet.storage.gather import gather_rows

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "int64": torch.int64,
}
ROW_BYTES = (16, 32, 64, 100, 128, 200, 256, 400, 512, 1024, 2048, 4096)
TABLE_BYTES = 800 << 20
GATHERED_BYTES = 45 << 20  # about a batch of the reference work


def measure(table: Any, dtype: torch.dtype, repeats: int) -> dict[str, float]:
    """Gigabytes a second of each, and the ratio.

    Args:
        table: bytes [count, row bytes], in RAM or mapped.
        dtype: what the rows are.
        repeats: timed, after one that is not.
    """
    count, row_bytes = table.shape
    ids = np.random.default_rng(1).integers(0, count, GATHERED_BYTES // row_bytes)
    out = np.empty((ids.size, row_bytes), np.uint8)
    kind = np.dtype({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[dtype.itemsize])  # numpy has no bfloat16
    rows_of, out_of = table.view(kind), out.view(kind)
    rows, into = torch.from_numpy(rows_of).view(dtype), torch.from_numpy(out_of).view(dtype)
    wanted = torch.from_numpy(ids)
    work: dict[str, Callable[[], Any]] = {
        "gnnhet": lambda: gather_rows(rows_of, ids, out_of),
        "index_select": lambda: torch.index_select(rows, 0, wanted, out=into),
        "take": lambda: np.take(rows_of, ids, axis=0, out=out_of, mode="clip"),
    }
    spent: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(repeats + 1):
        for name, call in work.items():
            started = time.thread_time()
            call()
            if repeat:
                spent[name].append(time.thread_time() - started)
    rates = {f"{name}_gb_per_s": round(out.nbytes / statistics.median(times) / 1e9, 2) for name, times in spent.items()}
    ratios = [min(a, b) / ours for ours, a, b in zip(*spent.values(), strict=True)]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    roof = roofs.random_rows(table, ids) / 1e9
    return {
        **rates,
        "ratio": round(float(middle), 2),
        "ratio_quartiles": [round(float(low), 2), round(float(high), 2)],  # type: ignore[dict-item]
        "roof_gb_per_s": round(roof, 2),
        "share_of_roof": round(rates["gnnhet_gb_per_s"] / roof, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row_bytes in ROW_BYTES:
            in_ram = np.random.default_rng(0).integers(0, 127, (TABLE_BYTES // row_bytes, row_bytes), np.uint8)
            path = Path(folder) / "rows.bin"
            in_ram.tofile(path)
            mapped = np.memmap(path, np.uint8, "r+", shape=in_ram.shape)
            cases = [("ram", in_ram, name) for name, dtype in DTYPES.items() if row_bytes % dtype.itemsize == 0] + [
                ("file", mapped, "float32"),
                ("file", mapped, "int8"),
            ]
            for place, table, name in cases:
                row = {"place": place, "dtype": name, "row_bytes": row_bytes, **measure(table, DTYPES[name], given.repeats)}
                print(row, flush=True)
                rows.append(row)
            del mapped
            path.unlink()
    config = {"table_mib": TABLE_BYTES >> 20, "gathered_mib": GATHERED_BYTES >> 20, "threads": 1, "repeats": given.repeats}
    print(write("gather", config, rows))


if __name__ == "__main__":
    main()
