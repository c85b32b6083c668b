"""How fast published networks are read, by us and by pgmpy, in one run; both must agree on every parameter.

    python benchmarks/formats.py [mildew ...]

The networks come with pgmpy (pip install 'dissonance[pgmpy]'); where it cannot be imported, only our time is printed.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dissonance import PDG, load


def published() -> dict[str, Path]:
    """The BIF files of the pgmpy wheel by name, without importing it."""
    try:
        files = metadata.files("pgmpy") or []
    except metadata.PackageNotFoundError:
        raise SystemExit("the networks come with pgmpy: pip install --no-deps pgmpy") from None
    found = {f.name.removesuffix(".bif.gz"): Path(str(f.locate())) for f in files if f.name.endswith(".bif.gz")}
    return dict(sorted(found.items()))


def pgmpy_reader() -> Any | None:
    """pgmpy's BIF reader, if it can be imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgmpy.readwrite import BIFReader  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return BIFReader


def furthest(pdg: PDG, model: Any) -> float:
    """The largest difference between a parameter of ours and one of pgmpy's, its rows renormalised like ours."""
    worst = 0.0
    for a in pdg:
        cpd = model.get_cpds(a.targets[0].name)
        names = [v.name for v in a.scope]
        theirs = np.asarray(cpd.values).transpose([cpd.variables.index(n) for n in names])
        theirs = theirs / theirs.sum(-1, keepdims=True)
        assert all([str(x) for x in v.finite.labels] == [str(x) for x in cpd.state_names[v.name]] for v in a.scope)
        worst = max(worst, float(np.abs(theirs - a.cpd.table().numpy()).max()))
    return worst


def timed(path: Path) -> tuple[float, PDG]:
    """How long reading took, and what was read."""
    began = time.perf_counter()
    pdg, _ = load(path)
    return time.perf_counter() - began, pdg


def main() -> None:
    """A line a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = published()
    parser.add_argument("networks", nargs="*", default=["mildew"], help=f"of {', '.join(known)}; or: all")
    parser.add_argument("--repeats", type=int, default=3, help="our best time of so many")
    args = parser.parse_args()
    reader = pgmpy_reader()
    names = list(known) if args.networks == ["all"] else args.networks
    print(f"{'network':<12}{'parameters':>11}{'ours (s)':>10}{'pgmpy (s)':>11}{'ratio':>8}  largest difference")
    load(known[names[0]])  # imports
    for name in names:
        ours, pdg = min((timed(known[name]) for _ in range(args.repeats)), key=lambda x: x[0])
        line = f"{name:<12}{sum(a.cpd.table().numel() for a in pdg):>11}{ours:>10.3f}"
        if reader is not None:
            text = gzip.decompress(known[name].read_bytes()).decode()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                began = time.perf_counter()
                model = reader(string=text).get_model()
                theirs = time.perf_counter() - began
            line += f"{theirs:>11.2f}{theirs / ours:>8.0f}  {furthest(pdg, model):.1e}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
