"""The layout: links, layers, public names, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gnnhet

ROOT = Path(__file__).resolve().parents[1]

# Imports run one way: a package may import those before it. `report` reads and writes run folders and knows nothing of
# training, which writes its records through it.
LAYERS = [
    {"errors"},
    {"jit", "config"},
    {"mixing"},
    {"datasets"},
    {"storage"},
    {"samplers"},
    {"ops"},
    {"models"},
    {"devices"},
    {"planning"},
    {"report"},
    {"training"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> list[Path]:
    folders = [ROOT / "gnnhet", ROOT / "samplers", ROOT / "storage", ROOT / "datasets"]
    return sorted(path for folder in folders for path in folder.rglob("*.py") if not path.is_symlink())


def package_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "gnnhet" else parts[0]


def imported(path: Path) -> set[str]:
    """Packages of gnnhet that a module imports, anywhere in it, type-checking blocks apart."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("gnnhet.")}
    return found


def test_every_package_has_a_layer() -> None:
    packages = {package_of(path) for path in modules()} - {"__init__", "__main__"}
    assert packages == set(RANK)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    package = package_of(path)
    if package in ("__init__", "__main__"):
        return
    for other in imported(path) - {package}:
        assert RANK[other] < RANK[package], f"{package} imports {other}"


@pytest.mark.parametrize("name", ["samplers", "storage", "datasets"])
def test_links_lead_to_the_folders_at_the_root(name: str) -> None:
    link = ROOT / "gnnhet" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name
    tracked = subprocess.run(["git", "ls-files", "-s", f"gnnhet/{name}"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode == 0 and tracked.stdout:
        assert tracked.stdout.startswith("120000")  # git keeps it as a link


def test_datasets_never_hides_hugging_faces() -> None:
    assert not (ROOT / "datasets" / "__init__.py").exists()


def test_public_names() -> None:
    assert gnnhet.__all__ == sorted(gnnhet.__all__)
    assert len(gnnhet.__all__) <= 14
    for name in gnnhet.__all__:
        assert getattr(gnnhet, name) is not None
        assert getattr(gnnhet, name).__doc__


def test_no_module_is_longer_than_400_lines() -> None:
    long = {str(path.relative_to(ROOT)): lines for path in modules() if (lines := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_importing_leaves_heavy_packages_alone() -> None:
    heavy = ("torch", "torch_geometric", "matplotlib", "rich", "typer", "pandas", "ogb")
    code = f"import sys, gnnhet; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_help_needs_no_torch() -> None:
    code = "import sys; from gnnhet.cli import main; main(['train', '--help']); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    assert out.stdout.strip().endswith("False")
