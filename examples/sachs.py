"""A published network and nine experiments: does blame find what a drug does?

    pip install --no-deps pgmpy cdt
    python examples/sachs.py [--out sachs.json] [--figure sachs.svg]

The network is `sachs`, of eleven proteins in a cell, as it comes with pgmpy. The measurements are the 7466 cells of
Sachs et al. (2005) that come with the Causal Discovery Toolbox: nine experiments, one after the other, most of them
with a drug that acts on one protein. Each experiment is a source of its own: a table for every protein given its
parents, counted in its cells. The network and one experiment at a time are scored, and what dropping each of the
experiment's tables would save says where the two disagree. docs/nine_experiments.md walks through what comes out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dissonance import PDG, SoftmaxTable, inconsistency, load, save
from dissonance.arc import Arc
from dissonance.io import fitted

EXPERIMENTS = {
    "CD3/CD28": (853, "-"),
    "+ ICAM-2": (902, "-"),
    "+ Akt inhibitor": (911, "Akt"),
    "+ G06976": (723, "PKC"),
    "+ psitectorigenin": (810, "PIP2"),
    "+ U0126": (799, "Mek"),
    "+ LY294002": (848, "-"),
    "PMA": (913, "PKC"),
    "b2cAMP": (707, "PKA"),
}
"""What the cells were given, how many there are, in the order of the file, and the protein a drug acts on directly."""

CALLED = {"praf": "Raf", "pmek": "Mek", "plcg": "Plcg", "p44/42": "Erk", "pakts473": "Akt", "pjnk": "Jnk"}


def file_of(package: str, name: str) -> Path:
    """A data file of an installed package, which need not be importable."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        files = []
    found = next((f for f in files if f.name == name), None)
    if found is None:
        sys.exit(f"no {name} here: pip install --no-deps {package}")
    return Path(str(found.locate()))


def network() -> PDG:
    """The published network."""
    return load(file_of("pgmpy", "sachs.bif.gz"))[0]


def cut(pdg: PDG, raw: pd.DataFrame) -> pd.DataFrame:
    """Measurements as the network's LOW, AVG and HIGH, each as frequent in all cells as the network says.

    Where the published cuts were is not in the file; this way network and cells agree about every protein alone, and
    what is left is how proteins depend on each other, and how experiments differ.
    """
    whole = inconsistency(pdg).mu
    levels: dict[str, pd.Categorical] = {}
    for v in pdg.variables:
        cuts = raw[v.name].quantile(np.cumsum(whole.marginal(v.name).numpy())[:-1])
        codes = np.searchsorted(cuts.to_numpy(), raw[v.name].to_numpy())
        levels[v.name] = pd.Categorical.from_codes(codes, list(v.finite.labels))
    return pd.DataFrame(levels)


def experiments(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The cells of each experiment."""
    start = 0
    for name, (count, _) in EXPERIMENTS.items():
        yield name, cells[start : start + count]
        start += count


def against(pdg: PDG, cells: pd.DataFrame) -> PDG:
    """The network, and a table for every protein given its parents as counted in the cells."""
    counted = [fitted(f"cells: {a.name}", cells, a.sources, a.targets, pseudocount=1) for a in pdg]
    both = [*(Arc(f"network: {a.name}", a.sources, a.targets, a.cpd.table()) for a in pdg), *counted]
    return PDG(*(Arc(a.name, a.sources, a.targets, SoftmaxTable(a.cpd.table())) for a in both))


def dispute(both: PDG) -> tuple[float, dict[str, float]]:
    """How inconsistent a network and an experiment are, and what dropping each table of the experiment would save."""
    with torch.no_grad():
        result = inconsistency(both)
        saved = {row.name: row.saved_if_dropped or 0.0 for row in result.by_arc()}
    mine = {name.removeprefix("cells: "): x for name, x in saved.items() if name.startswith("cells: ")}
    return result.upper, dict(sorted(mine.items(), key=lambda x: -x[1]))


def drawn(pdg: PDG, count: int, seed: int = 0) -> pd.DataFrame:
    """As many cells drawn from the network itself."""
    return pd.DataFrame(inconsistency(pdg).mu.sample(count, torch.Generator().manual_seed(seed)))


def main(words: Sequence[str] | None = None) -> None:
    """A line an experiment: how far from the network, and which tables are to blame."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the measurements, if not those of an installed cdt")
    parser.add_argument("--out", help="where the network and the cells given U0126 go, as a PDG file")
    parser.add_argument("--figure", help="where a picture of all the blame goes")
    args = parser.parse_args(words)
    pdg = network()
    raw = pd.read_csv(args.data or file_of("cdt", "cyto_full_data.csv")).rename(columns=CALLED)
    if len(raw) != sum(count for count, _ in EXPERIMENTS.values()):
        sys.exit(f"these measurements have {len(raw)} rows, not those of the nine experiments")
    cells = dict(experiments(cut(pdg, raw)))
    print(f"{'cells given':<20}{'cells':>6}{'acts on':>9}{'nats':>9}   tables that would save most if dropped")
    found: dict[str, dict[str, float]] = {}
    for name, rows in {**cells, "(from the network)": drawn(pdg, 850)}.items():
        nats, found[name] = dispute(against(pdg, rows))
        most = ", ".join(f"{n} {x:.2f}" for n, x in list(found[name].items())[:3])
        print(f"{name:<20}{len(rows):>6}{EXPERIMENTS.get(name, (0, '-'))[1]:>9}{nats:>9.3f}   {most}", flush=True)
    print(f"\n{'levels LOW, AVG, HIGH of':<28}{'in these cells':<18}in the network")
    whole = inconsistency(pdg).mu
    for name, protein in [*((n, p) for n, (_, p) in EXPERIMENTS.items() if p != "-"), ("+ U0126", "Erk")]:
        here = cells[name][protein].value_counts(normalize=True, sort=False)
        print(f"{protein + ', ' + name:<28}{_shown(here):<18}{_shown(whole.marginal(protein))}")
    if args.figure:
        picture(found, args.figure)
    if args.out:
        save(args.out, against(pdg, cells["+ U0126"]))
        print(f"\n{args.out}: now try dissonance score {args.out}")


def _shown(levels: Iterable[float]) -> str:
    return " ".join(f"{float(x):.2f}" for x in levels)


def picture(found: dict[str, dict[str, float]], path: str) -> None:
    """A square for every experiment and protein, as dark as the table is to blame; a ring where the drug acts."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "sachs"
    import matplotlib.pyplot as plt

    proteins = sorted(next(iter(found.values())))
    grid = np.array([[row[p] for p in proteins] for row in found.values()])
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    shown = axes.imshow(grid, cmap="Reds", norm=matplotlib.colors.PowerNorm(0.5), aspect="auto")
    axes.set_xticks(range(len(proteins)), proteins)
    axes.set_yticks(range(len(found)), list(found))
    for i, name in enumerate(found):
        target = EXPERIMENTS.get(name, (0, "-"))[1]
        if target in proteins:
            axes.plot(proteins.index(target), i, "o", color="none", markeredgecolor="black", markersize=12)
    figure.colorbar(shown, label="saved if dropped (nats)")
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
    plt.close(figure)


if __name__ == "__main__":
    main()
