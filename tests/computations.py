"""Small computations of every kind, with all digits of what they find, so that processes can be compared.

`python tests/computations.py 0 3 studies` prints those of the random models 0 and 3 and of a small study; with no words
it reads them from its standard input, line by line. Each answer is one line of JSON: {what was computed: numbers}.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    LinearGaussian,
    Variable,
    coherence,
    inconsistency,
    lir,
)
from dissonance.cli.app import run
from dissonance.cpds import Data, NeuralCategorical
from dissonance.estimators import NaiveBayesMixture
from dissonance.inconsistency import Inconsistency
from dissonance.io.fingerprint import Fingerprint
from dissonance.lir.start import Run
from dissonance.solvers import Bounds, ConcaveConvex, Reduced
from strategies import MIXED, NASTY, SOFT, STRUCTURED, Case, random_case

Numbers = list[Any]
FLOWS = "natural", "adam", "full", "step", "sgd", "ode"
REFOCUS = "uniform", "partial", "hub", "smooth", "greedy", "surprisal"


def tied() -> PDG:
    """A chain whose full control at gamma alpha > 0 ends in corners, many of them equally low."""
    x, y, z = (Variable(f"X{i}", 2) for i in range(3))
    return PDG(
        Arc("a0", x, y, [[0.78, 0.22], [0.58, 0.42]]),
        Arc("a1", y, z, [[0.88, 0.12], [0.31, 0.69]]),
        Arc("a2", (), x, [0.91, 0.09]),
        Arc("a3", (), y, [0.5, 0.5]),
        Arc("a4", (), z, [0.53, 0.47]),
    ).learnable()


def doubted(k: int) -> Case:
    """A random case that is not convex: some arcs are disbelieved, or have beta < gamma alpha."""
    rng = np.random.default_rng([k, 1])
    case = random_case(k, STRUCTURED, most=3)
    beta = {n: float(rng.choice([b, 0.1 * b, -0.3 * b])) for n, b in case.attention.beta.items()}
    return Case(case.pdg, case.attention.replace(beta=beta))


def chain(k: int) -> PDG:
    """Random tables between neighbours, every variable with a belief of its own, some of them even."""
    rng = np.random.default_rng([k, 2])
    variables = [Variable(f"X{i}", 2) for i in range(int(rng.integers(2, 5)))]
    rows = [Arc(f"r{i}", s, t, rng.dirichlet([1, 1], size=2).round(2)) for i, (s, t) in enumerate(pairwise(variables))]
    own = [[0.5, 0.5] if rng.random() < 0.3 else rng.dirichlet([1, 1]).round(2) for _ in variables]
    return PDG(
        *rows, *(Arc(f"p{i}", (), v, p) for i, (v, p) in enumerate(zip(variables, own, strict=True)))
    ).learnable()


def gaussian(k: int) -> PDG:
    """A ring of linear-Gaussian arcs."""
    rng = np.random.default_rng([k, 3])
    ring = [Variable(f"G{i}", Euclidean(int(rng.integers(1, 4)))) for i in range(3)]
    sizes = [v.domain.dim for v in ring if isinstance(v.domain, Euclidean)]
    arcs = [
        Arc(f"g{i}", ring[i - 1], v, LinearGaussian(rng.normal(size=(d, sizes[i - 1])), rng.normal(size=d), np.eye(d)))
        for i, (v, d) in enumerate(zip(ring, sizes, strict=True))
    ]
    return PDG(*arcs, Arc("p", (), ring[0], LinearGaussian(None, np.zeros(sizes[0]), np.eye(sizes[0]))))


def drawn(k: int) -> PDG:
    """Data, and a network that classifies them."""
    g = torch.Generator().manual_seed(k)
    x, y = Variable("X", Euclidean(3)), Variable("Y", 4)
    net = nn.Linear(3, 4)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=g))
    data = Data(torch.randn(20, 3, generator=g), torch.randint(4, (20,), generator=g))
    return PDG(Arc("d", (), (x, y), data), Arc("p", x, y, NeuralCategorical(net)))


def book(k: int) -> str:
    """Random beliefs about four events."""
    rng = np.random.default_rng([k, 4])
    events = ["A", "B", "C", "D", "A and B", "B or C", "A -> D", "one of(A, B, C)", "not D"]
    return "\n".join(f"P({e}) = {rng.uniform(0.05, 0.95):.2f}" for e in rng.permutation(events)[:6])


def solved(found: Inconsistency, mu: bool = True) -> Numbers:
    """The bounds, who is to blame, and mu* as the tables of all arcs have it."""
    numbers: Numbers = [found.lower, found.upper]
    numbers += [[row.name, row.divergence, row.contribution, row.saved_if_dropped] for row in found.by_arc()]
    for s in found.answers if mu else ():
        finite = [v.name for v in s.part.variables if v.is_finite]
        if np.isfinite(s.upper) and finite:
            numbers += s.mu.marginal(*finite).reshape(-1).tolist()
    return numbers


def ran(run: Run) -> Numbers:
    """Where a run ended, and its trace."""
    tables = [a.cpd.table().detach().reshape(-1).tolist() for a in run.pdg.arcs]
    return [run.before.upper, run.after.lower, run.after.upper, tables, run.trace.column("global_upper")]


def core(k: int) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    """The computations about random model k, by name."""
    plain = random_case(k, SOFT)
    for name, style in {"convex": SOFT, "gamma": STRUCTURED, "mixed": MIXED, "hard": NASTY}.items():
        case = random_case(k, style)
        yield f"inconsistency, {name}", lambda c=case: solved(inconsistency(c.pdg, c.attention))
    case = doubted(k)
    quick = ConcaveConvex(nodes=12)
    yield "inconsistency, not convex", lambda: solved(inconsistency(case.pdg, case.attention, solver=quick))
    curved = random_case(k, STRUCTURED)
    slow = Reduced(seconds=1e6)  # the clock must not stop it
    for name, asked in {"gamma = 0": plain, "gamma > 0": curved}.items():
        for solver in (Bounds(seconds=0.0), slow):
            label = f"{solver.name}, {name}"
            yield label, lambda c=asked, s=solver: solved(inconsistency(c.pdg, c.attention, solver=s), mu=False)
    yield "gaussian", lambda: solved(inconsistency(gaussian(k), Attention.uniform(gaussian(k), gamma=0.1 * (k % 2))))
    yield "sampled", lambda: solved(inconsistency(drawn(k), Attention.only({"d": np.inf, "p": 1.0})))
    some = random_case(k, SOFT, most=4).pdg.learnable()
    flow, refocus = FLOWS[k % len(FLOWS)], REFOCUS[k // len(FLOWS) % len(REFOCUS)]
    yield f"lir, {flow} and {refocus}", lambda: ran(lir(some, refocus, steps=2, flow=flow, seed=k))
    half = Control({a.name: 1.0 for a in some.arcs[::2]} | {a.name: np.inf for a in some.arcs[1::4]})
    yield "lir, some under full control", lambda: ran(lir(some, steps=1, control=half))
    variables = [Variable(f"X{i}", 2) for i in range(9)]
    fixed = PDG(
        Arc("q", (), variables[0], [0.3, 0.7]), *(Arc(f"p{i}", (), v, [0.5, 0.5]) for i, v in enumerate(variables))
    )
    labels = [[x] for x in (1, "1", 2, "2", 3, "3", 4, "4")]
    even = Attention.uniform(chain(k), gamma=0.25 * (1 + k % 4))
    yield "full control at gamma alpha > 0", lambda: ran(lir(chain(k), steps=2, flow="full", attention=even))
    for score in ("log", "brier"):
        yield f"coherence, {score}", lambda s=score: betting(coherence(book(k), score=s))
    yield "fingerprint", lambda: [fingerprint(k)]
    yield "what is fixed", lambda: [repr(fixed.at({f"p{i}.p": torch.full((2,), 0.5).double() for i in range(9)}))]
    yield "labels", lambda: [repr(NaiveBayesMixture(2, max_iter=1, random_state=k).fit(labels).categories_)]


def betting(found: Any) -> Numbers:
    """The bounds of a book, and the stakes."""
    return [found.lower, found.upper, found.least, *([row.coherent, row.stake] for row in found.rows)]


def fingerprint(k: int) -> str:
    """That of sets of sets and of mappings from them."""
    names = [f"{c}{k}" for c in "abcdef"]
    pairs = {frozenset(names[i : i + 2]) for i in range(5)}
    return Fingerprint({"pairs": pairs, "of": {(p, frozenset(names)): len(p) for p in pairs}}).hex()


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file of a folder, but for those that say how long things took."""
    for path in sorted(folder.rglob("*")):
        timed = path.name in ("timing.csv", "study.json") or "batches" in path.parts
        if path.suffix in (".csv", ".json") and not timed:
            yield path.name, untimed(path.read_text())


def untimed(text: str) -> str:
    """A table without its column of seconds; any other text as it is."""
    rows = [line.split(",") for line in text.splitlines()]
    if not rows or "seconds" not in rows[0]:
        return text
    at = rows[0].index("seconds")
    return "\n".join(",".join(row[:at] + row[at + 1 :]) for row in rows)


def commands(*each: list[str]) -> Iterator[tuple[str, Callable[[], Numbers]]]:
    """What commands write to a folder."""
    for words in each:

        def files_of(words: list[str] = words) -> Numbers:
            with tempfile.TemporaryDirectory() as name, redirect_stdout(StringIO()):
                from dissonance import io

                folder = Path(name)
                io.save(folder / "tied.json", tied(), Focus(Attention.uniform(tied(), gamma=0.5), Control()))
                status = run([w.replace("FOLDER", name) for w in words])
                return [status, *files(folder)]

        yield f"dissonance {words[0]} {words[1].rpartition('/')[2]}", files_of


RESOLVE = ["resolve", "FOLDER/tied.json", "--out", "FOLDER/r.json", "--flow", "full", "--steps", "2", "-q"]
STUDY = ["--out", "FOLDER/s", "--no-figures", "-q"]
SYNTHETIC = ["study", "synthetic", *STUDY, "--replicates", "1", "--structures", "2", "--steps", "2", "--jobs", "1"]
TINY = {
    "preset": "tiny", "device": "cpu", "height": 4, "losses": "TB,ModTB", "rewards": "cosine", "clamps": "none",
    "trials": 2, "seeds": 1, "search-iterations": 20, "iterations": 40, "every": 20, "batch": 16,
}  # fmt: skip
GFLOWNET = ["study", "gflownet", *STUDY, *(word for name, x in TINY.items() for word in (f"--{name}", str(x)))]


def asked(word: str) -> dict[str, Numbers]:
    """The answers to one word: the number of a model, or `studies` or `gflownets`."""
    if word.isdecimal():
        named = core(int(word))
    else:
        named = commands(RESOLVE, SYNTHETIC) if word == "studies" else commands(GFLOWNET)
    found: dict[str, Numbers] = {}
    for name, compute in named:
        try:
            found[name] = compute()
        except DissonanceError as error:
            found[name] = [type(error).__name__, str(error)]
    return found


NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def differing(one: dict[str, Numbers], other: dict[str, Numbers], within: float = 0.0) -> list[str]:
    """The computations of which two processes have other numbers, relative to max(1, |number|); bits, within 0."""

    def same(a: Any, b: Any) -> bool:
        if repr(a) == repr(b):  # NaN is not equal to NaN
            return True
        if not within or type(a) is not type(b):
            return False
        if isinstance(a, list):
            return len(a) == len(b) and all(map(same, a, b))
        if isinstance(a, str):
            numbers = [[float(x) for x in NUMBER.findall(text)] for text in (a, b)]
            return NUMBER.sub("", a) == NUMBER.sub("", b) and same(*numbers)
        return isinstance(a, float) and abs(a - b) <= within * max(1.0, abs(a))

    return [name for name in one if not same(one[name], other[name])]


def answer(words: Iterable[str]) -> None:
    """Print the answers."""
    warnings.simplefilter("ignore")
    for word in words:
        sys.stdout.write(json.dumps(asked(word.strip())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    answer(sys.argv[1:] or iter(sys.stdin.readline, ""))
