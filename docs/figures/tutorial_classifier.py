"""The figure of docs/tutorials/classifier.md: a course of training, and digits before and after an attack.

python docs/figures/tutorial_classifier.py
"""

from pathlib import Path

import matplotlib
import torch
from matplotlib import pyplot
from sklearn.datasets import load_digits
from torch import nn

from dissonance.instances import adversarial_examples, stochastic_gradient_descent

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tutorial_classifier", "font.size": 8}
pixels, labels = load_digits(return_X_y=True)
x, y = torch.as_tensor(pixels / 16, dtype=torch.float32), torch.as_tensor(labels)
torch.manual_seed(0)
fresh = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
sgd = stochastic_gradient_descent(fresh, x[:1300], y[:1300], batch=64, rate=0.3)
run = sgd.run(400)
p = sgd.read(run)
with torch.no_grad():
    victims = torch.arange(1300, 1797)[p(x[1300:]).argmax(-1) == y[1300:]][:60]
moved = adversarial_examples(p, x[victims], (y[victims] + 5) % 10, sigma=0.5, rate=0.1).answer(30)
with torch.no_grad():
    read = torch.softmax(p(moved), -1).max(-1)
fooled = [k for k in range(60) if int(read.indices[k]) != int(y[victims[k]])]
first = {int(y[victims[k]]): k for k in reversed(fooled)}  # by digit
shown = [first[digit] for digit in sorted(first)][:5]

figure, axes = pyplot.subplot_mosaic("cccabdef;cccghijk", figsize=(8.4, 2.6), layout="constrained")
axes["c"].semilogy(run.trace.column("local_upper")[:-1], linewidth=0.7)
axes["c"].set(xlabel="step of LIR", ylabel="nats", title="control of theta: each batch")
for above, below, k in zip("abdef", "ghijk", shown, strict=True):
    said = f"{int(read.indices[k])} ({float(read.values[k]):.2f})"
    for name, image, title in ((above, x[victims[k]], f"{int(y[victims[k]])}"), (below, moved[k], said)):
        axes[name].imshow(image.reshape(8, 8).tolist(), cmap="gray_r", vmin=0, vmax=1)
        axes[name].set(xticks=[], yticks=[])
        axes[name].set_title(title, fontsize=8)
axes["a"].set_ylabel("as it is")
axes["g"].set_ylabel("control of x")
figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
