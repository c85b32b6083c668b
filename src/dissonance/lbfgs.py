"""SciPy's L-BFGS for a concave function, raised in one thread.

It multiplies matrices of a dozen columns. Threads of BLAS take longer to meet than to multiply those, several times
longer where other work has the cores, and add up in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dissonance import threads

Floats = npt.NDArray[np.float64]


def raised(
    at: Callable[[Floats], tuple[float, Floats]],
    x: Floats,
    seen: Callable[[], None] | None = None,
    least: Floats | None = None,
    **options: float,
) -> tuple[Floats, int]:
    """Return a point near a maximum, from x, and the number of steps.

    `at`: the value and the gradient; `seen`: called after every step, it may raise StopIteration; `least`: what no
    number goes below; `options`: of SciPy.
    """
    from scipy.optimize import Bounds, minimize  # slow to import, and seldom needed

    def negated(x: Floats) -> tuple[float, Floats]:
        value, gradient = at(x)
        return -value, -gradient

    def check(intermediate_result: object) -> None:
        if seen is not None:
            seen()

    with threads.without_blas_threads():
        bounds = None if least is None or not len(x) else cast(Any, Bounds)(least)
        found = minimize(negated, x, jac=True, method="L-BFGS-B", callback=check, bounds=bounds, options=options)
    return found.x, int(found.nit)
