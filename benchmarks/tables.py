"""The tables of docs/performance.md from the result files: `python benchmarks/tables.py` writes them into the page."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
CACHES = ("static", "min", "presampled", "inclusion", "belady", "degree", "random")
MARK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def load(name: str) -> dict[str, Any]:
    """A result file."""
    document: dict[str, Any] = json.loads((HERE / "results" / f"{name}.json").read_text())
    return document


def lines(header: list[str], rows: list[list[Any]]) -> str:
    """A markdown table."""
    every = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in row) + " |\n" for row in every)


def compared(name: str) -> str:
    """Libraries side by side: batches, edges, and the ratio to gnnhet's best under the same allocator."""
    rows = load(name)["rows"]
    best = {
        tuned: max(row["batches_per_s"] for row in rows if row["peer"] == "gnnhet" and row["tuned"] is tuned)
        for tuned in (False, True)
        if any(row["tuned"] is tuned for row in rows)
    }
    table = []
    for row in rows:
        low, high = row["batches_per_s_spread"]
        ratio = best[row["tuned"]] / row["batches_per_s"]
        table.append(
            [
                row["case"],
                row["rounds"],
                f"{row['batches_per_s']:.1f} ({low:.1f} to {high:.1f})",
                f"{row['edges_a_batch']:,}",
                f"{row['medges_per_cpu_s']:.1f}",
                f"{ratio:.1f}",
            ]
        )
    header = [
        "configuration",
        "rounds",
        "batches/s (spread)",
        "edges a batch",
        "M edges per CPU second",
        "gnnhet's best is x times",
    ]
    return lines(header, table)


def gather() -> str:
    """Rows gathered, by width and dtype."""
    table = []
    for row in load("gather")["rows"]:
        low, high = row["ratio_quartiles"]
        numbers = [row[f"{name}_gb_per_s"] for name in ("gnnhet", "index_select", "take")]
        table.append(
            [row["place"], row["dtype"], row["row_bytes"], *numbers, f"{row['ratio']} ({low} to {high})", row["share_of_roof"]]
        )
    header = ["rows in", "dtype", "bytes a row", "gnnhet GB/s", "index_select", "take", "ratio (quartiles)", "share of roof"]
    return lines(header, table)


def compilation() -> str:
    """Seconds to a first batch."""
    rows = load("compilation")["rows"]
    shown = []
    for run in ("first", "second"):
        seconds = [row["first_batch_s"] for row in rows if row["run"] == run]
        shown.append([run, f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"])
    return lines(["run", "seconds (spread)"], shown)


def scaling() -> str:
    """One thread and two."""
    shown = []
    for row in load("scaling")["rows"]:
        low, high = row["ratio_spread"]
        shown.append([row["way"], row["one"], row["two"], f"{row['ratio']} ({low} to {high})"])
    return lines(["way", "batches/s, 1 thread", "2 threads", "ratio (spread)"], shown)


def ingest(name: str) -> str:
    """Ingests by source: rates, memory, bytes written."""
    shown = []
    for row in load(name)["rows"]:
        low, high = row["medges_per_s_spread"]
        shown.append([row["case"], f"{row['medges_per_s']} ({low} to {high})", row["peak_gib"], row["written_bytes_an_edge"]])
    return lines(["source", "M edges/s (spread)", "peak GiB", "bytes written an edge"], shown)


def billion(name: str) -> str:
    """A large graph, stage by stage."""
    return lines(
        ["stage", "measured", "beside"], [[r["stage"], f"{r['value']} {r['unit']}", r["beside"]] for r in load(name)["rows"]]
    )


def caching() -> str:
    """The cache's hit rates beside the clairvoyants', where most steps are counted."""
    rows = load("caching")["rows"]
    steps = max(row["steps"] for row in rows)
    shown = []
    for row in rows:
        if row["steps"] != steps:
            continue
        rates = [f"{100 * row['hit_rate'][name]['median']:.1f}" for name in CACHES]
        ratios = [f"{row[f'of_{best}']['presampled']['median']:.3f}" for best in ("static", "min")]
        seconds = f"{row['choose_s']['presampled']['median']:.2f}"
        case = f"{'all' if row['train_percent'] == 100 else '10 %'}, {'-'.join(map(str, row['fanouts']))}, {row['batch_size']:,}"
        shown.append([case, f"{row['rows_a_step']:,}", f"{row['held_percent']} %", *rates, *ratios, seconds])
    header = ["train, fanouts, batch", "rows a step", "held", *CACHES, "of static", "of min", "s to choose"]
    return lines(header, shown)


def table(name: str) -> str:
    """A table of the page by its name."""
    special = {"gather": gather, "compilation": compilation, "scaling": scaling, "caching": caching}
    if name in ("ingest", "table_ingest", "billion", "billion_2500m"):
        return (ingest if name.endswith("ingest") else billion)(name)
    return special[name]() if name in special else compared(name)


def main() -> None:
    page = PAGE.read_text()
    PAGE.write_text(MARK.sub(lambda found: found[1] + table(found[2]) + found[3], page))


if __name__ == "__main__":
    main()
