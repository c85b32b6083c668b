"""Beliefs p(hidden, x_row) about data with latent variables: mixtures, hidden Markov models, Bayesian networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dissonance.arc import Arc
from dissonance.cpds import CPD, Evidence, Observed, SoftmaxTable, TableInRows
from dissonance.errors import DissonanceError, suggest
from dissonance.pdg import PDG
from dissonance.variables import Variable

ROW = "row"
"""The name of the variable whose values are the rows of the data."""


def rows(count: int) -> Variable:
    """The variable whose values are the rows of a data set."""
    return Variable(ROW, count)


def mixture(weights: object, *emissions: Observed, name: str = "Z") -> PDG:
    """p(Z) prod_j p_j(x_row | Z): a mixture whose components are the product of the emissions."""
    prior = SoftmaxTable(weights)
    Z, row = Variable(name, prior.logits.numel()), rows(len(emissions[0].sample))  # noqa: N806
    tags = [f"x{j}" if len(emissions) > 1 else "x" for j in range(len(emissions))]
    return PDG(Arc("prior", (), Z, prior), *(Arc(t, Z, row, e) for t, e in zip(tags, emissions, strict=True)))


def hidden_markov(
    initial: object, transition: object, emissions: Sequence[Observed], lengths: Sequence[int] | None = None
) -> PDG:
    """p(Z_0) prod_t p(Z_t | Z_t-1) prod_t p(x_row,t | Z_t), with one transition table at all times.

    `emissions[t]` is about time t of every sequence; they share their parameters (see `Observed.on`). A row is a
    sequence. `lengths`: how long each is, if some end early; from there on its states are uniform, and nothing is
    learned from them.
    """
    start, move = SoftmaxTable(initial), SoftmaxTable(transition)
    row = rows(len(emissions[0].sample))
    Z = [Variable(f"Z{t}", start.logits.numel()) for t in range(len(emissions))]  # noqa: N806
    moves: list[Arc] = []
    for t in range(1, len(Z)):
        going = [n > t for n in lengths or ()]
        if all(going):
            moves.append(Arc(f"transition{t}", Z[t - 1], Z[t], move))
        else:
            moves.append(Arc(f"transition{t}", (Z[t - 1], row), Z[t], TableInRows(move, going)))
    return PDG(
        Arc("initial", (), Z[0], start),
        *moves,
        *(Arc(f"x{t}", z, row, e) for t, (z, e) in enumerate(zip(Z, emissions, strict=True))),
    )


def network(cpds: Mapping[Variable, tuple[Sequence[Variable], object]], data: Mapping[str, Sequence[object]]) -> PDG:
    """A Bayesian network {variable: (parents, table)}, and what each row of the data says about its variables.

    `data` has a column of labels for each variable that is observed, None where an entry is missing; variables without
    a column are hidden. Tables that are not cpds already become learnable.
    """
    known = {v.name: v for v in cpds}
    for name in data:
        if name not in known:
            raise DissonanceError(f"the data has a column {name!r}, but no variable.{suggest(name, known)}")
    lengths = {name: len(column) for name, column in data.items()}
    if not lengths or len(set(lengths.values())) != 1:
        raise DissonanceError(f"columns of one length are needed, at least one; found {lengths or 'none'}.")
    row = rows(next(iter(lengths.values())))
    learnable = {v: (parents, cpd if isinstance(cpd, CPD) else SoftmaxTable(cpd)) for v, (parents, cpd) in cpds.items()}
    seen = [
        Arc(f"seen({n})", known[n], row, Evidence(codes(column, known[n]), known[n].size)) for n, column in data.items()
    ]
    return PDG(*PDG.from_bayesian_network(learnable), *seen)


def codes(column: Sequence[object], variable: Variable) -> list[int]:
    """The labels of a column as numbers; None and NaN, which are missing, as -1."""
    found: list[int] = []
    for n, label in enumerate(column):
        if label is None or label != label:
            found.append(-1)
            continue
        try:
            found.append(variable.finite.index(label))  # pyright: ignore[reportArgumentType]
        except DissonanceError as error:
            raise DissonanceError(f"row {n}, {variable.name}: {error}") from None
    return found
