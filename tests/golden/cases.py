"""Inputs of the golden numbers as plain data: a function a family, which returns dicts of numbers and strings.

Nothing of the library is imported here. Draws come from `numpy.random.RandomState`, whose stream numpy has frozen, so
that the same inputs are made everywhere; they are kept beside the numbers all the same. The key "call" names the
function of `calls.py` that a case is for.

A table is a list of rows, one for each setting of its sources, of weights that are normalised by `calls.py`: small
whole numbers, which take little room and make conditionals of one hidden joint agree exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Case = dict[str, Any]
inf = math.inf
FAMILIES: dict[str, Callable[[], list[Case]]] = {}
"""The families, by name; the names of those whose numbers depend on draws at random end in "drawn"."""


def family(call: str) -> Callable[[Callable[[np.random.RandomState], list[Case]]], Callable[[], list[Case]]]:
    """Register a generator: it is given a seeded generator of its own, and its cases the name of their call."""

    def registered(function: Callable[[np.random.RandomState], list[Case]]) -> Callable[[], list[Case]]:
        name = function.__name__
        seed = sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**31

        def made() -> list[Case]:
            return [{"call": call} | case for case in function(np.random.RandomState(seed))]

        FAMILIES[name] = made
        return made

    return registered


# -- random problems with finite variables -------------------------------------------------------------------


def sizes_of(rs: np.random.RandomState, most: int = 6, cells: int = 108) -> dict[str, int]:
    """One to `most` variables of 2 to 4 values."""
    k = rs.choice([2, 2, 3, 4], size=min(most, rs.choice([1, 2, 3, 4, 5, 5, 6, 6])))
    while k.prod() > cells:
        k[k.argmax()] -= 1
    return {"ABCDEFGH"[i]: int(x) for i, x in enumerate(k)}


def scope_of(rs: np.random.RandomState, names: str) -> tuple[str, str]:
    """Sources and targets, mostly neighbours."""
    size = min(len(names), int(rs.choice([1, 2, 2, 2, 2, 3, 3, 4])))
    start = rs.randint(len(names))
    window = [names[(start + i) % len(names)] for i in range(size)]
    order = (
        [window[i] for i in rs.permutation(size)] if rs.rand() < 0.8 else [names[i] for i in rs.permutation(len(names))]
    )
    targets = rs.randint(1, min(2, size) + 1)
    return "".join(order[targets:size]), "".join(order[:targets])


def settings(sizes: dict[str, int], scope: str) -> int:
    """The number of settings of a scope."""
    return math.prod(sizes[v] for v in scope)


def rows_of(
    rs: np.random.RandomState, rows: int, width: int, sharp: float = 0.0, zeros: float = 0.0
) -> list[list[Any]]:
    """Weights of a table: plain, nearly deterministic, or with zeros."""
    if rs.rand() < sharp:
        p = np.full((rows, width), 1e-9)
        p[np.arange(rows), rs.randint(width, size=rows)] = 1.0
        return p.tolist()
    p = 1 + rs.randint(0, 60, size=(rows, width)) * rs.randint(0, 12, size=(rows, width))
    gone = rs.rand(rows, width) < zeros
    gone[gone.all(1), 0] = False
    p[gone] = 0
    return p.tolist()


def problem(
    rs: np.random.RandomState,
    *,
    kinds: tuple[str, ...] = ("table",),
    gammas: tuple[float, ...] = (0.0,),
    hard: float = 0.0,
    zeros: float = 0.0,
    sharp: float = 0.0,
    contradict: float = 0.0,
    unattended: float = 0.05,
    ratio: float = 1.0,
    most: int = 6,
    arcs: int = 0,
    sizes: dict[str, int] | None = None,
) -> Case:
    """Draw tables and weights: soft tables leave joint states possible, hard ones are read off a joint of these."""
    sizes = sizes_of(rs, most) if sizes is None else sizes
    names = "".join(sizes)
    count = arcs or rs.randint(1, len(names) + 4)
    gamma = float(rs.choice(gammas))
    states = settings(sizes, names)
    grid = np.indices(tuple(sizes.values())).reshape(len(names), -1)
    safe = rs.randint(states, size=rs.randint(1, 6))
    possible = np.ones(states, dtype=bool)
    made: list[list[Any]] = []
    for i in range(count):
        s, t = scope_of(rs, names)
        kind = str(rs.choice(kinds))
        if kind in ("factor", "density", "empirical"):
            s, t = ("", s + t) if kind != "density" else (s, t[:1])
        at = np.ravel_multi_index([grid[names.index(v)] for v in s + t], [sizes[v] for v in s + t])
        rows, width = settings(sizes, s), settings(sizes, t)
        is_hard = kind not in ("factor", "density") and rs.rand() < hard
        table: Any = rows_of(rs, rows, width, sharp, 0.0 if is_hard or kind == "softmax" else zeros)
        if kind == "deterministic":
            table = [int(x) for x in rs.randint(width, size=rows)]
            is_hard = rs.rand() < 0.3
        elif kind == "density":  # at points x, of means and variances for each setting of the sources
            draws = (
                rs.randint(-4, 5, size=width) / 4,
                rs.randint(-4, 5, size=rows) / 4,
                rs.randint(1, 40, size=rows) / 100,
            )
            table = [x.tolist() for x in draws]
        elif kind == "factor":
            table = (np.asarray(table, dtype=float) * np.round(10 ** rs.uniform(-2, 1), 4)).round(6).tolist()
        elif not is_hard and zeros:
            p = np.asarray(table)
            if rs.rand() >= contradict:
                flat = p.reshape(-1)
                flat[at[safe]] = np.maximum(flat[at[safe]], 1)
            possible &= p.reshape(-1)[at] > 0
            table = p.tolist()
        made.append([f"p{i + 1}", s, t, kind, table, is_hard, at])
    joint = 1 + rs.randint(0, 9, size=states) ** 2
    joint = joint * possible if possible.any() else joint
    beta, alpha, out = {}, {}, []
    for name, s, t, kind, table, is_hard, at in made:
        alpha[name] = float(rs.choice([0.0, 0.5, 1.0]))
        beta[name] = round(gamma * alpha[name] + float(rs.choice([1.0, ratio])) * rs.uniform(0.1, 2.0), 3)
        if rs.rand() < unattended:
            beta[name] = alpha[name] = 0.0
        elif is_hard:
            beta[name] = inf
            if kind != "deterministic" and rs.rand() >= contradict:
                width = settings(sizes, t)
                total = np.bincount(at, weights=joint, minlength=settings(sizes, s) * width).reshape(-1, width)
                total[total.sum(1) == 0] = 1
                table = total.astype(int).tolist()
        out.append([name, s, t, kind, table])
    return {"sizes": sizes, "arcs": out, "beta": beta, "alpha": alpha, "gamma": gamma}


NASTY = {"zeros": 0.2, "sharp": 0.4, "hard": 0.5, "contradict": 0.03, "ratio": 1e4, "gammas": (0.0, 0.0, 0.2, 1.0)}


@family("bounds")
def soft(rs: np.random.RandomState) -> list[Case]:
    return [problem(rs) for _ in range(400)]


@family("bounds")
def structured(rs: np.random.RandomState) -> list[Case]:
    return [problem(rs, gammas=(1e-3, 0.05, 0.3, 1.0)) for _ in range(360)]


@family("bounds")
def mixed(rs: np.random.RandomState) -> list[Case]:
    return [
        problem(rs, zeros=0.1, hard=0.2, gammas=(0.0, 0.0, 0.1, 0.7), kinds=("table", "softmax", "simplex"))
        for _ in range(360)
    ]


@family("bounds")
def nasty(rs: np.random.RandomState) -> list[Case]:
    return [problem(rs, **NASTY) for _ in range(320)]


@family("bounds")
def kinds(rs: np.random.RandomState) -> list[Case]:
    """Deterministic, factor and empirical cpds, densities whose rows do not sum to 1."""
    every = ("table", "softmax", "deterministic", "factor", "empirical")
    return [problem(rs, kinds=every, gammas=(0.0, 0.3)) for _ in range(140)] + [
        problem(rs, kinds=("table", "density"), gammas=(0.0, 0.0, 0.5), unattended=0.0) for _ in range(60)
    ]


@family("bounds")
def large_weights(rs: np.random.RandomState) -> list[Case]:
    """Weights from 1e-6 to 1e9, logits far apart."""
    found = []
    for _ in range(60):
        case = problem(rs, kinds=("table", "logits"), most=4, unattended=0.0)
        for arc in case["arcs"]:
            case["beta"][arc[0]] = float(10.0 ** rs.randint(-6, 10))
            if arc[3] == "logits":
                arc[4] = rs.choice([-30, -4, 0, 1, 3], size=np.shape(arc[4])).tolist()
        case["gamma"] = float(rs.choice([0.0, 0.0, 1e-5]))
        case["alpha"] = {name: min(1.0, b) for name, b in case["beta"].items()}
        found.append(case)
    return found


@family("bounds")
def components(rs: np.random.RandomState) -> list[Case]:
    """Several parts that do not touch, variables that no arc mentions, loose ends, networks, one arc."""
    found = []
    for _ in range(50):
        first, second = problem(rs, most=3, hard=0.2), problem(rs, most=3)
        rename = dict(zip("ABC", "XYZ", strict=True))
        arcs = [[f"{n}b", *("".join(rename[v] for v in x) for x in (s, t)), k, p] for n, s, t, k, p in second["arcs"]]
        for key in ("beta", "alpha"):
            first[key] |= {f"{n}b": w for n, w in second[key].items()}
        first["sizes"] |= {rename[v]: k for v, k in second["sizes"].items()} | {"U": 4, "W": 2}
        first["arcs"] += arcs
        first["gamma"] = float(rs.choice([0.0, 0.0, 0.1]))
        if first["gamma"]:
            first["alpha"] = {n: min(w, first["beta"][n]) for n, w in first["alpha"].items()}
        found.append(first)
    for gamma in (0.0, 0.5, 1.0):
        for _ in range(16):  # a Bayesian network: one arc for each variable
            sizes = {v: int(rs.randint(2, 4)) for v in "ABCDEF"[: rs.randint(2, 7)]}
            names = "".join(sizes)
            arcs = []
            for i, v in enumerate(names):
                s = (
                    "".join(sorted(rs.choice(list(names[:i]), size=min(i, rs.randint(0, 3)), replace=False)))
                    if i
                    else ""
                )
                arcs.append(
                    [f"p{i}", s, v, str(rs.choice(["table", "softmax"])), rows_of(rs, settings(sizes, s), sizes[v])]
                )
            weight = 1.0 if rs.rand() < 0.5 else 0.7
            found.append(
                {
                    "sizes": sizes,
                    "arcs": arcs,
                    "beta": {a[0]: 1.0 for a in arcs},
                    "alpha": {a[0]: weight for a in arcs},
                    "gamma": gamma,
                }
            )
    return found


@family("bounds")
def disbelief(rs: np.random.RandomState) -> list[Case]:
    """Negative beta, and beta below gamma alpha: bounds of a problem that is not convex."""
    found = []
    for i in range(50):
        case = problem(rs, most=3, gammas=(0.0, 0.5), unattended=0.0, arcs=3)
        names = list(case["beta"])
        if i % 2:
            case["beta"][names[0]] = -round(float(rs.uniform(0.05, 0.5)), 3)
        else:
            case["gamma"] = 1.0
            case["alpha"] = dict.fromkeys(names, 1.0)
            case["beta"] = {n: round(float(rs.uniform(0.3, 1.5)), 3) for n in names}
        found.append(case)
    return found


@family("by_solver")
def solvers(rs: np.random.RandomState) -> list[Case]:
    """One problem, every solver by name; those that refuse it are written down as such."""
    found = [problem(rs, most=4, gammas=(0.0, 0.3, 1.0), hard=0.1) for _ in range(24)]
    found += [problem(rs, most=1, arcs=3, unattended=0.0) for _ in range(6)]
    names = ["newton", "clique-tree", "joint", "pinned", "sum-product", "given", "pooled", "concave-convex", "paper"]
    return [case | {"solvers": [n for n in names if n != "paper" or i < 6]} for i, case in enumerate(found)]


@family("bounds")
def reduced(rs: np.random.RandomState) -> list[Case]:
    """The reduced dual, by name, until its bounds meet: no seconds."""
    styles = [{"gammas": (0.1, 0.5)}, {}, {"hard": 0.2, "gammas": (0.1,)}]
    return [problem(rs, most=4, **styles[i % 3]) | {"solver": "reduced"} for i in range(30)]


@family("batch")
def batches(rs: np.random.RandomState) -> list[Case]:
    """Problems of one structure together: other tables, and other weights of one PDG."""
    found = []
    for i in range(30):
        style = NASTY if i % 3 == 2 else {"gammas": (0.0, 0.2), "hard": 0.1, "kinds": ("softmax", "table")}
        case = problem(rs, **style)
        others = []
        for _ in range(7):
            tables = [[[int(x) for x in rs.randint(1, 50, size=len(r))] for r in a[4]] for a in case["arcs"]]
            others.append(tables)
        weights = [
            {n: b if b == inf or not b else round(b * float(rs.uniform(1, 2)), 3) for n, b in case["beta"].items()}
            for _ in range(4)
        ]
        found.append(case | {"tables": others, "weights": weights})
    return found


@family("gradient")
def gradients(rs: np.random.RandomState) -> list[Case]:
    """Slopes of the value in all parameters: softmax tables and tables, soft and hard."""
    styles = [
        {"kinds": ("softmax",)},
        {"kinds": ("softmax", "table"), "gammas": (0.1, 0.6)},
        {"kinds": ("softmax", "simplex"), "hard": 0.25, "gammas": (0.0, 0.2)},
    ]
    return [problem(rs, unattended=0.0, most=5, **styles[i % 3]) for i in range(200)]


@family("blamed")
def blame(rs: np.random.RandomState) -> list[Case]:
    """Blame by arc, with what dropping it saves, by cell, and in a sentence."""
    styles: list[dict[str, Any]] = [
        {},
        {"gammas": (0.2,)},
        {"hard": 0.2, "zeros": 0.1},
        {"kinds": ("softmax", "deterministic")},
    ]
    return [problem(rs, **styles[i % 4]) for i in range(120)]


# -- Gaussians -----------------------------------------------------------------------------------------------


def positive(rs: np.random.RandomState, n: int) -> list[list[float]]:
    """A covariance."""
    a = rs.randint(-3, 4, size=(n, n)) / 2.0
    return (a @ a.T + np.diag(rs.randint(1, 5, size=n) / 2.0)).tolist()


def gaussian_arc(rs: np.random.RandomState, name: str, s: str, t: str, dims: dict[str, int]) -> list[Any]:
    """A linear-Gaussian arc: [A, b, Sigma]."""
    m, k = sum(dims[v] for v in t), sum(dims[v] for v in s)
    a = (rs.randint(-4, 5, size=(m, k)) / 4.0).tolist() if k else None
    return [name, s, t, "gaussian", [a, (rs.randint(-8, 9, size=m) / 2.0).tolist(), positive(rs, m)]]


def gaussian_problem(rs: np.random.RandomState, hard: float = 0.0, gammas: tuple[float, ...] = (0.0,)) -> Case:
    """Linear-Gaussian arcs about up to four real variables, each of which some arc bounds."""
    dims = {v: int(rs.randint(1, 3)) for v in "KLMN"[: rs.randint(1, 5)]}
    names = "".join(dims)
    arcs = [gaussian_arc(rs, f"g{i}", "", v, dims) for i, v in enumerate(names)]
    for i in range(rs.randint(0, len(names) + 2)):
        s, t = scope_of(rs, names)
        arcs.append(gaussian_arc(rs, f"r{i}", s, t, dims))
    gamma = float(rs.choice(gammas))
    alpha = {a[0]: float(rs.choice([0.0, 1.0])) for a in arcs}
    beta = {a[0]: round(gamma * alpha[a[0]] + float(rs.uniform(0.1, 2.0)), 3) for a in arcs}
    if rs.rand() < hard:
        beta[arcs[rs.randint(len(arcs))][0]] = inf
    return {"sizes": {v: f"R{d}" for v, d in dims.items()}, "arcs": arcs, "beta": beta, "alpha": alpha, "gamma": gamma}


@family("gaussian")
def gaussians(rs: np.random.RandomState) -> list[Case]:
    """Beliefs about real variables: bounds, moments of mu, blame, slopes in A, b and Sigma."""
    return [gaussian_problem(rs, hard=0.3 * (i % 2), gammas=(0.0, 0.0, 0.2, 1.0)) for i in range(120)]


@family("gaussian")
def gaussian_pools(rs: np.random.RandomState) -> list[Case]:
    """Several beliefs about one real variable; diagonal, learnable and fixed."""
    found = []
    for _ in range(40):
        dims = {"K": int(rs.randint(1, 4))}
        arcs = [gaussian_arc(rs, f"g{i}", "", "K", dims) for i in range(rs.randint(2, 5))]
        beta = {a[0]: round(float(rs.uniform(0.1, 3.0)), 3) for a in arcs}
        found.append({"sizes": {"K": f"R{dims['K']}"}, "arcs": arcs, "beta": beta, "alpha": {}, "gamma": 0.0})
    return found


@family("gaussian")
def mixes(rs: np.random.RandomState) -> list[Case]:
    """Finite beliefs beside real ones, and real variables that are known points or rows of data."""
    found = []
    for i in range(40):
        case, real = problem(rs, most=3, kinds=("table", "softmax")), gaussian_problem(rs)
        if i % 2:
            n = int(rs.randint(2, 5))
            dims = {v: int(str(d)[1:]) for v, d in real["sizes"].items()}
            rows = [(rs.randint(-8, 9, size=(n, d)) / 4.0).tolist() for d in dims.values()]
            real["arcs"].append(["data", "", "".join(dims), "data", rows])
            real["beta"]["data"] = inf
        case["sizes"] |= real["sizes"]
        case["arcs"] += real["arcs"]
        case["beta"] |= real["beta"]
        case["alpha"] |= {n: 0.0 for n in real["beta"]}
        found.append(case)
    return found


# -- Local Inconsistency Resolution --------------------------------------------------------------------------

CONTROLS: list[Any] = [None, 0.3, 2.0, inf, {"p1": inf, "p2": 0.5}, {"p1": 1.0}]


def resolvable(rs: np.random.RandomState, **style: Any) -> Case:
    """A PDG whose tables can move."""
    options: dict[str, Any] = {
        "kinds": ("softmax", "softmax", "simplex"),
        "unattended": 0.0,
        "most": 4,
        "arcs": rs.randint(2, 5),
    }
    return problem(rs, **options | style)


def run_of(case: Case, **options: Any) -> Case:
    """A case with what `lir` is asked."""
    return case | {"run": options}


@family("resolved")
def lir_natural(rs: np.random.RandomState) -> list[Case]:
    """The natural flow with every control, gamma 0 and above, hard arcs, zeros."""
    found = []
    for i in range(72):
        style: dict[str, Any] = [
            {},
            {"gammas": (0.1, 0.5)},
            {"hard": 0.3},
            {"zeros": 0.1, "kinds": ("softmax", "simplex")},
        ][i % 4]
        control = CONTROLS[i % len(CONTROLS)]
        if i % 4 == 2 and control not in (None, 0.3, 2.0, inf):
            control = 0.7
        found.append(run_of(resolvable(rs, **style), steps=4, flow="natural", control=control))
    return found


@family("resolved")
def lir_flows(rs: np.random.RandomState) -> list[Case]:
    """Every flow by name, with finite control and without bound."""
    found = []
    for flow in ("natural", "adam", "sgd", "step", "full", "euler", "rk4"):
        for i in range(8):
            style: dict[str, Any] = {"gammas": (0.2,)} if i % 3 == 2 else {}
            control = [0.5, 1.0, {"p1": 0.4, "p2": 1.5}, inf][i % 4]
            if flow == "full":
                control = inf
            found.append(run_of(resolvable(rs, **style), steps=3, flow=flow, control=control))
    return found


@family("resolved")
def lir_integrated(rs: np.random.RandomState) -> list[Case]:
    """Flows that integrate to a tolerance of their own."""
    return [
        run_of(resolvable(rs, most=3, arcs=2 + i % 2), steps=2, flow=flow, control=[0.5, 1.0, {"p1": 0.4}][i % 3])
        for flow in ("ode", "dopri5", "lsoda")
        for i in range(3)
    ]


@family("resolved")
def lir_refocus(rs: np.random.RandomState) -> list[Case]:
    """Refocus procedures that draw nothing, by name, and given foci in a cycle."""
    found = []
    for refocus in ("uniform", "greedy", "surprisal", "cycle"):
        for i in range(12):
            case = resolvable(rs, gammas=(0.0, 0.0, 0.2))
            found.append(run_of(case, steps=4, refocus=refocus, control=[None, 0.5, inf][i % 3]))
    return found


@family("resolved")
def lir_refocus_drawn(rs: np.random.RandomState) -> list[Case]:
    """Refocus procedures that draw, by name, each with seeds."""
    found = []
    for refocus in ("partial", "hub", "smooth", "learned", "choice"):
        for i in range(9):
            case = resolvable(rs, gammas=(0.0, 0.0, 0.2))
            found.append(
                run_of(case, steps=4, refocus=refocus, control=[None, 0.5, inf][i % 3], seed=int(rs.randint(1000)))
            )
    return found


@family("resolved")
def lir_gaussian(rs: np.random.RandomState) -> list[Case]:
    """Linear-Gaussian arcs that move: natural, full, step."""
    found = []
    for i in range(36):
        case = gaussian_problem(rs, gammas=(0.0, 0.0, 0.3))
        name = case["arcs"][-1][0]
        if len(case["arcs"]) > 5:  # flows of large ones take seconds
            continue
        control = [{name: 1.0}, {name: inf}, 0.5][i % 3]
        flow = "step" if i % 5 == 4 and control != {name: inf} else "natural"
        found.append(run_of(case, steps=2, flow=flow, control=control if flow != "step" else {name: 0.05}))
    return found


@family("resolved_together")
def lir_batches(rs: np.random.RandomState) -> list[Case]:
    """Several runs of one structure together."""
    found = []
    for i in range(10):
        case = resolvable(rs, kinds=("softmax",), gammas=(0.0, 0.2))
        others = [
            [[[int(x) for x in rs.randint(1, 50, size=len(r))] for r in a[4]] for a in case["arcs"]] for _ in range(5)
        ]
        found.append(
            case
            | {"tables": others}
            | {
                "run": {
                    "steps": 3,
                    "flow": ["natural", "step"][i % 2],
                    "control": [None, 0.5, inf][i % 3] if i % 2 == 0 else 0.4,
                }
            }
        )
    return found


@family("resumed")
def lir_resumed(rs: np.random.RandomState) -> list[Case]:
    """Runs that stop and go on from a checkpoint: the same trace as runs that do not."""
    found = [
        run_of(resolvable(rs), steps=4, flow=f, control=c)
        for f, c in (("natural", None), ("adam", 0.5), ("natural", inf))
    ]
    kept = run_of(resolvable(rs), steps=4, flow="adam kept", control=0.5)
    return [*found, kept]


@family("resumed")
def lir_resumed_drawn(rs: np.random.RandomState) -> list[Case]:
    """The same with refocus procedures that draw."""
    return [run_of(resolvable(rs), steps=4, refocus=r, seed=3, control=0.5) for r in ("partial", "smooth", "learned")]


# -- columns and sweeps --------------------------------------------------------------------------------------


def grid_of(rs: np.random.RandomState, n: int, extra: int, values: int = 2) -> Case:
    """A ring of n variables with chords, and a belief about each variable, in columns."""
    ring = [[i, (i + 1) % n] for i in range(n)]
    chords = [[int(a), int(b)] for a, b in rs.randint(n, size=(extra, 2)) if a != b]
    pairs = ring + chords
    return {
        "values": values,
        "count": n,
        "pairs": pairs,
        "single": rs.randint(1, 30, size=(n, values)).tolist(),
        "double": rs.randint(1, 30, size=(len(pairs), values, values)).tolist(),
        "beta": (rs.randint(1, 9, size=len(pairs)) / 4.0).tolist(),
    }


@family("swept")
def sweeps(rs: np.random.RandomState) -> list[Case]:
    """Sweeps over every neighbourhood, of columns and of plain PDGs, with and without bounds of the whole."""
    found = []
    for i in range(36):
        case = grid_of(rs, int(rs.choice([5, 8, 30])), int(rs.randint(0, 8)), values=2 + (i % 4 == 3))
        near = ["edge", "closed", "blocks", "star"][i % 4]
        found.append(
            case
            | {
                "neighbourhood": near,
                "sweeps": 2,
                "plain": i % 2 == 0,
                "control": [None, 0.5, 1.7][i % 3],
                "globally": i % 5 == 0,
            }
        )
    return found


@family("in_columns")
def columns(rs: np.random.RandomState) -> list[Case]:
    """Columns: their inconsistency, blame, steps of lir in a part of them, brackets."""
    return [grid_of(rs, int(rs.choice([4, 6, 40])), int(rs.randint(0, 4))) for i in range(20)]


@family("in_columns_drawn")
def columns_drawn(rs: np.random.RandomState) -> list[Case]:
    """Refocus procedures that draw, on columns: what is in focus is a part of the whole."""
    return [
        grid_of(rs, 40, 4) | {"refocus": r, "seed": int(rs.randint(100)), "globally": g, "control": c}
        for r, g, c in (
            ("hub", False, None),
            ("hub", True, 0.5),
            ("partial", False, 0.5),
            ("smooth", True, None),
            ("hub", False, inf),
        )
    ]


# -- forecasts -----------------------------------------------------------------------------------------------

EVENTS = [
    "A",
    "B",
    "C",
    "A and B",
    "A or B",
    "not C",
    "B and not C",
    "A or (B and C)",
    "A -> B",
    "A xor C",
    "A and B and C",
]


def book_of(rs: np.random.RandomState, length: int) -> list[str]:
    """Forecasts in words: probabilities, ranges, conditionals, comparisons, confidences, facts."""
    lines = []
    for _ in range(length):
        event, p = str(rs.choice(EVENTS)), rs.randint(2, 99) / 100
        kind = rs.choice(["p", "p", "p", "given", "range", "most", "least", "versus"])
        if kind == "p":
            lines.append(f"P({event}) = {p}{rs.choice(['', '', ' @ 2.5', ' +- 0.1'])}")
        elif kind == "given":
            lines.append(f"P({rs.choice(['A', 'B', 'A or B'])} | {rs.choice(['C', 'not C'])}) = {p}")
        elif kind == "range":
            lines.append(f"P({event}) in [{round(p / 2, 4)}, {round((1 + p) / 2, 4)}]")
        elif kind == "most":
            lines.append(f"P({event}) <= {p}")
        elif kind == "least":
            lines.append(f"P({event}) >= {p}")
        else:
            lines.append("P(A) >= P(B)")
    return lines


@family("book")
def books(rs: np.random.RandomState) -> list[Case]:
    """Books of forecasts: log and Brier scores, facts, many values, weights."""
    found = []
    for i in range(140):
        lines = [f"P({e}) = {rs.randint(2, 99) / 100}" for e in ("A", "B", "C")] + book_of(rs, int(rs.randint(2, 6)))
        if i % 3 == 0:
            lines.append("A or B")
        if i % 7 == 0:
            lines.append("C -> A")
        found.append({"lines": lines, "score": ["log", "brier"][i % 2]})
    return found


@family("forecasts")
def templates(rs: np.random.RandomState) -> list[Case]:
    """Many books of the same events as arrays: probabilities, ranges, confidences, and 0 and 1."""
    found = []
    for i in range(24):
        events = ["A", "B", "A and B", "A or B", "C"][: rs.randint(3, 6)]
        lines = [f"P({e}) = 0.5" for e in events] + (["P(C | A) = 0.5"] if i % 2 else [])
        p = rs.randint(1, 100, size=(12, len(lines))) / 100
        if i % 4 == 3:
            p[rs.rand(*p.shape) < 0.15] = 0.0
        case: Case = {"lines": lines, "p": p.tolist(), "score": ["log", "brier"][i % 3 == 2]}
        if i % 5 == 4:
            case["beta"] = (rs.randint(1, 9, size=p.shape) / 4).tolist()
        found.append(case)
    return found


@family("past_tree")
def past_trees(rs: np.random.RandomState) -> list[Case]:
    """Books whose junction tree does not fit: brackets."""
    found = []
    for score in ("log", "brier"):
        n = 36
        lines = [f"P(X{i}) = {rs.randint(10, 91) / 100}" for i in range(n)]
        for i in range(n):
            for j in range(i + 1, n):
                if rs.rand() < 0.6:
                    lines.append(f"P(X{i} and X{j}) = {rs.randint(5, 60) / 100}")
        found.append({"lines": lines, "score": score})
    return found


# -- brackets ------------------------------------------------------------------------------------------------


@family("bracketed")
def brackets(rs: np.random.RandomState) -> list[Case]:
    """The solver of brackets, where the exact one gives the value that they have to contain."""
    styles: list[dict[str, Any]] = [
        {},
        {"hard": 0.2},
        {"gammas": (0.1, 0.4)},
        {"zeros": 0.15},
        {"kinds": ("table", "deterministic")},
    ]
    return [problem(rs, most=6, arcs=int(rs.randint(4, 9)), **styles[i % 5]) for i in range(40)]


@family("column_bracketed")
def column_brackets(rs: np.random.RandomState) -> list[Case]:
    """Brackets of columns after the fewest rounds."""
    return [grid_of(rs, int(rs.choice([6, 30])), int(rs.randint(0, 3))) for _ in range(10)]


# -- questions -----------------------------------------------------------------------------------------------


def network_of(rs: np.random.RandomState, n: int = 6, kind: str = "table") -> Case:
    """A Bayesian network."""
    sizes = {v: int(rs.randint(2, 4)) for v in "ABCDEFGH"[:n]}
    names, arcs = "".join(sizes), []
    for i, v in enumerate(names):
        s = "".join(sorted(rs.choice(list(names[:i]), size=min(i, rs.randint(0, 3)), replace=False))) if i else ""
        arcs.append([f"p{v}", s, v, kind, rows_of(rs, settings(sizes, s), sizes[v])])
    return {"sizes": sizes, "arcs": arcs, "beta": {}, "alpha": {}, "gamma": 0.0}


@family("queried")
def queries(rs: np.random.RandomState) -> list[Case]:
    """Posteriors, evidence, most probable states, single and many; of a network and of a compromise."""
    found = []
    for i in range(50):
        case = network_of(rs, int(rs.randint(3, 8))) if i % 3 else problem(rs, most=5, unattended=0.0)
        case["network"] = bool(i % 3)
        names = list(case["sizes"])
        sets = []
        for _ in range(4):
            some = rs.choice(names, size=rs.randint(0, len(names)), replace=False)
            sets.append({str(v): int(rs.randint(case["sizes"][v])) for v in some})
        found.append(case | {"evidence": sets})
    return found


@family("conditioned")
def conditions(rs: np.random.RandomState) -> list[Case]:
    """Soft evidence: reports with a confidence, certain ones, likelihoods."""
    found = []
    for _ in range(40):
        case = network_of(rs, int(rs.randint(3, 6)))
        names = list(case["sizes"])
        reports = []
        for v in rs.choice(names, size=rs.randint(1, 4), replace=False):
            weights = [int(x) for x in rs.randint(1, 20, size=case["sizes"][v])]
            kind = str(rs.choice(["report", "certain", "likelihood"]))
            reports.append([kind, str(v), weights, round(float(rs.uniform(0.2, 4)), 2)])
        found.append(case | {"reports": reports})
    return found


@family("chances")
def chances(rs: np.random.RandomState) -> list[Case]:
    """Whether the conflict of counts is more than chance, with a seed (of a numpy generator)."""
    found = []
    for i in range(10):
        sizes = {"A": 2, "B": 3}
        arcs = [
            ["n1", "", "A", "counts", rs.randint(5, 200, size=(1, 2)).tolist()],
            ["n2", "", "A", "counts", rs.randint(5, 200, size=(1, 2)).tolist()],
        ]
        if i % 2:
            arcs.append(["n3", "A", "B", "counts", rs.randint(5, 60, size=(2, 3)).tolist()])
            arcs.append(["n4", "", "B", "counts", rs.randint(5, 200, size=(1, 3)).tolist()])
        found.append({"sizes": sizes, "arcs": arcs, "seed": i, "replicates": 60})
    return found


# -- instances -----------------------------------------------------------------------------------------------


def factors_of(rs: np.random.RandomState, loop: bool) -> Case:
    """Factors over four variables: a tree, or with loops."""
    sizes = {v: int(rs.randint(2, 4)) for v in "ABCD"}
    scopes = ["AB", "BC", "CD", "B"] + (["DA"] if loop else [])
    tables = {f"f{s}": [s, rs.randint(1, 20, size=[sizes[v] for v in s]).tolist()] for s in scopes}
    return {"sizes": sizes, "factors": tables}


@family("propagated")
def propagation(rs: np.random.RandomState) -> list[Case]:
    """Belief propagation with every schedule that draws nothing, damped or not, on trees and loops; compiled too."""
    found = []
    for schedule in ("flooding", "sequential", "residual"):
        for loop in (False, True)[: 1 + (schedule != "residual")]:
            for damping, confidence, power in ((0.0, 1.0, 1.0), (0.3, 1.0, 1.0), (0.4, inf, 2.0)):
                found.append(
                    factors_of(rs, loop)
                    | {"schedule": schedule, "damping": damping, "confidence": confidence, "power": power}
                )
    return found


@family("propagated")
def propagation_drawn(rs: np.random.RandomState) -> list[Case]:
    """Belief propagation with messages in random order."""
    return [
        factors_of(rs, loop) | {"schedule": "random", "damping": 0.0, "confidence": 1.0, "power": 1.0, "seed": k}
        for k in range(2)
        for loop in (False, True)
    ]


@family("flooded")
def floods(rs: np.random.RandomState) -> list[Case]:
    """Compiled sum-product, by rounds; marginals of trees as arrays."""
    return [
        factors_of(rs, loop) | {"damping": d, "confidence": c, "power": p, "rounds": n}
        for loop in (False, True)
        for d, c, p in ((0.0, 1.0, 1.0), (0.5, inf, 1.0), (0.3, 1.0, 1.0), (0.0, 1.0, 0.5))
        for n in (1, 3, 40)
    ]


@family("em_mixture")
def em_mixtures(rs: np.random.RandomState) -> list[Case]:
    """Mixtures of Gaussians and of categories, iteration by iteration; batches and finite rates."""
    found = []
    for i in range(16):
        n, d, k = 24, int(rs.randint(1, 3)), int(rs.randint(2, 4))
        if i % 2:
            case = {
                "kind": "gaussian",
                "x": (rs.randint(-20, 20, size=(n, d)) / 4 + 4 * rs.randint(0, 2, size=(n, 1))).tolist(),
                "means": (rs.randint(-8, 9, size=(k, d)) / 2).tolist(),
                "covariance": ["full", "diag"][i // 2 % 2],
            }
        else:
            case = {
                "kind": "categorical",
                "x": rs.randint(0, 3, size=n).tolist(),
                "p": rs.randint(1, 9, size=(k, 3)).tolist(),
            }
        found.append(
            case
            | {"weights": rs.randint(1, 5, size=k).tolist(), "batches": [1, 1, 3][i % 3], "chi": [inf, 0.7][i % 4 == 3]}
        )
    return found


@family("em_network")
def em_networks(rs: np.random.RandomState) -> list[Case]:
    """Bayesian networks with hidden and missing values; exactly and by messages."""
    found = []
    for i in range(4):
        tables = [rs.randint(1, 9, size=s).tolist() for s in ((1, 2), (2, 2), (2, 3), (4, 2) if i % 2 else (3, 2))]
        found.append(
            {
                "loop": bool(i % 2),
                "tables": tables,
                "seen": rs.randint(0, 2, size=12).tolist(),
                "other": rs.randint(-1, 3, size=12).tolist(),
            }
        )
    return found


@family("em_chain")
def em_chains(rs: np.random.RandomState) -> list[Case]:
    """Hidden Markov models."""
    return [
        {
            "initial": rs.randint(1, 9, size=2).tolist(),
            "transition": rs.randint(1, 9, size=(2, 2)).tolist(),
            "p": rs.randint(1, 9, size=(2, 3)).tolist(),
            "x": rs.randint(0, 3, size=14).tolist(),
            "lengths": [6, 5, 3],
        }
        for _ in range(6)
    ]


@family("em_gaussian")
def em_gaussians(rs: np.random.RandomState) -> list[Case]:
    """Factor analysis by rows of data, and state-space models by the Kalman filter, with missing values."""
    found = []
    for i in range(4):
        found.append(
            {"kind": "factors", "x": (rs.randint(-12, 13, size=(10, 3)) / 4).tolist(), "isotropic": bool(i % 2)}
        )
    for i in range(6):
        x = np.cumsum(rs.randint(-4, 5, size=20)) / 4.0
        x = [None if i % 2 and rs.rand() < 0.2 else float(v) for v in x]
        found.append(
            {
                "kind": "states",
                "x": x,
                "A": float(rs.randint(2, 5) / 4),
                "Q": float(rs.randint(1, 5) / 2),
                "R": float(rs.randint(1, 5) / 2),
            }
        )
    return found


@family("estimated")
def estimators_drawn(rs: np.random.RandomState) -> list[Case]:
    """Estimators with starts that are drawn from numpy generators with seeds, and samples of them."""
    found = []
    for i in range(4):
        found.append(
            {
                "kind": "gaussian mixture",
                "x": (rs.randint(-20, 20, size=(30, 2)) / 4 + 5 * rs.randint(0, 2, size=(30, 1))).tolist(),
                "seed": i,
            }
        )
    found.append(
        {"kind": "markov", "x": ["".join("abc"[k] for k in rs.randint(0, 3, size=8)) for _ in range(4)], "seed": 1}
    )
    found.append({"kind": "naive", "x": rs.randint(0, 3, size=(20, 3)).tolist(), "seed": 2})
    return found


@family("raked")
def raking(rs: np.random.RandomState) -> list[Case]:
    """Raking: hard margins and soft ones, by lir and compiled."""
    found = []
    for i in range(24):
        a, b = int(rs.randint(2, 5)), int(rs.randint(2, 5))
        total = rs.randint(1, 20, size=(a, b))
        found.append(
            {
                "seed": rs.randint(1, 30, size=(a, b)).tolist(),
                "rows": total.sum(1).tolist(),
                "columns": total.sum(0).tolist(),
                "confidence": [inf, inf, 2.0][i % 3],
            }
        )
    return found


@family("pooled")
def pools(rs: np.random.RandomState) -> list[Case]:
    """Linear and logarithmic pools, with weights."""
    found = []
    for _ in range(24):
        sizes = {"A": int(rs.randint(2, 4)), "B": int(rs.randint(2, 4))}
        s = str(rs.choice(["", "A"]))
        arcs = [
            [f"p{i}", s, "B", "table", rows_of(rs, settings(sizes, s), sizes["B"])] for i in range(rs.randint(2, 5))
        ]
        found.append({"sizes": sizes, "arcs": arcs, "weights": [int(x) for x in rs.randint(1, 5, size=len(arcs))]})
    return found


@family("decided")
def decisions(rs: np.random.RandomState) -> list[Case]:
    """Decisions, games, wishful thinking, zen."""
    found = []
    for i in range(8):
        s, a, o = int(rs.randint(2, 4)), int(rs.randint(2, 4)), int(rs.randint(2, 4))
        found.append(
            {
                "belief": rs.randint(1, 9, size=s).tolist(),
                "outcome": rs.randint(1, 9, size=(s, a, o)).tolist(),
                "utility": (rs.randint(-8, 9, size=o) / 4).tolist(),
                "confidence": [inf, 1.0][i % 2],
                "faith": [1.0, 3.0, 0.5][i % 3],
            }
        )
    return found


@family("varied")
def variations(rs: np.random.RandomState) -> list[Case]:
    """Variational inference: mean field, blocks, finite control, Gaussians."""
    found = []
    for i in range(10):
        case = network_of(rs, 5)
        found.append(
            case
            | {
                "seen": {"E": 0},
                "blocks": [[], ["AB"], ["ABC"]][i % 3],
                "control": [inf, 0.5][i % 4 == 3],
                "simultaneous": i % 4 == 3,
            }
        )
    for i in range(6):
        found.append(
            {
                "gaussian": True,
                "noise": float(rs.randint(1, 5) / 2),
                "seen": float(rs.randint(-8, 9) / 2),
                "slope": [float(x) for x in rs.randint(1, 4, size=2)],
                "given": bool(i % 2),
            }
        )
    return found


@family("attended_points")
def attention_layers(rs: np.random.RandomState) -> list[Case]:
    """Self-attention as a run over points: full and finite control."""
    return [
        {
            "x": (rs.randint(-4, 5, size=(3, 2)) / 2).tolist(),
            "w": (rs.randint(-4, 5, size=(3, 2, 2)) / 2).tolist(),
            "scale": 0.7,
            "causal": bool(i % 2),
            "control": [inf, 0.2][i // 2 % 2],
        }
        for i in range(8)
    ]


@family("flow_networks")
def gflownets(rs: np.random.RandomState) -> list[Case]:
    """Policies over a small grid in closed form: values of every balance, a run over all trajectories."""
    return [{"height": h, "balance": b} for h in (2, 3) for b in ("TB", "ModTB", "LPV", "ModLPV")]


@family("sampled")
def sampled_drawn(rs: np.random.RandomState) -> list[Case]:
    """Neural cpds and what is drawn with seeds, by torch's generators."""
    return [
        {"kind": k, "seed": s} for k in ("vae", "classifier", "gan", "sgd", "sampled", "gaussian pool") for s in (0, 1)
    ]


# -- paths that only larger, other or unusual problems take ---------------------------------------------------------


@family("bounds")
def large(rs: np.random.RandomState) -> list[Case]:
    """Trees and ladders of many variables, with loose ends and hard arcs."""
    found = []
    for i in range(14):
        n = int(rs.choice([30, 60]))
        names = [chr(0x4E00 + k) for k in range(n)]
        sizes = {v: int(rs.randint(2, 4)) for v in names}
        arcs = [["p0", "", names[0], "table", rows_of(rs, 1, sizes[names[0]])]]
        for k in range(1, n):
            s = names[int(rs.randint(max(0, k - 4), k))]
            arcs.append([f"p{k}", s, names[k], "softmax" if i % 2 else "table", rows_of(rs, sizes[s], sizes[names[k]])])
        for k in range(n // 5):
            v = names[int(rs.randint(n))]
            arcs.append([f"q{k}", "", v, "table", rows_of(rs, 1, sizes[v])])
        gamma = [0.0, 0.3, 1.0][i % 3]
        alpha = {a[0]: float(rs.choice([0.0, 1.0])) for a in arcs}
        beta = {n: round(gamma * a + float(rs.uniform(0.1, 2)), 3) for n, a in alpha.items()}
        found.append({"sizes": sizes, "arcs": arcs, "beta": beta, "alpha": alpha, "gamma": gamma})
    return found


@family("bounds")
def on_device(rs: np.random.RandomState) -> list[Case]:
    """What is written for GPUs, on a CPU that is asked for by number."""
    return [problem(rs, gammas=(0.0, 0.2), hard=0.1, most=5) | {"solver": "device"} for _ in range(12)]


@family("bracketed")
def grid_brackets(rs: np.random.RandomState) -> list[Case]:
    """Brackets of grids, where regions that multipliers make agree have to grow."""
    found = []
    for i in range(4):
        side = 3
        names = [[chr(ord("A") + side * r + c) for c in range(side)] for r in range(side)]
        flat = [v for row in names for v in row]
        pairs = [(names[r][c], names[r][c + 1]) for r in range(side) for c in range(side - 1)]
        pairs += [(names[r][c], names[r + 1][c]) for r in range(side - 1) for c in range(side)]
        sizes = dict.fromkeys(flat, 2)
        arcs = [[f"p{k}", s, t, "table", rows_of(rs, 2, 2)] for k, (s, t) in enumerate(pairs)]
        arcs += [[f"q{v}", "", v, "table", rows_of(rs, 1, 2)] for v in flat]
        gamma = [0.0, 0.2][i % 2]
        beta = {a[0]: round(gamma + float(rs.uniform(0.2, 2)), 3) for a in arcs}
        found.append({"sizes": sizes, "arcs": arcs, "beta": beta, "alpha": dict.fromkeys(beta, 1.0), "gamma": gamma})
    return found


@family("flooded")
def binary_floods(rs: np.random.RandomState) -> list[Case]:
    """Compiled sum-product of two-valued variables, whose messages are log odds."""
    found = []
    for loop in (False, True):
        for d, c in ((0.0, 1.0), (0.5, inf), (0.3, 1.0)):
            case = factors_of(rs, loop)
            case["sizes"] = dict.fromkeys(case["sizes"], 2)
            case["factors"] = {
                n: [s, rs.randint(1, 20, size=[2] * len(s)).tolist()] for n, (s, _) in case["factors"].items()
            }
            found.append(case | {"damping": d, "confidence": c, "power": 1.0, "rounds": 4})
    return found


@family("forecasts")
def ranges(rs: np.random.RandomState) -> list[Case]:
    """Many books of the same events whose probabilities are ranges, some of them very narrow."""
    found = []
    for _ in range(10):
        lines = [f"P({e}) in [0.2, 0.7]" for e in ("A", "B", "A and B", "A or B")[: rs.randint(2, 5)]]
        p = rs.randint(1, 90, size=(8, len(lines))) / 100
        high = np.minimum(1.0, p + rs.choice([0.0, 1e-4, 0.05, 0.3], size=p.shape))
        found.append({"lines": lines, "p": p.tolist(), "high": high.round(6).tolist(), "score": "log"})
    return found


@family("at_points")
def points(rs: np.random.RandomState) -> list[Case]:
    """Networks with given weights at rows of data: nothing is drawn."""
    found = []
    for i in range(16):
        n = int(rs.randint(2, 6))
        found.append(
            {
                "x": (rs.randint(-8, 9, size=(n, 2)) / 4).tolist(),
                "y": [int(v) for v in rs.randint(0, 3, size=n)],
                "w": (rs.randint(-8, 9, size=(3, 2)) / 4).tolist(),
                "v": (rs.randint(-8, 9, size=(2, 2)) / 4).tolist(),
                "beta": [round(float(b), 3) for b in rs.uniform(0.2, 2, size=2)],
                "kind": ["cross entropy", "two beliefs", "regression", "difference"][i % 4],
            }
        )
    return found


@family("likeliest_of")
def likeliest_cases(rs: np.random.RandomState) -> list[Case]:
    """The likeliest population of samples about some of its variables."""
    return [
        {
            "sizes": {"A": 2, "B": 3},
            "counts": [
                rs.randint(3, 50, size=(2, 3)).tolist(),
                rs.randint(3, 50, size=2).tolist(),
                rs.randint(3, 50, size=3).tolist(),
            ],
        }
        for _ in range(6)
    ]


@family("resolved")
def lir_published(rs: np.random.RandomState) -> list[Case]:
    """The flow and the solver of the published experiments, a few iterations."""
    return [run_of(resolvable(rs, most=3, arcs=3), steps=2, flow="published", control=0.5) for _ in range(6)]


@family("swept")
def sweeps_on_device(rs: np.random.RandomState) -> list[Case]:
    """Sweeps as GPUs make them, on a CPU that is asked for by number."""
    return [
        grid_of(rs, 8, 3)
        | {"neighbourhood": near, "sweeps": 2, "plain": False, "control": None, "globally": False, "solver": "device"}
        for near in ("edge", "closed")
    ]


@family("estimated")
def latent_networks_drawn(rs: np.random.RandomState) -> list[Case]:
    """A Bayesian network with a hidden variable, from a start that numpy draws."""
    return [{"kind": "network", "x": rs.randint(0, 2, size=(20, 2)).tolist(), "seed": i} for i in range(2)]


@family("sampled")
def attacks_drawn(rs: np.random.RandomState) -> list[Case]:
    """Attacks on networks, in rounds whose batches are drawn; walks of a policy, a batch of them a step."""
    return [{"kind": k, "seed": s} for k in ("attacks", "attacked vae", "walks") for s in (0, 1)]
