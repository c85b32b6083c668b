"""PDGs to draw, and where things stand in a picture."""

from __future__ import annotations

import random

import torch

from dissonance import PDG, Arc, Variable
from dissonance.drawing import Drawing
from dissonance.drawing.scene import Box, Writing

WORDS = ("Press", "Flow", "Temp", "Valve", "Pump", "Oxygen", "Catheter", "Tube", "Alarm", "Lung", "Error", "Gas")


def table(sources: int, targets: int) -> torch.Tensor:
    return torch.full((2,) * (sources + targets), 0.5**targets, dtype=torch.float64)


def network(size: int, seed: int) -> PDG:
    """A Bayesian network in which a variable has up to three parents among the twelve before it."""
    choose = random.Random(seed)
    variables = [Variable(f"{choose.choice(WORDS)}{i}", 2) for i in range(size)]
    cpds = {}
    for i, v in enumerate(variables):
        parents = choose.sample(variables[max(0, i - 12) : i], min(i, choose.choice((0, 1, 1, 1, 2, 2, 3))))
        cpds[v] = (parents, table(len(parents), 1))
    return PDG.from_bayesian_network(cpds)


def beliefs(size: int, seed: int) -> PDG:
    """Arcs any way round, with cycles, from up to three sources to one or two targets."""
    choose = random.Random(seed)
    variables = [Variable(f"Var{i}", 2) for i in range(size)]
    arcs = []
    for k in range(int(1.3 * size)):
        i = choose.randrange(size)
        near = [v for j, v in enumerate(variables) if 0 < abs(j - i) < 8]
        sources = choose.sample(near, choose.choice((0, 1, 1, 2, 3)))
        also = [v for v in choose.sample(near, choose.choice((0, 0, 0, 1))) if v not in sources]
        arcs.append(Arc(f"belief{k}", sources, (variables[i], *also), table(len(sources), 1 + len(also))))
    return PDG(*arcs, variables=variables)


def boxes(drawing: Drawing) -> list[tuple[float, float, float, float]]:
    marks = [m for g in drawing.scene.groups if g.kind == "variable" for m in g.marks if isinstance(m, Box)]
    return [(b.corner.real, b.corner.imag, b.corner.real + b.width, b.corner.imag + b.height) for b in marks]


def labels(drawing: Drawing) -> list[tuple[float, float, float, float]]:
    marks = [m for g in drawing.scene.groups if g.kind == "arc" for m in g.marks if isinstance(m, Writing)]
    return [(m.at.real - m.width / 2, m.at.imag - 0.72 * m.size, m.at.real + m.width / 2, m.at.imag) for m in marks]


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
