"""Solvers of the infimum over mu, by name."""

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.answer import Answer as Answer
    from dissonance.answer import Solver as Solver
    from dissonance.bounds.columnar import ColumnBracket as ColumnBracket
    from dissonance.bounds.columnar import bracket as bracket
    from dissonance.bounds.solver import Bounds as Bounds
    from dissonance.gaussians.pool import GaussianPool as GaussianPool
    from dissonance.gaussians.solver import GaussianSolver as GaussianSolver
    from dissonance.reduced.solver import Reduced as Reduced
    from dissonance.sampling.solver import Sampled as Sampled
    from dissonance.solvers.at_points import AtPoints as AtPoints
    from dissonance.solvers.auto import SOLVERS as SOLVERS
    from dissonance.solvers.auto import Auto as Auto
    from dissonance.solvers.auto import solver_named as solver_named
    from dissonance.solvers.concave_convex import ConcaveConvex as ConcaveConvex
    from dissonance.solvers.convex.selection import select as select
    from dissonance.solvers.direct import Given as Given
    from dissonance.solvers.direct import Pinned as Pinned
    from dissonance.solvers.direct import SumProductSolver as SumProductSolver
    from dissonance.solvers.exact import CliqueTreeSolver as CliqueTreeSolver
    from dissonance.solvers.exact import JointSolver as JointSolver
    from dissonance.solvers.exact import Newton as Newton
    from dissonance.solvers.front import solve_parts as solve_parts
    from dissonance.solvers.paper import Paper as Paper
    from dissonance.solvers.pooled import Pooled as Pooled
    from dissonance.tolerances import FEASIBLE as FEASIBLE

lazily(__name__)
