"""Check what renyi claims, exactly, by this file and Python alone.

    python verify.py [MODEL.json] MARGINALS.renyi [--proof PROOF.json]

The answer is "proved" (exit code 0), "not proved" (1) or "wrong file" (2). E is a mean
over ANY population with the pair counts of the marginals: they determine every E here.
A model gives class y the score s_y = b_y + the points of a row's categories; K classes,
t_y = 1/K + s_y, s the mean of the s_y. Rules renyi and sharp err at most B = 2 gamma =
E|t - e_Y|². Rule map, the largest score, errs at most 2B, and 2(1 - 1/K - L²/V), where
V = E[sum of (s_y - s)²], L = max(0, E[s_Y - s]). With pairs counted within each class
it misses each class at most so; for two classes this is Cantelli's inequality.
A proof is of ANY rule. Upper: functions l_y(x), sums of a number for each cell of each
table, that for every set S of classes add up to |S| - 1 or more, at every x. Then rules
that answer y with probability 1 - l_y or more err at most E[l_Y]. Messages, whatever
they are, move numbers between tables; then the least cells of all tables are added up,
and what is lacking is added to l. Lower: outcomes with probabilities whose counts are
EXACTLY the given ones, a population on which every rule errs as often as told, or more.
Counts are whole, points are binary fractions: nothing is rounded. So are the scores; a
computer that adds floats may decide a near-tie otherwise.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import zipfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, combinations, product
from math import lcm
from operator import mul
from os.path import isfile
from typing import Any

BYTES, LISTS, CELLS, STEPS = 2**25, 10**6, 2**22, 10**7  # the most of each
UNIT = 2**50  # numbers of a proof are whole multiples of 1/UNIT
EVERY, NO = -2, -1  # categories that all rows have, and none


def check(holds: Any, why: str, answer: int = 2) -> None:
    """End with an answer unless something holds."""
    if not holds:
        raise AssertionError(answer, why)


def dot(first: Any, second: Any) -> Any:
    """Return the sum of products."""
    return sum(map(mul, first, second))


def once(pairs: Any) -> dict[str, Any]:
    """Return a JSON object that gives no name twice."""
    check(len(dict(pairs)) == len(pairs), "it gives a name twice")
    return dict(pairs)


def parse(raw: bytes, kind: str) -> Any:
    """Return a JSON object; it has a checksum, as have the parts of marginals."""
    small = len(raw) <= BYTES and raw.count(b"[") + raw.count(b"{") <= LISTS
    check(small, "it is too large to be checked here")
    data = json.loads(raw.decode(), object_pairs_hook=once)
    check(data["format"] == kind and data["version"] in (1, 2, 3), f"it is no {kind}")
    plain = {key: value for key, value in data.items() if key != "checksum"}
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True)
    total = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    check(kind == "renyi-marginals" or data["checksum"] == total, "it was altered")
    return data


def text_of(label: Any) -> Any:
    """Return the text that labels are compared by: 1, 1.0 and "1" are one label."""
    whole = isinstance(label, float) and label.is_integer()
    return None if label is None else str(int(label) if whole else label)


def described(data: Any) -> dict[str, Any]:
    """Return the labels (as texts), kind, bins and merged labels of each column."""
    levels = [(v, [*map(text_of, v["categories"])]) for v in data["levels"]]
    found = [(t, v["kind"], v.get("edges", []), v.get("rare", [])) for v, t in levels]
    return {k: found[at] for k, at in zip(data["names"], data["which"], strict=True)}


def whole(raw: bytes, kind: str) -> list[int]:
    """Return numbers, all of which must be whole."""
    numbers = struct.unpack(f"<{len(raw) // 8}{kind}", raw)
    check(kind == "q" or all(map(float.is_integer, numbers)), "fractional weights", 1)
    return [*map(int, numbers)]


def table(flat: Any, width: int, places: list[int], n: int) -> list[list[int]]:
    """Return counts of all pairs of places in a square; they may be EVERY or NO."""
    check(len(flat) == width**2, "its counts do not fit its columns")
    square = (flat[k * width : k * width + width] for k in range(width))
    rows = [[*row, row[k], 0] for k, row in enumerate(square)]
    rows += [[*(row[EVERY] for row in rows), n, 0], [0] * (width + 2)]
    return [[rows[a][b] for b in places] for a in places]


class Counts:
    """Counts of pairs of categories: of features, of the target, and of all rows."""

    def __init__(self, path: str, wanted: Any) -> None:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            for part in parts:  # zip cannot expand a part more than 1032 times
                small = part.file_size <= min(8 * CELLS, 1032 * part.compress_size)
                check(small and len(parts) < 4, "it is too large to be checked here", 1)
            npy = {part.filename: archive.read(part) for part in parts}
        raw = {k[:-4]: v[10 + v[8] + 256 * v[9] :] for k, v in npy.items()}
        header = parse(raw.pop("header"), "renyi-marginals")
        form = "qd"[b"<f8" in npy["counts.npy"][:99]]
        flat = {name: whole(each, form) for name, each in raw.items()}
        check(header["version"] == 1, "it is sparse, which cannot be checked here", 1)
        self.encoder, self.target = header["encoder"], header["target"]
        self.n, self.columns = int(header["n"]), described(header["columns"])
        sizes = {name: len(column[0]) for name, column in self.columns.items()}
        start = dict(zip(sizes, accumulate(sizes.values(), initial=0)))
        self.names = sorted({*(wanted or sizes)} - {self.target})
        places, self.blocks, heads = [], [], []
        for name in [*self.names, self.target]:  # labels in the order of their texts
            texts, kind, edges, rare = self.columns[name]
            by = [(t is None, "(missing)" if t is None else t) for t in texts]
            key = by.__getitem__ if kind == "label" else None
            order = sorted(range(len(by)), key=key)
            shown = [by[k][1] for k in order] * (kind == "label")
            hexed = [float(edge).hex() for edge in edges]
            heads.append(json.dumps([kind, shown, hexed, by[-1][0]]))
            self.columns[name] = [texts[k] for k in order], kind, edges, rare
            self.blocks.append(range(len(places), len(places) + len(order)))
            places += [start[name] + k for k in order]
        self.blocks.append(range(len(places), len(places) + 1))
        self.classes, first = self.columns[self.target][0], start[self.target]
        D, K = sum(sizes.values()), len(self.classes)
        self.pairs, self.within = table(flat["counts"], D, [*places, EVERY], self.n), []
        less = [k - K * (k > first) for k in places[:-K]]  # without the target
        for y, k in enumerate(places[-K:] if "class_counts" in flat else []):
            only, size = [EVERY if y == j else NO for j in range(K)], (D - K) ** 2
            block = flat["class_counts"][(k - first) * size :][:size]
            n = self.pairs[y - K - 1][-1]
            self.within.append(table(block, D - K, [*less, *only, EVERY], n))
        head = [[self.names, heads[:-1]], [[""], heads[-1:]], []]
        text = "".join(map(json.dumps, head)) + str(self.n)
        total = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
        for row in self.pairs[:-1]:
            total.update(struct.pack(f"<{len(places)}q", *row[:-1]))
        self.digest = total.hexdigest()

    def agree(self) -> bool:
        """Whether the counts agree with each other exactly, as those of rows do."""
        sums = [[*map(sum, zip(*rows))] for rows in zip(*self.within)]
        good = self.n > 0 and sums in ([], self.pairs)
        for counts in [self.pairs, *self.within]:
            sums = [{sum(row[b.start : b.stop]) for b in self.blocks} for row in counts]
            good &= sums == [{row[a]} for a, row in enumerate(counts)]
            good &= [*map(list, zip(*counts))] == counts and min(map(min, counts)) >= 0
        return good

    def points(self, card: Any, how: Any = None) -> tuple[int, Any, list[int]]:
        """Return a unit, the points of each class in units, and where each class is."""
        encoder, K = card["encoder"], len(card["classes"])
        missing = {*map(text_of, encoder["missing"])}
        same = missing == {*map(text_of, self.encoder["missing"])}
        same &= encoder.get("base") == self.encoder.get("base")
        unseen = [row if K > 2 else row[0] for row in card.get("unseen", ())]
        z = [*card["z"], *unseen, card["intercept"]]
        z = [row if K > 2 else [-row, row] for row in z]
        rows = [card["counts"], *([*how["slope"], how["intercept"]] if how else []), *z]
        weights, *z = [[Fraction(*v.as_integer_ratio()) for v in row] for row in rows]
        if how:  # scores are mapped: slope and intercept of each class
            slope, z = z[: K + 1], [*z[K + 1 : -1], [*z[-1], 1]]
            z = [[dot(row, column) for column in zip(*slope)] for row in z]
            same &= len(how["slope"]) == K
        columns, found, at = described(encoder["columns"]), {}, 0
        same &= len(unseen) in (0, len(columns))
        rest = iter(z[len(weights) : -1])
        for name, (texts, *about) in columns.items():
            theirs, *others = self.columns[name]
            share, own = (v[at : at + len(texts)] for v in (weights, z))
            mean = next(rest, [dot(share, v) / sum(share) for v in zip(*own)])  # unseen
            known, at = {None: mean, **dict(zip(texts, own))}, at + len(texts)
            if free := about[0] == "label" and "base" not in encoder:
                known |= {text_of(v): known.get("(rare)", mean) for v in about[2]}
                known |= dict.fromkeys(missing, known[None])
            rare = [known.get(text_of(v), mean) for v in about[2]]
            same &= about == others and all(v == known.get("(rare)") for v in rare)
            if about[0] == "number":  # bins go by their places
                same &= [*filter(None, theirs)] == [*filter(None, texts)]
            same &= free or {*theirs} <= {*texts, None}
            check(same, f"column {name!r:.60} is encoded otherwise than in the model")
            found[name] = [known.get(text, mean) for text in theirs]
        rows = [row for name in self.names for row in found[name]]
        rows += [[Fraction()] * K] * len(self.classes) + z[-1:]
        unit = lcm(*(v.denominator for row in rows for v in row))
        good = len(z) - len(unseen) - 1 == at == len(weights) and unit < 2**9999
        check(good and {*map(len, rows)} == {K}, "the points do not fit the columns")
        places = {text_of(label): y for y, label in enumerate(card["classes"])}
        own = [places[text] for text in self.classes]
        return unit, [[int(v * unit) for v in row] for row in zip(*rows)], own

    def bounds(self, unit: int, f: Any, own: list[int]) -> dict[str, Fraction]:
        """Return gamma and the bounds of the rules."""
        part, whole = Fraction(1, len(f)), [*map(sum, zip(*f))]

        def moments(counts: Any, rows: Any, own: list[int]) -> tuple[Any, Any]:
            n, mean = counts[-1][-1], part * dot(counts[-1], whole)
            *each, both = (dot(g, [dot(row, g) for row in counts]) for g in [*f, whole])
            L = sum(dot(row, f[y]) for row, y in zip(rows, own)) - mean
            B = Fraction(sum(each), n * unit**2) - 2 * L / (n * unit) + 1 - part
            V = n * (sum(each) - part * both)
            return B, 2 * (1 - part - (max(L, 0) ** 2 / V if V else 0))

        B, best = moments(self.pairs, self.pairs[-1 - len(own) :], own)
        check(min(B, best) >= 0, "no population has these counts")
        missed = Fraction(0 if self.within else self.n)
        for counts, y in zip(self.within, own):
            if n := counts[-1][-1]:
                missed += n * min(1, moments(counts, counts[-1:], [y])[1])
        best, most = min(best, 2 * B, missed / self.n), min(B, Fraction(1))
        return {"gamma": B / 2, "map": best, "renyi": most, "sharp": most}

    def of_model(self, card: Any) -> dict[str, Fraction]:
        """Return gamma and bounds of a model; its map may compare other scores."""
        exact, how = self.bounds(*self.points(card)), card.get("calibration") or {}
        if how.get("kind", "temperature") != "temperature":
            exact["map"] = self.bounds(*self.points(card, how))["map"]
        return exact

    def upper(self, proof: Any) -> Fraction:
        """Return the error that the rule of the functions l_y does not exceed."""
        K, blocks, sent = len(self.classes), self.blocks[:-2], iter(proof["messages"])
        cells = [(a, b) for i, j in combinations(blocks, 2) for a in i for b in j]
        one, two = [proof["single"][y::K] for y in range(K)], proof["pair"]
        fits = {*map(len, one)} == {blocks[-1].stop} and len(two) == len(cells)
        fits &= {type(v) for part in proof.values() for v in part} == {int}
        check(fits and 2**K * len(cells) < STEPS, "its numbers do not fit")
        mean, lack = dot(two, [self.pairs[a][b] for a, b in cells]), Fraction()
        mean += sum(map(dot, one, self.pairs[-1 - K :]))  # of l_Y, times n
        for S in range(1, 2**K):
            ys = [y for y in range(K) if S >> y & 1]
            left = [*map(sum, zip(*(one[y] for y in ys)))]
            low, rest = UNIT * (1 - len(ys)), (len(ys) * v for v in two)
            for i, j in combinations(blocks, 2):
                m = {a: next(sent) for a in (*i, *j)}
                cell = {(a, b): next(rest) - m[a] - m[b] for a in i for b in j}
                low += min(v for (a, b), v in cell.items() if self.pairs[a][b])
                for a in m:
                    left[a] += m[a]
            low += sum(min(left[a] for a in i if self.pairs[a][a]) for i in blocks)
            lack = max(lack, Fraction(-low, len(ys)))
        return (mean + self.n * lack) / (self.n * UNIT)

    def lower(self, proof: Any) -> Fraction:
        """Return the Bayes error of a population that has these counts exactly."""
        n, sums, mass = int(proof["rows"], 16), Counter(), {}
        short = len(proof["outcomes"]) * len(self.blocks) ** 2 < STEPS
        for *codes, y, text in proof["outcomes"] if short else ():
            places = zip(self.blocks, [*codes, y, 0], strict=True)
            weight = int(text, 16) if len(text) < 9_999 else 0
            check(weight > 0 and min(*codes, y) >= 0, "its outcomes are not valid")
            mass.setdefault(tuple(codes), Counter())[y] += weight
            for cell in product([block[k] for block, k in places], repeat=2):
                sums[cell] += weight
        cells = product(range(len(self.pairs)), repeat=2)
        same = all(sums[a, b] * self.n == self.pairs[a][b] * n for a, b in cells)
        check(same, "its outcomes have other counts", 1)
        return Fraction(sum(m.total() - max(m.values()) for m in mass.values()), n)


def answer(marginals: str, model: str = "", proof: str = "") -> tuple[int, str, Any]:
    """Return 0, 1 or 2, why, and claims: what, the number, the exact one, if proved."""
    at, found, M, P = marginals, [], {}, {}
    try:
        for at in filter(None, (model, proof, marginals)):
            check(isfile(at), "there is no such file")
            with open(at, "rb") as stream:
                raw = stream.read(BYTES + 1) if at != marginals else b""
            M = parse(raw, "renyi-model") if at == model else M
            P = parse(raw, "renyi-proof") if at == proof else P
        claimed, card = P["claims"] if P else M.get("certificate"), M.get("scorecard")
        C = Counts(at, card["encoder"]["columns"]["names"] if M else P["features"])
        same = "y" in (M.get("target", "y"), C.target) or M["target"] == C.target
        named = P["digest"] if P else (M.get("data_digest") or {}).get("pairs")
        check(same and named in (None, C.digest), "these are not the counts meant")
        check(C.agree(), "its counts do not agree with each other exactly", 1)
        check(claimed and (M or "gamma" not in claimed), "nothing is claimed of it", 1)
        check(claimed.get("basis") in (None, "marginals"), "it speaks of samples", 1)
        if "gamma" in claimed:
            exact = C.of_model(card)
            each = {"gamma": claimed["gamma"], **claimed["bounds"]}
            found = [(k, v, exact[k], exact[k] <= v) for k, v in each.items()]
        for what in (key for key in ("upper", "lower") if key in claimed):
            bound, number = getattr(C, what)(P[what]), claimed[what]
            holds = bound <= number if what == "upper" else bound >= number
            found.append((f"{what}, any rule", number, bound, holds))
    except Exception as error:
        known = type(error) is AssertionError
        code, why = error.args if known else (2, f"it is not valid ({error!r:.60})")
        return code, f"{at}: {why}", []
    return int(not (found and all(row[3] for row in found))), "", found


def told(code: int, why: str, found: Any) -> str:
    """Return the claims, with exact numbers to 28 digits, and the answer as text."""
    lines = [f"{'claim':<16} {'claimed':<22} exact"] if found else []
    for what, number, exact, holds in found:
        digits = str(Decimal(exact.numerator) / exact.denominator)
        digits += "" if holds else ", not proved"
        lines.append(f"{what:<16} {number!r:<22} {digits}")
    lines.append(("proved", "not proved", "wrong file")[code] + (why and f": {why}"))
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Check the files that are named; print and return the answer."""
    proof = argv.pop(argv.index("--proof") + 1) if "--proof" in argv else ""
    *model, marginals = (name for name in argv if name != "--proof")
    found = answer(marginals, *model, proof=proof)
    print(told(*found))
    return found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
