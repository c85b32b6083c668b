"""The sets of a consistency benchmark for forecasters, certified: `docs/coherence.md` has the table that this prints.

python benchmarks/coherence.py ../shared/forecasts/tuples.jsonl.gz
python benchmarks/coherence.py ../shared/forecasts/tuples.jsonl.gz --book BasicForecaster_gpt4o_2024-08-06
python benchmarks/coherence.py ../shared/forecasts/tuples.jsonl.gz --tangled 10 --seconds 150 --cpu
python benchmarks/coherence.py --dense 30 --seconds 20 --cpu
"""

from __future__ import annotations

import argparse
import logging
import resource
import time
from importlib import import_module
from importlib.metadata import version

import numpy as np

from dissonance import coherence
from dissonance.bounds import bracketing as bounding
from dissonance.coherence.beliefs import Belief
from dissonance.coherence.events import names, renamed, text_of
from dissonance.coherence.outcomes import forecast_scores, realised, settled
from dissonance.coherence.tuples import Sets, book, load_sets
from dissonance.forecasts import Gains, Template
from dissonance.solvers.convex.conic import conic
from dissonance.solvers.convex.program import Program

VIOLATION = 0.01
"""Nats from which on the benchmark counts a set as inconsistent."""


def audit(sets: list[Sets], found: list[Gains]) -> None:
    """One line a check: what is certified, what was stored, what was won."""
    heads = ("sets", "mean gain", "gap", ">= .01", "too low", "passed", "won < lower")
    print(f"{'check':17}" + "".join(f"{x:>12}" for x in heads))
    totals = np.zeros(5)
    for s, f in zip(sets, found, strict=True):
        violated = f.lower >= VIOLATION
        low = s.stored < 0.95 * f.lower
        passed = violated & (s.stored < VIOLATION)
        won = realised(f.gain, settled(s.template.beliefs, s.outcome))
        short = int((won < f.lower).sum())
        gap = float((f.upper - f.lower).max())
        some = f.lower > 1e-6
        shares = [float(x) for x in (violated.mean(), low[some].mean(), passed.sum() / violated.sum())]
        cells = [f"{len(s)}", f"{f.upper.mean():.4f}", f"{gap:.1e}", *(f"{x:.1%}" for x in shares), f"{short}"]
        print(f"{s.check:17}" + "".join(f"{x:>12}" for x in cells))
        above = int((s.stored > f.upper + 1e-9).sum())
        totals += len(s), violated.sum(), passed.sum(), (low & (f.lower > 1e-6)).sum(), above
    count, violated, passed, low, above = totals
    print(
        f"{count:.0f} sets: {violated:.0f} violations, {passed / violated:.1%} of them stored as passed; "
        f"stored more than 5 % too low in {low / count:.1%} of the sets, above the certified value in {above:.0f}"
    )


def accuracy(sets: list[Sets], found: list[Gains], name: str) -> None:
    """Forecasts as they are and reconciled, against outcomes."""
    outcome = [settled(s.template.beliefs, s.outcome).ravel() for s in sets]
    for what, p in (("as they are", [s.p for s in sets]), (f"reconciled ({name})", [f.coherent for f in found])):
        of = forecast_scores(np.concatenate([x.ravel() for x in p]), np.concatenate(outcome))
        print(f"{what:20} {of.count} forecasts, log loss {of.log:.4f}, Brier {of.brier:.4f}")


def across(sets: list[Sets], found: list[Gains]) -> None:
    """Whether forecasters who contradict themselves more forecast worse: the correlation over forecasters."""
    gains, briers = [], []
    for model in sorted({m for s in sets for m in s.model}):
        mine = [np.array([m == model for m in s.model]) for s in sets]
        gains.append(np.concatenate([f.upper[k] for f, k in zip(found, mine, strict=True)]).mean())
        p = np.concatenate([s.p[k].ravel() for s, k in zip(sets, mine, strict=True)])
        true = [settled(s.template.beliefs, s.outcome)[k].ravel() for s, k in zip(sets, mine, strict=True)]
        briers.append(forecast_scores(p, np.concatenate(true)).brier)
        print(f"{model:40} mean gain {gains[-1]:.4f} nats, Brier {briers[-1]:.4f}")
    r = float(np.corrcoef(gains, briers)[0, 1])
    print(f"over {len(gains)} forecasters, mean gain and Brier score: r = {r:.2f}")


def peer(s: Sets, count: int = 50) -> float:
    """Milliseconds a set of Clarabel on the same programs."""
    structure = s.template.solver.structure(s.template.blank)
    assert structure is not None
    arcs = s.template.arcs(s.p[:count])
    began = time.process_time()
    for k in range(count):
        conic(Program(structure, structure.numbers(arcs.take(np.array([k])))), 1e-9)
    return 1e3 * (time.process_time() - began) / count


def moreau(s: Sets) -> str:
    """What moreau takes for all AndOr sets in one batch, and how far its values are from ours, in words.

    Worlds w >= 0 that sum to 1; for each belief m = mu(event) and both of its entries an exponential cone,
    m e^(-t/m) <= p, so that the least sum of t is the divergence. Only b differs from set to set.
    """
    try:
        peer = import_module("moreau")
    except ImportError:
        return "moreau is not installed (pip install moreau)"
    holds = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 1, 1]])  # P, Q, P and Q, P or Q; by world
    entries = np.concatenate([holds, 1 - holds])
    matrix, size = np.zeros((1 + 4 + 24, 12)), len(s)
    matrix[0, :4] = 1
    matrix[1:5, :4] = -np.eye(4)
    for i, event in enumerate(entries):
        matrix[5 + 3 * i, 4 + i] = 1  # s = (-t, m, p)
        matrix[6 + 3 * i, :4] = -event
    rows = [np.flatnonzero(row) for row in matrix]
    at, columns = np.cumsum([0, *map(len, rows)]), np.concatenate(rows)
    cones = peer.Cones(num_zero_cones=1, num_nonneg_cones=4, num_exp_cones=8)
    b = np.zeros((size, 29))
    b[:, 0] = 1
    b[:, 7::3] = np.concatenate([s.p, 1 - s.p], axis=1)
    began = time.process_time()
    solver = peer.CompiledSolver(
        12, 29, np.zeros(13, dtype=int), [], at, columns, cones, peer.Settings(batch_size=size)
    )
    solver.setup(np.zeros((size, 0)), np.tile(np.concatenate([row[row != 0] for row in matrix]), (size, 1)))
    found = solver.solve(np.tile([0.0] * 4 + [1.0] * 8, (size, 1)), b)
    took = 1e3 * (time.process_time() - began) / size
    value = np.asarray(found.x)[:, 4:].sum(1)
    off = float(np.abs(value - s.template.solve(s.p).upper).max())
    return f"moreau {version('moreau')}, in one batch: {took:.3f} ms, values within {off:.1e} of ours, without a proof"


def whole_book(sets: list[Sets], model: str) -> None:
    """All sets of one forecaster as one book."""
    began = time.process_time()
    template = Template(book(sets, model))
    made = time.process_time()
    found = template.solve([[b.low for b in template.beliefs]])
    solved = time.process_time()
    tree, memory = template.solver.tree(template.blank), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{model}: {len(template)} forecasts about {len(template.graph.named)} events, treewidth {tree.treewidth}: "
        f"{found.lower[0]:.6f} to {found.upper[0]:.6f} nats; {made - began:.1f} s to build, {solved - made:.1f} s to "
        f"solve, {memory:.2f} GiB"
    )


def tangled(sets: list[Sets], copies: int, seed: int = 0) -> list[Belief]:
    """The books of so many forecasters (the first ones again when there are no more), each about events of its own,
    and as many forecasts of conjunctions of events of two of them as there are events: p(A) p(B) with an error of 0.05
    in the mean, so that they contradict the rest here and there. No junction tree of that fits."""
    models, chance = sorted({m for s in sets for m in s.model}), np.random.default_rng(seed)
    found: list[Belief] = []
    single: list[dict[str, float]] = []
    for i in range(copies):
        mine = book(sets, models[i % len(models)])
        every = dict.fromkeys(n for b in mine for e in (b.target, b.source) if e is not None for n in names(e))
        own = {name: f"{name}_{i}" for name in every}
        for b in mine:
            given = "" if b.source is None else text_of(renamed(b.source, own))
            found.append(Belief(text_of(renamed(b.target, own)), b.p, given, b.beta, b.name and f"{b.name} of {i}"))
        single.append({own[b.event]: b.low for b in mine if not (b.is_fact or b.given) and b.event in own})
    for k in range(sum(map(len, single))):
        i, j = chance.choice(copies, 2, replace=False)
        (a, p), (b, q) = (list(single[x].items())[int(chance.integers(len(single[x])))] for x in (i, j))
        joint = float(np.clip(p * q + chance.normal(0, 0.05), 0.001, 0.999))
        found.append(Belief(f"{a} and {b}", joint, name=f"link {k}"))
    return found


def dense(events: int, seconds: float) -> None:
    """Forecasts of all pairs of events, at random: brackets of both scores, with and without a search."""
    chance = np.random.default_rng(0)
    said = [f"P(x{i}) = {chance.uniform(0.1, 0.9):.3f}" for i in range(events)]
    said += [f"P(x{i} and x{j}) = {chance.uniform(0.05, 0.5):.3f}" for i in range(events) for j in range(i)]
    for score in ("log", "brier"):
        for name, most in (("without a search", 0), ("with one", 100)):
            bounding.SEARCHED, began = most, time.process_time()
            found = coherence(said, score=score, seconds=seconds)
            apart, took = (found.upper - found.lower) / found.upper, time.process_time() - began
            print(
                f"{events} events, {len(said)} forecasts, {score} score, {name}: {found.lower:.4f} to "
                f"{found.upper:.4f} {found.unit}, {apart:.2%} apart; {took:.1f} s of CPU time",
                flush=True,
            )


def past_tree(beliefs: list[Belief], seconds: float, score: str) -> None:
    """A book that no junction tree fits."""
    began = time.perf_counter()
    template = Template(beliefs)
    made = time.perf_counter()
    found = template.solve([[b.low for b in template.beliefs]], score=score, seconds=seconds)
    solved = time.perf_counter()
    lower, upper = float(found.lower[0]), float(found.upper[0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = f"{len(template)} forecasts about {len(template.graph.named)} events"
    print(
        f"{size}, treewidth {template.blank.tree.treewidth} or so: between {lower:.2f} and {upper:.2f}, {score} score, "
        f"{(upper - lower) / upper:.2%} apart; {made - began:.0f} s to build, {solved - made:.0f} s to solve by the "
        f"clock, {time.process_time():.0f} s of CPU time in all, {memory:.2f} GiB"
    )


def main() -> None:
    """Print the table, scores, times; or the book of one forecaster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="the sets; not needed with --dense")
    parser.add_argument("--dense", metavar="EVENTS", type=int, help="a book of all pairs of so many events")
    parser.add_argument("--book", metavar="MODEL", help="all sets of this forecaster as one book")
    parser.add_argument(
        "--brier", action="store_true", help="the quadratic score as well (half a minute); of --tangled, instead"
    )
    parser.add_argument("--tangled", metavar="COPIES", type=int, help="that many books, joined at random")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long that is narrowed")
    parser.add_argument("--cpu", action="store_true", help="seconds of CPU time: on a busy machine")
    args = parser.parse_args()
    if args.cpu:
        time.perf_counter = time.process_time
    if args.dense:
        dense(args.dense, args.seconds)
        return
    if args.file is None:
        parser.error("which file?")
    sets = load_sets(args.file)
    if args.tangled:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        past_tree(tangled(sets, args.tangled), args.seconds, "brier" if args.brier else "log")
        return
    if args.book:
        whole_book(sets, args.book)
        return
    found = [s.template.solve(s.p) for s in sets]
    audit(sets, found)
    accuracy(sets, found, "log")
    across(sets, found)
    print(f"from the start of Python to here: {time.process_time():.2f} s of CPU time")
    if args.brier:
        accuracy(sets, [s.template.solve(s.p, score="brier") for s in sets], "brier")
        plain = [s for s in sets if all(b.source is None for b in s.template.beliefs)]
        for score in ("log", "brier"):
            accuracy(plain, [s.template.solve(s.p, score=score) for s in plain], f"{score}, unconditional sets")
    both = next((s for s in sets if s.check == "AndOr"), None)
    if both is not None:
        began = time.process_time()
        both.template.solve(both.p)
        ours = 1e3 * (time.process_time() - began) / len(both)
        print(f"an AndOr set in a batch of {len(both)}: {ours:.3f} ms; Clarabel, one at a time: {peer(both):.2f} ms")
        print(moreau(both))


if __name__ == "__main__":
    main()
