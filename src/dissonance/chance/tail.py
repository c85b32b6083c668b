"""How probable it is that a sum of weighted chi-squares is at least so large."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SMALL = 1e-4
"""Weights that are smaller than the largest by this factor are left out: they add next to nothing."""

MOST_TERMS = 4000
"""Terms of the series; what they leave out is added, so that the probability is never too small."""


def tail(weights: npt.ArrayLike, value: float) -> float:
    """P( sum_i w_i Z_i^2 >= value ) for independent standard normal Z_i and weights w_i > 0.

    With equal weights a chi-square. Else it is a mixture of chi-squares, scaled by the least weight w (Ruben, 1962):

        sum_k a_k P( chi2 with m + 2k degrees >= value / w )
        a_0 = prod_i (w / w_i)^(1/2),   a_k = 1/(2k) sum_{r<k} a_r sum_i (1 - w / w_i)^(k-r)

    The a_k are positive and sum to 1.
    """
    from scipy.special import chdtrc

    w = np.asarray(weights, dtype=np.float64)
    w = w[w > SMALL * w.max(initial=0.0)]
    if not len(w):
        return 1.0 if value <= 0 else 0.0
    if value <= 0:
        return 1.0
    least = w.min()
    ratio = 1.0 - least / w
    if ratio.max() < 1e-9:
        return float(chdtrc(len(w), value / w.mean()))
    a = np.zeros(MOST_TERMS)
    power_sums = np.zeros(MOST_TERMS)
    a[0] = np.prod(np.sqrt(least / w))
    power = np.ones_like(w)
    terms = MOST_TERMS
    for k in range(1, MOST_TERMS):
        power = power * ratio
        power_sums[k] = power.sum()
        a[k] = a[:k] @ power_sums[k:0:-1] / (2 * k)
        if 1.0 - a[: k + 1].sum() < 1e-10:
            terms = k + 1
            break
    degrees = len(w) + 2 * np.arange(terms)
    found = float(a[:terms] @ chdtrc(degrees, value / least))
    return min(1.0, found + max(0.0, 1.0 - float(a[:terms].sum())))
