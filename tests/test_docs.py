"""Numbers in the docs are those of result files, and links lead somewhere."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("storage/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_accuracy_table_is_the_result_file() -> None:
    rows = {row["run"]: row for row in json.loads((ROOT / "benchmarks/results/accuracy.json").read_text())["rows"]}
    page = (ROOT / "docs/accuracy.md").read_text()
    shown = re.findall(r"^\| `([\w-]+)` \|.*?\| ([\d.]+) ± ([\d.]+) \|.*?\| ([\d.]+) \|$", page, re.MULTILINE)
    assert {name for name, *_ in shown} == set(rows) - {"wordnet-propagation"}
    for name, mean, deviation, seconds in shown:
        assert mean == f"{100 * rows[name]['test_mean']:.1f}"
        assert deviation == f"{100 * rows[name]['test_std']:.1f}"
        assert seconds == f"{rows[name]['seconds_per_seed']:.0f}"
    assert f"{100 * rows['wordnet-propagation']['test_mean']:.1f} %" in page


def test_every_sampler_is_on_the_page_of_samplers() -> None:
    from gnnhet.samplers.catalogue import SAMPLERS
    from gnnhet.samplers.laws import LAWS

    page = (ROOT / "docs/samplers.md").read_text()
    for name in (*SAMPLERS, *LAWS):
        assert f"`{name}`" in page, name


def test_tables_of_speed_are_the_result_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = importlib.import_module("tables")
    for found in tables.MARK.finditer(tables.PAGE.read_text()):
        assert found[0] == found[1] + tables.table(found[2]) + found[3], f"{found[2]}: run benchmarks/tables.py"
