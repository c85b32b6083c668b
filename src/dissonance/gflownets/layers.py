"""A block of rows through the layers of a policy network on a GPU, for the kernels: weights come a tile at a time.

Rows of a layer are held in two halves, `left` and `right`, in float16; sums are in float32.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnusedVariable=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl

COLUMNS = tl.constexpr(16)  # of the heads, as stored
LARGEST = tl.constexpr(65504.0)


@triton.jit
def positive(x):
    """ReLU, in float16 without overflow."""
    return tl.minimum(tl.maximum(x, 0.0), LARGEST).to(tl.float16)


@triton.jit
def bounded(x):
    """To float16 without overflow."""
    return tl.minimum(tl.maximum(x, -LARGEST), LARGEST).to(tl.float16)


@triton.jit
def tile(w, row, column, HEIGHT: tl.constexpr, BREADTH: tl.constexpr, STRIDE: tl.constexpr):
    """A tile of w, matrices one below the other: by its descriptor, or by a pointer to rows that are STRIDE long.

    Tiles by descriptor pass through no registers, which leaves more for sums; tiles by pointer can be asked for all
    together, which matters where few blocks walk in step.
    """
    if STRIDE == 0:
        found = w.load([row, column])
    else:
        at = (row + tl.arange(0, HEIGHT))[:, None] * STRIDE + column + tl.arange(0, BREADTH)[None, :]
        found = tl.load(w + at)
    return found


@triton.jit
def product(a, b, w, row, column, HALF: tl.constexpr, BREADTH: tl.constexpr, STRIDE: tl.constexpr):
    """(a, b) times the columns from `column` on of the matrix that begins at a row of w."""
    found = tl.dot(a, tile(w, row, column, HALF, BREADTH, STRIDE))
    return tl.dot(b, tile(w, row + HALF, column, HALF, BREADTH, STRIDE), found)


@triton.jit
def next_layer(a, b, w, row, bias, HALF: tl.constexpr, STRIDE: tl.constexpr):
    """The next hidden layer, in two halves."""
    i = tl.arange(0, HALF)
    left = product(a, b, w, row, 0, HALF, HALF, STRIDE)
    right = product(a, b, w, row, HALF, HALF, HALF, STRIDE)
    return positive(left + tl.load(bias + i)[None, :]), positive(right + tl.load(bias + HALF + i)[None, :])


@triton.jit
def inputs(state, active, K: tl.constexpr, INPUTS: tl.constexpr):
    """The k-hot inputs of a block of states."""
    f = tl.arange(0, INPUTS)
    x = f[None, :] == tl.load(active + state * K)[:, None]
    for k in tl.static_range(1, K):
        x = x | (f[None, :] == tl.load(active + state * K + k)[:, None])
    return x.to(tl.float16)


@triton.jit
def first_layer(x, w, row, bias, INPUTS: tl.constexpr, HALF: tl.constexpr, STRIDE: tl.constexpr):
    """The first hidden layer, in two halves."""
    i = tl.arange(0, HALF)
    left = tl.dot(x, tile(w, row, 0, INPUTS, HALF, STRIDE)) + tl.load(bias + i)[None, :]
    right = tl.dot(x, tile(w, row, HALF, INPUTS, HALF, STRIDE)) + tl.load(bias + HALF + i)[None, :]
    return positive(left), positive(right)


@triton.jit
def head_logits(a, b, w, row, bias, HALF: tl.constexpr, OUT: tl.constexpr, STRIDE: tl.constexpr):
    """Logits of P_F and P_B."""
    return product(a, b, w, row, 0, HALF, OUT, STRIDE) + tl.load(bias + tl.arange(0, OUT))[None, :]


@triton.jit
def allowed_moves(allowed, state, OUT: tl.constexpr):
    """Which columns of the heads are moves allowed in these states."""
    o = tl.arange(0, OUT)
    bit = tl.where(o < COLUMNS, o, COLUMNS)
    return (tl.load(allowed + state)[:, None] >> bit[None, :]) & 1 == 1


@triton.jit
def log_probabilities(z, may):
    """Logarithms of the softmax over the columns allowed; elsewhere -inf."""
    z = tl.where(may, z, float("-inf"))
    top = tl.max(z, 1)
    top = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tl.exp(z - top[:, None]), 1)
    return z - (top + tl.log(total))[:, None]
