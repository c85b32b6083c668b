"""Two hospitals, one disease: what do their tables disagree about, and what would both sign?

    python examples/hospitals.py --out hospitals.json
    dissonance score hospitals.json
    dissonance resolve hospitals.json --out resolved.json

The data are the 569 biopsies of the Wisconsin breast cancer set that comes with scikit-learn, in the order of the file:
one hospital has the first half of the rows, the other the second. Measurements are cut into thirds. Each hospital
publishes five tables counted in its own rows: how common the disease is, how three measurements look with and without
it, and how to diagnose it from two of them. docs/case_study.md walks through what comes out.
"""

from __future__ import annotations

import argparse

import pandas as pd
from torch import Tensor

from dissonance import PDG, Attention, Focus, SoftmaxTable, Variable, inconsistency, lir, save
from dissonance.arc import Arc
from dissonance.io import fitted
from dissonance.runs import Run

MEASURED = {"Radius": "mean radius", "Texture": "mean texture", "Concavity": "mean concave points"}
THIRDS = ["low", "middle", "high"]


def biopsies() -> pd.DataFrame:
    """Diagnosis and three measurements, cut into thirds over all rows."""
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer(as_frame=True)
    found = {"Diagnosis": raw.target.map({0: "malignant", 1: "benign"})}
    for name, column in MEASURED.items():
        found[name] = pd.qcut(raw.data[column], 3, labels=THIRDS).astype(object)
    return pd.DataFrame(found)


def tables(hospital: str, rows: pd.DataFrame) -> list[Arc]:
    """What one hospital publishes, with one patient added to every cell so that nothing is impossible."""
    disease = Variable("Diagnosis", ["malignant", "benign"])
    seen = {name: Variable(name, THIRDS) for name in MEASURED}
    arcs = [fitted(f"{hospital}: prevalence", rows, (), disease, pseudocount=1)]
    arcs += [fitted(f"{hospital}: {n}", rows, disease, v, pseudocount=1) for n, v in seen.items()]
    clues = [seen["Radius"], seen["Concavity"]]
    arcs.append(fitted(f"{hospital}: diagnosis", rows, clues, disease, pseudocount=1))
    return [Arc(a.name, a.sources, a.targets, SoftmaxTable(a.cpd.table())) for a in arcs]


def hospitals(names: str = "AB") -> PDG:
    """The tables of hospital A (the first half), of hospital B (the second half), or of both."""
    data = biopsies()
    half = len(data) // 2
    rows = {"A": data[:half], "B": data[half:]}
    return PDG(*(a for n in names for a in tables(n, rows[n])))


def resolved(pdg: PDG, steps: int = 20) -> Run:
    """All ten tables give way together, a fraction 1 - 1/e of the way to the best compromise in each step."""
    return lir(pdg, "uniform", steps=steps, flow="natural", progress=False)


def main() -> None:
    """Score each hospital and both, say who is to blame, and resolve the conflict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="where the tables of both hospitals go, as a PDG file")
    parser.add_argument("--steps", type=int, default=20, help="steps of LIR")
    args = parser.parse_args()
    for names in ("A", "B", "AB"):
        result = inconsistency(hospitals(names))
        who = " and ".join(f"hospital {n}" for n in names)
        print(f"{who}: {result.upper:.6f} nats, certified in [{result.lower:.6f}, {result.upper:.6f}]")
    pdg = hospitals()
    result = inconsistency(pdg)
    print(f"\n{'table':<14}{'divergence':>12}{'saved if dropped':>18}")
    for row in sorted(result.by_arc(), key=lambda r: -(r.saved_if_dropped or 0.0)):
        print(f"{row.name:<14}{row.divergence:>12.4f}{row.saved_if_dropped:>18.4f}")
    run = resolved(pdg, args.steps)
    print(f"\nresolved: {run.before.upper:.6f} -> {run.after.upper:.2g} nats ({run.resolution_percent:.2f} %)")
    for name in ("prevalence", "diagnosis"):
        before, after = (x[f"A: {name}"].cpd.table().reshape(-1, 2)[:, 0] for x in (pdg, run.pdg))
        other = pdg[f"B: {name}"].cpd.table().reshape(-1, 2)[:, 0]
        print(f"P(malignant), {name}: A {_shown(before)}; B {_shown(other)}; agreed {_shown(after)}")
    if args.out:
        save(args.out, pdg, Focus(Attention.uniform(pdg)))
        print(f"\n{args.out}: now try dissonance score {args.out}")


def _shown(values: Tensor) -> str:
    return " ".join(f"{x:.2f}" for x in values.tolist())


if __name__ == "__main__":
    main()
