"""Textbook expectation-maximisation in numpy, one step at a time: an E-step and an M-step, as they are printed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np


def log_normal(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """log N(x; mean, covariance), row by row."""
    off = x - mean
    _, logdet = np.linalg.slogdet(2 * np.pi * covariance)
    return -0.5 * (np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off) + logdet)


def responsibilities(log_joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p(k | x_n) and log p(x_n) from log p(k, x_n), (rows, components)."""
    top = log_joint.max(1, keepdims=True)
    total = top + np.log(np.exp(log_joint - top).sum(1, keepdims=True))
    return np.exp(log_joint - total), total[:, 0]


def gaussian_m_step(x: np.ndarray, r: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances of complete data with responsibilities r."""
    mass = r.sum(0)
    means = r.T @ x / mass[:, None]
    full = np.stack([(r[:, k, None] * (x - m)).T @ (x - m) / mass[k] for k, m in enumerate(means)])
    tied = np.einsum("k,kij->ij", mass / mass.sum(), full)
    diag = np.stack([np.diag(c) for c in full])
    return mass / mass.sum(), means, {"full": full, "tied": tied, "diag": diag}[kind]


def categorical_log_joint(codes: np.ndarray, weights: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """log p(k, x_n); -1 is missing."""
    found = np.repeat(np.log(weights)[None], len(codes), 0)
    for n, row in enumerate(codes):
        for j, c in enumerate(row):
            if c >= 0:
                found[n] += np.log(tables[j][:, c])
    return found


def categorical_m_step(codes: np.ndarray, r: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Weights and tables; rows where a column is missing do not count for it."""
    tables = []
    for j, size in enumerate(sizes):
        counts = np.stack([r[codes[:, j] == c].sum(0) for c in range(size)], 1)
        tables.append(counts / counts.sum(1, keepdims=True))
    return r.mean(0), tables


def forward_backward(
    start: np.ndarray, move: np.ndarray, likelihood: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """gamma (times, states), xi summed over time (states, states) and log p(x), by the scaled recursions."""
    T, K = likelihood.shape
    a, b, scale = np.zeros((T, K)), np.ones((T, K)), np.zeros(T)
    for t in range(T):
        a[t] = (start if t == 0 else a[t - 1] @ move) * likelihood[t]
        scale[t] = a[t].sum()
        a[t] /= scale[t]
    for t in reversed(range(T - 1)):
        b[t] = move @ (likelihood[t + 1] * b[t + 1]) / scale[t + 1]
    xi = np.zeros((K, K))
    for t in range(T - 1):
        xi += a[t][:, None] * move * (likelihood[t + 1] * b[t + 1])[None] / scale[t + 1]
    return a * b, xi, float(np.log(scale).sum())


def baum_welch(
    sequences: Sequence[Sequence[int]], start: np.ndarray, move: np.ndarray, emit: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
    """One iteration on sequences of symbols (-1: missing); and the log-likelihoods before it."""
    first, moves, emits, scores = np.zeros_like(start), np.zeros_like(move), np.zeros_like(emit), []
    for x in sequences:
        seen = np.array(x)
        likelihood = np.where((seen < 0)[:, None], 1.0, emit.T[seen])
        gamma, xi, score = forward_backward(start, move, likelihood)
        first += gamma[0]
        moves += xi
        for t, c in enumerate(seen):
            if c >= 0:
                emits[:, c] += gamma[t]
        scores.append(score)
    return first / first.sum(), moves / moves.sum(1, keepdims=True), emits / emits.sum(1, keepdims=True), scores


def network_step(
    parents: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    tables: Mapping[str, np.ndarray],
    rows: Sequence[Mapping[str, int]],
) -> tuple[dict[str, np.ndarray], list[float]]:
    """One iteration of EM on a tabular network by enumeration of all completions; and log p of each row before it."""
    counts = {v: np.zeros_like(t) for v, t in tables.items()}
    scores = []
    for row in rows:
        weights = {}
        for values in itertools.product(*(range(k) for k in sizes.values())):
            state = dict(zip(sizes, values, strict=True))
            if all(state[v] == c for v, c in row.items()):
                weights[values] = np.prod([tables[v][(*(state[u] for u in parents[v]), state[v])] for v in sizes])
        total = sum(weights.values())
        scores.append(float(np.log(total)))
        for values, w in weights.items():
            state = dict(zip(sizes, values, strict=True))
            for v in sizes:
                counts[v][(*(state[u] for u in parents[v]), state[v])] += w / total
    return {v: c / c.sum(-1, keepdims=True) for v, c in counts.items()}, scores
