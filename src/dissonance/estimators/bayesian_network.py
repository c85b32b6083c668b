"""Bayesian networks with hidden variables in the manner of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dissonance.errors import DissonanceError, suggest
from dissonance.estimators.data import Array, columns_by_name, distinct
from dissonance.estimators.latent import LatentModel, drawn, table_of
from dissonance.instances.em.latent import ROW, network
from dissonance.pdg import PDG
from dissonance.variables import Variable


@dataclass(eq=False, repr=False)
class LatentBayesianNetwork(LatentModel):
    """A Bayesian network of tables with hidden variables: {variable: (parents, table)}, by name where it is used.

    X maps the names of observed variables to columns of labels (a data frame will do), None or NaN where an entry is
    missing. A table may be None: it is then drawn at random. Equal rows are counted, not repeated.
    """

    cpds: Mapping[Variable, tuple[Sequence[Variable], object]]

    def _input(self) -> dict[str, bool]:
        return {"two_d_array": False, "dict": True, "allow_nan": True, "categorical": True, "string": True}

    def _read(self, X: Any) -> dict[str, list[Any]]:  # noqa: N803
        return columns_by_name(X)

    def _columns(self, x: dict[str, list[Any]]) -> int:
        return len(x)

    def fit(self, X: Any, y: object = None, sample_weight: object = None) -> LatentBayesianNetwork:  # noqa: N803
        """Expectation-maximisation on the columns of X; y is not looked at."""
        columns, weights = distinct(columns_by_name(X), sample_weight)
        return super().fit(columns, y, weights)

    def _start(self, x: dict[str, list[Any]], generator: np.random.Generator) -> PDG:
        def drawn(v: Variable, parents: Sequence[Variable], table: object) -> object:
            return generator.dirichlet(np.full(v.size, 5.0), [u.size for u in parents]) if table is None else table

        return network({v: (parents, drawn(v, parents, table)) for v, (parents, table) in self.cpds.items()}, x)

    def _about(self, x: dict[str, list[Any]]) -> PDG:
        return network({v: (parents, self.table(v.name)) for v, (parents, _) in self.cpds.items()}, x)

    def _expected(self, x: Any) -> None:
        """Any columns will do: a variable without one is hidden."""

    def table(self, name: str) -> Array:
        """p(variable | parents) as fitted."""
        p = self._fitted()
        if name not in {v.name for v in self.cpds}:
            raise DissonanceError(f"no variable named {name!r}.{suggest(name, [v.name for v in self.cpds])}")
        return table_of(p, name)

    def predict_proba(self, X: Any, name: str) -> Array:  # noqa: N803
        """p(variable | x_n) of every row, (rows, values)."""
        return self._posterior(X)[1].mu.conditional(name, ROW).numpy()

    def predict(self, X: Any, name: str) -> list[Hashable]:  # noqa: N803
        """The most probable value of a variable in every row."""
        labels = self._fitted().variable(name).finite.labels
        return [labels[i] for i in self.predict_proba(X, name).argmax(1)]

    def fit_predict(self, X: Any, name: str, sample_weight: object = None) -> list[Hashable]:  # noqa: N803
        """`fit`, then `predict` of a variable in the same rows."""
        return self.fit(X, sample_weight=sample_weight).predict(X, name)

    def sample(self, n_samples: int = 1) -> dict[str, list[Hashable]]:
        """New rows drawn from the fitted network, as columns by name; hidden variables have columns too."""
        cpds = {v: (parents, self.table(v.name)) for v, (parents, _) in self.cpds.items()}
        return drawn(PDG.from_bayesian_network(cpds), n_samples, np.random.default_rng(self.random_state))

    def _count(self) -> int:
        return sum((v.size - 1) * math.prod(u.size for u in parents) for v, (parents, _) in self.cpds.items())
