"""Targets: for every format seeds, mutations, and what a file that is read must be.

A file is rejected with a message (`ValueError`, `TypeError`, an error of the system),
or its contents are consistent. Otherwise a `FalsehoodError` is raised.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import mutations
from fuzz.target import FalsehoodError, Target, hold
from renyi import (
    Certificate,
    Marginals,
    RenyiClassifier,
    Scorecard,
    certify,
    minimax,
    verify,
    write_proof,
)
from renyi.cli import output
from renyi.encoding.rules import check_names
from renyi.files import to_bytes
from renyi.formatting import csv_text
from renyi.genotypes.files import read_genotypes
from renyi.genotypes.packed import code_counts
from renyi.genotypes.scores import GenotypeScores, read_scores
from renyi.solvers.calibration import Calibration
from renyi.sources.csv import CsvFile
from renyi.sources.files import read_table
from support.engines import duckdb
from support.forgeries import signed
from support.studies import codes, save_pgen, save_study

GOLDEN = Path(__file__).parents[1] / "golden"


# ---- models and certificates


def _model(path: Path) -> None:
    clf = RenyiClassifier.load(path)
    card = Scorecard.load(path)
    X = _rows_for(clf)
    proba = clf.predict_proba(X)
    hold(np.isfinite(proba).all(), "a probability is not finite")
    hold(proba.min() >= 0 and proba.max() <= 1, f"a probability is {proba.max()}")
    hold(np.allclose(proba.sum(axis=1), 1), "probabilities do not add up to 1")
    hold(set(clf.predict(X)) <= set(clf.classes_), "a prediction is no class")
    hold(np.isfinite(card.frame().select_dtypes("number").to_numpy()).all(), "points")
    _certificate(clf.certificate_)
    hold(str(clf.certificate_) and str(card), "no text")
    again = path.with_suffix(".again")
    clf.save(again)
    same = RenyiClassifier.load(again)
    hold(np.array_equal(same.predict_proba(X), proba), "saved, it is another model")


def _rows_for(clf: RenyiClassifier) -> Any:
    """Return rows of known, unknown and missing labels."""
    columns = clf.scorecard_.encoder.columns
    few = {
        column.name: [30.5, 0, -1e300, None]
        if column.name in columns.numeric_names
        else [*column.categories, "new", None, None, None][:4]
        for column in columns
    }
    rows = np.array([*few.values(), [None] * 4], object)[:-1].T
    if hasattr(clf, "feature_names_in_"):  # pandas may not hold every text but so
        names = pd.Index(list(few), dtype=object)
        return pd.DataFrame(rows, columns=names, dtype=object)
    return rows


def _certificate_seed() -> list[bytes]:
    """Return the golden model with a certificate of two steps, signed anew."""

    def add(data: dict[str, Any]) -> None:
        (step,) = data["certificate"]["steps"]
        exact = {**step, "name": "exact", "lower": 0.9 * step["upper"], "seconds": 1.5}
        data["certificate"]["steps"].append(exact)

    return [to_bytes(signed(add))]


def _certificate(certificate: Certificate) -> None:
    """Its numbers are claims, which `renyi verify` checks: here they are finite."""
    bounds = [*certificate.bounds.values(), *(s.upper for s in certificate.steps)]
    hold(np.isfinite(bounds).all(), "a bound is not finite")


# ---- marginals


def _marginals(path: Path) -> None:
    m = Marginals.load(path)
    _consistent(m)
    hold(str(m) and m.digest.classes, "no text")
    again = path.with_suffix(".again")
    m.save(again)
    hold(Marginals.load(again) == m, "saved, they are others")


def _consistent(m: Marginals) -> None:
    """Add the counts up in every way; files of rounded tables may be off by 5 %."""
    sizes = m.columns.sizes
    ends = np.cumsum(sizes)
    within = 0.05 * m.n * (1 + 1e-9)
    hold(m.n > 0 and np.isfinite(m.counts).all(), "counts are not finite")
    hold(m.counts.min() >= -within and (m.counts == m.counts.T).all(), "not symmetric")
    absent = {tuple(sorted(pair)) for pair in m.absent_places()}
    for i, (a, b) in enumerate(zip(ends - sizes, ends, strict=True)):
        own = m.counts[a:b, a:b]
        hold(abs(float(own.sum()) - m.n) <= within, "a column does not add up to n")
        hold((own == np.diag(np.diag(own))).all(), "a column's own pairs overlap")
        for j, (c, d) in enumerate(zip(ends - sizes, ends, strict=True)):
            if tuple(sorted((i, j))) in absent:
                continue
            off = m.counts[a:b, c:d].sum(axis=1, dtype=float) - np.diag(own)
            hold(np.abs(off).max() <= within, "margins of two columns disagree")


# ---- proofs, checked by themselves: what is proved must be true


@cache
def _truth() -> tuple[Marginals, RenyiClassifier, float]:
    """Return the golden marginals and model, and the minimax error of the former."""
    m = Marginals.load(GOLDEN / "marginals-v1.renyi")
    clf = RenyiClassifier.load(GOLDEN / "model-v1.json")
    found = minimax(m, method="exact", class_conditional=False)
    hold(found.gap < 1e-9, "the minimax error is not known")
    return m, clf, found.upper


@cache
def _proof_seed() -> list[bytes]:
    m, clf, _ = _truth()
    with tempfile.TemporaryDirectory() as folder:
        place, result = Path(folder, "p"), minimax(m, method="exact")
        proved = write_proof(place, m, clf, result)
        hold({"gamma", "upper", "lower"} <= set(proved), "a part is missing")
        return [place.read_bytes()]


@cache
def _grouped() -> Path:
    """Return marginals of three classes, those of the golden model of classes."""
    from golden.make import ENCODER, X

    place = Path(tempfile.mkdtemp(), "groups.renyi")
    groups = pd.Series([*"abcabcaa"], name="group")
    Marginals.from_data(X, groups, encoder=ENCODER).save(place)
    return place


def _claims_of_model(path: Path) -> None:
    grouped = b'"target": "group"' in path.read_bytes()
    _claims(_grouped() if grouped else _COUNTS, path)


def _claims(marginals: Path, model: Path, proof: Path | None = None) -> None:
    """Check claims; those that are proved must agree with other computations."""
    names = str(marginals), str(model), str(proof or "")
    code, why, found = verify.answer(*names)
    hold(bool(why) != bool(found), "no text")
    if code:
        raise ValueError(f"{why or 'a claim is not proved'}")
    try:
        m, card = Marginals.load(marginals), Scorecard.load(model)
        c = certify(card, m)
    except (ValueError, TypeError):  # which refuse files that nothing is wrong with
        return
    truth = {"gamma": c.gamma, **c.bounds}
    near = 1e-6 + 4 * card.mapped.score_error  # both leave room for rounded scores
    for what, number, exact, _ in found:
        if what in truth:
            hold(abs(exact - Fraction(truth[what])) < near, f"{what} is {exact}")
            hold(number >= truth[what] - near, f"{what} is {truth[what]}, not {number}")
        else:
            error = _truth()[2]  # of the golden marginals, which proofs are about
            off = number - error if what.startswith("upper") else error - number
            hold(off > -1e-9, f"{what}: {number}, and it is {error}")


# ---- tables


def _table(path: Path) -> None:
    """Count a file by streaming it and in memory: the same counts or refusals."""
    streamed, whole = (
        _either(lambda: Marginals.from_file(path, target="y")),
        _either(lambda: Marginals.from_data(read_table(path), target="y")),
    )
    if isinstance(streamed, Exception) != isinstance(whole, Exception):
        raise FalsehoodError(f"streamed: {streamed!r:.300}; in memory: {whole!r:.300}")
    if isinstance(streamed, Exception):
        raise streamed
    _consistent(streamed)
    hold(streamed.digest == whole.digest, f"{streamed} streamed, {whole} in memory")


def _query(path: Path) -> None:
    """Count a file through a query that changes nothing: the same counts."""
    plain = _either(lambda: Marginals.from_file(path, target="y"))
    if isinstance(plain, Exception):
        raise plain
    queried = _either(lambda: Marginals.from_file(path, target="y", sql="FROM data"))
    if isinstance(queried, Exception):
        raise queried
    _consistent(queried)
    hold(queried.digest == plain.digest, f"{queried} by a query, {plain} without")


def _database(path: Path) -> None:
    """Count the table of a database file."""
    _consistent(Marginals.from_file(path, target="y", table="rows"))


def _sqlite_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "rows.sqlite")
        with contextlib.closing(sqlite3.connect(place)) as connection:
            _seed_table().to_pandas().to_sql("rows", connection, index=False)
        return [place.read_bytes()]


def _duckdb_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "rows.duckdb")
        with duckdb.connect(str(place)) as connection:
            connection.register("seed", _seed_table())
            connection.execute("CREATE TABLE rows AS FROM seed")
        return [place.read_bytes()]


def _either(count: Callable[[], Marginals]) -> Any:
    try:
        return count()
    except (ValueError, TypeError, OSError) as error:
        return error


# ---- writers: what they write reads back as the same cells


def _written(path: Path) -> None:
    """Write the cells of a file in every format, and read them again."""
    table = _cells(path)
    check_names(table.column_names, path)
    if not table.num_rows:
        raise ValueError(f"{path} has no rows")
    rows = table.to_pandas(strings_to_categorical=False).astype(object)
    for suffix in (".csv", ".tsv", ".csv.gz", ".parquet"):
        place = path.with_name(f"again{suffix}")
        with output.writing(place, {}) as write:
            write(rows)
        hold(_cells(place).equals(table), f"{suffix}: {_cells(place)} for {table}")
    text = csv_text(rows, inert=True)
    names, *lines = csv.reader(io.StringIO(text, newline=""))
    cells = [*table.column_names, *rows.to_numpy().ravel()]
    for cell, inert in zip(cells, chain(names, *lines), strict=True):
        hold(inert in (cell, f"'{cell}"), f"{cell!r} is written as {inert!r}")
        hold(not re.match(r"[=@].", inert), f"{inert!r} is a formula")


def _cells(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata()
    file = CsvFile(path)
    names = file.header.names
    texts = pa.schema([(name, pa.string()) for name in names])
    batches = [b for unit in file.units(0, names, names) for b in unit.read()]
    return pa.Table.from_batches([b.cast(texts) for b in batches], texts)


# ---- genotypes


@cache
def _study() -> dict[str, bytes]:
    """Return the files of a small study, by their endings."""
    table = codes(37, 30)
    with tempfile.TemporaryDirectory() as folder:
        bed = save_study(Path(folder, "s"), table)
        save_pgen(Path(folder, "s"), table, bed)
        return {path.suffix: path.read_bytes() for path in Path(folder).iterdir()}


def _genotypes(path: Path) -> None:
    """Read a study one file of which was changed."""
    kinds = (".bed", ".bim", ".fam"), (".pgen", ".pvar", ".psam")
    kind = kinds[path.suffix.startswith(".p")]
    for ending in {*kind} - {path.suffix}:
        path.with_suffix(ending).write_bytes(_study()[ending])
    G = read_genotypes(path.with_suffix(kind[0]))
    hold((len(G.variants), len(G.samples)) == (G.packed.d, G.packed.n), "sizes")
    hold((code_counts(G.packed).sum(axis=1) == G.packed.n).all(), "counts")
    named = G.variants["id"][G.variants["id"] != "."]
    hold(named.is_unique and (named != "").all(), "ids")


@cache
def _scores() -> dict[str, bytes]:
    """Return the files of a small model of the study, by their endings."""
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".bed", ".bim", ".fam"):
            Path(folder, f"s{ending}").write_bytes(_study()[ending])
        G, points = read_genotypes(Path(folder, "s.bed")), np.zeros((30, 4))
        points[:] = np.linspace(-0.02, 0.03, 120).reshape(30, 4)
        fitted = Calibration("temperature", np.array(2.0), np.array(0.0))
        given = {"classes": ("no", "yes"), "share": 0.4, "calibration": fitted}
        counts = code_counts(G.packed)
        model = GenotypeScores.from_counts(G.variants, points, counts, **given)
        model.save(Path(folder, "m.json"))
        model.to_pgs(Path(folder, "m.txt"))
        return {path.suffix: path.read_bytes() for path in Path(folder).iterdir()}


def _scored(path: Path) -> None:
    """Score the study by a model one file of which was changed."""
    model = path.with_suffix(".txt" if path.suffix == ".txt" else ".json")
    if path.suffix == ".json":
        path.with_name("m.points").write_bytes(_scores()[".points"])
    elif path.suffix == ".points":
        head = json.loads(_scores()[".json"]) | {"points_file": path.name}
        with contextlib.suppress(Exception), np.load(path) as found:
            header = json.loads(found["header"].tobytes())
            head |= {"points_checksum": header["checksum"]}
            head |= {"variants": header["variants"]}
        model.write_bytes(mutations.signed(head))
    for ending in (".bed", ".bim", ".fam"):
        path.with_name(f"s{ending}").write_bytes(_study()[ending])
    scores = read_scores(model)
    found = scores.score(read_genotypes(path.with_name("s.bed"))).scores
    hold(np.isfinite(found).all(), "a score is not finite")
    proba = scores.probabilities(found)
    hold(proba.min() >= 0 and proba.max() <= 1, f"a probability is {proba.max()}")


# ---- seeds


def _seed_table() -> pa.Table:
    n = 40
    return pa.table(
        {
            "word": [["red", "green", None, "blue"][k % 4] for k in range(n)],
            "few": [k % 3 for k in range(n)],
            "many": [k * k % 37 for k in range(n)],
            "real": [None if k % 9 == 0 else k / 7 for k in range(n)],
            "flag": [k % 5 < 2 for k in range(n)],
            "y": [["no", "yes", "yes"][k % 3] for k in range(n)],
        }
    )


def _csv_seeds() -> list[bytes]:
    plain = _seed_table().to_pandas().to_csv(index=False).encode()
    quoted = _seed_table().to_pandas().to_csv(index=False, quoting=1).encode()
    return [plain, quoted, plain.replace(b"green", '"gré,en"'.encode())]


def _layout_seeds() -> list[bytes]:
    """Return tables of KEEL and Orange, and one with blanks between cells."""
    table = _seed_table().to_pandas().astype(object).fillna("?").map(str)
    names = list(table)
    types = ["{red, green, blue}", "integer [0, 2]", "real", "real[0,9]", "string", ""]
    types[-1] = "{no, 'yes'}"
    lines = [f"@attribute {n} {t}" for n, t in zip(names, types, strict=True)]
    lines += ["@inputs " + ", ".join(names[:-1]), "@outputs y", "@data"]
    rows = [", ".join(row) for row in table.to_numpy()]
    keel = "\n".join(["@relation seed", "% a comment", *lines, *rows])
    kinds = ["d", "d", "c", "c", "s", "no yes"]
    flags = ["", "", "", "", "meta", "class"]
    top = ["\t".join(each) for each in (names, kinds, flags)]
    orange = "\n".join([*top, *("\t".join(row) for row in table.to_numpy())])
    blanks = "\n".join("  ".join(row) for row in [names, *table.to_numpy()])
    texts = [keel, keel.replace("red,", "'re\\'d',"), orange, blanks]
    return [text.encode() for text in texts]


def _layout(path: Path) -> None:
    """Count a text table of any layout."""
    _consistent(Marginals.from_file(path, target="y"))


def _parquet_seeds() -> list[bytes]:
    seeds = []
    for options in ({}, {"row_group_size": 9, "compression": "none"}):
        sink = io.BytesIO()
        pq.write_table(_seed_table(), sink, **options)
        seeds.append(sink.getvalue())
    return seeds


def _ipc_seeds() -> list[bytes]:
    seeds = []
    for size, compression in ((40, None), (9, "lz4")):
        sink, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression=compression)
        table = _seed_table()
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table, size)
        seeds.append(sink.getvalue())
    return seeds


def _golden(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [(GOLDEN / name).read_bytes() for name in names]


def _gzipped(raw: bytes, rng: Random, others: list[bytes]) -> bytes:
    plain = gzip.decompress(raw)
    changed = rng.choice([mutations.of_csv, mutations.of_bytes])(plain, rng, [plain])
    return gzip.compress(changed, 1, mtime=0)


_DOCUMENT = (mutations.of_document, mutations.of_document, mutations.of_bytes)
_ARCHIVE = (mutations.of_archive, mutations.of_archive, mutations.of_bytes)
_BINARY = (mutations.of_bytes, mutations.within)

_MODELS = ("model-v1.json", "model-v1-classes.json", "model-v1-halves.json")
_MODEL, _COUNTS = GOLDEN / "model-v1.json", GOLDEN / "marginals-v1.renyi"
TARGETS = {
    "claims": Target(
        ".json",
        _golden("model-v1.json", "model-v1-classes.json"),
        (mutations.of_document, mutations.of_certificate, mutations.of_bytes),
        _claims_of_model,
        False,
        8,
    ),
    "counts": Target(
        ".renyi",
        _golden("marginals-v1.renyi"),
        _ARCHIVE,
        lambda path: _claims(path, _MODEL),
        False,
        8,
    ),
    "proof": Target(
        ".json",
        _proof_seed,
        _DOCUMENT,
        lambda path: _claims(_COUNTS, _MODEL, path),
        False,
        8,
    ),
    "model": Target(".json", _golden(*_MODELS), _DOCUMENT, _model, share=12),
    "certificate": Target(
        ".json", _certificate_seed, (mutations.of_certificate,), _model, share=12
    ),
    "marginals": Target(
        ".renyi", _golden("marginals-v1.renyi"), _ARCHIVE, _marginals, share=16
    ),
    "csv": Target(
        ".csv", _csv_seeds, (mutations.of_csv, mutations.of_bytes), _table, False
    ),
    "layout": Target(
        ".data", _layout_seeds, (mutations.of_csv, mutations.of_bytes), _layout, False
    ),
    "query": Target(
        ".csv", _csv_seeds, (mutations.of_csv, mutations.of_bytes), _query, False
    ),
    "written": Target(
        ".csv", _csv_seeds, (mutations.of_csv, mutations.of_bytes), _written, False
    ),
    "gzip": Target(
        ".csv.gz",
        lambda: [gzip.compress(raw, mtime=0) for raw in _csv_seeds()],
        (_gzipped, mutations.of_bytes),
        _table,
        False,
    ),
    "sqlite": Target(".sqlite", _sqlite_seeds, _BINARY, _database, False),
    "duckdb": Target(".duckdb", _duckdb_seeds, (mutations.in_place,), _database, False),
    "parquet": Target(
        ".parquet", _parquet_seeds, (mutations.of_parquet, *_BINARY), _table, False
    ),
    "arrow": Target(".arrow", _ipc_seeds, (mutations.of_ipc, *_BINARY), _table, False),
    **{
        f"genotypes{ending}": Target(
            ending,
            lambda ending=ending: [_study()[ending]],
            (mutations.of_bytes, mutations.within),
            _genotypes,
        )
        for ending in (".bim", ".fam", ".pgen", ".pvar", ".psam")
    },
    **{
        f"scores{ending}": Target(
            ending, lambda ending=ending: [_scores()[ending]], ways, _scored, False
        )
        for ending, ways in (
            (".json", _DOCUMENT),
            (".points", _ARCHIVE),
            (".txt", (mutations.of_bytes, mutations.within)),
        )
    },
}
