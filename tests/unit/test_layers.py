"""Imports go downwards only, and torch is imported only when it is needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dissonance"
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(sys.argv[1], no_cache=True))"


def python(code: str, *arguments: str, path: Path = ROOT / "src") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=path,
        timeout=120,
        check=False,
    )


def lint(source: Path) -> subprocess.CompletedProcess[str]:
    return python(LINT, str(ROOT / "pyproject.toml"), path=source)


def test_imports_go_downwards_only():
    found = lint(PACKAGE.parent)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("numerics.py", "from dissonance.variables import Variable"),
        ("scores.py", "def late():\n    from dissonance.problem import prepare"),
        ("cpds/base.py", "def late():\n    from dissonance import PDG"),
        ("distributions/joint.py", "import dissonance.solvers.newton"),
        ("attic.py", "import dissonance.errors"),
    ],
    ids=["at the top", "inside a function", "through the package", "into a package", "a module in no layer"],
)
def test_an_upward_import_is_found(tmp_path: Path, module: str, line: str):
    shutil.copytree(PACKAGE, tmp_path / "dissonance", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "dissonance" / module).open("a") as file:
        file.write(f"\n\n{line}\n")
    found = lint(tmp_path)
    assert found.returncode == 1, found.stdout
    assert "BROKEN" in found.stdout or "not listed as layers" in found.stdout


def test_importing_the_package_does_not_import_torch():
    found = python("import dissonance, sys; print(sorted({'torch', 'scipy', 'numpy'} & set(sys.modules)))")
    assert found.stdout.strip() == "[]", found.stderr


def test_asking_for_help_does_not_import_torch():
    code = """
import sys
from dissonance.cli import main
sys.argv = ["dissonance", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("torch" in sys.modules)
"""
    found = python(code)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[-1] == "False"
    assert "score" in found.stdout
