"""x' on its way to self-attention under finite control: writes transformer.svg beside this file."""

from pathlib import Path

import matplotlib
import torch
from matplotlib import pyplot

from dissonance import Record
from dissonance.instances import SelfAttention, transformer

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "transformer", "font.size": 9}

TOKENS, STEPS = 5, 24
generator = torch.Generator().manual_seed(3)
W_K, W_Q, W_V, x = (torch.randn(n, 2, generator=generator, dtype=torch.float64) for n in (2, 2, 2, TOKENS))
layer = SelfAttention(W_K, W_Q, W_V, scale=2**-0.5)
rows = layer.phi(x)[0].sum(0)  # how fast each x'_j goes
slow = transformer(layer, x, x, control=0.3 / float(rows.max())).run(STEPS, trace=Record(snapshots=1, distortion=0))
best = transformer(layer, x).answer(1)
value = layer.values(x)[0]

figure, (plane, course) = pyplot.subplots(1, 2, figsize=(7.4, 3.2), layout="constrained", width_ratios=[1.2, 1])
plane.plot(*value.T, "k^", label="values $v_i$")
for j in range(TOKENS):
    path = torch.stack([slow.trace.snapshots[t][f"x'{j}.value"] for t in range(STEPS + 1)])
    plane.plot(*path.T, ".-", color=f"C{j}", markersize=3, linewidth=0.8)
    plane.plot(*best[j], "o", color=f"C{j}", fillstyle="none", markersize=9)
    off = (path - best[j]).norm(dim=1)
    course.semilogy(off, color=f"C{j}", label=f"$x'_{j}$, attention {float(rows[j]):.1f} in all")
plane.plot([], [], "ko", fillstyle="none", markersize=9, label="full control: self-attention")
plane.plot([], [], "k.-", markersize=3, linewidth=0.8, label="finite control, step by step")
plane.legend(frameon=False, fontsize=7)
plane.set_aspect("equal", "datalim")
course.set_xlabel("steps")
course.set_ylabel("distance to self-attention")
course.legend(frameon=False, fontsize=7)
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
