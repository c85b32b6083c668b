"""Two threads on one PDG: each finds what it finds alone, and the PDG's own parameters stay what they were."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from dissonance import PDG, Arc, SoftmaxTable, Variable, inconsistency

CALLS = 4
"""Solves of each thread in a trial."""


def attack(seed: int) -> Iterator[str | None]:
    """Trials without end; a line for each with another value, or after which the PDG is not what it was."""
    x, y = Variable("X", 3), Variable("Y", 2)
    with ThreadPoolExecutor(2) as pool:
        for k in range(1 << 62):
            draw = torch.Generator().manual_seed(seed * 1_000_003 + k)
            p, q = (torch.rand(3, generator=draw, dtype=torch.float64) + 0.01 for _ in range(2))
            rows = torch.rand(3, 2, generator=draw, dtype=torch.float64) + 0.01
            arcs = Arc("p", (), x, SoftmaxTable(p / p.sum())), Arc("q", (), x, SoftmaxTable(q / q.sum()))
            pdg = PDG(*arcs, Arc("r", x, y, SoftmaxTable(rows / rows.sum(1, keepdim=True))))
            before = {key: value.detach().clone() for key, value in pdg.theta.items()}
            thetas = [
                {key: v + torch.randn(v.shape, generator=draw).double() for key, v in before.items()} for _ in (0, 1)
            ]
            alone = [inconsistency(pdg, theta=theta).upper for theta in thetas]

            def several(theta: dict[str, torch.Tensor], pdg: PDG = pdg) -> set[float]:
                return {inconsistency(pdg, theta=theta).upper for _ in range(CALLS)}

            found = list(pool.map(several, thetas))
            if any(values != {value} for values, value in zip(found, alone, strict=True)):
                yield f"trial {k} of seed {seed}: {found} in two threads, {alone} alone"
            elif any(not torch.equal(before[key], value) for key, value in pdg.theta.items()):
                yield f"trial {k} of seed {seed}: the parameters of the PDG have changed"
            else:
                yield None
