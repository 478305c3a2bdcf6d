"""The scorecard as SQL: the scores of `Scorecard.scores`, computed where rows are.

A score is a sum of points, hence one expression: for each feature a CASE finds the
category of a cell, as the encoder does, and gives its points:

* labels by their text, or by their value where the column has another type than in
  training, such as one that an engine guessed from a file: a truth value is the label
  "True", "t" or "yes", 1.5 is "1.5" or "1.50". The type of the column decides when the
  statement runs. The score is NULL if labels of unlike points have one value, and if
  labels of that type might be read in other ways or there are none;
* columns that `predict` rejects (lists, structs, bytes, times with a zone, ...) have no
  score either: it is NULL;
* numbers by the edges of their bins, NULL and NaN being missing;
* a label that training never saw by the mean points of the feature; or the score is
  NULL if the encoder is to stop at such labels, since an expression cannot stop.

Points and edges are written to the last bit. Decimals and floats of single precision
are compared as the doubles that the engine makes of them.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import Column, Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import missing_numbers
from renyi.encoding.tuples import TupleEncoder
from renyi.exports.dialects import Dialect, named
from renyi.exports.functions import has_text

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

# Engines bound how deep an expression nests, and a sum nests one level a term.
_TERMS = 100

# Labels that mean numbers and times, as engines print them or otherwise.
_NUMBER = re.compile(
    r"[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|inf(inity)?)", re.IGNORECASE
)
_HEX = re.compile(r"0x[0-9a-f]{1,12}", re.IGNORECASE)
_INTEGER = re.compile(r"-?[1-9][0-9]*")
_TIME = r"\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?"
_DATE = r"\d{4}-\d\d-\d\d"
_PRINTED = {
    "date": re.compile(_DATE, re.ASCII),
    "moment": re.compile(f"{_DATE} {_TIME}", re.ASCII),
    "time": re.compile(_TIME, re.ASCII),
}
_NANOSECONDS = re.compile(r"\.\d{7}")
_TRUTHS = dict.fromkeys(("true", "t", "yes", "y"), "true")
_TRUTHS |= dict.fromkeys(("false", "f", "no", "n"), "false")
_DIGITS = {"1": "true", "0": "false"}
# Labels that an engine might read as times in a way of its own.
_TIMELIKE = re.compile(r"[0-9].*[-/:. ]|epoch|infinity", re.IGNORECASE | re.DOTALL)
SCORE = "renyi_score"
ANSWER = "renyi_prediction"
_GIVEN = "given"  # the alias of the rows in a query

_MAX_NAME = 63  # bytes of a name in PostgreSQL, which takes no notice of more
# Columns that every table has: if the one of that name is missing, nobody notices.
_OWN = {
    "duckdb": ("rowid",),
    "postgres": ("cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"),
    "spark": ("_metadata",),
    "sqlite": ("_rowid_", "oid", "rowid"),
}
_RENAMED = ("false", "true")  # columns of a query that SQLite calls otherwise

_Value = TypeVar("_Value", str, float)


def expression(
    card: Scorecard, dialect: str, label: Label | None = None, source: str = ""
) -> str:
    """Return the score of a class over the columns of a table, of the alias `source`.

    With an alias, a column that the table lacks is an error in every engine, and no
    column that the engine has of its own.
    """
    place = _class_place(card, label)
    card = card.mapped
    two = card.n_classes == 2
    (tables, starts) = card.tables
    column = 0 if two else place
    sign = -1 if two and place == 0 else 1
    engine = named(dialect)
    intercept = np.atleast_1d(card.intercept)[column]
    own = () if source and dialect != "sqlite" else _OWN[dialect]
    _check_names(engine, card.encoder.input_names, own)
    points = np.split(sign * tables[:, column], starts[1:])
    first = engine.number(float(sign * intercept))
    prefix = f"{engine.identifier(source)}." if source else ""
    terms = [first, *_terms(engine, card.encoder, points, prefix)]
    return f"({_sum(terms)})"  # to be part of whatever the user writes


def query(card: Scorecard, table: str | Sequence[str], dialect: str) -> str:
    """Return the query that adds scores and the answer of `map` to rows of a table."""
    engine = named(dialect)
    name = engine.identifier
    labels = {SCORE: card.classes[1]}
    if card.n_classes > 2:
        labels = {f"{SCORE}_{label_text(c)}": c for c in card.classes}
    renamed = _RENAMED if dialect == "sqlite" else ()
    _check_names(engine, [*card.encoder.input_names, *labels, ANSWER], renamed)
    for each in map(label_text, card.classes):
        if not _is_text(engine, each):
            raise ValueError(f"{dialect} cannot represent the class {each!r:.60}.")
    scores = {
        name(each): expression(card, dialect, c, _GIVEN) for each, c in labels.items()
    }
    columns = list(scores)
    made = ",\n".join(f"{score} AS {column}" for column, score in scores.items())
    rows = _without(engine, engine.table(table), [*columns, name(ANSWER)])
    return (
        f"SELECT *, {_answer(engine, card, columns)} AS {name(ANSWER)}\n"
        f"FROM (SELECT *,\n{made}\nFROM ({rows}) AS {name(_GIVEN)}) "
        f"AS {name('scored')}"
    )


def _check_names(
    engine: Dialect, names: Iterable[str], own: Collection[str] = ()
) -> None:
    """Check that the engine can tell columns apart, also from those of its `own`."""
    seen: dict[str, str] = {}
    for name in names:
        key = _as_resolved(engine, name)
        if "\0" in name or not name or not _is_text(engine, name):
            raise ValueError(f"Column {name!r:.60} cannot be named in SQL: rename it.")
        if key in own:
            raise ValueError(
                f"{name!r} has a special meaning in {engine.name}: rename the column, "
                "or (except for SQLite) name the table, for a query that distinguishes "
                "them."
            )
        if seen.setdefault(key, name) is not name:
            raise ValueError(
                f"The columns {seen[key]!r:.60} and {name!r:.60} are the same name in "
                f"{engine.name}: rename one of them, or export the score expressions "
                "without a table and name the added columns yourself."
            )


def _is_text(engine: Dialect, text: str) -> bool:
    """Whether some cell of an engine can hold a text."""
    return has_text(text) and (engine.name != "postgres" or "\0" not in text)


def _as_resolved(engine: Dialect, name: str) -> str:
    """Return what is the same for names that an engine takes for one."""
    if engine.name == "spark":
        return name.lower()
    raw = name.encode("utf-8", "replace")  # of which ASCII letters have two forms
    raw = raw[:_MAX_NAME] if engine.name == "postgres" else raw.lower()
    return raw.decode("utf-8", "ignore")


def _without(engine: Dialect, table: str, columns: list[str]) -> str:
    """Return the rows of a table that must not have some columns.

    Of two columns of one name, engines take the first without a word: the score of an
    earlier model. The second table here has these columns, all NULL, so that their
    names are ambiguous, which is an error in every engine, if the first has them too.
    """
    row = engine.identifier("row")
    fresh = engine.identifier("fresh")
    nulls = ", ".join(f"NULL AS {column}" for column in columns)
    tests = " AND ".join(f"{column} IS NULL" for column in columns)
    return (
        f"SELECT {row}.* FROM {table} AS {row}\n"
        f"CROSS JOIN (SELECT {nulls}) AS {fresh} WHERE {tests}"
    )


def _class_place(card: Scorecard, label: Label | None) -> int:
    if label is None and card.n_classes == 2:
        return 1
    texts = [label_text(each) for each in card.classes]
    if label is None or label_text(label) not in texts:
        shown = ", ".join(texts[:8]) + (", …" if len(texts) > 8 else "")
        what = "Name a class" if label is None else f"There is no class {label!r}"
        raise ValueError(f"{what}: the classes are {shown}.")
    return texts.index(label_text(label))


def _answer(engine: Dialect, card: Scorecard, scores: list[str]) -> str:
    """Return the class of the largest estimate, the first of equals, as `map` does."""
    labels = [engine.literal(label) for label in card.classes]
    share = engine.number(1 / card.n_classes)
    if card.n_classes == 2:
        # Not whether the score is positive: tiny ones vanish in the estimates.
        test = f"{scores[0]} + {share} > -{scores[0]} + {share}"
        known = f"WHEN {scores[0]} IS NULL THEN NULL "
        return f"CASE {known}WHEN {test} THEN {labels[1]} ELSE {labels[0]} END"
    estimates = [f"{score} + {share}" for score in scores]
    branches = [f"WHEN {' + '.join(scores)} IS NULL THEN NULL"]
    for k, (mine, label) in enumerate(zip(estimates, labels, strict=True)):
        tests = " AND ".join(f"{mine} >= {other}" for other in estimates[k + 1 :])
        branches.append(f"WHEN {tests} THEN {label}" if tests else f"ELSE {label}")
    return "CASE " + "\n  ".join(branches) + " END"


def _sum(terms: list[str]) -> str:
    """Return a sum whose nesting stays far below what engines allow."""
    while len(terms) > _TERMS:
        groups = (terms[k : k + _TERMS] for k in range(0, len(terms), _TERMS))
        terms = [f"({_sum(group)})" for group in groups]
    return "\n+ ".join(terms)


# ---- one term a feature


def _terms(
    engine: Dialect,
    encoder: Encoder,
    points: Sequence[NDArray[np.float64]],
    prefix: str,
) -> Iterable[str]:
    """Yield the points of each feature; the last of its points are of the unseen."""
    answers = [[engine.number(float(point)) for point in each] for each in points]
    if encoder.unseen == "error":
        answers = [[*each[:-1], "NULL"] for each in answers]
    if isinstance(encoder, TupleEncoder):
        return _tuple_terms(engine, encoder, answers, prefix)
    pairs = zip(encoder.columns, answers, strict=True)
    return (_term(engine, encoder, column, each, prefix) for column, each in pairs)


def _term(
    engine: Dialect,
    encoder: Encoder,
    column: Column,
    answers: Sequence[str],
    prefix: str,
) -> str:
    """Return the CASE of a column's category; its last answer is for unseen labels."""
    if len(set(answers)) == 1:
        return answers[0]
    name = prefix + engine.identifier(column.name)
    levels = column.levels
    known = [*levels.categories, *levels.rare, *encoder.missing]
    labels = [label for label in known if label is not None]
    *points, absent = (answers[code] for code in encoder.code_table(levels, labels))
    if levels.kind == "number":
        bins = answers[: len(levels.edges) + 1]
        missing = [t for t in map(label_text, encoder.missing) if _is_text(engine, t)]
        return _by_bin(engine, name, levels.edges, missing, [*bins, absent])
    entries = dict(zip(map(label_text, labels), points, strict=True))
    return _by_text(engine, name, entries, absent, answers[-1])


def _by_bin(
    engine: Dialect,
    name: str,
    edges: Sequence[float],
    missing: Iterable[str],
    answers: Sequence[str],
) -> str:
    """Return the CASE that finds the bin of a number in a quoted column.

    `answers` has one for each bin, and the last for a missing number, whose codes are
    the texts `missing`. A text that is not a number has no score.
    """
    *bins, absent = answers
    value = engine.as_double(name)
    codes = sorted(missing)
    branches = []
    is_text = engine.is_of(name, engine.texts)
    if codes:
        listed = ", ".join(engine.string(text) for text in codes)
        same = f"{engine.as_text(name)} IN ({listed})"
        branches.append(f"WHEN {is_text} AND {same} THEN {absent}")
    if engine.name == "sqlite":  # which would read it as 0
        # Compared with a number, a text that is one becomes it, and others do not.
        branches.append(f"WHEN {is_text} AND {name} <> {value} THEN NULL")
        branches.append(f"WHEN {engine.is_of(name, ['blob'])} THEN NULL")
    tests = [f"{value} IS NULL", engine.is_nan(value)]
    numbers = sorted(v for v in missing_numbers(frozenset(codes)) if not math.isnan(v))
    if numbers:
        tests.append(f"{value} IN ({', '.join(map(engine.number, numbers))})")
    branches.append(f"WHEN {' OR '.join(filter(None, tests))} THEN {absent}")
    for edge, answer in zip(edges, bins[:-1], strict=True):
        branches.append(f"WHEN {value} < {engine.number(edge)} THEN {answer}")
    return "CASE " + "\n  ".join([*branches, f"ELSE {bins[-1]} END"])


def _by_text(
    engine: Dialect, name: str, entries: Mapping[str, str], absent: str, unseen: str
) -> str:
    """Return the answer for a label's text, for missing cells, and for the unseen."""
    branches = []
    types = {
        "integer": engine.integers,
        "boolean": (engine.boolean,),
        "date": (engine.date,),
        "moment": engine.moments,
        "time": (engine.time,),
    }
    known = [*engine.texts, *engine.reals]
    floats = _by_value(entries, _float)
    if absent != unseen or floats or "nan" in {text.lower() for text in entries}:
        cases = [(engine.number(value), answer) for value, answer in floats.items()]
        if engine.nan:
            told = {entries[text] for text in entries if text.lower() == "nan"}
            answer = "NULL" if told - {absent} else absent
            cases.append((f"CAST('NaN' AS {engine.double})", answer))
        real = _case(_real(engine, name), cases, unseen)
        branches.append(f"WHEN {engine.is_of(name, engine.reals)} THEN {real}")
    for kind, names in types.items():
        truths = not engine.boolean and not _DIGITS.keys() & entries.keys()
        read = partial(_read, kind, truths=truths)
        answers = _by_value(entries, read)
        if kind == "boolean" and not answers:
            answers = _by_value(entries, _DIGITS.get)
        if kind != "integer":
            unread = (text for text in entries if read(text) is None)
            timelike = kind != "boolean" and any(map(_TIMELIKE.search, unread))
            if timelike or not answers:
                continue
        known += filter(None, names)
        # Some engines print such cells like labels, whose texts are compared below.
        settled = kind in ("integer", "time") or (
            kind != "boolean" and engine.name != "postgres"
        )
        settled &= all(answer == entries.get(text) for text, answer in answers.items())
        if answers and any(names) and not settled:
            cases = [(engine.string(text), answer) for text, answer in answers.items()]
            value = _case(_printed(engine, kind, name), cases, unseen)
            branches.append(f"WHEN {engine.is_of(name, names)} THEN {value}")
    # A name that is not a column may mean the whole row in some engines.
    tests = [engine.is_of(name, known), engine.is_enum(name)]
    is_known = " OR ".join(filter(None, tests))
    branches.insert(0, f"WHEN NOT ({is_known}) THEN NULL")
    branches.insert(0, f"WHEN {name} IS NULL THEN {absent}")
    cases = [
        (engine.string(text), answer)
        for text, answer in entries.items()
        if _is_text(engine, text)
    ]
    case = _case(engine.as_text(name), cases, unseen)
    return "CASE " + "\n  ".join([*branches, f"ELSE {case} END"])


def _by_value(
    entries: Mapping[str, str], read: Callable[[str], _Value | None]
) -> dict[_Value, str]:
    """Return the answer for each value that labels have; NULL where these differ."""
    answers_of: dict[_Value, set[str]] = {}
    for text, answer in entries.items():
        value = read(text)
        if value is not None:
            answers_of.setdefault(value, set()).add(answer)
    return {
        each: "NULL" if len(answers) > 1 else min(answers)
        for each, answers in answers_of.items()
    }


def _read(kind: str, text: str, truths: bool) -> str | None:
    """Return what engines print for a label, were it of a type; None if it cannot be.

    `truths` says whether truth values are integers.
    """
    truth = _TRUTHS.get(text.lower())
    if kind == "boolean":
        return truth
    if kind == "integer":
        if truths and truth:
            return "1" if truth == "true" else "0"
        value = int(text, 16) if _HEX.fullmatch(text) else _float(text)
        if value is None or abs(value) >= 2**53:
            return text if _INTEGER.fullmatch(text) else None
        return str(int(value)) if value == int(value) else None
    if _PRINTED[kind].fullmatch(text):
        return text
    if kind == "time" or _NANOSECONDS.search(text):
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    if kind == "moment":
        return _trimmed(moment.isoformat(" "))
    return str(moment.date()) if moment.time() == datetime.time() else None


def _trimmed(moment: str) -> str:
    """Return a time without the zeros that engines leave out."""
    return moment.rstrip("0").rstrip(".") if "." in moment else moment


def _printed(engine: Dialect, kind: str, name: str) -> str:
    """Return what an engine prints for a cell of some type, whatever its settings."""
    text = engine.as_text(name)
    if kind in ("date", "moment") and engine.name == "postgres":
        form = "YYYY-MM-DD" + (" HH24:MI:SS.US" if kind == "moment" else "")
        shown = f"to_char(CAST({text} AS TIMESTAMP), '{form}')"
        return shown if kind == "date" else f"rtrim(rtrim({shown}, '0'), '.')"
    return text


def _case(value: str, cases: Iterable[tuple[str, str]], other: str) -> str:
    """Return the CASE of a value, without what its ELSE would answer anyway."""
    told = " ".join(f"WHEN {key} THEN {a}" for key, a in cases if a != other)
    return f"CASE {value} {told} ELSE {other} END" if told else other


def _real(engine: Dialect, name: str) -> str:
    """Return a column as a float; what cannot be one must do no harm."""
    if engine.name == "duckdb":
        return f"TRY_CAST({name} AS {engine.double})"
    if engine.name == "sqlite":
        return name
    # The text of a float of single precision is that of another double.
    cast, single = ("TRY_CAST", "float") if engine.name == "spark" else ("CAST", "real")
    text = engine.as_text(name)
    return (
        f"CASE WHEN {engine.is_of(name, [single])} THEN {cast}({text} AS {single}) "
        f"ELSE {cast}({text} AS {engine.double}) END"
    )


def _float(text: str) -> float | None:
    """Return the float that a label means, if it is one."""
    return float(text) if _NUMBER.fullmatch(text) else None


# ---- tuples of columns


def _tuple_terms(
    engine: Dialect, encoder: TupleEncoder, answers: list[list[str]], prefix: str
) -> Iterable[str]:
    """Yield the points of each tuple: a CASE of the number that its codes make."""
    sizes = encoder.base.sizes + 1
    codes = [
        _term(engine, encoder.single, column, [str(k) for k in range(size)], prefix)
        for column, size in zip(encoder.base, sizes.tolist(), strict=True)
    ]
    tuples = zip(encoder.members, encoder.tables, answers, strict=True)
    for members, table, each in tuples:
        strides = [math.prod(table.shape[k + 1 :]) for k in range(table.ndim)]
        place = " + ".join(
            f"{stride} * ({codes[i]})"
            for i, stride in zip(members, strides, strict=True)
        )
        listed = [each[k] for k in table.ravel().tolist()]
        ((other, _),) = Counter(listed).most_common(1)
        cases = [(str(k), answer) for k, answer in enumerate(listed)]
        # A text among numbers has no code, nor has a cell of a type that is rejected.
        yield _case(f"COALESCE({place}, -1)", [("-1", "NULL"), *cases], other)
