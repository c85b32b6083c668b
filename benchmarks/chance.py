"""Whether p-values of `chance` are what they say, and how often a planted conflict is found.

python benchmarks/chance.py                    asymptotic: 10,000 consistent sets of samples of each of three shapes
python benchmarks/chance.py --bootstrap        the same with small samples, by the bootstrap of 199 replicates
python benchmarks/chance.py --power            a source that is off by so much
python benchmarks/chance.py --intervals        how often intervals of blame hold the truth
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.chance import Chance, chance

Floats = npt.NDArray[np.float64]
Scope = tuple[tuple[str, ...], tuple[str, ...], float]
"""Sources and targets of a sample, and its size in units."""

POPULATION = np.array([[[0.10, 0.14], [0.08, 0.06], [0.07, 0.05]], [[0.06, 0.12], [0.09, 0.05], [0.06, 0.12]]])
"""Over A (2 values), B (3) and C (2)."""

NAMES = ("A", "B", "C")
VARIABLES = {n: Variable(n, k) for n, k in zip(NAMES, POPULATION.shape, strict=True)}
SHAPES: dict[str, list[Scope]] = {
    "three samples of one variable": [((), ("B",), 1.0), ((), ("B",), 2.0), ((), ("B",), 0.6)],
    "crosstabs that share margins": [((), ("A", "B"), 1.0), ((), ("B", "C"), 1.5), ((), ("C", "A"), 1.0)],
    "a conditional table and margins": [(("A",), ("B",), 1.0), ((), ("A",), 1.0), ((), ("B",), 1.5)],
}
SHIFT = {n: np.linspace(1.0, -1.0, VARIABLES[n].size) for n in NAMES}


def rows(joint: Floats, scope: Scope) -> Floats:
    """mu(s,t) of a sample's variables, (sources, targets)."""
    sources, targets, _ = scope
    wanted = [NAMES.index(n) for n in (*sources, *targets)]
    summed = joint.sum(tuple(i for i in range(joint.ndim) if i not in wanted))
    order = np.argsort(np.argsort(wanted))
    return summed.transpose(order).reshape(int(np.prod([VARIABLES[n].size for n in sources], dtype=int)), -1)


def drawn(shape: list[Scope], size: int, rng: np.random.Generator, off: float = 0.0) -> PDG:
    """Samples of the population; the first comes from one whose log-probabilities are off by so much."""
    arcs: list[Arc] = []
    for k, scope in enumerate(shape):
        sources, targets, share = scope
        p = rows(POPULATION, scope)
        n = int(size * share)
        each = np.full(len(p), n // len(p)) if sources else np.array([n])  # as many at each setting of the sources
        q = p / p.sum(1, keepdims=True)
        if k == 0 and off:
            tilt = np.exp(off * np.resize(SHIFT[targets[-1]], q.shape[1]))
            q = q * tilt / (q * tilt).sum(1, keepdims=True)
        counts = np.stack([rng.multinomial(m, row) for m, row in zip(each, q, strict=True)]).astype(float)
        arcs.append(sample(f"sample {k}", scope, counts))
    return PDG(*arcs)


def sample(name: str, scope: Scope, counts: Floats) -> Arc:
    """The arc of counts."""
    of = [tuple(VARIABLES[n] for n in names) for names in scope[:2]]
    shape = [v.size for v in (*of[0], *of[1])]
    cells = {
        setting: float(x)
        for setting, x in zip(np.ndindex(*shape), counts.ravel(), strict=True)
    }  # fmt: skip
    return Arc.from_table(
        name, cells if len(shape) > 1 else {k[0]: x for k, x in cells.items()}, given=of[0], of=of[1], counts=True,
        pseudocount=0.5,
    )  # fmt: skip


def asked(pdg: PDG, **options: object) -> Chance:
    """The test, at beta = n."""
    return chance(inconsistency(pdg, Attention({})), **options)  # pyright: ignore[reportArgumentType]


def calibration(sets: int, size: int, p_value: Callable[[PDG, int], tuple[float, bool]], off: float = 0.0) -> None:
    """How often consistent samples are rejected."""
    print(f"{'shape':34}{'sets':>8}{'claimed':>9}{'p<1%':>8}{'p<5%':>8}{'p<10%':>8}{'ms a set':>10}")
    for name, shape in SHAPES.items():
        rng = np.random.default_rng(7)
        began = time.process_time()
        found = [p_value(drawn(shape, size, rng, off), k) for k in range(sets)]
        took = 1e3 * (time.process_time() - began) / sets
        p = np.array([x for x, _ in found])
        sure = np.array([x for _, x in found])
        rates = [float((p[sure] < level).mean()) if sure.any() else float("nan") for level in (0.01, 0.05, 0.10)]
        print(f"{name:34}{sets:8}{sure.mean():9.1%}" + "".join(f"{x:8.2%}" for x in rates) + f"{took:10.2f}")


def asymptotic(pdg: PDG, _: int) -> tuple[float, bool]:
    """The p-value, and whether its conditions are met."""
    found = asked(pdg, replicates=1, intervals=False)
    assert found.asymptotic is not None
    return found.asymptotic, not found.unmet


def bootstrap(pdg: PDG, seed: int) -> tuple[float, bool]:
    """The p-value of 199 replicates, which always holds; under 5 % means at most 9 of them are as large."""
    found = asked(pdg, replicates=199, intervals=False, seed=seed)
    assert found.bootstrap is not None
    return found.bootstrap - 1e-9, True


def coverage(sets: int, size: int, off: float) -> None:
    """How often 95 % intervals of what the first sample contributes hold what it would with endless samples."""
    print(f"{'shape':34}{'sets':>8}{'truth':>10}{'covered':>9}{'below':>8}{'above':>8}")
    for name, shape in SHAPES.items():
        rng = np.random.default_rng(11)
        truth = limit(shape, size, off)
        inside = below = 0
        for k in range(sets):
            row = asked(drawn(shape, size, rng, off), replicates=400, seed=k).blame[0]
            inside += row.low <= truth <= row.high
            below += row.high < truth
        shares = [x / sets for x in (inside, below, sets - inside - below)]
        print(f"{name:34}{sets:8}{truth:10.3f}{shares[0]:9.1%}{shares[1]:8.1%}{shares[2]:8.1%}")


def limit(shape: list[Scope], size: int, off: float) -> float:
    """What the first sample contributes if all had the frequencies of their populations."""
    arcs: list[Arc] = []
    for k, scope in enumerate(shape):
        p = rows(POPULATION, scope)
        q = p / p.sum(1, keepdims=True)
        if k == 0:
            tilt = np.exp(off * np.resize(SHIFT[scope[1][-1]], q.shape[1]))
            q = q * tilt / (q * tilt).sum(1, keepdims=True)
        of = [tuple(VARIABLES[n] for n in names) for names in scope[:2]]
        table = q.reshape([v.size for v in (*of[0], *of[1])])
        arcs.append(Arc(f"sample {k}", of[0], of[1], table, beta=float(int(size * scope[2]))))
    return inconsistency(PDG(*arcs)).by_arc(saved=False)[0].contribution


def main() -> None:
    """What the options ask for."""
    logging.getLogger("dissonance").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=0)
    parser.add_argument("--size", type=int, default=0, help="observations in a unit of sample size")
    for name in ("bootstrap", "power", "intervals"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    if given.bootstrap:
        calibration(given.sets or 2000, given.size or 60, bootstrap)
    elif given.power:
        for off in (0.1, 0.2, 0.3):
            print(f"the first sample is off by a factor exp(+-{off:g})")
            calibration(given.sets or 1000, given.size or 500, asymptotic, off)
    elif given.intervals:
        coverage(given.sets or 500, given.size or 500, 0.3)
    else:
        calibration(given.sets or 10_000, given.size or 500, asymptotic)


if __name__ == "__main__":
    main()
