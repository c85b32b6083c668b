"""What is published: a wheel that works far from this repository, and a source distribution that builds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dissonance.studio.examples import TITLES

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[2]
MODEL = {
    "format": "dissonance.pdg",
    "version": 1,
    "variables": [{"name": "Rain", "values": ["no", "yes"]}, {"name": "Wet", "values": ["no", "yes"]}],
    "arcs": [
        {"name": "forecast", "sources": [], "targets": ["Rain"], "table": [0.7, 0.3]},
        {"name": "physics", "sources": ["Rain"], "targets": ["Wet"], "table": [[0.95, 0.05], [0.1, 0.9]]},
        {"name": "window", "sources": [], "targets": ["Wet"], "table": [0.2, 0.8]},
    ],
}
BARE = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}

SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Python 3.11.2


def do(*command: object, cwd: Path) -> str:
    """What a command prints, in an environment that knows nothing of this repository."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=BARE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    do(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def inside(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_and_nothing_else(built: Path):
    (wheel,) = built.glob("*.whl")
    sources = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "dissonance").rglob("*.py")}
    page = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src/dissonance/studio/page").iterdir()}
    examples = {f"dissonance/studio/examples/{name}" for name in TITLES}
    found = {name for name in inside(wheel) if ".dist-info/" not in name}
    assert found == sources | page | examples | {"dissonance/py.typed"}
    assert {Path(name).name for name in page} >= {"index.html", "app.js", "app.css"}
    assert wheel.stat().st_size < 2_000_000


def test_the_source_distribution_holds_what_a_reader_needs_and_builds_the_same_wheel(built: Path, tmp_path: Path):
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    assert sdist.stat().st_size < 5_000_000
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, **SAFELY)
    (tree,) = tmp_path.iterdir()
    assert {p.name for p in tree.iterdir()} == {
        "src", "studio", "tests", "examples", "docs", "benchmarks", "results", ".ci", ".gitignore", "Makefile",
        "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "pyproject.toml",
    }  # fmt: skip
    waste = ("__pycache__", ".pyc", ".ipynb_checkpoints", "_build", ".pytest_cache")
    assert not [p for p in tree.rglob("*") if p.name.endswith(waste)]
    do(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=tree)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert inside(again) == inside(wheel)


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(built: Path, tmp_path: Path):
    (wheel,) = built.glob("*.whl")
    home = tmp_path / "venv"
    do(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    python, dissonance = scripts / "python", scripts / "dissonance"
    do(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    packages = do(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    # The libraries of this environment serve: what is new is the package.
    (Path(packages) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (tmp_path / "rain.json").write_text(json.dumps(MODEL))
    where = json.loads(do(dissonance, "doctor", "--json", cwd=tmp_path))
    assert Path(where["where"]).resolve() == (Path(packages) / "dissonance").resolve()
    assert where["problems"] == []
    assert json.loads(do(dissonance, "score", "rain.json", "--json", cwd=tmp_path))["inconsistency"] > 0.28
    moved = do(dissonance, "resolve", "rain.json", "--out", "resolved.json", "--json", cwd=tmp_path)
    assert json.loads(moved)["final"]["inconsistency"] < 1e-3
    code = "from dissonance.studio import examples; print(*(examples.path_of(n) for n in examples.TITLES), sep='\\n')"
    shipped = do(python, "-c", code, cwd=tmp_path).split()
    assert all(Path(path).is_file() and packages in path for path in shipped)
    do(dissonance, "draw", "rain.json", "rain.svg", "--blame", cwd=tmp_path)
    assert (tmp_path / "rain.svg").read_text().startswith("<svg")
