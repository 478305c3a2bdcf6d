"""Check the numbers of a certificate exactly, by this file and Python alone.

    python verify.py [MODEL.json] MARGINALS.renyi [--proof PROOF.json]

The answer is "proved" (exit code 0), "not proved" (1) or "wrong file" (2). E is a mean
over ANY population with these pair counts: they determine every E here. K classes. A
model gives class y the score s_y = b_y + the points of a row's categories. Let
t_y = 1/K + s_y, and s the mean of the s_y. The error of rules renyi and sharp is at
most B = 2 gamma = E|t - e_Y|². That of rule map, the largest score, is for every b at
most 2 b² V + the sum of P(y) f(b m_y). Here V is the sum of E[(s_y - s)²], and m_y the
mean of s_y - s in class y. With k = 1 - 1/K, f(u) is -2u²/k for u >= k, else 2k - 4u,
at most 1. Pairs that are counted within each class give bounds within each class.
A proof is about ANY rule. Upper bound: functions l_y(x) are sums of one number for each
cell of each table. For every set S of classes they add up to |S| - 1 or more, at every
x. Then rules that answer y with probability 1 - l_y or more have an error of at most
E[l_Y]. Messages move numbers between tables, and the least cells of these are added up;
what is missing is added to l. Lower bound: outcomes with EXACTLY these counts, for
which no rule has a smaller error.
A computer adds up scores in floating point. Each is off by at most e: 2**-52, times
(1 + the sum of its largest points), times (4 + the number of columns). The bounds of
a model hold for any t' with |t' - t| <= e: B becomes (B**0.5 + e K**0.5)**2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import zipfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, combinations, product
from math import isqrt
from operator import add, ge, le, mul
from pathlib import Path
from typing import Any, NamedTuple

BYTES = 2**25  # limits of what is read
LISTS = 10**6
STEPS = 10**7
UNIT = 2**50  # numbers of a proof are whole multiples of 1/UNIT


def check(holds: object, why: str, answer: int = 2) -> None:
    """Raise AssertionError with an answer unless `holds`."""
    if not holds:
        raise AssertionError(answer, why)


def dot(first: Any, second: Any) -> Any:
    """Return the sum of products."""
    return sum(map(mul, first, second))


def once(pairs: Any) -> dict[str, Any]:
    """Return a JSON object; reject one that gives a name twice."""
    check(len(dict(pairs)) == len(pairs), "it gives a name twice")
    return dict(pairs)


def parse(raw: bytes, kind: str) -> Any:
    """Parse a JSON object of a given kind; check the checksum of models and proofs."""
    check(raw.count(b"[") + raw.count(b"{") <= LISTS, "it is too large")
    data = json.loads(raw.decode(), object_pairs_hook=once)
    right = data["format"] == kind and data["version"] in (1, 2, 3)
    check(right, f"it is not a {kind}")
    plain = {key: value for key, value in data.items() if key != "checksum"}
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True)
    total = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    check(kind == "renyi-marginals" or data["checksum"] == total, "it was altered")
    return data


def described(columns: Any, encoder: Any) -> dict[str, Any]:
    """Return, by column, the number of categories and how cells are encoded."""
    how = json.dumps([encoder["missing"], encoder.get("base")], sort_keys=True)
    levels = columns["levels"]
    names = columns["names"]
    each = [(len(v["categories"]), json.dumps(v, sort_keys=True), how) for v in levels]
    return once([(k, each[at]) for k, at in zip(names, columns["which"], strict=True)])


def root(v: Fraction) -> Fraction:
    """Return a fraction slightly above the square root, or equal to it."""
    return Fraction(isqrt(v.numerator * v.denominator << 160) + 1, v.denominator << 80)


def least(each: Any, V: Fraction, k: Fraction) -> Fraction:
    """Return the least bound of map over b; `each` class has P(y) and m_y."""
    bounds = [Fraction(1)]
    for b in [v / m for _, m in each if m > 0 for v in (k / 2 - Fraction(1, 4), k)]:
        near = [(p, m) for p, m in each if m > 0 and 2 * k - 1 <= 4 * b * m < 4 * k]
        far = [(p, m) for p, m in each if b * m >= k]  # also if b is larger
        slope = sum(p * m for p, m in near)
        width = V - sum(p * m * m for p, m in far) / k
        b = max(b, slope / width) if width > 0 else b
        fixed = 1 + (2 * k - 1) * sum(p for p, _ in near) - sum(p for p, _ in far)
        bounds.append(2 * b * (b * width - 2 * slope) + fixed)
    return min(bounds)


class Scores(NamedTuple):
    """Points of each class in multiples of 1/unit; the largest rounding error."""

    points: list[list[int]]
    unit: int
    error: Fraction


class Counts:
    """Pair counts of the features, and of the features with the classes."""

    def __init__(self, path: str) -> None:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()  # methods but 0 and 8 may unpack to any size
            size = sum(p.file_size + BYTES * (p.compress_type % 8) for p in parts)
            check(size <= BYTES, "it is too large to be checked here", 1)
            npy = once([(p.filename, archive.open(p).read(p.file_size)) for p in parts])
        raw = {name: v[10 + v[8] + 256 * v[9] :] for name, v in npy.items()}
        header = parse(raw.pop("header.npy"), "renyi-marginals")
        form = {k: "dq"[b"<i8', 'fortran_order': F" in v[:50]] for k, v in npy.items()}
        flat = {k: struct.unpack(f"<{len(v) // 8}{form[k]}", v) for k, v in raw.items()}
        every = flat["counts.npy"]
        inner = flat.get("class_counts.npy", ())
        numbers = [*map(int, every + inner)]
        whole = numbers == [*every, *inner] and header["version"] == 1
        check(whole, "it is weighted or sparse, which is not checked here", 1)
        self.columns = described(header["columns"], header["encoder"])
        ends = [*accumulate((size for size, *_ in self.columns.values()), initial=0)]
        self.blocks = [*map(range, ends, ends[1:])]
        D, width = ends[-2:]
        check(len(every) == width**2, "its counts do not fit its columns")
        check((width - D) * size < 2**29, "it has too many classes", 1)
        self.target, (_, level, _) = self.columns.popitem()
        check(self.target == header["target"], "its target is not its last column", 1)
        self.classes = json.dumps(json.loads(level)["categories"])
        self.table = [numbers[k * width : (k + 1) * width] for k in range(width)]
        self.n = sum(self.table[a][a] for a in self.blocks[-1])
        self.rows = header["n"]
        self.pairs = [row[:D] for row in self.table[:D]]
        self.by_class = [row[:D] for row in self.table[D:]]
        rows = [numbers[k : k + D] for k in range(width**2, len(numbers), D)]
        self.within = [rows[k : k + D] for k in range(0, len(rows), D)]

    def agree(self) -> bool:
        """Return whether the counts agree with each other exactly."""
        good = self.n == self.rows > 0
        for table in [self.table, *self.within]:
            blocks = [block for block in self.blocks if block.stop <= len(table)]
            for a, row in enumerate(table):
                good &= min(row) >= 0 and row == [other[a] for other in table]
                good &= {sum(row[b.start : b.stop]) for b in blocks} == {row[a]}
        alone = [[row[a] for a, row in enumerate(table)] for table in self.within]
        sums = [[*map(sum, zip(*rows))] for rows in zip(*self.within)]
        return good and (alone, sums) in (([], []), (self.by_class, self.pairs))

    def points(self, card: Any) -> tuple[Scores, Scores]:
        """Return the points of the scores s, and of the scores that rule map uses."""
        theirs = described(card["encoder"]["columns"], card["encoder"])
        check([*theirs.items()] == [*self.columns.items()], "it has other categories")
        check(json.dumps(card["classes"]) == self.classes, "it has other classes")
        K = len(self.by_class)
        D = len(self.pairs)
        how = card.get("calibration")
        if not how or type(how["slope"]) is not list:  # one slope
            check(not how or how["slope"] > 0, "its slope is not positive")
            unity = [[int(a == b) for a in range(K)] for b in range(K)]
            shift = how["intercept"] / how["slope"] if how else 0
            how = {"slope": unity, "intercept": [-shift, *[shift] * (K - 1)]}
        z = [row if K > 2 else [-row, row] for row in [*card["z"], card["intercept"]]]
        rows = [*z, *how["slope"], how["intercept"]]
        fits = len(rows) == D + K + 2 and {*map(len, rows)} == {K}
        check(fits, "its points do not fit")
        exact = [[Fraction(*v.as_integer_ratio()) for v in row] for row in rows]
        z = exact[: D + 1]
        slope = [*zip(*exact[D + 1 : -1], strict=True)]
        mapped = [[dot(row, column) for column in slope] for row in z]
        mapped[-1] = [*map(add, mapped[-1], exact[-1])]
        reach = self.reach(z)
        moved = [dot(reach, map(abs, column)) for column in slope]
        total = max(map(add, moved, map(abs, exact[-1])))
        return self.scores(z, max(reach), 0), self.scores(mapped, total, K)

    def reach(self, z: Any) -> list[Fraction]:
        """Return the largest sum of absolute points of any row, by class."""
        each = [z[block.start : block.stop] for block in self.blocks[:-1]]
        most = [[max(map(abs, column)) for column in zip(*rows)] for rows in each]
        return [sum(column) + abs(start) for *column, start in zip(*most, z[-1])]

    def scores(self, z: Any, reach: Fraction, more: int) -> Scores:
        """Return whole points in a unit; the first column includes the intercept."""
        first = len(self.blocks[0])
        rows = [[*map(add, row, z[-1])] for row in z[:first]] + z[first:-1]
        unit = max(v.denominator for row in rows for v in row)  # a power of two
        points = [[int(v * unit) for v in column] for column in zip(*rows)]
        error = Fraction(len(self.columns) + more + 4, 2**52) * (reach + 1)
        return Scores(points, unit, error)

    def closed(self, s: Scores, pairs: Any, by_class: Any) -> tuple[Any, Any]:
        """Return B and the bound of map, both with room for rounding of the scores."""
        K = len(s.points)
        k = Fraction(K - 1, K)
        n = sum(counts := [sum(row[: len(self.blocks[0])]) for row in by_class])
        total = [*map(sum, zip(*s.points))]
        squares = [dot(f, [dot(row, f) for row in pairs]) for f in [*s.points, total]]
        V = (sum(squares[:K]) - Fraction(squares[K], K)) / (n * s.unit**2)
        rows = zip(by_class, s.points)
        means = [dot(row, f) - Fraction(dot(row, total), K) for row, f in rows]
        L = sum(means) / (n * s.unit)
        B = Fraction(sum(squares[:K]), n * s.unit**2) - 2 * L + k
        check(B >= 0 <= V and L * abs(L) <= k * V, "no population has these counts")
        # Where map is wrong, t_k >= t_Y - 2e for some k: it also is if t_Y is 2e lower.
        e = s.error
        both = zip(counts, means)
        each = [(Fraction(c, n), m / (c * s.unit) - 2 * e * k) for c, m in both if c]
        best = least(each, V - 4 * e * L + 4 * e**2 * k, k)
        return (root(B) + root(Fraction(K)) * e) ** 2, best

    def bounds(self, card: Any) -> dict[str, Fraction]:
        """Return gamma and the bounds of a model's rules."""
        scores, deciding = self.points(card)
        B, _ = self.closed(scores, self.pairs, self.by_class)
        _, best = self.closed(deciding, self.pairs, self.by_class)
        missed = Fraction(0 if self.within else self.n)
        for y, pairs in enumerate(self.within):
            rows = [[v * (k == y) for v in row] for k, row in enumerate(self.by_class)]
            n = sum(rows[y]) // len(self.columns)
            missed += n * self.closed(deciding, pairs, rows)[1] if n else 0
        best = min(best, missed / self.n)
        most = min(B, Fraction(1))
        return {"gamma": B / 2, "map": best, "renyi": most, "sharp": most}

    def upper(self, proof: Any) -> Fraction:
        """Return an upper bound on the error of the rule of the functions l_y."""
        K = len(self.by_class)
        blocks = self.blocks[:-1]
        cells = [(a, b) for i, j in combinations(blocks, 2) for a in i for b in j]
        whole = {type(v) for part in proof.values() for v in part} == {int}
        check(whole and len(cells) + K * len(self.pairs) < STEPS >> K, "it is too long")
        one = [proof["single"][y::K] for y in range(K)]
        two = dict(zip(cells, proof["pair"], strict=True))
        mean = sum(v * self.pairs[a][b] for (a, b), v in two.items())  # of l_Y, times n
        mean += sum(map(dot, one, self.by_class))
        sent = iter(proof["messages"])
        lack = Fraction()
        for S in range(1, 2**K):
            ys = [y for y in range(K) if S >> y & 1]
            left = [*map(sum, zip(*(one[y] for y in ys)))]
            low = UNIT * (1 - len(ys))
            for i, j in combinations(blocks, 2):
                m = {a: next(sent) for a in (*i, *j)}
                some = ((a, b) for a in i for b in j if self.pairs[a][b])
                low += min(len(ys) * two[a, b] - m[a] - m[b] for a, b in some)
                left = [v + m.get(a, 0) for a, v in enumerate(left)]
            low += sum(min(left[a] for a in i if self.pairs[a][a]) for i in blocks)
            lack = max(lack, Fraction(-low, len(ys)))
        return Fraction(mean + self.n * lack, self.n * UNIT)

    def lower(self, proof: Any) -> Fraction:
        """Return the Bayes error of a population that has these counts exactly."""
        n = int(proof["rows"], 16)
        sums = Counter[Any]()
        mass = dict[Any, Any]()
        check(len(proof["outcomes"]) * len(self.blocks) ** 2 < STEPS, "it is too long")
        for *codes, y, text in proof["outcomes"]:
            weight = int(text, 16) if len(text) < 9_999 else 0
            check(weight > 0 and min(*codes, y) >= 0, "its outcomes are not valid")
            mass.setdefault(tuple(codes), Counter())[y] += weight
            own = zip(self.blocks, [*codes, y], strict=True)
            for cell in product([block[k] for block, k in own], repeat=2):
                sums[cell] += weight
        cells = product(range(len(self.table)), repeat=2)
        same = all(sums[a, b] * self.n == self.table[a][b] * n for a, b in cells)
        check(same, "its outcomes have other counts", 1)
        return Fraction(sum(m.total() - max(m.values()) for m in mass.values()), n)


def answer(marginals: str, model: str = "", proof: str = "") -> tuple[int, str, Any]:
    """Return 0, 1 or 2, why, and rows of (name, stated number, exact one, proved)."""
    at = marginals
    claims = []
    read = []
    try:
        for at, kind in (marginals, ""), (model, "renyi-model"), (proof, "renyi-proof"):
            small = not at or Path(at).is_file() and Path(at).stat().st_size <= BYTES
            check(small, "there is no such file, or it is too large")
            read.append(parse(Path(at).read_bytes(), kind) if at and kind else {})
        at = marginals
        check(model or proof, "give a model (.json) or a --proof, then counts (.renyi)")
        check(zipfile.is_zipfile(at), "it does not contain counts (.renyi)")
        at = proof or model
        (_, M, P) = read
        claimed = (P["claims"] if P else M.get("certificate")) or {}
        about = claimed.get("basis", "marginals") == "marginals"
        check(about, "it is about rows or inexact counts, which is not checked here", 1)
        check({"gamma", "upper", "lower"} & {*claimed}, "it states no bound", 1)
        check(bool(M) == ("gamma" in claimed), "give the model it is about, or none", 1)
        at = marginals
        card = M.get("scorecard", {})
        C = Counts(at)
        alone = [row[a] for a, row in enumerate(C.pairs)]
        same = P["features"] == [*C.columns] if P else card["counts"] == alone
        same &= len({M.get("target"), C.target} - {None, "y"}) < 2
        check(same, "these are not the counts it is about")
        check(C.agree(), "its counts do not agree with each other exactly", 1)
        if "gamma" in claimed:
            exact = C.bounds(card)
            each = [("gamma", claimed["gamma"]), *claimed["bounds"].items()]
            stated = [(k, v, exact[k]) for k, v in each if v is not None]
            claims = [(*row, row[2] <= row[1]) for row in stated]
        at = proof or at
        for what, holds in ("upper", le), ("lower", ge):
            if what in claimed:
                v = claimed[what]
                bound = getattr(C, what)(P[what])
                claims.append((f"{what}, any rule", v, bound, holds(bound, v)))
    except Exception as error:
        known = type(error) is AssertionError and len(error.args) == 2
        code, why = error.args if known else (2, f"it is not valid ({error!r:.60})")
        return code, f"{at!r}: {why}", []
    return int(not all(row[3] for row in claims)), "", claims


def meaning(claims: Any, marginals: str) -> str:
    """Say in words what is proved; upper bounds are rounded up, lower ones down."""
    up = {what: f"{-(-1000 * exact // 1) / 10} %" for what, _, exact, _ in claims}
    down = {what: f"{1000 * exact // 1 / 10} %" for what, _, exact, _ in claims}
    texts = []
    if "map" in up:
        texts.append(f"the model is wrong on at most {up['map']} (rule map)")
    if "upper, any rule" in up:
        texts.append(f"some rule is wrong on at most {up['upper, any rule']}")
    if "lower, any rule" in up:
        texts.append(f"no rule can guarantee less than {down['lower, any rule']}")
    return f"in any population with the counts of {marginals} {'; '.join(texts)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Check a guarantee exactly.")
    parser.add_argument("model", nargs="?", default="", help="model (.json), or none")
    parser.add_argument("marginals", help="pair counts (.renyi)")
    parser.add_argument("--proof", default="", help="what --proof wrote (.json)")
    code, why, claims = answer(**vars(given := parser.parse_args()))
    for what, number, exact, _ in claims:
        print(what, number, Decimal(exact.numerator) / exact.denominator, sep=", ")
    why = why or (meaning(claims, given.marginals) if code == 0 else "")
    print(("proved", "not proved", "wrong file")[code], why, sep=": " if why else "")
    raise SystemExit(code)
