"""Write proofs: files by which `renyi.verify` checks a bound without a solver.

The multipliers and messages of the polynomial program prove the guarantee of its rule,
an upper bound. A worst distribution proves a lower bound for all rules. Programs find
both to within a tolerance.

The multipliers are rounded, and the checker adds what they then lack. The distribution
must have the given counts *exactly*. Its probabilities are therefore rounded, except
for a largest set of independent outcomes. For these the equations are solved in
rational numbers, digit by digit modulo a prime (Dixon). If a probability becomes
negative, or the equations have no solution, no lower bound is written.

Columns, categories and classes have the order of the marginals.
Every number in a proof is computed by the checker, and rounded to the safe side.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__, verify
from renyi.certificates.closed_form import scale_free
from renyi.files import write_json
from renyi.marginals.consistency import check_exact
from renyi.robust.ambiguity_set import Ambiguity, Floats, Outcomes
from renyi.robust.distribution import WorstDistribution
from renyi.robust.pairwise_program import solve_local, table_rule
from renyi.scorecard import scorecard_of

if TYPE_CHECKING:
    from renyi.files import Place
    from renyi.marginals.marginals import Marginals
    from renyi.robust.minimax_problem import MinimaxResult

FORMAT = "renyi-proof"
_PRIME = 2**31 - 1
_MOST_EQUATIONS = 1_500
_MOST_DIGITS = 600  # of a rational number, to the base of the prime
_GRID = 2**30  # probabilities are rounded to this fraction of a row
_MAX_CLASSES = 6  # whose sets are 63

Integers = NDArray[np.int64]


def write_proof(
    path: Place, m: Marginals, model: object = None, result: MinimaxResult | None = None
) -> dict[str, float]:
    """Write a file that proves bounds, and return the numbers it proves.

    To check it, run ``renyi verify``, or the single file ``renyi/verify.py``.

    Parameters
    ----------
    path : str or path
        Where to write.
    m : Marginals
        The pair counts: unweighted, and agreeing with each other exactly.
    model : RenyiClassifier or Scorecard, optional
        Its gamma and the bounds of its rules are proved, in closed form.
    result : MinimaxResult, optional
        The result of `minimax` for the same marginals: ``"upper"`` is the guarantee of
        the polynomial program's rule, ``"lower"`` a bound that no rule can go below.
        The latter needs a worst distribution with exactly these counts. It is missing
        if none was found, or if rounding cannot be corrected.

    See Also
    --------
    certify : Compute the bounds.

    Examples
    --------
    >>> import os, renyi, tempfile
    >>> from renyi.verify import answer
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X[["crime", "immigration"]], y)
    >>> folder = tempfile.mkdtemp()
    >>> m.save(os.path.join(folder, "m.renyi"))
    >>> place = os.path.join(folder, "proof.json")
    >>> proved = renyi.write_proof(place, m, result=renyi.minimax(m))
    >>> round(proved["lower"], 4), round(proved["upper"], 4)
    (0.2299, 0.2299)
    >>> answer(os.path.join(folder, "m.renyi"), proof=place)[0]  # proved
    0
    """
    check_exact(m, "A proof")
    card = None if model is None else scorecard_of(model, m)
    if card is not None:
        given = m
        m = card.match(m).marginals
        if m.feature_names != given.feature_names:
            raise ValueError(
                "No proof was written: the pair counts have other columns than the "
                "model, or another order. Count them again with the model's columns "
                "(Marginals.select(), or 'renyi marginals build' with its encoder)."
            )
    proof: dict[str, Any] = {
        "format": FORMAT,
        "version": 2,
        "renyi": __version__,
        "features": list(m.feature_names),
        "claims": {},
    }
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = str(Path(folder, "counts.renyi"))
            m.save(place)
            counts = verify.Counts(place)
        verify.check(counts.agree(), "its counts do not agree with each other exactly")
        exact = {} if card is None else counts.bounds(card.to_dict())
    except AssertionError as error:
        why = error.args[-1]
        raise ValueError(f"No proof was written of the marginals: {why}.") from None
    if exact:
        safe = {name: _up(value) for name, value in exact.items()}
        assert card is not None
        proof["claims"] = scale_free(safe.pop("gamma"), safe, card)
    if result is not None and len(m.classes) <= _MAX_CLASSES:
        programs = [
            _program(ambiguity, multiplier, messages)
            for ambiguity, multiplier, messages in _solved_programs(m, result)
        ]
        proof["upper"] = min(programs, key=counts.upper)
        proof["claims"]["upper"] = _up(counts.upper(proof["upper"]))
    if result is not None and result.worst_distribution is not None:
        witness = _witness(result.worst_distribution, int(m.n))
        if witness is not None:
            proof["lower"] = witness
            proof["claims"]["lower"] = -_up(-counts.lower(witness))
    write_json(path, proof)
    claims: dict[str, Any] = proof["claims"]
    known = {**claims.pop("bounds", {}), **claims}
    return {name: value for name, value in known.items() if value is not None}


def _up(value: Fraction) -> float:
    """Return the least float that is not smaller."""
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


# ---- the polynomial program


def _solved_programs(
    m: Marginals, result: MinimaxResult
) -> Iterator[tuple[Ambiguity, Floats, Floats]]:
    """Yield tables, multipliers and messages; one table alone needs no messages.

    Proofs use pairs of columns, not pairs within each class.
    """
    ambiguity = result.rule.ambiguity
    messages = result.messages
    if messages is not None and not any(
        table.with_target and len(table.features) > 1 for table in ambiguity.tables
    ):
        yield ambiguity, result.rule.multiplier, messages
        return
    ambiguity = Ambiguity.of(m, class_conditional=False)
    again = solve_local(ambiguity)
    if again.messages is not None:
        yield ambiguity, again.multiplier, again.messages
    sent = sum(int(ambiguity.sizes[[*pair]].sum()) for pair in ambiguity.layout.pairs)
    nothing = np.zeros((ambiguity.n_classes + 1, sent))
    yield ambiguity, table_rule(ambiguity).multiplier, nothing


def _program(ambiguity: Ambiguity, multiplier: Floats, sent: Floats) -> dict[str, Any]:
    """Return multipliers and messages as whole multiples of the checker's unit."""
    K = ambiguity.n_classes
    features = range(len(ambiguity.sizes))
    tables = {t.features: cells for t, cells in ambiguity.split(multiplier)}
    messages = []
    for S in range(1, 2**K):
        chosen = [y for y in range(K) if S >> y & 1]
        others = [1 + y for y in range(K) if y not in chosen]
        if K == 2:
            messages.append(sent[0 if len(chosen) == 2 else 1 + chosen[0]])
        else:  # of 1 − Σ q_y, and of q_y for the others: see `pairwise_program`
            messages.append(sent[0] + sent[others].sum(axis=0))
    single = [tables[i,] for i in features]
    pairs = [tables[pair] for pair in combinations(features, 2)]  # as in the layout
    parts = {"single": single, "pair": pairs, "messages": messages}
    return {name: _whole(arrays) for name, arrays in parts.items()}


def _whole(arrays: list[Floats]) -> list[int]:
    flat = np.concatenate([np.empty(0), *(array.ravel() for array in arrays)])
    return [int(v) for v in np.rint(flat * float(verify.UNIT)).tolist()]


# ---- an exact witness


def _witness(worst: WorstDistribution, n: int) -> dict[str, Any] | None:
    """Return outcomes with exact probabilities, or None if there are none."""
    rows, answers = np.nonzero(worst.p > 0)
    weights = exact_weights(worst.ambiguity, worst.outcomes, worst.p, n)
    if weights is None:
        return None
    whole = math.lcm(*(w.denominator for w in weights))
    listed = np.column_stack([worst.outcomes[rows], answers]).tolist()
    outcomes = [
        [*cells, f"{int(w * whole):x}"]
        for cells, w in zip(listed, weights, strict=True)
        if w
    ]
    return {"rows": f"{whole * n:x}", "outcomes": outcomes}


def exact_weights(
    ambiguity: Ambiguity, outcomes: Outcomes, p: Floats, n: int
) -> list[Fraction] | None:
    """Return weights near n p, where p > 0, that fit the tables of n rows exactly."""
    support = np.flatnonzero(p.ravel() > 0)
    A = ambiguity.constraint_matrix(outcomes)[:, support].toarray().astype(np.int64)
    counts = np.rint(ambiguity.b * n).astype(np.int64)
    order = np.argsort(-p.ravel()[support], kind="stable")
    rows, basis = _pivots(A[:, order])
    basis = order[basis]
    if len(basis) > _MOST_EQUATIONS:
        return None
    grid = np.rint(p.ravel()[support] * n * _GRID).astype(np.int64)
    grid[basis] = 0
    rest = counts * _GRID - A @ grid
    solved = _solve(A[np.ix_(rows, basis)], rest[rows])
    if solved is None:
        return None
    weights = [Fraction(int(w), _GRID) for w in grid]
    for k, w in zip(basis.tolist(), solved, strict=True):
        weights[k] = w / _GRID
    return weights if _fits(A, counts, weights) and min(weights) >= 0 else None


def _pivots(A: Integers) -> tuple[Integers, Integers]:
    """Return rows and columns of a largest regular part; prefer the first columns."""
    left = A % _PRIME
    rows = []
    columns = []
    free = np.ones(len(left), bool)
    for c in range(left.shape[1]):
        nonzero = np.flatnonzero(left[:, c] * free)
        if not len(nonzero):
            continue
        r = int(nonzero[0])
        free[r] = False
        rows.append(r)
        columns.append(c)
        factor = left[:, c] * pow(int(left[r, c]), -1, _PRIME) % _PRIME * free
        some = np.flatnonzero(factor)
        if len(some):
            left[some, c:] -= factor[some, None] * left[r, c:] % _PRIME
            left[some, c:] %= _PRIME
    return np.array(rows, np.int64), np.array(columns, np.int64)


def _inverse(A: Integers) -> Integers:
    """Return the inverse modulo the prime."""
    size = len(A)
    both = np.hstack([A % _PRIME, np.eye(size, dtype=np.int64)])
    for c in range(size):
        r = c + int(np.flatnonzero(both[c:, c])[0])
        both[[c, r]] = both[[r, c]]
        both[c] = both[c] * pow(int(both[c, c]), -1, _PRIME) % _PRIME
        others = np.flatnonzero(both[:, c])
        others = others[others != c]
        both[others] = (
            both[others] - both[others, c][:, None] * both[c] % _PRIME
        ) % _PRIME
    return both[:, size:]


def _solve(A: Integers, b: Integers) -> list[Fraction] | None:
    """Solve A x = b in rational numbers, digit by digit of x modulo the prime."""
    if not len(A):
        return []
    inverse = _inverse(A)
    high = inverse >> 16
    low = inverse & 0xFFFF
    rest = b.copy()
    digits = [0] * len(A)
    power = 1
    tried = 4
    for step in range(1, _MOST_DIGITS + 1):
        r = rest % _PRIME
        digit = ((high @ r % _PRIME << 16) + low @ r) % _PRIME
        digits = [x + power * d for x, d in zip(digits, digit.tolist(), strict=True)]
        power *= _PRIME
        rest = (rest - A @ digit) // _PRIME
        if step == tried:
            solution = _rational(digits, power)
            if solution is not None and _fits(A, b, solution):
                return solution
            tried *= 2
    return None


def _rational(digits: list[int], power: int) -> list[Fraction] | None:
    """Return fractions whose numerator and denominator are below √(power/2)."""
    most = math.isqrt(power // 2)
    common = 1
    fractions = []
    for x in digits:
        a = power
        b = x * common % power
        s = 0
        t = 1
        b = b - power if b > power // 2 else b
        if abs(b) > most:
            b %= power
            while b > most:
                a, b, s, t = b, a % b, t, s - a // b * t
            if abs(t) > most or t == 0:
                return None
            b, t = (b, t) if t > 0 else (-b, -t)
            fractions.append(Fraction(b, t * common))
            common *= t
        else:
            fractions.append(Fraction(b, common))
    return fractions


def _fits(A: Integers, b: Integers, x: list[Fraction]) -> bool:
    """Return whether A x = b exactly."""
    whole = math.lcm(*(v.denominator for v in x))
    scaled = np.array([int(v * whole) for v in x], object)
    return bool((A.astype(object) @ scaled == b.astype(object) * whole).all())
