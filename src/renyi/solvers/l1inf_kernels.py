"""Compiled passes of block coordinate descent, present with the extra ``fast``.

The caller is :mod:`renyi.solvers.l1inf`, whose numpy forms do the same up to rounding.
Sums are added in any order here, so that they vectorise. The choice between the two
therefore depends on the problem alone, not on what was solved before it.

Arrays of points and gradients have one row per column of the target: shape (C, D).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from renyi.counting.compiled import compile_loop

# Flags for vectorised sums: additions in any order, no distinction of −0 and 0.
_SUMS = {"reassoc", "nsz", "contract"}
FEW = 8  # categories up to which comparing beats scattering
FOUR = 4  # categories up to which choices beat lookups

_compiled = partial(compile_loop, fastmath=_SUMS)


@_compiled
def largest_point(b, q, penalty):  # type: ignore[no-untyped-def]
    """Return t with ``Σ (|b| − q t)₊ = penalty``; 0 if there is none.

    Newton's method from 0: the sum is convex, so the steps go from corner to corner.
    """
    t = 0.0
    for _ in range(b.size + 2):
        left = -penalty
        slope = 0.0
        for c in range(b.shape[0]):
            for k in range(b.shape[1]):
                above = abs(b[c, k]) - q[k] * t
                if above > 0:
                    left += above
                    slope += q[k]
        if left <= 0 or slope == 0:
            break
        t += left / slope
    return t


@_compiled
def block_step(b, q, penalty, z, change):  # type: ignore[no-untyped-def]
    """Replace z by the exact minimiser; return whether it changed."""
    t = largest_point(b, q, penalty)
    moved = False
    for c in range(b.shape[0]):
        for k in range(b.shape[1]):
            free = b[c, k] / q[k] if q[k] > 0 else 0.0
            new = min(max(free, -t), t)
            change[c, k] = new - z[c, k]
            z[c, k] = new
            moved = moved or change[c, k] != 0
    return moved


@_compiled
def sum_of(values):  # type: ignore[no-untyped-def]
    """Return the sum of the values."""
    total = 0.0
    for r in range(values.size):
        total += values[r]
    return total


@_compiled
def sums_by_code(codes, values, total, out):  # type: ignore[no-untyped-def]
    """Write the sum of the values of each code to `out`; `total` is the sum of all.

    A loop computes one or three sums: two would be compiled to a switch, which does not
    vectorise. The last of two or four codes is a difference. Its rounding error is that
    of the total, about 1e-16.
    """
    m = out.size
    if m == 2:
        s0 = 0.0
        for r in range(codes.size):
            s0 += values[r] if codes[r] == 0 else 0.0
        out[0] = s0
        out[1] = total - s0
    elif m == 3 or m == 4:
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for r in range(codes.size):
            k = codes[r]
            value = values[r]
            s0 += value if k == 0 else 0.0
            s1 += value if k == 1 else 0.0
            s2 += value if k == 2 else 0.0
        out[0] = s0
        out[1] = s1
        out[2] = s2
        if m == 4:
            out[3] = total - s0 - s1 - s2
    elif m <= FEW:
        for code in range(m):
            wanted = codes.dtype.type(code)
            part = 0.0
            for r in range(codes.size):
                part += values[r] if codes[r] == wanted else 0.0
            out[code] = part
    else:
        out[:] = 0
        for r in range(codes.size):
            out[codes[r]] += values[r]


@_compiled
def subtract_by_code(codes, weights, change, values):  # type: ignore[no-untyped-def]
    """Subtract the weighted change of each row's code from its value.

    A single weight applies to all rows.
    """
    m = change.size
    if m > FOUR:
        step = 0 if weights.size == 1 else 1
        for r in range(codes.size):
            values[r] -= weights[step * r] * change[codes[r]]
        return
    # Choices vectorise, lookups do not.
    d0 = change[0]
    d1 = change[min(1, m - 1)]
    d2 = change[min(2, m - 1)]
    d3 = change[m - 1]
    if weights.size == 1:
        w = weights[0]
        d0 = w * d0
        d1 = w * d1
        d2 = w * d2
        d3 = w * d3
        for r in range(codes.size):
            k = codes[r]
            low = d0 if k == 0 else d1
            high = d2 if k == 2 else d3
            values[r] -= low if k < 2 else high
        return
    for r in range(codes.size):
        k = codes[r]
        low = d0 if k == 0 else d1
        high = d2 if k == 2 else d3
        values[r] -= weights[r] * (low if k < 2 else high)


@_compiled
def row_passes(  # type: ignore[no-untyped-def]
    codes, weights, q, starts, active, penalty, centred, z, u, points, states
):
    """Pass over the active features as often as there are `points` to write to."""
    widest = np.max(starts[1:] - starts[:-1])
    b_all, change_all = np.empty((2, z.shape[0], widest))
    totals = np.empty(z.shape[0])
    for p in range(points.shape[0]):
        for c in range(z.shape[0]):
            totals[c] = sum_of(u[c])
        for i in active:
            low = starts[i]
            high = starts[i + 1]
            b = b_all[:, : high - low]
            change = change_all[:, : high - low]
            mass = q[low:high]
            own = z[:, low:high]
            for c in range(z.shape[0]):
                sums_by_code(codes[i], u[c], totals[c], b[c])
                for k in range(mass.size):
                    b[c, k] += mass[k] * own[c, k]
            if not block_step(b, mass, penalty, own, change):
                continue
            for c in range(z.shape[0]):
                mean = 0.0
                for k in range(mass.size):
                    mean += mass[k] * change[c, k]
                if centred:
                    # Adjust the intercept in the same step; the total stays the same.
                    for k in range(mass.size):
                        change[c, k] -= mean
                else:
                    totals[c] -= mean
                subtract_by_code(codes[i], weights, change[c], u[c])
        points[p] = z
        states[p] = u


@_compiled
def row_norms(codes, sizes, features, u, out):  # type: ignore[no-untyped-def]
    """Write ``Σ |Wᵀu|`` of each of the features to `out`."""
    sums_all = np.empty(np.max(sizes))
    out[:] = 0
    for c in range(u.shape[0]):
        total = sum_of(u[c])
        for j in range(features.size):
            i = features[j]
            sums = sums_all[: sizes[i]]
            sums_by_code(codes[i], u[c], total, sums)
            for k in range(sums.size):
                out[j] += abs(sums[k])


@_compiled
def row_sums(codes, starts, values, out):  # type: ignore[no-untyped-def]
    """Write ``Wᵀ values`` to `out`."""
    total = sum_of(values)
    for i in range(codes.shape[0]):
        sums_by_code(codes[i], values, total, out[starts[i] : starts[i + 1]])


@_compiled
def gram_passes(  # type: ignore[no-untyped-def]
    A, q, starts, active, penalty, z, G, points, states
):
    """Do the same as `row_passes`, with ``G = R − A z`` as the state."""
    widest = np.max(starts[1:] - starts[:-1])
    b_all, change_all = np.empty((2, z.shape[0], widest))
    for p in range(points.shape[0]):
        for i in active:
            low = starts[i]
            high = starts[i + 1]
            b = b_all[:, : high - low]
            change = change_all[:, : high - low]
            mass = q[low:high]
            own = z[:, low:high]
            for c in range(z.shape[0]):
                for k in range(mass.size):
                    b[c, k] = G[c, low + k] + mass[k] * own[c, k]
            if not block_step(b, mass, penalty, own, change):
                continue
            for c in range(z.shape[0]):
                gradient = G[c]
                for k in range(mass.size):
                    step = change[c, k]
                    row = A[low + k]
                    if step != 0:
                        for j in range(row.size):
                            gradient[j] -= step * row[j]
        points[p] = z
        states[p] = G
