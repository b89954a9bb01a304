"""What commands print: JSON on stdout, or tables for people."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; progress goes to stderr.")]
GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A graph folder, a name (wordnet, cora, ogbn-products), READER:PATH (planetoid:DIR, npz:FILE, rdf:DIR, "
        "pyg:FILE), or a generator (rmat:SCALE:EDGES, communities:NODES:EDGES).",
        show_default=False,
    ),
]
Root = Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where raw files of named datasets lie or go.")]


def print_json(value: object) -> None:
    """One JSON object on stdout."""
    from gnnhet.report.files import dumps

    sys.stdout.write(dumps(value) + "\n")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; columns after the first are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        grid.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(cell.replace("[", "\\[") for cell in row))
    # in a file or pipe rows are never folded: rich would take 80 columns
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    console.print(title, style="bold", markup=False)
    console.print(grid)


def number_bytes(count: float) -> str:
    """Bytes for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def percent(value: float | None) -> str:
    """A share for people."""
    return "-" if value is None else f"{value:.2%}"
