"""Proofs: exact numbers compared with certify, tiny tables, and hostile files."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import files, proofs, verify
from support.forgeries import GOLDEN, MARGINALS, MODEL, archive, golden_members

SETS = ("votes", "credit", "kr-vs-kp", "promoters", "adult")


@pytest.fixture
def sign(tmp_path):
    """Write a document with a checksum that agrees, and return its path."""

    def write(data, name="signed.json"):
        files.write_json(tmp_path / name, {**data, "checksum": None})
        return str(tmp_path / name)

    return write


def saved(folder, m, clf=None):
    """Write marginals and a model; return the paths."""
    m.save(folder / "m.renyi")
    if clf is not None:
        clf.save(folder / "clf.json")
    return str(folder / "m.renyi"), str(folder / "clf.json")


def drawn(seed, d=3, classes=2, n=60, labels=3):
    """Rows whose columns tell something of the class, names in no order."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {f"f{7 * i % 5}": rng.integers(0, labels, n).astype(str) for i in range(d)}
    )
    y = (X.astype(int).sum(axis=1) + rng.integers(0, 2, n)) % classes
    return X, pd.Series(y.astype(str), name="answer")


# ---- models


@pytest.mark.parametrize("name", SETS)
def test_certificates_of_the_bundled_sets_are_proved(tmp_path, name):
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y, class_conditional=True)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    code, why, found = verify.answer(*saved(tmp_path, m, clf))
    assert (code, why) == (0, "")
    c = renyi.certify(clf, m)
    exact = {what: float(value) for what, _, value, _ in found}
    assert exact.pop("gamma") == pytest.approx(c.gamma, abs=1e-9)
    assert exact == pytest.approx(dict(c.bounds), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_one_unit_in_the_last_place_decides(tmp_path, sign, classes):
    m = renyi.Marginals.from_data(*drawn(classes, classes=classes))
    clf = renyi.RenyiClassifier(alpha=0.01).fit_marginals(m)
    counts, model = saved(tmp_path, m, clf)
    code, _, found = verify.answer(counts, model)
    assert code == 0
    data = json.loads(Path(model).read_text("utf-8"))
    for what, _, exact, _ in found:
        above = float(exact)
        above = above if above >= exact else math.nextafter(above, 2)
        for number, due in ((above, 0), (math.nextafter(above, -1), 1)):
            c = json.loads(json.dumps(data["certificate"]))
            (c if what == "gamma" else c["bounds"])[what] = number
            forged = sign({**data, "certificate": c})
            assert verify.answer(counts, forged)[0] == due, what


def test_numbers_are_those_of_the_definition(tmp_path):
    X, y = drawn(5, classes=3)
    m = renyi.Marginals.from_data(X, y)
    clf = renyi.RenyiClassifier(alpha=0.1).fit_marginals(m)
    _, _, found = verify.answer(*saved(tmp_path, m, clf))
    t = clf.scorecard_.estimates(clf.encoder_.transform(X))
    own = pd.get_dummies(y).to_numpy(float)
    risk = ((t - own) ** 2).sum(axis=1).mean()
    assert float(found[0][2]) == pytest.approx(risk / 2, abs=1e-12)


def test_bounds_are_above_the_worst_case(tmp_path):
    for seed in range(3):
        m = renyi.Marginals.from_data(*drawn(seed), class_conditional=seed > 1)
        clf = renyi.RenyiClassifier().fit_marginals(m)
        counts, _ = saved(tmp_path, m, clf)
        C = verify.Counts(counts)
        exact = C.bounds(clf.scorecard_.to_dict())
        for rule in ("map", "renyi", "sharp"):
            worst = renyi.worst_case(clf, m, rule=rule)
            assert worst.lower <= exact[rule] + 1e-9


def test_foreign_categories_are_the_wrong_file(tmp_path):
    X, y = drawn(1, n=90)
    X.iloc[:9, 0] = "?"
    clf = renyi.RenyiClassifier(alpha=0.1).fit(X, y)
    Z, answers = drawn(2, n=70, labels=4)  # with a label that is new
    other = renyi.Marginals.from_data(Z, answers)
    assert verify.answer(*saved(tmp_path, other, clf))[0] == 2
    with pytest.raises(ValueError, match="No proof was written.*categories"):
        renyi.write_proof(tmp_path / "proof.json", other, clf)
    swapped = other.select([*Z.columns[::-1]])
    with pytest.raises(ValueError, match="No proof was written.*order"):
        renyi.write_proof(tmp_path / "proof.json", swapped, clf)


def test_the_same_counts_of_categories_in_other_pairs_prove_only_themselves(tmp_path):
    X, y = drawn(1, n=90)
    clf = renyi.RenyiClassifier().fit(X, y)
    X = X.assign(f0=X["f0"].to_numpy()[::-1])
    m = renyi.Marginals.from_data(X, y)
    code, _, found = verify.answer(*saved(tmp_path, m, clf))
    assert code == 1
    assert float(found[0][2]) == pytest.approx(renyi.certify(clf, m).gamma, abs=1e-12)


@pytest.mark.parametrize("change", ["rare", "missing", "bins", "edges"])
def test_columns_that_are_encoded_otherwise_are_refused(sign, change):
    data = json.loads(MODEL.read_text("utf-8"))
    del data["data_digest"]
    vote, age, town = data["scorecard"]["encoder"]["columns"]["levels"]
    if change == "rare":
        town["rare"] = []
    elif change == "missing":
        data["scorecard"]["encoder"]["missing"] = ["?", "y"]
    elif change == "bins":
        age["categories"] = age["categories"][::-1]
    else:
        age["edges"][0] += 1
    assert verify.answer(str(MARGINALS), sign(data))[0] == 2


def test_order_2_and_binned_numbers(tmp_path):
    X, y = renyi.datasets.load("credit")
    few = X[list(X.columns[:5])]
    m = renyi.Marginals.from_data(few, y, order=2)
    clf = renyi.RenyiClassifier(order=2).fit_marginals(m)
    assert verify.answer(*saved(tmp_path, m, clf))[0] == 0


def test_mapped_scores_are_those_of_map(tmp_path):
    m = renyi.Marginals.from_data(*drawn(3, classes=3))
    clf = renyi.RenyiClassifier().fit_marginals(m)
    card = clf.scorecard_
    slope = np.array([[1.0, 0.5, 0], [0, 2, 0.25], [0.5, 0, 1]])
    C = verify.Counts(saved(tmp_path, m)[0])
    how = {"kind": "affine", "slope": slope.tolist(), "intercept": [0.5, 0, 0.25]}
    exact = C.bounds({**card.to_dict(), "calibration": how})
    start = card.intercept @ slope + [0.5, 0, 0.25]
    other = renyi.Scorecard(
        card.encoder, card.classes, card.z @ slope, start, card.counts
    )
    bound = renyi.certify(other, m).bounds["map"]
    assert float(exact["map"]) == pytest.approx(bound, abs=1e-12)


def cancelling(large, signal):
    """Return rows and a scorecard whose first and last column cancel."""
    rng = np.random.default_rng(0)
    y = pd.Series(np.repeat(["no", "yes"], 200), name="answer")
    wrong = rng.random(400) < 0.05
    told = np.where(wrong, y[::-1], y)
    X = pd.DataFrame({"f": rng.choice(["a", "b"], 400), "g": told, "h": "c"})
    X.loc[::9, "h"] = "d"
    m = renyi.Marginals.from_data(X, y)
    clf = renyi.RenyiClassifier(alpha=0.1, calibration=None).fit_marginals(m)
    card = clf.scorecard_
    z = np.array([large, large, -signal, signal, -large, -large])
    return X, y, m, clf, replace(card, z=z, intercept=np.zeros_like(card.intercept))


@pytest.mark.parametrize(("large", "proved"), [(1.0, 0), (1e8, 1)])
def test_scores_that_rounding_drowns_are_not_proved(tmp_path, sign, large, proved):
    """Exact sums are wrong on 5 % of the rows, those of floats on half of them."""
    X, y, m, clf, card = cancelling(large, 1e-9)
    counts, model = saved(tmp_path, m, clf)
    data = json.loads(Path(model).read_text("utf-8"))
    data["scorecard"] = card.to_dict()
    data["certificate"]["gamma"] = 0.26
    data["certificate"]["bounds"] = {"map": 0.25, "renyi": 0.52, "sharp": 0.52}
    positive = card.scores(card.encoder.transform(X))[:, 0] > 0
    answers = np.array(card.classes)[positive.astype(int)]
    assert (np.mean(answers != y) > 0.25) == bool(proved)
    assert verify.answer(counts, sign(data))[0] == proved
    bound = renyi.certify(card, m).bounds["map"]
    exact = verify.Counts(counts).bounds(card.to_dict())["map"]
    assert exact <= bound


# ---- the file by itself


def test_the_file_is_short_enough_to_be_read():
    assert len(Path(verify.__file__).read_text("utf-8").splitlines()) <= 350


def test_the_file_runs_without_renyi(tmp_path):
    m = renyi.Marginals.from_data(*drawn(4))
    paths = saved(tmp_path, m, renyi.RenyiClassifier().fit_marginals(m))
    alone = shutil.copy(verify.__file__, tmp_path / "verify.py")
    command = [sys.executable, "-I", "-S", alone, paths[1], paths[0]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    bound = np.ceil(
        1000 * renyi.RenyiClassifier.load(paths[1]).certificate_.bounds["map"]
    )
    assert done.stdout.splitlines()[-1] == (
        f"proved: in any population with the counts of {paths[0]} the model is wrong "
        f"on at most {bound / 10} % (rule map)"
    )
    command[-1] = str(MARGINALS)
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("wrong file")


# ---- proofs of any rule


@pytest.mark.parametrize(("classes", "d"), [(2, 1), (2, 3), (3, 2), (4, 2)])
def test_the_minimax_error_is_enclosed_by_proofs(tmp_path, classes, d):
    m = renyi.Marginals.from_data(*drawn(d, d, classes))
    result = renyi.minimax(m, method="exact")
    place = str(tmp_path / "proof.json")
    proved = renyi.write_proof(place, m, result=result)
    assert proved["lower"] <= result.upper + 1e-9
    assert proved["upper"] >= result.lower - 1e-9
    assert proved["lower"] == pytest.approx(result.lower, abs=1e-7)
    counts, _ = saved(tmp_path, m)
    code, why, found = verify.answer(counts, proof=place)
    assert (code, why) == (0, "")
    assert [float(row[2]) for row in found] == pytest.approx(
        [proved["upper"], proved["lower"]], abs=1e-12
    )


def test_the_rule_of_the_polynomial_program_is_proved(tmp_path):
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    result = renyi.minimax(m, method="lp")
    place = str(tmp_path / "proof.json")
    clf = renyi.RenyiClassifier().fit_marginals(m)
    proved = renyi.write_proof(place, m, clf, result)
    assert result.upper - 1e-12 <= proved["upper"] <= result.upper + 1e-9
    paths = saved(tmp_path, m, clf)
    assert verify.answer(*paths, proof=place)[0] == 0
    assert verify.answer(paths[0], proof=place)[0] == 1  # it speaks of a model


def test_false_claims_and_lacking_parts_are_not_proved(tmp_path, sign):
    m = renyi.Marginals.from_data(*drawn(8))
    result = renyi.minimax(m, method="exact")
    place = tmp_path / "proof.json"
    proofs.write_proof(place, m, result=result)
    counts, _ = saved(tmp_path, m)
    data = json.loads(place.read_text("utf-8"))
    upper, lower = data["claims"]["upper"], data["claims"]["lower"]
    for claims in ({"upper": upper - 1e-9}, {"lower": lower + 1e-6}, {}):
        assert verify.answer(counts, proof=sign({**data, "claims": claims}))[0] == 1
    bare = {k: v for k, v in data.items() if k != "lower"}
    assert verify.answer(counts, proof=sign(bare))[0] == 2
    first = data["lower"]["outcomes"][0]
    moved = {**data["lower"], "outcomes": [first, *data["lower"]["outcomes"]]}
    assert verify.answer(counts, proof=sign({**data, "lower": moved}))[0] == 1
    below = {**data["lower"], "outcomes": [[-1, *first[1:]]]}
    assert verify.answer(counts, proof=sign({**data, "lower": below}))[0] == 2


def test_weights_that_must_be_mended_are_exact():
    A, b = np.array([[2, 1], [1, 3]]), np.array([3, 5])
    assert proofs._solve(A, b) == [Fraction(4, 5), Fraction(7, 5)]
    large = np.random.default_rng(0).integers(0, 2, (40, 40))
    found = proofs._solve(large, np.arange(40))
    assert found is not None and proofs._fits(large, np.arange(40), found)


def test_there_is_no_witness_where_rounding_made_one(tmp_path):
    m = renyi.Marginals.from_data(*drawn(6))
    ambiguity = renyi.minimax(m).rule.ambiguity
    X = np.array([[0, 0, 0], [1, 1, 1]])
    assert proofs.exact_weights(ambiguity, X, np.full((2, 2), 0.25), int(m.n)) is None


# ---- other answers


def test_other_counts_are_the_wrong_file(tmp_path):
    X, y = drawn(9)
    clf = renyi.RenyiClassifier().fit(X, y)
    other = renyi.Marginals.from_data(*drawn(10))
    code, why, _ = verify.answer(*saved(tmp_path, other, clf))
    assert code == 2 and "m.renyi" in why
    assert verify.answer(str(tmp_path / "none"), str(tmp_path / "clf.json"))[0] == 2


def test_weights_and_claims_about_samples_are_not_proved(tmp_path, sign):
    X, y = drawn(11)
    weights = np.random.default_rng(0).random(len(y))
    m = renyi.Marginals.from_data(X, y, sample_weight=weights)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    assert verify.answer(*saved(tmp_path, m, clf))[0] == 1
    whole = np.arange(len(y)) % 3 + 1
    m = renyi.Marginals.from_data(X, y, sample_weight=whole)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    assert verify.answer(*saved(tmp_path, m, clf))[0] == 0
    data = json.loads(MODEL.read_text("utf-8"))
    data["certificate"]["basis"] = "heldout"
    assert verify.answer(str(MARGINALS), sign(data))[0] == 1
    card = {k: data[k] for k in ("format", "version", "scorecard")}
    assert verify.answer(str(MARGINALS), sign(card))[0] == 1  # claims nothing


def test_counts_that_disagree_prove_nothing(tmp_path):
    m = renyi.Marginals.from_data(*drawn(12))
    counts = m.counts.copy()
    a, b = np.argwhere(counts > 1)[1]
    counts[a, b] = counts[b, a] = counts[a, b] - 1
    path = tmp_path / "m.renyi"
    m.save(path)
    header = files.read_header(path, "renyi-marginals")
    files.write_arrays(path, header, {"counts": counts})
    assert not verify.Counts(str(path)).agree()


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"format":' * 50_000,
        b'{"format": "renyi-model", "version": 2, "format": "renyi-model"}',
        b'{"format": "renyi-model", "version": 1e999999999}',
        b'{"format": "renyi-model", "version": ' + b"9" * 100_000 + b"}",
        b'{"format": "renyi-model", "version": 2, "checksum": NaN}',
        b'"renyi-model"',
        b"\xff\xfe",
        b"",
        b"[]," * 2_000_000,
    ],
    ids=range(10),
)
def test_hostile_documents_are_wrong_files(tmp_path, text):
    path = tmp_path / "hostile.json"
    path.write_bytes(text)
    begun = time.process_time()
    for names in ({"model": str(path)}, {"proof": str(path)}):
        code, why, _ = verify.answer(str(MARGINALS), **names)
        assert code == 2 and "hostile.json" in why
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("value", ["1e999999999", [1], None, True, 10**300, 5e-324])
@pytest.mark.parametrize("field", ["z", "intercept", "counts"])
def test_numbers_of_strangers_are_taken_as_they_are_or_refused(sign, value, field):
    data = json.loads(MODEL.read_text("utf-8"))
    card = data["scorecard"]
    if isinstance(card[field], list):
        card[field][0] = value
    else:
        card[field] = value
    begun = time.process_time()
    code, _, _ = verify.answer(str(MARGINALS), sign(data))
    assert code == 2 if field == "counts" else code in (0, 1, 2)
    assert time.process_time() - begun < 5


def test_hostile_archives_are_refused(tmp_path):
    path = str(tmp_path / "bomb.renyi")
    bomb = b"\0" * 2**23 * 5
    cases = [
        golden_members(**{"counts.npy": bomb}),
        golden_members(**{"header.npy": bomb}),
        [*golden_members(), *((f"{k}.npy", b"") for k in range(99))],
        golden_members()[:1],
        [("counts.npy", b"")],
    ]
    for members in cases:
        archive(path, members)
        assert verify.answer(path, str(MODEL))[0] in (1, 2)
    Path(path).write_bytes(MARGINALS.read_bytes()[:500])
    assert verify.answer(path, str(MODEL))[0] == 2
    with zipfile.ZipFile(MARGINALS) as golden:
        assert {i.filename for i in golden.infolist()} >= {"header.npy", "counts.npy"}


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_parts_that_unpack_to_more_than_they_say_take_no_memory(tmp_path, method):
    path, size = tmp_path / "bomb.renyi", 2**25 + 97
    archive(path, golden_members(**{"counts.npy": b"\0" * size}), method)
    stated, false = (number.to_bytes(4, "little") for number in (size, 400))
    path.write_bytes(path.read_bytes().replace(stated, false))
    tracemalloc.start()
    assert verify.answer(str(path), str(MODEL))[0] in (1, 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


def test_arrays_that_numpy_reads_in_another_order_prove_nothing(tmp_path):
    """The pairs within classes, which are not symmetric in all three of their axes."""
    with zipfile.ZipFile(MARGINALS) as golden:
        raw = golden.read("class_counts.npy")
    path = str(tmp_path / "other.renyi")
    for change in ((b"False", b"True "), (b"<i8", b">i8"), (b"<i8", b"<u8")):
        archive(path, golden_members(**{"class_counts.npy": raw.replace(*change)}))
        assert verify.answer(path, str(MODEL))[0] == 1


def test_a_bound_called_gamma_hides_none(sign):
    data = json.loads(MODEL.read_text("utf-8"))
    data["certificate"]["bounds"]["gamma"] = data["certificate"]["gamma"]
    data["certificate"]["gamma"] = 1e-9
    code, _, found = verify.answer(str(MARGINALS), sign(data))
    assert code == 1 and found[0][:2] == ("gamma", 1e-9)


def test_sets_of_many_classes_are_not_gone_through(tmp_path, sign):
    """One column has no pairs of columns, and yet 2⁴⁰ sets of classes."""
    y = pd.Series([f"k{i % 40}" for i in range(80)], name="answer")
    m = renyi.Marginals.from_data(pd.DataFrame({"a": list("xy") * 40}), y)
    upper = {"single": [0] * 80, "pair": [], "messages": []}
    proof = {"format": "renyi-proof", "version": 2, "features": ["a"]}
    proof = sign({**proof, "claims": {"upper": 1.0}, "upper": upper})
    code, why, _ = verify.answer(saved(tmp_path, m)[0], proof=proof)
    assert code == 2 and "signed.json" in why


def test_a_proof_of_any_rule_proves_nothing_of_a_model_beside_it(tmp_path, sign):
    m = renyi.Marginals.from_data(*drawn(8))
    clf = renyi.RenyiClassifier().fit_marginals(m)
    counts, model = saved(tmp_path, m, clf)
    data = json.loads(Path(model).read_text("utf-8"))
    data["certificate"]["gamma"] = 1e-9
    place = str(tmp_path / "proof.json")
    proofs.write_proof(place, m, result=renyi.minimax(m))
    assert verify.answer(counts, proof=place)[0] == 0
    code, why, _ = verify.answer(counts, sign(data), place)
    assert code == 1 and "proof.json" in why and "model" in why


def test_answers_name_the_file_that_is_at_fault(tmp_path, sign):
    model = str(GOLDEN / "model-v1-halves.json")
    code, why, _ = verify.answer(str(MARGINALS), model)
    assert code == 1 and "model-v1-halves.json" in why and "rows" in why
    code, why, _ = verify.answer(str(MARGINALS))
    assert code == 2 and MARGINALS.name in why and "give a model (.json)" in why
    document = {"format": "renyi-proof", "version": 2, "claims": {"other": 0}}
    code, why, _ = verify.answer(str(MARGINALS), proof=sign(document))
    assert code == 1 and "signed.json" in why
    _, why, _ = verify.answer(str(MARGINALS), "\x1b[31m\udcff\n")
    assert why.isprintable()  # in any terminal


def test_proofs_with_a_digest_are_still_proved(tmp_path, sign):
    m = renyi.Marginals.from_data(*drawn(3))
    place = tmp_path / "proof.json"
    proofs.write_proof(place, m, result=renyi.minimax(m))
    data = json.loads(place.read_text("utf-8"))
    assert "digest" not in data
    old = sign({**data, "digest": m.digest.pairs})
    assert verify.answer(saved(tmp_path, m)[0], proof=old)[0] == 0


def test_pipes_and_folders_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), str(tmp_path)):
        assert verify.answer(name, str(MODEL))[0] == 2
        assert verify.answer(str(MARGINALS), name)[0] == 2


def test_golden_models():
    assert verify.answer(str(MARGINALS), str(MODEL))[0] == 0
