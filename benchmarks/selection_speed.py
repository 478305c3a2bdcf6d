"""(f) Paths of 30 penalties for the l1,∞ problem, from rows.

All sides get the same penalties and start each one from the solution before it. The gap
of every solution, ours and theirs, is computed here by the same formula from the rows,
relative to the objective. There is no intercept: SPAMS has none for this problem.

The peers are SPAMS (``fistaFlat``, regul ``group-lasso-linf``) and adelie, whose group
lasso is another problem, with the l2 norm inside a feature. They need separate
environments. Name their Pythons; without them the script measures renyi alone:

    SPAMS_PYTHON=…/bin/python ADELIE_PYTHON=…/bin/python python selection_speed.py
"""

from __future__ import annotations

from timing import WITHOUT_FAST, Claim, Section, Timing, extra, measure, run  # isort: skip

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from renyi.solvers.l1inf_path import LassoPath

TOL = 1e-4
COUNT = 30
TARGET = 100
# Forms of the matrix for SPAMS. With the product X'X it needs fewer operations per
# iteration, but forms it again for every penalty. Of the few settings tried, checking
# the gap every 20 iterations and L0 = 30 were the fastest on a wide table. On pairs,
# with the product, they made little difference.
SPAMS = {"pairs": ("gram", "sparse"), "wide": ("sparse", "dense")}
SPAMS_OPTIONS = {"it0": 20, "L0": 30.0, "max_it": 50_000, "tol": TOL}


def pairs() -> tuple[np.ndarray, int, np.ndarray, float]:
    """Return 3,196 rows of 36 binary columns, as 630 pairs of columns."""
    rng = np.random.default_rng(0)
    n, d = 3196, 36
    hidden = rng.random((4, n)) < 0.5
    noise = rng.random((d, n)) < rng.uniform(0.2, 0.8, (d, 1))
    kept = rng.random((d, n)) < 0.3
    binary = np.where(kept, hidden[np.arange(d) % 4], noise).astype(np.uint8)
    first, second = np.triu_indices(d, 1)
    return _labelled(rng, 2 * binary[first] + binary[second], 4, 12, 0.05)


def wide() -> tuple[np.ndarray, int, np.ndarray, float]:
    """Return 500 rows of 10,000 columns of three categories, like genotypes."""
    rng = np.random.default_rng(0)
    share = rng.uniform(0.05, 0.5, (10_000, 1))
    codes = sum((rng.random((10_000, 500)) < share).astype(np.uint8) for _ in range(2))
    return _labelled(rng, codes, 3, 20, 0.1)


def _labelled(rng, codes, m, relevant, ratio):
    """Return classes by the sign of a noisy score of some of the features."""
    chosen = rng.choice(len(codes), relevant, replace=False)
    score = sum(rng.standard_normal(m)[codes[j]] for j in chosen)
    noise = 0.5 * score.std() * rng.standard_normal(codes.shape[1])
    return codes, m, (score - score.mean() + noise > 0).astype(np.int64), ratio


PROBLEMS = {"pairs": pairs, "wide": wide}


def one_hot(codes: np.ndarray, m: int) -> np.ndarray:
    d, n = codes.shape
    W = np.zeros((n, d * m), order="F")
    W[np.arange(n)[None], m * np.arange(d)[:, None] + codes] = 1
    return W


def penalties(codes, m, y, ratio, squared: bool = False) -> np.ndarray:
    """Return penalties of the paper's form, below the largest useful one."""
    target = (y - 0.5) / len(y)
    sums = np.stack([np.bincount(column, target, m) for column in codes])
    norms = np.sqrt((sums**2).sum(axis=1)) if squared else np.abs(sums).sum(axis=1)
    return 2 * norms.max() * np.geomspace(1, ratio, COUNT + 1)[1:]


def relative_gap(W, m, y, lam, z) -> float:
    """Return the duality gap of zᵀQz − dvecᵀz + ¼ + λ Σ max|z_i|, relative to it."""
    target, n = y - 0.5, len(y)
    r = target - W @ z
    steepest = 2 * np.abs((W.T @ r).reshape(-1, m)).sum(axis=1).max() / n
    residual, fit = r @ r / n, r @ target / n
    objective = residual + lam * np.abs(z.reshape(-1, m)).max(axis=1).sum()
    a = np.clip(fit / residual, -lam / steepest, lam / steepest)
    return (objective - (2 * a * fit - a * a * residual)) / objective


# ---- peers, each in its own interpreter


def spams_path(W, m, y, lambdas, how: str) -> tuple[list[np.ndarray], float]:
    """Solve the path; the CPU time is that of the solver's calls alone."""
    import scipy.sparse as sparse
    import spams

    X = sparse.csc_matrix(W) if how == "sparse" else W
    target = np.asfortranarray((y - 0.5)[:, None])
    z, found, seconds = np.zeros((W.shape[1], 1), order="F"), [], 0.0
    for lam in lambdas:
        start = time.process_time()
        z = spams.fistaFlat(
            target,
            X,
            np.asfortranarray(z),
            False,
            numThreads=1,
            loss="square",
            regul="group-lasso-linf",
            size_group=m,
            lambda1=lam * len(y) / 2,
            compute_gram=how == "gram",
            **SPAMS_OPTIONS,
        )
        seconds += time.process_time() - start
        found.append(np.array(z[:, 0]))
    return found, seconds


def adelie_path(W, m, y, lambdas) -> tuple[int, float]:
    """Solve the path of the l2 group lasso; return its final number of features."""
    import adelie

    d = W.shape[1] // m
    start = time.process_time()
    state = adelie.grpnet(
        X=adelie.matrix.dense(W, method="naive", n_threads=1),
        glm=adelie.glm.gaussian(y=y - 0.5),
        groups=m * np.arange(d),
        penalty=np.ones(d),
        lmda_path=lambdas / 2,
        intercept=False,
        early_exit=False,
        progress_bar=False,
        n_threads=1,
    )
    seconds = time.process_time() - start
    last = np.asarray(state.betas[-1].todense()).reshape(d, m)
    return int((last != 0).any(axis=1).sum()), seconds


def answer_as_peer(peer: str, file: str, how: str) -> None:
    """Solve the problem in `file`; the answer goes next to it."""
    data = np.load(file)
    codes, m, y, ratio = (data[key] for key in ("codes", "m", "y", "ratio"))
    W = one_hot(codes, int(m))
    if peer == "spams":
        lambdas = penalties(codes, m, y, ratio)
        found, seconds = spams_path(W, int(m), y, lambdas, how)
        pairs_of = zip(lambdas, found, strict=True)
        gaps = [relative_gap(W, m, y, lam, z) for lam, z in pairs_of]
        count = int((found[-1].reshape(-1, m) != 0).any(axis=1).sum())
        answer = {"seconds": seconds, "gap": max(gaps), "features": count}
    else:
        lambdas = penalties(codes, m, y, ratio, squared=True)
        count, seconds = adelie_path(W, int(m), y, lambdas)
        answer = {"seconds": seconds, "gap": None, "features": count}
    Path(file + ".json").write_text(json.dumps(answer))


def ask(peer: str, problem, how: str = "") -> dict | None:
    """Solve a problem with a peer in its interpreter; return None if there is none."""
    python = os.environ.get(f"{peer.upper()}_PYTHON")
    if python is None:
        return None
    codes, m, y, ratio = problem
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "problem.npz"))
        np.savez(file, codes=codes, m=m, y=y, ratio=ratio)
        command = [python, __file__, "--peer", peer, file, how]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(Path(file + ".json").read_text())


# ---- both sides


def section(name: str) -> Section:
    from renyi.solvers.l1inf import RowsProblem
    from renyi.solvers.l1inf_path import solve_path

    problem = PROBLEMS[name]()
    codes, m, y, ratio = problem
    sizes, lambdas = np.full(len(codes), m), penalties(*problem)
    ours = "renyi.solvers.l1inf_path.solve_path"

    def solve() -> LassoPath:
        problem = RowsProblem(codes, sizes, y, 2, fit_intercept=False)
        return solve_path(problem, lambdas, TOL)

    timings = measure({ours: solve}, 3 if WITHOUT_FAST else 15)
    found, W = solve(), one_hot(codes, m)
    triples = zip(lambdas, found.z, strict=True)
    gap = max(relative_gap(W, m, y, lam, z) for lam, z in triples)
    rows = [_row(ours, timings[0].best, gap, int(found.active[-1].sum()))]
    claims, notes = [], []
    if not WITHOUT_FAST:
        for how in SPAMS[name]:
            rows += _asked("spams", f"SPAMS fistaFlat, {how}", problem, timings, how)
        rows += _asked("adelie", "adelie grpnet, l2 norm", problem, timings)
        spams = [each.best for each in timings if each.task.startswith("SPAMS")]
        if spams:
            ratio = min(spams) / timings[0].best
            claims = [Claim("faster than the faster SPAMS", TARGET, ratio)]
        notes = [
            "peers run in their own interpreters, one thread, the fastest form of "
            "SPAMS three times and the others once; their time is that of the solver's "
            "calls, without building the one-hot matrix. Ours starts from codes and "
            "runs 15 times. *memory* is measured for our side alone.",
            "adelie solves another problem (l2 norm inside a feature, its own largest "
            "penalty and its default tolerance), given for orientation.",
        ]
    n, d = codes.shape[1], len(codes)
    title = f"n={n:,} x {d:,} features x {m} categories, {extra()}"
    return Section(title, timings, claims, rows, notes)


def _row(solver: str, seconds: float, gap: float | None, features: int) -> dict:
    return {
        "solver": solver,
        "CPU s": f"{seconds:.3f}",
        "largest relative gap": "" if gap is None else f"{gap:.1e}",
        "features at the last penalty": features,
    }


def _asked(peer, label, problem, timings, how="") -> list[dict]:
    """Add a peer's time to the timings; return its row."""
    # The form that is compared with runs as often as it takes to trust its best time.
    answers = [ask(peer, problem, how) for _ in range(3 if how == "sparse" else 1)]
    if answers[0] is None:
        return []
    answer = min(answers, key=lambda each: each["seconds"])
    times = [each["seconds"] for each in answers]
    spread = min(times), float(np.median(times)), max(times), times[0]
    timings.append(Timing(label, *spread, float("nan")))
    seconds = answer["seconds"]
    return [_row(label, seconds, answer["gap"], answer["features"])]


def benchmark() -> list[Section]:
    return [section(name) for name in PROBLEMS]


if __name__ == "__main__":
    if "--peer" in sys.argv:
        answer_as_peer(*sys.argv[sys.argv.index("--peer") + 1 :])
    else:
        run("selection_speed", "(f) Selection: paths of 30 penalties", benchmark)
