"""How quickly the studio answers: the command is started, and asked over HTTP as its page asks.

OMP_NUM_THREADS=1 python benchmarks/studio.py                       smoking.json, then networks of 37 and 200 variables
OMP_NUM_THREADS=1 python benchmarks/studio.py MODEL... --repeats 50
OMP_NUM_THREADS=1 python benchmarks/studio.py --browser             the same in Chromium, as a person waits for it

`first` is the time to the first answer of its kind, `again` the median of those with another beta, which is what a
slider waits for, `CPU` the processor time that the first answer took. `--browser` (playwright and Chromium) opens the
file from the list of files and waits for the picture, for the score and its blame, and for a new one after a beta is
typed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PARENTS = 3
READY = ".gauge:not(.stale)"
"""What the page has once the score is that of what is there."""


def network(variables: int, seed: int = 0) -> dict[str, Any]:
    """A random network of binary variables, each with up to three parents among the eight before it; ten opinions."""
    random = np.random.default_rng(seed)
    arcs: list[dict[str, Any]] = []
    for i in range(variables):
        near = range(max(0, i - 8), i)
        parents = sorted(random.choice(near, min(len(near), random.integers(PARENTS + 1)), replace=False)) if i else []
        p = random.uniform(0.05, 0.95, (2,) * len(parents))
        table = np.stack([p, 1 - p], -1).tolist()
        arcs.append({"name": f"a{i}", "sources": [f"x{j}" for j in parents], "targets": [f"x{i}"], "table": table})
    for i in random.choice(variables, 10, replace=False):
        p = float(random.uniform(0.05, 0.95))
        arcs.append({"name": f"opinion on x{i}", "targets": [f"x{i}"], "table": [p, 1 - p]})
    listed = [{"name": f"x{i}", "size": 2} for i in range(variables)]
    return {"format": "dissonance.pdg", "version": 1, "variables": listed, "arcs": arcs}


class Studio:
    """The command, started in a folder."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-m", "dissonance", "studio", "--no-open", "--json"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.home, _, self.token = json.loads(self.process.stdout.readline())["address"].partition("/?token=")

    def spent(self) -> float:
        """Milliseconds of processor time that its workers have used; NaN where that cannot be known."""
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if not tasks.is_file():
            return float("nan")
        stats = [Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split() for p in tasks.read_text().split()]
        return sum(float(s[11]) + float(s[12]) for s in stats) * 1000 / os.sysconf("SC_CLK_TCK")

    def ask(self, action: str, **params: Any) -> float:
        """After how many milliseconds it has answered."""
        headers = {"Content-Type": "application/json", "Origin": self.home, "X-Dissonance-Token": self.token}
        request = urllib.request.Request(f"{self.home}/api/{action}", json.dumps(params).encode(), headers)
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            answer.read()
        return 1000 * (time.perf_counter() - began)


def timed(studio: Studio, action: str, model: dict[str, Any], repeats: int) -> tuple[float, float, float]:
    """Milliseconds of the first answer, by the clock and of processor time, and of those after it, with other betas."""
    began = studio.spent()
    first = studio.ask(action, model=model)
    spent = studio.spent() - began
    again: list[float] = []
    for k in range(repeats):
        changed = [{**model["arcs"][0], "beta": 1 + 0.1 * (k + 1)}, *model["arcs"][1:]]
        again.append(studio.ask(action, model={**model, "arcs": changed}))
    return first, spent, statistics.median(again)


def watched(studio: Studio, models: dict[str, dict[str, Any]], folder: Path) -> None:
    """Print how long a person waits: from the click on a file to its picture and to its score, and for a new score."""
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    print("| model | picture (s) | score and blame (s) | another beta (s) |")
    print("|---|---|---|---|")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, model in models.items():
            (folder / "model.json").write_text(json.dumps(model))
            page = browser.new_page(viewport={"width": 1360, "height": 860})
            page.set_default_timeout(120_000)
            page.goto(f"{studio.home}/?token={studio.token}")
            page.locator(READY).wait_for()
            page.get_by_role("button", name="Open", exact=True).click()
            file = page.get_by_role("dialog").get_by_role("button", name="model.json")
            file.wait_for()
            began = time.perf_counter()
            file.click()
            last, arc = model["variables"][-1]["name"], model["arcs"][-1]["name"]
            page.locator(f'g.variable[data-name="{last}"]').wait_for()
            page.locator(".canvas:not(.waiting)").wait_for()
            picture = time.perf_counter() - began
            page.locator(f'.blame-row[data-arc="{arc}"]').wait_for()
            page.locator(READY).wait_for()
            score = time.perf_counter() - began
            page.locator(f'.blame-row[data-arc="{arc}"]').click()
            began = time.perf_counter()
            page.get_by_label("β confidence", exact=True).fill("1.5")
            page.locator(READY).wait_for()
            print(f"| {name} | {picture:.2f} | {score:.2f} | {time.perf_counter() - began:.2f} |", flush=True)
            page.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="files of ours (JSON)")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--browser", action="store_true", help="time what a person waits for, in Chromium")
    options = parser.parse_args()
    models = {p.name: json.loads(p.read_text()) for p in options.models}
    if not models:
        models = {"smoking.json": json.loads((ROOT / "examples" / "smoking.json").read_text())}
        models |= {f"{n} variables": network(n) for n in (37, 200)}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        studio = Studio(folder)
        try:
            print(f"the address after {time.perf_counter() - began:.2f} s", end=", ")
            studio.ask("hello")
            print(f"the first answer after {time.perf_counter() - began:.2f} s")
            studio.ask("run", model=next(iter(models.values())), steps=1)  # it waits for the compiled solver
            if options.browser:
                watched(studio, models, Path(folder))
                return
            print("| model | score, first (ms) | CPU | again | picture, first (ms) | CPU | again |")
            print("|---|---|---|---|---|---|---|")
            for name, model in models.items():
                numbers = [x for action in ("score", "layout") for x in timed(studio, action, model, options.repeats)]
                print(f"| {name} | {' | '.join(f'{x:.0f}' for x in numbers)} |", flush=True)
        finally:
            studio.process.terminate()
            studio.process.wait()


if __name__ == "__main__":
    main()
