"""How often bounds do not meet where weights differ by orders of magnitude: betas are drawn from 1 to 10^w.

python benchmarks/weights.py
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

TOGETHER = 8
MOST = 30
"""Joint states."""


def main() -> None:
    """Print a line for every range of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--structures", type=int, default=60)
    options = parser.parse_args()
    sys.path.append(str(Path(__file__).parent))
    from attacks.drawn import draw, skeleton

    from dissonance.inconsistency import inconsistencies

    print(f"{'betas':>10}{'PDGs':>8}{'not converged':>16}{'largest gap':>14}")
    for width in (2, 4, 6, 8, 10, 12):
        gaps: list[float] = []
        for k in range(options.structures):
            rng = np.random.default_rng(k)
            drawn = draw(rng, skeleton(rng, MOST), TOGETHER)
            if drawn.hidden is None:
                continue
            soft = (drawn.beta > 0) & np.isfinite(drawn.beta)
            beta = np.where(soft, 10 ** (width * rng.random(drawn.beta.shape)), drawn.beta)
            alpha = np.where(soft, np.minimum(drawn.alpha, 0.1), drawn.alpha)  # gamma is at most 10
            drawn = replace(drawn, beta=beta, alpha=alpha)
            pdgs, attentions = [drawn.pdg(i) for i in range(TOGETHER)], [drawn.attention(i) for i in range(TOGETHER)]
            for r in inconsistencies(pdgs, attentions):
                gaps.append(0.0 if r.converged else (r.upper - r.lower) / max(1.0, abs(r.upper)))
        early = sum(g > 0 or math.isnan(g) for g in gaps)
        print(f"{'1 to 1e' + str(width):>10}{len(gaps):>8}{early:>16}{max(gaps):>14.1g}", flush=True)


if __name__ == "__main__":
    main()
