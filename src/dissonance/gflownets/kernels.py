"""Kernels for GPUs: whole rollouts, and the score of transitions with its gradient, in one launch each.

A block of rows goes through all layers of its run's network without leaving the chip. Numbers are multiplied in
float16, which has the 11 significant bits of TF32, and summed in float32; they saturate instead of overflowing, and
gradients are scaled by their largest entry in the run first. `plain` computes the same.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnusedVariable=false, reportGeneralTypeIssues=false

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from dissonance.gflownets.layers import (
    COLUMNS,
    allowed_moves,
    bounded,
    first_layer,
    head_logits,
    inputs,
    log_probabilities,
    next_layer,
    product,
)
from dissonance.gflownets.policy import Parts
from dissonance.gflownets.trajectories import BLOCK, Trajectories, TransitionRows
from dissonance.gflownets.walk import Walk

OUTPUTS = 64  # of the heads, as multiplied: with fewer columns Triton 3.6 reads beyond the weights on Hopper
ROWS, WARPS = 64, 4  # of a block
REGISTERS = 168  # of a thread that computes gradients: three blocks then share a multiprocessor, where it pays


@triton.jit
def _rollout(
    uniform, states, moves, length, after, active, allowed,
    w_in, b_in, w, b, w_out, b_out,
    start, count, longest,
    EXIT: tl.constexpr, K: tl.constexpr, INPUTS: tl.constexpr, HALF: tl.constexpr, LAYERS: tl.constexpr,
    OUT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    o = tl.arange(0, OUT)
    WIDTH: tl.constexpr = 2 * HALF
    b_in += run * WIDTH
    b += run * LAYERS * WIDTH
    b_out += run * OUT
    at = (run * count + row).to(tl.int64) * longest
    state = tl.zeros([ROWS], tl.int32) + start
    on = inside
    ends = tl.zeros([ROWS], tl.int32)
    t = 0
    going = 1
    while going > 0:
        left, right = first_layer(inputs(state, active, K, INPUTS), w_in, run * INPUTS, b_in, INPUTS, HALF, WIDTH)
        for k in tl.static_range(LAYERS):
            left, right = next_layer(left, right, w, (run * LAYERS + k) * WIDTH, b + k * WIDTH, HALF, WIDTH)
        z = head_logits(left, right, w_out, run * WIDTH, b_out, HALF, OUT, OUT)
        may = allowed_moves(allowed, state, OUT) & (o[None, :] <= EXIT)
        z = tl.where(may, z, float("-inf"))
        p = tl.exp(z - tl.max(z, 1)[:, None])
        mass = tl.cumsum(p, 1)
        u = tl.load(uniform + at + t, mask=inside, other=0.0) * tl.sum(p, 1)
        move = tl.sum(((mass <= u[:, None]) & (o[None, :] <= EXIT)).to(tl.int32), 1)
        good = tl.sum(tl.where((o[None, :] == move[:, None]) & may, 1, 0), 1) > 0
        move = tl.where(good, move, tl.max(tl.where(may, o[None, :], 0), 1))
        tl.store(states + at + t, state, mask=on)
        tl.store(moves + at + t, move, mask=on)
        t += 1
        out = on & (move == EXIT)
        ends = tl.where(out, t, ends)
        on = on & (move != EXIT)
        state = tl.where(on, tl.load(after + state * EXIT + move, mask=on, other=0), state)
        going = tl.max(on.to(tl.int32), 0)
        going = tl.where(t < longest, going, 0)
    tl.store(length + run * count + row, ends.to(tl.int64), mask=inside)


@triton.jit
def _score(
    states, moves, undone, real, active, allowed, w_in, b_in, w, b, w_out, b_out, x_out, h_out, z_out, score, rows,
    MOVES: tl.constexpr, K: tl.constexpr, INPUTS: tl.constexpr, HALF: tl.constexpr, LAYERS: tl.constexpr,
    OUT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    first = run * rows + tl.program_id(0) * ROWS
    at = first.to(tl.int64) + tl.arange(0, ROWS)
    o = tl.arange(0, OUT)
    WIDTH: tl.constexpr = 2 * HALF
    if tl.program_id(0) * ROWS >= tl.load(real + run):  # nothing but padding
        x_out.store([first, 0], tl.zeros([ROWS, INPUTS], tl.float16))
        for k in tl.static_range(2 * LAYERS + 2):
            h_out.store([first, k * HALF], tl.zeros([ROWS, HALF], tl.float16))
        tl.store(score + at, tl.zeros([ROWS], tl.float32))
        return
    state = tl.load(states + at)
    x = inputs(state, active, K, INPUTS)
    x_out.store([first, 0], x)
    left, right = first_layer(x, w_in, run * INPUTS, b_in + run * WIDTH, INPUTS, HALF, 0)
    h_out.store([first, 0], left)
    h_out.store([first, HALF], right)
    b += run * LAYERS * WIDTH
    for k in tl.static_range(LAYERS):
        left, right = next_layer(left, right, w, (run * LAYERS + k) * WIDTH, b + k * WIDTH, HALF, 0)
        h_out.store([first, (k + 1) * WIDTH], left)
        h_out.store([first, (k + 1) * WIDTH + HALF], right)
    z = head_logits(left, right, w_out, run * WIDTH, b_out + run * OUT, HALF, OUT, 0)
    tl.store(z_out + at[:, None] * COLUMNS + o[None, :], z, mask=(o < COLUMNS)[None, :])
    may = allowed_moves(allowed, state, OUT)
    move = tl.load(moves + at)
    back = tl.load(undone + at)
    log_f = log_probabilities(z, may & (o[None, :] < MOVES))
    log_b = log_probabilities(z, may & (o[None, :] >= MOVES))
    value = tl.sum(tl.where(o[None, :] == move[:, None], log_f, 0.0), 1)
    value -= tl.sum(tl.where((o[None, :] == MOVES + back[:, None]) & (back[:, None] >= 0), log_b, 0.0), 1)
    tl.store(score + at, value)


@triton.jit
def _behind(gradient, h_in, dh_out, db, row, column, HALF: tl.constexpr):
    """The gradient in what a ReLU was given, of half a layer; it is stored, and so are its sums over rows."""
    gradient = tl.where(h_in.load([row, column]) > 0, gradient, 0.0)
    tl.store(db + column + tl.arange(0, HALF), tl.sum(gradient, 0))
    found = bounded(gradient)
    dh_out.store([row, column], found)
    return found


@triton.jit(do_not_specialize=["blocks"])  # it changes from batch to batch
def _score_gradient(
    gradient, scale, states, moves, undone, real, allowed, z_in, h_in, wt, wt_out, dz_out, dh_out, db_out, db,
    rows, blocks,
    MOVES: tl.constexpr, HALF: tl.constexpr, LAYERS: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    block = run.to(tl.int64) * blocks + tl.program_id(0)
    first = run * rows + tl.program_id(0) * ROWS
    at = first.to(tl.int64) + tl.arange(0, ROWS)
    i = tl.arange(0, HALF)
    o = tl.arange(0, OUT)
    WIDTH: tl.constexpr = 2 * HALF
    to_z = dz_out + at[:, None] * COLUMNS + o[None, :]
    db_out += block * COLUMNS
    db += block * (LAYERS + 1) * WIDTH
    if tl.program_id(0) * ROWS >= tl.load(real + run):  # nothing but padding
        tl.store(to_z, tl.zeros([ROWS, OUT], tl.float16), mask=(o < COLUMNS)[None, :])
        tl.store(db_out + o, tl.zeros([OUT], tl.float32), mask=o < COLUMNS)
        for k in tl.static_range(2 * LAYERS + 2):
            dh_out.store([first, k * HALF], tl.zeros([ROWS, HALF], tl.float16))
            tl.store(db + k * HALF + i, tl.zeros([HALF], tl.float32))
        return
    g = tl.load(gradient + at) * tl.load(scale + run)
    z = tl.load(z_in + at[:, None] * COLUMNS + o[None, :], mask=(o < COLUMNS)[None, :], other=0.0)
    may = allowed_moves(allowed, tl.load(states + at), OUT)
    move = tl.load(moves + at)
    back = tl.load(undone + at)
    p_f = tl.exp(log_probabilities(z, may & (o[None, :] < MOVES)))
    p_b = tl.exp(log_probabilities(z, may & (o[None, :] >= MOVES)))
    of_f = tl.where(o[None, :] == move[:, None], 1.0, 0.0) - p_f
    of_b = tl.where(o[None, :] == MOVES + back[:, None], 1.0, 0.0) - p_b
    dz = g[:, None] * tl.where(o[None, :] < MOVES, of_f, tl.where(back[:, None] >= 0, -of_b, 0.0))
    tl.store(db_out + o, tl.sum(dz, 0), mask=o < COLUMNS)
    dz = bounded(dz)
    tl.store(to_z, dz, mask=(o < COLUMNS)[None, :])
    left = tl.dot(dz, wt_out.load([run * OUT, 0]))
    left = _behind(left, h_in, dh_out, db, first, LAYERS * WIDTH, HALF)
    right = tl.dot(dz, wt_out.load([run * OUT, HALF]))
    right = _behind(right, h_in, dh_out, db, first, LAYERS * WIDTH + HALF, HALF)
    for k in tl.static_range(LAYERS - 1, -1, -1):
        row = (run * LAYERS + k) * WIDTH
        new_left = product(left, right, wt, row, 0, HALF, HALF, 0)
        new_left = _behind(new_left, h_in, dh_out, db, first, k * WIDTH, HALF)
        right = product(left, right, wt, row, HALF, HALF, HALF, 0)
        right = _behind(right, h_in, dh_out, db, first, k * WIDTH + HALF, HALF)
        left = new_left


@dataclass(frozen=True)
class Tables:
    """What the kernels look up: the graph in 32 bits, and the moves allowed as bits (P_F's, then P_B's)."""

    after: Tensor
    active: Tensor
    allowed: Tensor

    @classmethod
    def of(cls, walk: Walk) -> Tables:
        """The tables of this graph."""
        moves = torch.cat([walk.forward, walk.backward], 1).int()
        bits = (moves << torch.arange(moves.shape[1], device=moves.device, dtype=torch.int32)).sum(1, dtype=torch.int32)
        return cls(walk.after.int().contiguous(), walk.active.int().contiguous(), bits)


@lru_cache(maxsize=4)
def _tables(walk: Walk) -> Tables:
    return Tables.of(walk)


def fits(parts: Parts, walk: Walk) -> bool:
    """Whether the kernels can take this network and graph; if not, `policy.logits` does."""
    width, outputs = parts["heads"].shape[1:]
    return "flow" not in parts and width in (32, 64, 128, 256) and outputs <= COLUMNS.value and walk.inputs <= 256


def _power(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


def _weights(parts: Parts) -> tuple[Tensor, ...]:
    """The network in float16, padded; biases stay in float32."""
    padded, rows, outputs = torch.nn.functional.pad, parts["input"].shape[1], parts["heads"].shape[2]
    return (
        padded(parts["input"].half(), (0, 0, 0, _power(rows) - rows)),
        parts["input_bias"].contiguous(),
        parts["hidden"].half().contiguous(),
        parts["hidden_bias"].contiguous(),
        padded(parts["heads"].half(), (0, OUTPUTS - outputs)),
        padded(parts["heads_bias"], (0, OUTPUTS - outputs)),
    )


def _tiles(matrices: Tensor, rows: int, columns: int) -> TensorDescriptor:
    """Matrices one below the other, which kernels load and store in tiles of so many rows and columns."""
    below = matrices.reshape(-1, matrices.shape[-1]).contiguous()
    return TensorDescriptor.from_tensor(below if len(below) else below.new_zeros(rows, columns), [rows, columns])


def _sizes(parts: Parts, walk: Walk) -> dict[str, int]:
    return {
        "K": walk.active.shape[1],
        "INPUTS": _power(walk.inputs),
        "HALF": parts["heads"].shape[1] // 2,
        "LAYERS": parts["hidden"].shape[1],
        "OUT": OUTPUTS,
    }


@torch.no_grad()
def rollout(parts: Parts, walk: Walk, uniform: Tensor) -> Trajectories:
    """`plain.rollout` in one launch: a block of trajectories walks until the last of them has ended."""
    runs, count, longest = uniform.shape
    tables = _tables(walk)
    states = torch.zeros(runs, count, longest, dtype=torch.int32, device=uniform.device)
    moves = torch.zeros_like(states)
    length = torch.zeros(runs, count, dtype=torch.int64, device=uniform.device)
    _rollout[(-(-count // ROWS), runs)](
        uniform, states, moves, length, tables.after, tables.active, tables.allowed, *_weights(parts),
        walk.start, count, longest, EXIT=walk.exit, ROWS=ROWS, num_warps=WARPS, **_sizes(parts, walk),
    )  # fmt: skip
    return Trajectories(states, moves, length)


class _Score(torch.autograd.Function):
    """log P_F(move) - log P_B(back) of every row, differentiable in the parts of the network."""

    @staticmethod
    def forward(ctx: Any, walk: Walk, rows: TransitionRows, *values: Tensor) -> Tensor:
        parts = dict(zip(NAMES, values, strict=True))
        runs, count = rows.states.shape
        tables, sizes = _tables(walk), _sizes(parts, walk)
        w_in, b_in, w, b, w_out, b_out = _weights(parts)
        device, half = rows.states.device, torch.float16
        tile, layers = sizes["HALF"], sizes["LAYERS"]
        x = torch.empty(runs, count, sizes["INPUTS"], dtype=half, device=device)
        h = torch.empty(runs, count, layers + 1, 2 * tile, dtype=half, device=device)
        z = torch.empty(runs, count, COLUMNS.value, device=device)
        score = torch.empty(runs, count, device=device)
        _score[(count // ROWS, runs)](
            rows.states, rows.moves, rows.undone, rows.real, tables.active, tables.allowed,
            _tiles(w_in, sizes["INPUTS"], tile), b_in, _tiles(w, tile, tile), b, _tiles(w_out, tile, OUTPUTS), b_out,
            _tiles(x, ROWS, sizes["INPUTS"]), _tiles(h.flatten(2), ROWS, tile), z, score,
            count, MOVES=walk.exit + 1, ROWS=ROWS, num_warps=WARPS, **sizes,
        )  # fmt: skip
        ctx.save_for_backward(x, h, z, w, w_out)
        ctx.given = walk, rows
        return score

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        x, h, z, w, w_out = ctx.saved_tensors
        walk, rows = ctx.given
        runs, count, layers, width = h.shape
        gradient = gradients[0].contiguous()
        scale = 1 / gradient.abs().amax(1).clamp(min=1e-30)
        dz = torch.empty(runs, count, COLUMNS.value, dtype=torch.float16, device=x.device)
        dh = torch.empty_like(h)
        blocks, tile = count // ROWS, width // 2
        db_out = torch.empty(runs, blocks, COLUMNS.value, device=x.device)
        db = torch.empty(runs, blocks, layers, width, device=x.device)
        _score_gradient[(blocks, runs)](
            gradient, scale, rows.states, rows.moves, rows.undone, rows.real, _tables(walk).allowed, z,
            _tiles(h.flatten(2), ROWS, tile), _tiles(w.transpose(-1, -2), tile, tile),
            _tiles(w_out.transpose(-1, -2), OUTPUTS, tile), dz, _tiles(dh.flatten(2), ROWS, tile), db_out, db,
            count, blocks, MOVES=walk.exit + 1, HALF=tile, LAYERS=layers - 1, OUT=OUTPUTS,
            ROWS=ROWS, num_warps=WARPS, maxnreg=REGISTERS,
        )  # fmt: skip
        outputs = walk.exit + 1 + walk.backward.shape[1]
        bias = db.sum(1)
        found = (
            _outer(x, dh[:, :, 0])[:, : walk.inputs],
            bias[:, 0],
            torch.stack([_outer(h[:, :, k], dh[:, :, k + 1]) for k in range(layers - 1)], 1) if layers > 1 else None,
            bias[:, 1:],
            _outer(h[:, :, -1], dz)[..., :outputs],
            db_out.sum(1)[:, :outputs],
        )
        back = 1 / scale
        return None, None, *(None if g is None else g * back.reshape(-1, *[1] * (g.ndim - 1)) for g in found)


NAMES = ("input", "input_bias", "hidden", "hidden_bias", "heads", "heads_bias")


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """a^T b of each run, summed in float32; few runs are cut into pieces, so that they fill the device."""
    runs, rows = a.shape[:2]
    pieces = max(1, min(64 // runs, rows // BLOCK))
    while rows % pieces:
        pieces -= 1
    a, b = (t.unflatten(1, (pieces, -1)).flatten(0, 1) for t in (a, b))
    if a.is_cuda:
        product = torch.bmm(a.transpose(1, 2), b, out_dtype=torch.float32)
    else:
        product = torch.bmm(a.float().transpose(1, 2), b.float())
    return product.reshape(runs, pieces, *product.shape[1:]).sum(1)


def transition_scores(parts: Parts, walk: Walk, rows: TransitionRows) -> Tensor:
    """log P_F(move) - log P_B(back) of every row (runs, rows)."""
    return _Score.apply(walk, rows, *(parts[name] for name in NAMES))  # pyright: ignore[reportReturnType]
