"""Belief propagation: dissonance's compiled flooding beside PGMax (JAX) and pgmpy, in one run.

OMP_NUM_THREADS=1 python benchmarks/bp.py               grids 50 x 50 and 300 x 300; a tree of 100,000
OMP_NUM_THREADS=1 python benchmarks/bp.py --sides 50 --states 4 --tree 0 --device cuda

The potentials are random and the sweeps are two-phase flooding from uniform messages, in all engines. Each engine is
made once (PGMax: compiled by jax.jit before it is timed) and run `--repeats` times; the best time counts. dissonance is
in float64, PGMax in its float32. pgmpy has no loopy belief propagation: its BeliefPropagation on a junction tree of a
small grid is timed beside ours there. PGMax and pgmpy are not needed: what is missing is said.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import Variable
from dissonance.bp import FactorGraph, SumProduct, tree_marginals

Factors = list[tuple[Tensor, Tensor]]


def grid(side: int, states: int, seed: int = 0) -> tuple[Tensor, Factors]:
    """Pairwise factors between neighbours and a factor for every variable: e^N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    at = torch.arange(side * side).view(side, side)
    across = torch.stack([at[:, :-1].reshape(-1), at[:, 1:].reshape(-1)], 1)
    down = torch.stack([at[:-1].reshape(-1), at[1:].reshape(-1)], 1)
    pairs = torch.cat([across, down])

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).mul_(0.5).exp_()

    single = torch.arange(side * side)[:, None]
    factors = [(pairs, random(len(pairs), states, states)), (single, random(side * side, states))]
    return torch.full((side * side,), states), factors


def tree(count: int, seed: int = 0, chain: bool = False) -> tuple[Tensor, Factors]:
    """A random recursive tree, or a chain, of binary variables."""
    rng = np.random.default_rng(seed)
    child = np.arange(1, count)
    parent = child - 1 if chain else (rng.random(count - 1) * child).astype(np.int64)
    pairs = torch.from_numpy(np.stack([parent, child], 1))
    tables = torch.from_numpy(np.exp(rng.normal(size=(count - 1, 2, 2))))
    local = torch.from_numpy(np.exp(rng.normal(size=(count, 2))))
    return torch.full((count,), 2), [(pairs, tables), (torch.arange(count)[:, None], local)]


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Seconds of the quickest run, and what it returned."""
    least, found = float("inf"), None
    for _ in range(repeats):
        began = time.perf_counter()
        found = work()
        least = min(least, time.perf_counter() - began)
    return least, found


def pgmax(side: int, states: int, factors: Factors, sweeps: int) -> Callable[[], Any] | str:
    """A run of PGMax, compiled; or why there is none."""
    try:
        import jax  # pyright: ignore[reportMissingImports]
        from pgmax import fgraph, fgroup, infer, vgroup  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return f"PGMax is not here ({error.name}): pip install pgmax"
    (pairs, tables), (_, local) = factors
    variables = vgroup.NDVarArray(num_states=states, shape=(side, side))
    names = [(divmod(int(i), side), divmod(int(j), side)) for i, j in pairs.tolist()]
    group = fgroup.PairwiseFactorGroup(
        variables_for_factors=[[variables[a], variables[b]] for a, b in names],
        log_potential_matrix=tables.log().numpy(),
    )
    graph = fgraph.FactorGraph(variable_groups=variables)
    graph.add_factors(group)
    inferer = infer.build_inferer(graph.bp_state, backend="bp")
    start = inferer.init(evidence_updates={variables: local.log().numpy().reshape(side, side, states)})
    run = jax.jit(lambda a: inferer.run(a, num_iters=sweeps, damping=0.0, temperature=1.0))

    def work() -> Any:
        return jax.block_until_ready(run(start))

    def marginals() -> Any:
        found = infer.get_marginals(inferer.get_beliefs(work()))[variables]
        return np.asarray(found).reshape(-1, states).T

    work.marginals = marginals  # pyright: ignore[reportFunctionMemberAccess]
    work()
    return work


def versus_pgmax(side: int, states: int, sweeps: int, repeats: int, device: str) -> None:
    sizes, factors = grid(side, states)
    plan = SumProduct.arrays(sizes, factors, device=device)
    mine: dict[str, tuple[float, Tensor]] = {}
    for name, log_odds in (("log-odds", True), ("any size", False)) if states == 2 else (("any size", False),):
        chosen = plan if log_odds or states > 2 else SumProduct.arrays(sizes, factors, device=device, log_odds=False)
        seconds, found = best(lambda chosen=chosen: _synced(chosen.run(sweeps), device), repeats)
        mine[name] = seconds, found.by_size[states][1].cpu()
    other = pgmax(side, states, factors, sweeps)
    print(f"grid {side} x {side}, {states} states, {sweeps} sweeps")
    if isinstance(other, str):
        print(f"  {other}")
        for name, (seconds, _) in mine.items():
            print(f"  dissonance, {name}: {seconds:.4f} s")
        return
    theirs, _ = best(other, repeats)
    expected = other.marginals()  # pyright: ignore[reportFunctionMemberAccess]
    print(f"  PGMax: {theirs:.4f} s")
    for name, (seconds, found) in mine.items():
        off = float(np.abs(found.numpy() - expected).max())
        print(
            f"  dissonance, {name}: {seconds:.4f} s, {theirs / seconds:.2f} times PGMax (beliefs differ by {off:.1e})"
        )


def _synced(found: Any, device: str) -> Any:
    if device != "cpu":
        torch.cuda.synchronize()
    return found


def versus_pgmpy(side: int, repeats: int) -> None:
    """Exact marginals of all variables of a small grid by belief propagation on a junction tree."""
    try:
        from pgmpy.factors.discrete import DiscreteFactor  # pyright: ignore[reportMissingImports]
        from pgmpy.inference import BeliefPropagation  # pyright: ignore[reportMissingImports]
        from pgmpy.models import DiscreteMarkovNetwork  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        print(f"pgmpy is not here ({error.name}): pip install pgmpy")
        return
    sizes, factors = grid(side, 2)
    network = DiscreteMarkovNetwork()
    variables = [Variable(f"X{i}", 2) for i in range(len(sizes))]
    named: list[tuple[list[Variable], Any]] = []
    for scopes, tables in factors:
        for scope, table in zip(scopes.tolist(), tables.numpy(), strict=True):
            named.append(([variables[i] for i in scope], table))
    network.add_nodes_from([v.name for v in variables])
    for scope, table in named:
        if len(scope) == 2:
            network.add_edge(scope[0].name, scope[1].name)
        network.add_factors(DiscreteFactor([v.name for v in scope], list(table.shape), table))

    def theirs() -> Any:
        engine = BeliefPropagation(network)
        engine.calibrate()
        found: Any = {v.name: engine.query([v.name], show_progress=False) for v in variables}
        return {n: p.values for n, p in found.items()}

    def ours() -> Any:
        plan = SumProduct(FactorGraph.clique_tree(named))
        return plan.run(4 * len(plan.blocks), tol=1e-13).beliefs.marginals

    slow, expected = best(theirs, 1)
    quick, found = best(ours, repeats)
    off = max(float(np.abs(found[n].numpy() - expected[n]).max()) for n in expected)
    print(f"grid {side} x {side}, 2 states, exact marginals of all variables on a junction tree")
    print(f"  pgmpy: {slow:.3f} s;  dissonance: {quick:.4f} s, {slow / quick:.0f} times (they differ by {off:.1e})")


def large_tree(count: int, chain: bool) -> None:
    sizes, factors = tree(count, chain=chain)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    tree_marginals(sizes, factors)
    seconds = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    kind = "chain" if chain else "random tree"
    print(f"{kind} of {count} variables: all marginals in {seconds:.2f} s, peak memory up by {grown:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="*", default=[50, 300])
    parser.add_argument("--states", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tree", type=int, default=100_000)
    parser.add_argument("--pgmpy", type=int, default=6, help="the side of the grid; 0: not at all")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    for side in options.sides:
        for states in options.states:
            versus_pgmax(side, states, options.sweeps, options.repeats, options.device)
    if options.pgmpy:
        versus_pgmpy(options.pgmpy, options.repeats)
    if options.tree:
        for count in (options.tree // 2, options.tree):
            large_tree(count, chain=False)
        large_tree(options.tree, chain=True)


if __name__ == "__main__":
    main()
