"""Probabilities as HTML tables with the labels of their values: what notebooks show of mu and of posteriors.

No colour is set, so that they are as readable in a dark notebook as in a light one; every text is escaped.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from html import escape

from dissonance.distributions import Distribution
from dissonance.distributions.gaussian import Gaussian
from dissonance.distributions.samples import Samples
from dissonance.variables import Variable, cells

MOST_CELLS = 120
"""Of a joint distribution that is shown whole."""
MOST_VARIABLES, MOST_VALUES = 12, 12
"""Whose marginals are listed."""
WIDE = 6.0
"""How long the bar of probability 1 is, in widths of a letter."""


def joint_table(mu: Distribution) -> str:
    """mu over all its variables, the values of the last along the columns; "" if there are too few or too many."""
    if len(mu.variables) < 2 or not all(v.is_finite for v in mu.variables) or cells(mu.variables) > MOST_CELLS:
        return ""
    *beside, across = mu.variables
    p = mu.marginal(*(v.name for v in mu.variables)).detach().reshape(-1, across.size).tolist()
    heads = _row("".join(_head(v.name, "col") for v in beside), (f"{across.name}={x}" for x in across.finite.labels))
    rows: list[str] = []
    for setting, numbers in zip(itertools.product(*(v.finite.labels for v in beside)), p, strict=True):
        cell = "".join(f"<td>{x:.4f}</td>" for x in numbers)
        rows.append(f"<tr>{''.join(_head(str(x), 'row') for x in setting)}{cell}</tr>")
    return _table(f"joint distribution of {', '.join(v.name for v in mu.variables)}", heads, rows)


def marginals_table(variables: Sequence[Variable], marginals: Mapping[str, Mapping[Hashable, float] | str]) -> str:
    """The values of each variable with their probabilities; or what is said of it, if it has none."""
    rows: list[str] = []
    for v in variables[:MOST_VARIABLES]:
        said = marginals[v.name]
        if isinstance(said, str):
            rows.append(f'<tr>{_head(v.name, "row")}<td colspan="2">{escape(said)}</td></tr>')
            continue
        shown = list(said.items())[:MOST_VALUES]
        more = len(said) - len(shown)
        name = _head(v.name, "rowgroup", len(shown) + (more > 0))
        lines = [f"{_head(str(x), 'row')}<td>{p:.4f} {_bar(p)}</td>" for x, p in shown]
        lines += [f'<td colspan="2">and {more} more values</td>'] if more > 0 else []
        rows += [f"<tr>{name if i == 0 else ''}{line}</tr>" for i, line in enumerate(lines)]
    table = _table("marginals", _row("", ("variable", "value", "probability")), rows)
    left = len(variables) - MOST_VARIABLES
    return table + (f"and {left} more variable{'s' * (left > 1)}" if left > 0 else "")


def marginals_of(mu: Distribution) -> str:
    """The table of the marginals of a distribution."""
    shown = mu.variables[:MOST_VARIABLES]
    return marginals_table(mu.variables, {v.name: mu[v.name] if v.is_finite else _moments(v, mu) for v in shown})


def _moments(v: Variable, mu: Distribution) -> str:
    """The mean of a Euclidean variable, with the standard deviations where they are known."""
    if isinstance(mu, Samples):
        return "mean " + ", ".join(f"{m:.4g}" for m in mu.mean(v.name).tolist()[:MOST_VALUES])
    marginal = mu[v.name]
    if not isinstance(marginal, Gaussian):
        return str(v.domain)
    deviation = marginal.covariance.diagonal().clamp(min=0).sqrt().tolist()
    pairs = zip(marginal.mean.tolist(), deviation, strict=True)
    return ", ".join(f"{m:.4g} ± {s:.2g}" for m, s in itertools.islice(pairs, MOST_VALUES))


def _bar(p: float) -> str:
    look = f"display:inline-block;height:.6em;width:{WIDE * p:.2f}em;background:currentColor;opacity:.35"
    return f'<span style="{look}"></span>'


def _head(text: str, scope: str, rows: int = 1) -> str:
    tall = f' rowspan="{rows}"' if rows > 1 else ""
    return f'<th scope="{scope}"{tall} style="text-align:left;vertical-align:top">{escape(text)}</th>'


def _row(before: str, heads: Iterable[str]) -> str:
    return f"<tr>{before}{''.join(_head(h, 'col') for h in heads)}</tr>"


def _table(caption: str, heads: str, rows: Iterable[str]) -> str:
    said = f'<caption style="text-align:left">{escape(caption)}</caption>'
    return f"<table>{said}<thead>{heads}</thead><tbody>{''.join(rows)}</tbody></table>"
