"""The one file of the golden numbers that calls the library: what it uses is imported below, and nowhere else.

`answer(case)` calls the function that the case names, and returns its numbers by how they are compared (`Numbers`).
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Deterministic,
    DissonanceError,
    Empirical,
    Euclidean,
    Factor,
    Focus,
    LinearGaussian,
    PointMass,
    Queries,
    Record,
    Report,
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
    coherence,
    condition,
    inconsistencies,
    inconsistency,
    lir,
    lirs,
    query,
)
from dissonance.bp import SumProduct, belief_propagation, tree_marginals
from dissonance.chance import chance
from dissonance.columns import Column
from dissonance.cpds import (
    BernoulliImages,
    Data,
    NeuralCategorical,
    NeuralGaussian,
    ObservedCategorical,
    ObservedGaussian,
    StandardNormal,
)
from dissonance.em import (
    em,
    factor_analysis,
    gaussian_em,
    hidden_markov,
    loopy_em,
    mixture,
    network,
    state_space_em,
)
from dissonance.estimators import GaussianMixture, HiddenMarkovModel, LatentBayesianNetwork, NaiveBayesMixture
from dissonance.evidence import Likelihood
from dissonance.flows import Descent, Published
from dissonance.forecasts import Template
from dissonance.gflownets import Backward, Forward, flow_network, flow_pdg, hyper_grid, surprisal_attention
from dissonance.gflownets.paths import all_trajectories
from dissonance.instances import (
    DecisionProblem,
    SelfAttention,
    adversarial_training,
    adversarial_vae,
    classification,
    decision,
    game,
    gan,
    gaussian_variational,
    likeliest,
    linear_pool,
    log_pool,
    rake,
    raking,
    stochastic_gradient_descent,
    transformer,
    vae,
    variational,
    wishful_thinking,
    zen,
)
from dissonance.refocus import Choice, Cycle
from dissonance.solvers import Bounds, Newton, Reduced, Sampled, bracket

Case = dict[str, Any]
Numbers = dict[str, dict[str, Any]]
"""By how they are compared ("bounds", "bracket", "mu", "close", "own", "same"), then by name: see `test_golden.py`."""

NO_CLOCK = 1e9
"""Seconds that are never reached: what narrows bounds stops by its own rules, whatever the machine."""

ON_DEVICE = Newton(device="cpu:0")
"""What is written for GPUs, on a CPU."""

CALLS: dict[str, Callable[[Case], Numbers]] = {}


def call(function: Callable[[Case], Numbers]) -> Callable[[Case], Numbers]:
    """Register a function under its name."""
    CALLS[function.__name__] = function
    return function


def answer(case: Case) -> Numbers:
    """The numbers of a case; of one that the library refuses, that it does."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), threadpool_limits(1):  # small matrices, on machines that do other things
        warnings.simplefilter("ignore")
        try:
            return CALLS[case["call"]](case)
        except DissonanceError:
            return {"same": {"refused": True}}


# -- from data to objects, and back --------------------------------------------------------------------------


def array(x: Any) -> Any:
    """Plain numbers of a tensor or an array."""
    return (x.detach() if isinstance(x, torch.Tensor) else np.asarray(x, dtype=float)).tolist()


def normalised(weights: Any, axes: tuple[int, ...] = (-1,)) -> np.ndarray:
    """Rows of weights that sum to 1."""
    p = np.asarray(weights, dtype=float)
    return p / p.sum(axes, keepdims=True)


def variables_of(case: Case) -> dict[str, Variable]:
    """The variables: finite ones by their sizes, real ones by "R" and their dimension."""
    return {n: Variable(n, Euclidean(int(k[1:])) if isinstance(k, str) else k) for n, k in case["sizes"].items()}


def cpd_of(kind: str, table: Any, shape: tuple[int, ...], rows: int) -> object:
    """A cpd of that kind."""
    if kind == "gaussian":
        return LinearGaussian(*table)
    if kind == "data":
        return Data(*[torch.tensor(rows, dtype=torch.float64) for rows in table])
    if kind == "factor":
        return Factor(np.asarray(table, dtype=float).reshape(shape))
    if kind == "logits":
        return SoftmaxTable(logits=torch.tensor(table, dtype=torch.float64).reshape(shape))
    if kind == "counts":
        return np.asarray(table, dtype=float).reshape(shape)
    if kind == "empirical":
        settings = [s if len(s) > 1 else s[0] for s in np.ndindex(*shape)]
        return Empirical(settings, np.asarray(table, dtype=float).reshape(-1).tolist())
    p = normalised(table).reshape(shape)
    made = {"table": Table, "softmax": SoftmaxTable, "simplex": SimplexTable}
    return made.get(kind, Table)(p)


def pdg_of(case: Case, tables: Any = None) -> PDG:
    """The PDG of a case, maybe with other tables."""
    variables = variables_of(case)
    arcs = []
    for k, (name, s, t, kind, table) in enumerate(case["arcs"]):
        sources, targets = [variables[v] for v in s], [variables[v] for v in t]
        table = table if tables is None else tables[k]
        if kind == "deterministic":
            arcs.append(Arc(name, sources, targets, deterministic(sources, targets, table)))
            continue
        shape = tuple(v.size for v in (*sources, *targets)) if kind not in ("gaussian", "data") else ()
        rows = math.prod(v.size for v in sources) if shape else 1
        if kind == "counts":
            counts = torch.tensor(table, dtype=torch.float64)
            p = (counts / counts.sum(-1, keepdim=True)).reshape(shape)
            arcs.append(Arc(name, sources, targets, p, beta=float(counts.sum()), counts=counts.reshape(shape)))
            continue
        if kind == "density":
            arcs.append(Arc(name, sources, targets, density(*table)))
            continue
        arcs.append(Arc(name, sources, targets, cpd_of(kind, table, shape, rows)))
    return PDG(*arcs, variables=variables.values())


def density(x: list[float], means: list[float], variances: list[float]) -> object:
    """Normal densities at points x: a table whose rows do not sum to 1."""
    return ObservedGaussian(np.array(x)[:, None], np.array(means)[:, None], np.array(variances)[:, None, None])


def deterministic(sources: list[Variable], targets: list[Variable], values: Any) -> object:
    """A function of the sources' labels, or one value."""

    def labels(k: int) -> Any:
        where = np.unravel_index(k, [v.size for v in targets])
        found = tuple(int(i) for i in where)
        return found[0] if len(found) == 1 else found

    if not sources:
        return PointMass(labels(values[0]))
    settings = list(np.ndindex(*[v.size for v in sources]))
    return Deterministic({s[0] if len(s) == 1 else s: labels(k) for s, k in zip(settings, values, strict=True)})


def attention_of(case: Case, weights: Mapping[str, float] | None = None) -> Attention:
    """What a case attends to."""
    return Attention.only(case["beta"] if weights is None else weights, case["alpha"], case["gamma"])


def proved(result: Any) -> list[float]:
    """The bounds of a result."""
    return [float(result.lower), float(result.upper)]


def finite(scope: str, case: Case) -> bool:
    return all(not isinstance(case["sizes"][v], str) for v in scope)


def marginals(result: Any, case: Case) -> dict[str, Any]:
    """mu over the scope of every attended arc."""
    if not math.isfinite(result.upper):
        return {}
    mu, found = result.mu, {}
    for name, s, t, *_ in case["arcs"]:
        scope = "".join(sorted(s + t))
        if case["beta"].get(name, 1.0) and finite(scope, case) and scope not in found:
            found[scope] = array(mu.marginal(*scope))
    return found


def trace_of(run: Any) -> dict[str, Any]:
    """What a trace says, row by row, and where theta ended."""
    rows = run.trace.rows
    found: dict[str, Any] = {
        name: [getattr(r, name) for r in rows] for name in ("global_upper", "local_upper", "tv_theta")
    }
    found["beta"] = [[r.beta[n] for n in sorted(r.beta)] for r in rows]
    if not math.isnan(run.distortion_tv):
        found["distortion"] = run.distortion_tv
    for arc in run.pdg.arcs:
        if arc.has_table:
            found[f"end {arc.name}"] = array(arc.log_table().exp())
        elif arc.is_linear_gaussian:
            found[f"end {arc.name}"] = [array(x) for x in arc.linear_gaussian()]
    return found


# -- inconsistency -------------------------------------------------------------------------------------------


@call
def bounds(case: Case) -> Numbers:
    """Bounds and mu*."""
    named: dict[str, Any] = {"reduced": Reduced(NO_CLOCK), "device": ON_DEVICE}
    solver = named.get(case.get("solver", ""), "auto")
    result = inconsistency(pdg_of(case), attention_of(case), solver=solver)
    return {"bounds": {"all": proved(result)}, "mu": marginals(result, case)}


@call
def by_solver(case: Case) -> Numbers:
    """The bounds of every solver that takes the problem."""
    found, refused = {}, []
    for solver in case["solvers"]:
        try:
            found[solver] = proved(inconsistency(pdg_of(case), attention_of(case), solver=solver))
        except DissonanceError:
            refused.append(solver)
    return {"bounds": found, "same": {"refused": refused}}


@call
def batch(case: Case) -> Numbers:
    """Problems of one structure, together, and again from near results."""
    pdgs = [pdg_of(case, t) for t in case["tables"]]
    found = inconsistencies(pdgs, attention_of(case))
    again = inconsistencies(pdgs, attention_of(case), near=found)
    other = inconsistencies(pdg_of(case), [attention_of(case, w) for w in case["weights"]])
    every = {"tables": found, "near": again, "weights": other}
    return {
        "bounds": {f"{name} {k}": proved(r) for name, rs in every.items() for k, r in enumerate(rs)},
        "mu": {f"{k} {s}": x for k, r in enumerate(found[:2]) for s, x in marginals(r, case).items()},
    }


def slopes(pdg: PDG, result: Any) -> dict[str, Any]:
    """d value / d theta."""
    names = [n for n, x in pdg.theta.items() if x.requires_grad]
    if not names or not result.value.requires_grad:
        return {}
    found = torch.autograd.grad(result.value, [pdg.theta[n] for n in names], allow_unused=True)
    return {n: array(x) for n, x in zip(names, found, strict=True) if x is not None}


@call
def gradient(case: Case) -> Numbers:
    """Bounds, and slopes in all parameters."""
    pdg = pdg_of(case)
    result = inconsistency(pdg, attention_of(case))
    return {"bounds": {"all": proved(result)}, "mu": {f"d {n}": x for n, x in slopes(pdg, result).items()}}


@call
def blamed(case: Case) -> Numbers:
    """Blame by arc and by cell, and the verdict."""
    result = inconsistency(pdg_of(case), attention_of(case))
    found: Numbers = {"bounds": {"all": proved(result)}}
    rows = result.by_arc()
    found["mu"] = {f"{r.name} {w}": getattr(r, w) for r in rows for w in ("contribution", "saved_if_dropped")}
    if math.isfinite(result.upper):
        found["mu"] |= {f"cells {n}": x for n, x in by_arc_of_cells(result).items()}
        found["same"] = {"verdict": result.verdict()}
    return found


def by_arc_of_cells(result: Any) -> dict[str, list[float]]:
    """The contributions of each arc's cells in their own order."""
    found: dict[str, list[Any]] = {}
    for c in result.by_cell():
        found.setdefault(c.arc, []).append((sorted(c.given.items()), sorted(c.value.items()), c.contribution))
    return {n: [x for *_, x in sorted(rows)] for n, rows in sorted(found.items())}


@call
def gaussian(case: Case) -> Numbers:
    """Bounds, moments of mu*, blame and slopes of linear-Gaussian beliefs, alone or beside finite ones."""
    pdg = pdg_of(case)
    result = inconsistency(pdg, attention_of(case))
    found: Numbers = {"bounds": {"all": proved(result)}, "mu": {f"d {n}": x for n, x in slopes(pdg, result).items()}}
    if math.isfinite(result.upper):
        found["mu"] |= marginals(result, case)
        for v, k in case["sizes"].items():
            if isinstance(k, str) and not any(a[3] == "data" for a in case["arcs"]):
                one = result.mu.marginal(v)
                found["mu"] |= {f"mean {v}": array(one.mean), f"covariance {v}": array(one.covariance)}
        found["mu"] |= {
            f"{r.name} blame": r.contribution for r in result.by_arc(saved=False) if r.contribution == r.contribution
        }
    return found


@call
def bracketed(case: Case) -> Numbers:
    """A bracket, which stops by its own rules, beside the value that it has to contain."""
    pdg, attention = pdg_of(case), attention_of(case)
    exact = inconsistency(pdg, attention)
    solver = Bounds(NO_CLOCK, tol=1e-2)
    return {
        "bounds": {"exact": proved(exact)},
        "bracket": {"all": proved(inconsistency(pdg, attention, solver=solver))},
    }


# -- Local Inconsistency Resolution --------------------------------------------------------------------------


def control_of(given: Any, pdg: PDG) -> Any:
    """Control as `lir` takes it; a number is that of every arc which can move."""
    if isinstance(given, (int, float)):
        return Control({a.name: given for a in pdg.arcs if any(x.requires_grad for x in a.cpd.parameters())})
    return given if given is None else Control({n: c for n, c in given.items() if n in {a.name for a in pdg.arcs}})


def options_of(case: Case, pdg: PDG) -> dict[str, Any]:
    """What `lir` is given."""
    asked, attention = dict(case["run"]), attention_of(case)
    control = control_of(asked.pop("control", None), pdg)
    if asked.get("flow") == "adam kept":
        asked["flow"] = Descent("Adam", rate=0.05, steps=2, keep=True)
    if asked.get("flow") == "published":
        asked |= {"flow": "natural", "solver": Published(iterations=5, then=5)}
    if asked.get("refocus") in ("cycle", "choice"):
        base = Control({a.name: 1.0 for a in pdg.arcs}) if control is None else control
        foci = [
            Focus(Attention.only({n: b}, {n: attention.alpha.get(n, 0.0)}, attention.gamma), base.within([n]))
            for n, b in attention.beta.items()
        ]
        foci.append(Focus(attention, base))
        asked["refocus"] = (Cycle if asked["refocus"] == "cycle" else Choice)(*foci)
    return {"attention": attention, "control": control, "progress": False, **asked}


@call
def resolved(case: Case) -> Numbers:
    """The trace of a run, and where it ends."""
    pdg = pdg_of(case)
    run = lir(pdg, **options_of(case, pdg))
    flow = case["run"].get("flow")
    return {
        "bounds": {"before": proved(run.before)},
        "own" if flow in ("ode", "dopri5", "lsoda") else "close": trace_of(run),
    }


@call
def resolved_together(case: Case) -> Numbers:
    """The traces of runs of one structure."""
    pdgs = [pdg_of(case, t) for t in case["tables"]]
    runs = lirs(pdgs, **options_of(case, pdgs[0]))
    return {"close": {f"{k} {n}": x for k, run in enumerate(runs) for n, x in trace_of(run).items()}}


@call
def resumed(case: Case) -> Numbers:
    """A run that stops half-way and goes on, and whether that is the run that does not stop."""
    pdg = pdg_of(case)
    options = options_of(case, pdg)
    whole = trace_of(lir(pdg, **options))
    with tempfile.TemporaryDirectory() as folder:
        kept = str(Path(folder) / "kept")
        lir(pdg, **options | {"steps": options["steps"] // 2, "checkpoint": kept})
        again = trace_of(lir(pdg, **options, checkpoint=kept))
    return {"close": whole, "same": {"resumed": repr(whole) == repr(again)}}


# -- columns -------------------------------------------------------------------------------------------------


def columns_of(case: Case) -> PDG:
    """A ring with chords, in columns."""
    return PDG.from_columns(
        Column([], np.arange(case["count"]), normalised(case["single"])),
        Column(*np.array(case["pairs"]).T, normalised(case["double"]), beta=case["beta"]),
    )


def plain_of(case: Case) -> PDG:
    """The same, an arc at a time."""
    variables = [Variable(f"X{i}", case["values"]) for i in range(case["count"])]
    arcs = [
        Arc(f"a{i}", (), v, SoftmaxTable(normalised(p)))
        for i, (v, p) in enumerate(zip(variables, case["single"], strict=True))
    ]
    for (i, j), p, beta in zip(case["pairs"], case["double"], case["beta"], strict=True):
        arcs.append(Arc(f"a{len(arcs)}", variables[i], variables[j], SoftmaxTable(normalised(p)), beta=beta))
    return PDG(*arcs)


def ends_of(run: Any, most: int = 12) -> dict[str, Any]:
    """The trace without weights, and some tables at the end."""
    rows = run.trace.rows
    found = {n: [getattr(r, n) for r in rows] for n in ("global_lower", "global_upper", "local_lower", "local_upper")}
    names = [a.name for a in run.pdg.arcs]
    return found | {f"end {n}": array(run.pdg[n].log_table().exp()) for n in names[:: max(1, len(names) // most)]}


@call
def swept(case: Case) -> Numbers:
    """Sweeps over all foci of a neighbourhood."""
    pdg = plain_of(case) if case["plain"] else columns_of(case)
    control = None if case["control"] is None else {a.name: case["control"] for a in pdg.arcs}
    run = lir(
        pdg,
        "sweep",
        neighbourhood=case["neighbourhood"],
        sweeps=case["sweeps"],
        control=control,
        trace=Record(globally=case["globally"]),
        solver=ON_DEVICE if "solver" in case else "auto",
        progress=False,
    )
    found = ends_of(run)
    # bounds of the whole are brackets where it is large: they depend on time
    seen = {n: found.pop(n) for n in ("global_lower", "global_upper")}
    whole = {"bracket": {f"{k}": [a, b] for k, (a, b) in enumerate(zip(*seen.values(), strict=True)) if a == a}}
    return {"close": found} | (whole if case["globally"] else {})


@call
def in_columns(case: Case) -> Numbers:
    """Inconsistency and blame of columns, and steps of lir on them."""
    pdg = columns_of(case)
    result = inconsistency(pdg)
    run = lir(pdg, "uniform", steps=2, progress=False)
    greedy = lir(pdg, "greedy", steps=2, control={a.name: 0.5 for a in pdg.arcs}, progress=False)
    blame = [r.contribution for r in result.by_arc(saved=False)]
    return {
        "bounds": {"all": proved(result)},
        "mu": {"blame": blame, "X0": array(result.mu.marginal("X0"))},
        "close": {f"uniform {n}": x for n, x in ends_of(run, 6).items()}
        | {f"greedy {n}": x for n, x in ends_of(greedy, 6).items()},
    }


@call
def in_columns_drawn(case: Case) -> Numbers:
    """Steps of lir on columns under a refocus that draws."""
    pdg = columns_of(case)
    control = None if case["control"] is None else {a.name: case["control"] for a in pdg.arcs}
    run = lir(
        pdg,
        case["refocus"],
        steps=4,
        seed=case["seed"],
        control=control,
        trace=Record(globally=case["globally"]),
        progress=False,
    )
    return {"close": ends_of(run) | {"beta": [sorted(r.beta.values()) for r in run.trace.rows]}}


@call
def column_bracketed(case: Case) -> Numbers:
    """A bracket of columns after the fewest rounds, and the value that it has to contain."""
    pdg = columns_of(case)
    return {"bounds": {"exact": proved(inconsistency(pdg))}, "bracket": {"all": proved(bracket(pdg, seconds=0.0))}}


# -- forecasts -----------------------------------------------------------------------------------------------


def read_book(case: Case, **options: Any) -> Any:
    return coherence("\n".join(case["lines"]), score=case["score"], **options)


@call
def book(case: Case) -> Numbers:
    """What is certain to be won, the bets, blame, reconciled probabilities."""
    result = read_book(case)
    found: Numbers = {"bounds": {"all": proved(result)}, "mu": {}}
    if math.isfinite(result.upper):
        for name in ("coherent", "contribution", "if_true", "if_false"):
            found["mu"][name] = [getattr(r, name) for r in result.rows]
        found["mu"]["worlds"] = sorted(w.gain for w in result.worlds or ())
    return found


@call
def forecasts(case: Case) -> Numbers:
    """Many books of the same events."""
    found = Template("\n".join(case["lines"])).solve(
        case["p"], case.get("high"), beta=case.get("beta"), score=case["score"]
    )
    ends = np.stack([found.lower, found.upper], 1)
    fine = np.isfinite(found.upper)
    return {
        "bounds": {str(k): array(x) for k, x in enumerate(ends)},
        "mu": {n: array(getattr(found, n)[fine]) for n in ("coherent", "contribution", "gain")},
    }


@call
def past_tree(case: Case) -> Numbers:
    """A bracket of a book whose junction tree does not fit."""
    return {"bracket": {"all": proved(read_book(case, seconds=1.0))}}


# -- questions -----------------------------------------------------------------------------------------------


def posterior_of(found: Any) -> dict[str, Any]:
    return {"log": array(found.log_partition)} | {n: array(x) for n, x in found.marginals.items()}


@call
def queried(case: Case) -> Numbers:
    """Posteriors given evidence, all sets together and one by one."""
    pdg = pdg_of(case)
    numbers: Numbers = {"close": {}, "same": {}}
    if case["network"]:
        many = query(pdg, case["evidence"])
        numbers["close"] |= {f"all {n}": x for n, x in posterior_of(many).items()}
        value, states = many.most_probable()
        numbers["close"]["most probable"] = array(value)
        numbers["same"]["states"] = [s is None for s in states]
        numbers["close"] |= {f"one {n}": x for n, x in posterior_of(query(pdg, case["evidence"][0])).items()}
        ask = Queries(pdg, observed=list(case["evidence"][1]))
        numbers["close"] |= {f"planned {n}": x for n, x in posterior_of(ask(case["evidence"][1])).items()}
        return numbers
    result = inconsistency(pdg, attention_of(case))
    return {"bounds": {"all": proved(result)}, "mu": posterior_of(result.query(case["evidence"]))}


@call
def conditioned(case: Case) -> Numbers:
    """Soft evidence."""
    made = {
        "report": lambda v, w, c: Report(v, normalised(w).tolist(), confidence=c, name=f"r{v}"),
        "certain": lambda v, w, c: {v: normalised(w).tolist()},
        "likelihood": lambda v, w, c: Likelihood(v, w, confidence=c, name=f"l{v}"),
    }
    found = condition(pdg_of(case), *[made[kind](v, w, c) for kind, v, w, c in case["reports"]])
    return {
        "bounds": {"all": proved(found)},
        "mu": {n: array(x) for n, x in found.marginals.items()}
        | {f"blame {k}": [r.contribution, r.saved] for k, r in enumerate(found.reports)},
    }


@call
def chances(case: Case) -> Numbers:
    """p-values of large samples and of replicates, which numpy draws."""
    result = inconsistency(pdg_of(case))
    found = chance(result, replicates=case["replicates"], seed=case["seed"])
    rows = {f"blame {r.name}": [r.contribution, r.low, r.high, r.by_chance, r.most] for r in found.blame}
    p = {n: getattr(found, n) for n in ("statistic", "asymptotic", "bootstrap")}
    return {"close": {n: x for n, x in p.items() if x is not None} | rows, "same": {"degrees": found.degrees}}


# -- instances -----------------------------------------------------------------------------------------------


def factors_of(case: Case) -> dict[str, Any]:
    variables = variables_of(case)
    return {
        n: (tuple(variables[v] for v in scope), np.asarray(p, dtype=float)) for n, (scope, p) in case["factors"].items()
    }


@call
def propagated(case: Case) -> Numbers:
    """Messages, beliefs and free energy after two sweeps, by steps of lir."""
    options = {n: case[n] for n in ("damping", "confidence", "power")}
    bp = belief_propagation(factors_of(case), case["schedule"], **options)
    state = bp.answer(2 * bp.sweep, seed=case.get("seed", 0), progress=False)
    found = {n: array(x) for n, x in {**state.marginals, **state.messages}.items()}
    return {"close": found | {"free energy": state.free_energy}}


@call
def flooded(case: Case) -> Numbers:
    """Compiled sum-product after so many rounds; exact marginals where the factors are a tree."""
    options = {n: case[n] for n in ("damping", "confidence", "power")}
    state = SumProduct(factors_of(case), **options).run(case["rounds"]).beliefs
    found = {n: array(x) for n, x in state.marginals.items()} | {"free energy": state.free_energy}
    if len(case["factors"]) == 4:
        names = list(case["sizes"])
        each = [
            (torch.tensor([[names.index(v) for v in s]]), torch.tensor(p, dtype=torch.float64)[None])
            for s, p in case["factors"].values()
        ]
        exact = tree_marginals(list(case["sizes"].values()), each)
        found |= {f"exact {k}": array(x[1]) for k, x in exact.items()}
    return {"close": found}


def learned(pdg: PDG) -> dict[str, Any]:
    """The parameters of all arcs."""
    return {n: array(torch.softmax(x, -1) if n.endswith("logits") else x) for n, x in pdg.theta.items()}


@call
def em_mixture(case: Case) -> Numbers:
    """Parameters and bounds of each of three iterations."""
    if case["kind"] == "gaussian":
        x = np.array(case["x"])
        k, d = len(case["means"]), x.shape[1]
        kind = case["covariance"]
        start: Any = {"full": [np.eye(d)] * k, "diag": np.ones((k, d))}[kind]
        emission: Any = ObservedGaussian(x, case["means"], np.array(start), kind)
    else:
        emission = ObservedCategorical(np.array(case["x"])[:, None], [normalised(case["p"])])
    p = mixture(normalised(case["weights"]), emission)
    instance = em(p, p.variable("row"), batches=case["batches"], chi=case["chi"])
    found: dict[str, Any] = {}
    for iterations in (1, 3):
        fitted = instance.answer(2 * iterations * case["batches"], progress=False)
        found |= {f"{iterations} {n}": x for n, x in learned(fitted.pdg).items()} | {
            f"{iterations} bounds": fitted.bounds
        }
    return {"close": found | {"posterior": array(fitted.posterior("Z")), "evidence": array(fitted.evidence)}}


@call
def em_network(case: Case) -> Numbers:
    """Hidden causes of what is seen, exactly and by messages."""
    a, b, c, d = Variable("A", 2), Variable("B", 2), Variable("C", 3), Variable("D", 2)
    ps = [normalised(t) for t in case["tables"]]
    cpds: dict[Variable, Any] = {a: ((), ps[0][0]), b: ([a], ps[1]), c: ([a], ps[2])}
    cpds[d] = ([a, b], ps[3].reshape(2, 2, 2)) if case["loop"] else ([c], ps[3])
    data: dict[str, Any] = {"D": case["seen"], "C": [None if v < 0 else v for v in case["other"]]}
    p = network(cpds, data)
    row = p.variable("row")
    exact, loopy = em(p, row).answer(6, progress=False), loopy_em(p, row).fit(2, progress=False)
    return {
        "close": {f"exact {n}": x for n, x in learned(exact.pdg).items()}
        | {f"messages {n}": x for n, x in learned(loopy.pdg).items()}
        | {"bounds": exact.bounds, "free energy": loopy.bounds}
    }


@call
def em_chain(case: Case) -> Numbers:
    """A hidden Markov model with sequences of several lengths."""
    lengths = case["lengths"]
    first = np.cumsum([0, *lengths[:-1]])
    codes = [
        [case["x"][i + t] if t < n else -1 for i, n in zip(first, lengths, strict=True)] for t in range(max(lengths))
    ]
    every = [ObservedCategorical(np.array(c)[:, None], [normalised(case["p"])]) for c in codes]
    others = [every[0].on(e.sample) for e in every[1:]]
    p = hidden_markov(normalised(case["initial"]), normalised(case["transition"]), [every[0], *others], lengths)
    fitted = em(p, p.variable("row")).answer(6, progress=False)
    return {"close": learned(fitted.pdg) | {"bounds": fitted.bounds}}


@call
def em_gaussian(case: Case) -> Numbers:
    """Factor analysis, and a state-space model by passes."""
    if case["kind"] == "factors":
        x = np.array(case["x"])
        model = factor_analysis(["a", "b", "c"], 1, isotropic=case["isotropic"])
        start = [[0.5], [-0.2], [0.3]]
        with torch.no_grad():
            model["loading"].cpd.A.copy_(torch.tensor(start, dtype=torch.float64))
        fitted = gaussian_em(model, dict(zip("abc", x.T, strict=True))).answer(8, progress=False)
        return {"close": learned(fitted.pdg) | {"bounds": fitted.bounds}}
    x = np.array([math.nan if v is None else v for v in case["x"]])
    first = LinearGaussian(None, 0.0, 1.0, learnable=False)
    model = state_space_em(
        first, LinearGaussian(case["A"], 0.0, case["Q"]), LinearGaussian(1.0, 0.0, case["R"]), x, iterations=5
    )
    moves = {n: [array(v) for v in getattr(model.learned, n).linear_gaussian()] for n in ("transition", "emission")}
    return {"close": moves | {"bounds": model.bounds, "means": array(model.states.means)}}


@call
def estimated(case: Case) -> Numbers:
    """Estimators from starts that numpy draws."""
    kind, seed = case["kind"], case["seed"]
    if kind == "gaussian mixture":
        model: Any = GaussianMixture(2, random_state=seed, max_iter=8, tol=0.0).fit(np.array(case["x"]))
        found = {"weights": model.weights_, "means": model.means_, "covariances": model.covariances_}
    elif kind == "markov":
        model = HiddenMarkovModel(2, random_state=seed, max_iter=5, tol=0.0).fit(case["x"])
        found = {"transition": model.transmat_}
    elif kind == "network":
        a, b, c = (Variable(n, 2) for n in "ABC")
        cpds: Any = {a: ((), [0.5, 0.5]), b: ([a], [[0.7, 0.3], [0.4, 0.6]]), c: ([a], [[0.6, 0.4], [0.2, 0.8]])}
        data = dict(zip("BC", np.array(case["x"]).T.tolist(), strict=True))
        model = LatentBayesianNetwork(cpds, random_state=seed, max_iter=5, tol=0.0).fit(data)
        found = {"A": array(torch.softmax(model.pdg_.theta["A.logits"], -1))} if hasattr(model, "pdg_") else {}
    else:
        model = NaiveBayesMixture(2, random_state=seed, max_iter=5, tol=0.0).fit(case["x"])
        found = {"weights": model.weights_}
    return {"close": {n: array(x) for n, x in found.items()} | {"bounds": array(model.lower_bounds_)}}


@call
def raked(case: Case) -> Numbers:
    """A table scaled to margins, compiled and by lir."""
    a, b = Variable("A", len(case["rows"])), Variable("B", len(case["columns"]))
    seed = Arc("seed", (), (a, b), normalised(case["seed"], (0, 1)))
    margins = Arc("rows", (), a, normalised(case["rows"])), Arc("columns", (), b, normalised(case["columns"]))
    found = rake(seed, *margins, confidence=case["confidence"])
    close = {"table": array(found.mu.table)}
    if case["confidence"] == math.inf:
        close["by lir"] = array(raking(seed, *margins).answer(6, progress=False).table)
    return {"bounds": {"all": proved(found)}, "close": close}


@call
def pooled(case: Case) -> Numbers:
    """Both pools."""
    arcs = list(pdg_of({**case, "beta": {}, "alpha": {}, "gamma": 0.0}).arcs)
    linear, log = linear_pool(arcs, case["weights"]), log_pool(arcs, case["weights"])
    return {
        "bounds": {"linear": proved(linear.result), "log": proved(log.result)},
        "mu": {"linear": array(linear.table), "log": array(log.table), "one": array(linear.of("p0"))},
    }


@call
def decided(case: Case) -> Numbers:
    """What to do, and what it is worth."""
    problem = DecisionProblem(
        normalised(case["belief"]).tolist(), normalised(case["outcome"]).tolist(), case["utility"]
    )
    chosen = decision(problem, confidence=case["confidence"], faith=case["faith"]).answer(1, progress=False)
    first = chosen.values and next(iter(chosen.values))
    found = {"equivalents": [chosen.equivalents[a] for a in chosen.equivalents]}
    for informed in ("nature", "agent"):
        both = game(problem, informed=informed).answer(2, progress=False)
        found[informed] = [both.guaranteed, both.at_most]
    mixed = game(problem, informed=None, control=0.3).answer(
        6, trace=Record(globally=False, snapshots=1), progress=False
    )
    found["mixed"] = [mixed.guaranteed, mixed.at_most]
    found["zen"] = array(zen(problem, first, control=1.0).answer(1, progress=False).utility)
    found["wishful"] = array(wishful_thinking(problem, first, control=1.0).answer(1, progress=False).belief)
    return {"bounds": {str(a): proved(v) for a, v in chosen.values.items()}, "close": found}


@call
def varied(case: Case) -> Numbers:
    """Variational inference."""
    if "gaussian" in case:
        one = Euclidean(1)
        skill, luck, score = Variable("Skill", one), Variable("Luck", one), Variable("Score", one)
        model = PDG(
            Arc("skill", (), skill, LinearGaussian(None, 0.0, 1.0)),
            Arc("luck", (), luck, LinearGaussian(None, 0.5, 2.0)),
            Arc("score", (skill, luck), score, LinearGaussian([case["slope"]], 0.0, case["noise"])),
        )
        given: Any = {"given": {"Luck": ["Skill"]}} if case["given"] else {}
        field = gaussian_variational(model, {"Score": case["seen"]}, **given).answer(8, progress=False)
        return {
            "close": {
                "elbos": field.elbos,
                "evidence": field.log_evidence,
                "mean": array(field.joint.mean),
                "covariance": array(field.joint.covariance),
            }
        }
    options: dict[str, Any] = {
        "blocks": [list(b) for b in case["blocks"]],
        "control": case["control"],
        "simultaneous": case["simultaneous"],
    }
    found = variational(pdg_of(case), case["seen"], **options).answer(6, progress=False)
    return {
        "bounds": {"all": proved(found.bound)},
        "close": {"elbos": found.elbos, "evidence": float(found.log_evidence)}
        | {n: array(x) for n, x in found.marginals.items()},
    }


@call
def attended_points(case: Case) -> Numbers:
    """Self-attention."""
    x, w = torch.tensor(case["x"], dtype=torch.float64), torch.tensor(case["w"], dtype=torch.float64)
    layer = SelfAttention(*w, scale=case["scale"], causal=case["causal"])
    run = transformer(layer, x, control=case["control"]).run(2, progress=False)
    instance = transformer(layer, x, control=case["control"])
    return {"close": {"x": array(instance.read(run)), "upper": [r.global_upper for r in run.trace.rows]}}


@call
def at_points(case: Case) -> Numbers:
    """Losses of networks as inconsistencies, and their slopes."""
    x, y = torch.tensor(case["x"], dtype=torch.float64), torch.tensor(case["y"])
    data, label, real = Variable("X", Euclidean(2)), Variable("Y", 3), Variable("R", Euclidean(2))
    f, g = nn.Linear(2, 3, bias=False).double(), nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        f.weight.copy_(torch.tensor(case["w"]))
        g.weight.copy_(torch.tensor(case["v"]))
    flat = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        flat.weight.copy_(torch.tensor(case["v"]).T / 2)
    kind, (b, c) = case["kind"], case["beta"]
    if kind == "cross entropy":
        pdg = PDG(Arc("d", (), (data, label), Data(x, y)), Arc("p", data, label, NeuralCategorical(f)))
        beta = {"d": math.inf, "p": b}
    elif kind == "two beliefs":
        table = SoftmaxTable([[0.5, 0.3, 0.2]])
        pdg = PDG(
            Arc("d", (), data, Data(x)),
            Arc("p", data, label, NeuralCategorical(f)),
            Arc("q", (), label, table.table()[0]),
        )
        beta = {"d": math.inf, "p": b, "q": c}
    elif kind == "regression":
        pdg = PDG(Arc("d", (), (data, real), Data(x, x.flip(0))), Arc("p", data, real, NeuralGaussian(g)))
        beta = {"d": math.inf, "p": b}
    else:
        pdg = PDG(
            Arc("d", (), data, Data(x)),
            Arc("p", data, real, NeuralGaussian(g)),
            Arc("q", data, real, NeuralGaussian(flat)),
        )
        beta = {"d": math.inf, "p": b, "q": c}
    result = inconsistency(pdg, Attention.only(beta))
    return {"close": {"value": result.upper} | {f"d {n}": v for n, v in slopes(pdg, result).items()}}


@call
def likeliest_of(case: Case) -> Numbers:
    """The likeliest population."""
    a, b = (Variable(n, k) for n, k in case["sizes"].items())
    samples = []
    for k, (scope, counts) in enumerate(zip([(a, b), (a,), (b,)], case["counts"], strict=True)):
        n = torch.tensor(counts, dtype=torch.float64)
        samples.append(Arc(f"n{k}", (), scope, n / n.sum(), beta=float(n.sum()), counts=n))
    found = likeliest(*samples)
    return {"close": {"mu": array(found.mu.table), "divergence": found.divergence}}


@call
def flow_networks(case: Case) -> Numbers:
    """Policies in closed form over all trajectories."""
    grid = hyper_grid(2, case["height"], "cosine")
    walks = all_trajectories(grid)
    pdg = flow_pdg(grid, walks, torch.full((len(walks),), 1 / len(walks)), Forward(grid), Backward(grid))
    value = inconsistency(pdg, surprisal_attention(case["balance"]))
    trained = flow_network(grid, balance=case["balance"]).answer(6, progress=False)
    return {"close": {"value": value.upper, "distance": trained.distance, "log Z": trained.log_partition}}


@call
def sampled(case: Case) -> Numbers:
    """What torch draws: networks and averages over samples."""
    seed = case["seed"]
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    if case["kind"] == "vae":
        x = (torch.rand(24, 6, generator=g) < 0.4).double()
        encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
        decoder = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 6)).double()
        trained = vae(x, encoder, BernoulliImages(decoder), latent=1, control=0.1, batch=8).answer(
            4, seed=seed, progress=False
        )
        return {"close": {"losses": trained.losses}}
    if case["kind"] == "classifier":
        p = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
        example = classification(p, torch.randn(3, generator=g).double(), 1)
        run = example.training(0.1).run(3, progress=False)
        return {"close": {"upper": [r.global_upper for r in run.trace.rows]}}
    if case["kind"] == "gan":
        made = gan(
            [0.1, 0.3, 0.6], SoftmaxTable([0.4, 0.3, 0.3]), SoftmaxTable(torch.full((3, 2), 0.5)), control=(1.0, 1.0)
        )
        return {"close": {"losses": made.answer(4, seed=seed, progress=False).losses}}
    if case["kind"] == "sgd":
        p = nn.Linear(3, 2).double()
        x = torch.randn(40, 3, generator=g).double()
        run = stochastic_gradient_descent(p, x, (x[:, 0] > 0).long(), batch=8, rate=0.5).run(
            5, seed=seed, progress=False
        )
        return {"close": {"local": [r.local_upper for r in run.trace.rows[:-1]]}}
    if case["kind"] == "attacks":
        p = nn.Linear(3, 2).double()
        x = torch.randn(40, 3, generator=g).double()
        training = adversarial_training(p, x, (x[:, 0] > 0).long(), batch=8, rate=0.2, attacks=2, attack_rate=0.1)
        run = training.run(6, seed=seed, progress=False)
        return {"close": {"local": [r.local_upper for r in run.trace.rows[:-1]]}}
    if case["kind"] == "attacked vae":
        x = (torch.rand(24, 6, generator=g) < 0.4).double()
        encoder, decoder = nn.Linear(6, 2).double(), nn.Linear(1, 6).double()
        options: Any = {"latent": 1, "batch": 8, "control": 0.1, "attacks": 2, "attack_rate": 0.05, "sigma": 0.3}
        run = adversarial_vae(x, encoder, BernoulliImages(decoder), **options).run(5, seed=seed, progress=False)
        return {"close": {"local": [r.local_upper for r in run.trace.rows[:-1]]}}
    if case["kind"] == "walks":
        walks = flow_network(hyper_grid(2, 3, "cosine"), batch=8, explore=0.1, balance="LPV", control=0.4)
        return {"close": {"distance": walks.answer(4, seed=seed, progress=False).distance}}
    x = Variable("X", Euclidean(1))
    y = Variable("Y", Euclidean(1))
    mean = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    pdg = PDG(
        Arc("x", (), x, StandardNormal()),
        Arc("f", x, y, NeuralGaussian(mean)),
        Arc("g", x, y, NeuralGaussian(nn.Linear(1, 1).double())),
    )
    beta = {"x": math.inf, "f": math.inf if case["kind"] == "sampled" else 1.0, "g": 1.0}
    result = inconsistency(pdg, Attention.only(beta), solver=Sampled(50, seed) if case["kind"] == "sampled" else "auto")
    return {"close": {"value": result.upper, "error": result.standard_error}}
