"""How many iterations of GFlowNet training a GPU does: R runs together, on the grid of the study.

    python benchmarks/gflownet_gpu.py                    run-iterations per second for R = 1, 8, 32, 128
    python benchmarks/gflownet_gpu.py --precision 400    and what float16 products cost: exact L1 beside float32's

Policies are set to walk about as long as trained ones do (45 transitions), and keep still while they are timed. The
floating-point operations are those of the network: one forward pass of every transition in the rollout, one forward and
one backward pass in training; padding counts for nothing.
"""

from __future__ import annotations

import argparse
import time

import torch

from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun

EXIT_BIAS = -2.6  # mean length about 45


def rate(dtype: torch.dtype, tf32: bool = False, n: int = 8192) -> float:
    """Operations per second of a large product of matrices."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.randn(n, n, device="cuda", dtype=dtype)
    for _ in range(3):
        torch.mm(a, a)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        torch.mm(a, a)
    torch.cuda.synchronize()
    torch.backends.cuda.matmul.allow_tf32 = False
    return 10 * 2 * n**3 / (time.perf_counter() - began)


def operations(trainer: Trainer) -> float:
    """Of one iteration of one run, at the present lengths of trajectories."""
    tau = trainer.rollout(trainer.fresh)
    rows = tau.length.double().sum(1).mean().item()
    parts = trainer.shape.parts
    first = 2 * parts["input"][0] * parts["input"][1]
    others = 2 * (parts["hidden"][0] * parts["hidden"][1] ** 2 + parts["heads"][0] * parts["heads"][1])
    return rows * (4 * others + 3 * first)  # rollout, forward, and twice backward; no gradient of the inputs


def timed(runs: int, height: int, seconds: float = 5.0) -> tuple[float, float, float]:
    """Run-iterations per second, operations per second, mean length."""
    grid = hyper_grid(4, height, "original")
    trainer = Trainer([TrainingRun(seed=i) for i in range(runs)], [grid] * runs, TrainingPlan(), "cuda")
    trainer.parts["heads_bias"][:, grid.actions] = EXIT_BIAS
    trainer.optimiser.rates.learning.zero_()
    for _ in range(20):  # kernels are compiled, launches recorded
        trainer.step()
    torch.cuda.synchronize()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        trainer.step()
        done += 1
        if done % 5 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    speed = runs * done / (time.perf_counter() - began)
    tau = trainer.rollout(trainer.fresh)
    return speed, speed * operations(trainer), tau.length.double().mean().item()


def precision(iterations: int, height: int) -> None:
    """Exact L1 of the same runs trained with the kernels and in float32."""
    grid = hyper_grid(4, height, "original")
    runs = [TrainingRun(loss, seed=s, learning_rate=3e-3) for loss in LOSSES for s in (1, 2)]
    print(f"\nexact L1 after {iterations} iterations, two seeds each\n{'':>8}  float16 products        float32")
    found = {}
    for kernels in (True, False):
        trainer = Trainer(runs, [grid] * len(runs), TrainingPlan(iterations), "cuda", kernels=kernels)
        for _ in range(iterations):
            trainer.step()
        found[kernels] = trainer.fit()["l1"].tolist()
    for i, loss in enumerate(LOSSES):
        pairs = [f"{a:.4f} {b:.4f}" for a, b in (found[k][2 * i : 2 * i + 2] for k in (True, False))]
        print(f"{loss:>8}  {pairs[0]:>16}  {pairs[1]:>13}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--height", type=int, default=24)
    parser.add_argument("--precision", type=int, default=0, metavar="ITERATIONS")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU here: benchmarks/gflownet.py times training on a CPU")
    half, tf32 = rate(torch.float16), rate(torch.float32, tf32=True)
    rates = f"{half / 1e12:.0f} TFLOP/s in float16, {tf32 / 1e12:.0f} in TF32"
    print(f"{torch.cuda.get_device_name()}: products of matrices {rates}")
    print("runs  run-iterations/s  TFLOP/s  share of float16  of TF32  mean length")
    for runs in options.runs:
        speed, flops, length = timed(runs, options.height)
        shares = f"{flops / half:>16.0%}  {flops / tf32:>7.0%}"
        print(f"{runs:>4}  {speed:>16.0f}  {flops / 1e12:>7.0f}  {shares}  {length:>11.1f}", flush=True)
        torch.cuda.empty_cache()
    if options.precision:
        precision(options.precision, options.height)


if __name__ == "__main__":
    main()
