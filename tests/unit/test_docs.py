"""The documents: their python blocks run, the numbers they promise are printed, their links lead somewhere."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from fresh import python

ROOT = Path(__file__).parents[2]
needs_networks = pytest.mark.skipif(
    not importlib.util.find_spec("pgmpy"), reason="the networks of pgmpy: pip install --no-deps pgmpy"
)
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts),
]


def code(page: Path) -> str:
    """The python blocks of a page, each line where it stands on the page."""
    kept, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        inside = line == "```python" if fence else inside
        kept.append(line if inside and not fence else "")
    return "\n".join(kept)


def promised(line: str) -> list[str]:
    """The numbers and truth values in the comment after a print."""
    return re.findall(r"-?\b\d+\.\d+(?:e-?\d+)?|\b(?:True|False|inf)\b", line.partition(")  # ")[2])


@pytest.mark.parametrize("page", [p for p in PAGES if code(p).strip()], ids=lambda p: p.name)
def test_the_python_blocks_of_a_page_run_and_print_what_they_promise(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    source = code(page)
    printed: dict[int, str] = {}

    def record(*values: object) -> None:
        line = sys._getframe(1).f_lineno
        printed[line] = printed.get(line, "") + " ".join(map(str, values)) + "\n"

    exec(compile(source, str(page), "exec"), {"__name__": "document", "print": record})
    for number, line in enumerate(source.splitlines(), 1):
        for promise in promised(line) if line.lstrip().startswith("print(") else []:
            assert promise in printed.get(number, ""), f"{page.name}:{number} printed {printed.get(number)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_links_of_a_page_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("script", sorted((ROOT / "docs" / "figures").glob("*.py")), ids=lambda p: p.name)
def test_a_figure_is_what_its_script_draws(script: Path, tmp_path: Path):
    pytest.importorskip("matplotlib")
    done = python(shutil.copy(script, tmp_path))  # it draws beside itself
    assert done.returncode == 0, done.stderr
    drawn = sorted(p.name for p in tmp_path.glob("*.svg"))
    assert drawn and all((script.parent / name).exists() for name in drawn)
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"figures/{name})" in pages for name in drawn)


def test_every_benchmark_is_on_the_page_of_benchmarks():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(f"python benchmarks/{script.name}" in page for script in (ROOT / "benchmarks").glob("*.py"))


def test_the_benchmark_runs():
    done = python(ROOT / "benchmarks" / "scaling.py", "--quick", "--sizes", "6", "12", "--family", "chain")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("exponent") == 1


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["batch.py", "--problems", "8", "--paper", "1"], "times cold"),
        (["scaling.py", "--large", "100"], "GiB at the peak"),
        (["attention.py", "--training", "--steps", "3", "--sequences", "8"], "backpropagation, all"),
        (["attention.py", "--speed", "--tokens", "16", "--batch", "1"], "apart"),
        (["neural.py", "--steps", "2", "--repeats", "1"], "ratio"),
        (["studio.py", str(ROOT / "examples" / "smoking.json"), "--repeats", "1"], "| smoking.json |"),
        (["threads.py", "--variables", "7", "--values", "3"], "the same bits"),
        (["lir.py", "--steps", "1", "--replicates", "1", "--only", "chain_4v_3e"], "certified solves"),
        pytest.param(["formats.py", "asia", "--repeats", "1"], "ours (s)", marks=needs_networks),
        pytest.param(["networks.py", "asia", "--steps", "2"], "resolved in 2 steps", marks=needs_networks),
        (["em.py", "--rows", "300", "--columns", "3", "--components", "2", "--iterations", "2"], "ratio"),
        (["gflownet.py", "--height", "8", "--dimensions", "2", "--batch", "16", "--iterations", "2"], "a transition"),
    ],
)
def test_the_other_benchmarks_run(command: list[str], printed: str):
    done = python(ROOT / "benchmarks" / command[0], *command[1:])
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda p: p.name)
def test_a_tutorial_becomes_a_notebook_with_the_same_code(page: Path):
    jupytext = pytest.importorskip("jupytext")
    cells = [c for c in jupytext.read(page).cells if c.cell_type == "code"]
    assert len(cells) == page.read_text(encoding="utf-8").count("```python\n")
    assert "".join("\n".join(c.source for c in cells).split()) == "".join(code(page).split())
