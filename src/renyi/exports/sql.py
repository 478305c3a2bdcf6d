"""Write a scorecard as SQL, to compute `Scorecard.scores` inside a database.

A score is a sum of points, hence one expression. For each feature a CASE finds the
category of a cell, as the encoder does, and returns its points:

* Labels are found by their text, which is the one that `predict` has for a cell of the
  column's type. A truth value is also "yes", "y" or "t". The score is NULL if a label
  could have that type in another form, such as "007" or "1.50" in a column of numbers:
  the engine may have guessed the type.
* Columns that `predict` rejects (lists, structs, bytes, times with a zone, ...) have
  the score NULL.
* Numbers are found by the edges of their bins; NULL and NaN are missing.
* An unseen label has the mean points of the feature. If the encoder stops at such
  labels, the score is NULL, since an expression cannot stop.

Points and edges are written to the last bit. Decimals and floats of single precision
are compared as doubles, by the engine's conversion.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

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

# Engines limit the nesting of an expression, and a sum nests one level per term.
_TERMS = 100

# Labels that an engine might take for numbers, truth values or times.
_NUMBER = re.compile(
    r"0x[0-9a-f]+|[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|inf(inity)?)",
    re.IGNORECASE,
)
_TRUTHS = dict.fromkeys(("true", "t", "yes", "y"), "true")
_TRUTHS |= dict.fromkeys(("false", "f", "no", "n"), "false")
_TIMELIKE = re.compile(r"[0-9].*[-/:. ]|epoch|infinity", re.IGNORECASE | re.DOTALL)
# Labels as engines print them.
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?"
_MOMENT = f"{_DATE} {_TIME}"
SCORE = "renyi_score"
ANSWER = "renyi_prediction"
_GIVEN = "given"  # the alias of the rows in a query

_MAX_NAME = 63  # bytes of a name in PostgreSQL, which ignores the rest
# Columns that every table has, so that a missing one of that name is not noticed.
_OWN = {
    "duckdb": ("rowid",),
    "postgres": ("cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"),
    "spark": ("_metadata",),
    "sqlite": ("_rowid_", "oid", "rowid"),
}
_RENAMED = ("false", "true")  # columns of a query that SQLite renames


def expression(
    card: Scorecard, dialect: str, label: Label | None = None, source: str = ""
) -> str:
    """Return the score of a class over the columns of a table with alias `source`.

    With an alias, a missing column is an error in every engine, and never one of the
    engine's system columns.
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
    return f"({_sum(terms)})"  # so that it can be part of any expression


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
    """Check that the engine distinguishes all columns, also from its `own` ones."""
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
    """Return whether an engine can store a text."""
    return has_text(text) and (engine.name != "postgres" or "\0" not in text)


def _as_resolved(engine: Dialect, name: str) -> str:
    """Return a form that is equal for names that an engine considers equal."""
    if engine.name == "spark":
        return name.lower()
    raw = name.encode("utf-8", "replace")  # only ASCII letters have two cases here
    raw = raw[:_MAX_NAME] if engine.name == "postgres" else raw.lower()
    return raw.decode("utf-8", "ignore")


def _without(engine: Dialect, table: str, columns: list[str]) -> str:
    """Return the rows of a table that must not have some columns.

    Of two columns with one name, engines silently use the first: the score of an
    earlier model. The second table here has these columns, all NULL. If the first table
    has them as well, their names are ambiguous, which is an error in every engine.
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
        # Not whether the score is positive: tiny scores vanish in the estimates.
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
    """Return a sum with less nesting than engines allow."""
    while len(terms) > _TERMS:
        groups = (terms[k : k + _TERMS] for k in range(0, len(terms), _TERMS))
        terms = [f"({_sum(group)})" for group in groups]
    return "\n+ ".join(terms)


# ---- one term per feature


def _terms(
    engine: Dialect,
    encoder: Encoder,
    points: Sequence[NDArray[np.float64]],
    prefix: str,
) -> Iterable[str]:
    """Yield the points of each feature; unseen labels have the last points."""
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
    """Return the CASE of a column's category; unseen labels have the last answer."""
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
    if engine.name == "sqlite":  # SQLite would read it as 0
        # In a comparison with a number, SQLite converts only texts that are numbers.
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
    """Return the answer for a label's text, for missing cells and unseen labels."""
    text = engine.as_text(name)
    known = [*engine.texts]
    branches = []
    numbers = [label for label in entries if _NUMBER.fullmatch(label)]
    truths = _truth_answers(entries)
    plain = all(_INTEGER.fullmatch(label) or _is_float(label) for label in numbers)
    if plain and (engine.boolean or numbers or not truths):  # SQLite's truths are 0, 1
        known += engine.integers
    if all(map(_is_float, numbers)):
        known += engine.reals
        real = _by_float(engine, name, entries, absent, unseen)
        branches.append(f"WHEN {engine.is_of(name, engine.reals)} THEN {real}")
    if engine.boolean and truths:
        known.append(engine.boolean)
        cases = [(f"'{truth}'", answer) for truth, answer in truths.items()]
        case = _case(text, cases, unseen)
        branches.append(f"WHEN {engine.is_of(name, [engine.boolean])} THEN {case}")
    cases = [
        (engine.string(label), answer)
        for label, answer in entries.items()
        if _is_text(engine, label)
    ]
    for form, types in _times(engine).items():
        if not _has_form(entries, form):
            continue
        known += types
        if engine.name == "postgres" and form != _TIME:
            case = _case(_printed_in_postgres(text, form), cases, unseen)
            branches.append(f"WHEN {engine.is_of(name, types)} THEN {case}")
    # In some engines, a name that is not a column may mean the whole row.
    tests = [engine.is_of(name, known), engine.is_enum(name)]
    is_known = " OR ".join(filter(None, tests))
    first = [
        f"WHEN {name} IS NULL THEN {absent}",
        f"WHEN NOT ({is_known}) THEN NULL",
    ]
    case = _case(text, cases, unseen)
    return "CASE " + "\n  ".join([*first, *branches, f"ELSE {case} END"])


def _by_float(
    engine: Dialect, name: str, entries: Mapping[str, str], absent: str, unseen: str
) -> str:
    """Return the answer for a float; compare labels that are numbers as numbers."""
    cases = [
        (engine.number(float(label)), answer)
        for label, answer in entries.items()
        if _NUMBER.fullmatch(label)
    ]
    if engine.nan:
        others = {entries[label] for label in entries if label.lower() == "nan"}
        answer = "NULL" if others - {absent} else absent
        cases.append((f"CAST('NaN' AS {engine.double})", answer))
    return _case(_real(engine, name), cases, unseen)


def _is_float(label: str) -> bool:
    """Return whether a label is the text of a float in `predict`."""
    return not label.lower().startswith("0x") and label_text(float(label)) == label


def _truth_answers(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the answer for each truth value; NULL if its labels differ."""
    answers: dict[str, str] = {}
    for label, answer in entries.items():
        truth = _TRUTHS.get(label.lower())
        if truth is not None:
            same = answers.setdefault(truth, answer) == answer
            answers[truth] = answer if same else "NULL"
    return answers


def _times(engine: Dialect) -> dict[str, tuple[str, ...]]:
    """Return the engine's types of dates and times by the form of their texts."""
    return {
        _DATE: (engine.date,),
        _MOMENT: engine.moments,
        _TIME: (engine.time,) if engine.time else (),
    }


def _has_form(labels: Iterable[str], form: str) -> bool:
    """Return whether some labels may be times, and all of these have this form."""
    times = [label for label in labels if _TIMELIKE.search(label)]
    return bool(times) and all(re.fullmatch(form, t, re.ASCII) for t in times)


def _printed_in_postgres(text: str, form: str) -> str:
    """Return the text of a date or moment whatever the setting of DateStyle."""
    moment = f"CAST({text} AS TIMESTAMP)"
    if form == _DATE:
        return f"to_char({moment}, 'YYYY-MM-DD')"
    return f"rtrim(rtrim(to_char({moment}, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.')"


def _case(value: str, cases: Iterable[tuple[str, str]], other: str) -> str:
    """Return the CASE of a value, without branches equal to its ELSE."""
    whens = " ".join(f"WHEN {key} THEN {a}" for key, a in cases if a != other)
    return f"CASE {value} {whens} ELSE {other} END" if whens else other


def _real(engine: Dialect, name: str) -> str:
    """Return a column as a float; other cells must not raise an error."""
    if engine.name == "duckdb":
        return f"TRY_CAST({name} AS {engine.double})"
    if engine.name == "sqlite":
        return name
    # The text of a float of single precision denotes another double.
    cast, single = ("TRY_CAST", "float") if engine.name == "spark" else ("CAST", "real")
    text = engine.as_text(name)
    return (
        f"CASE WHEN {engine.is_of(name, [single])} THEN {cast}({text} AS {single}) "
        f"ELSE {cast}({text} AS {engine.double}) END"
    )


# ---- tuples of columns


def _tuple_terms(
    engine: Dialect, encoder: TupleEncoder, answers: list[list[str]], prefix: str
) -> Iterable[str]:
    """Yield the points of each tuple: a CASE of the number formed by its codes."""
    sizes = encoder.base.sizes + 1
    codes = [
        _term(engine, encoder.single, column, [str(k) for k in range(size)], prefix)
        for column, size in zip(encoder.base, sizes.tolist(), strict=True)
    ]
    tuples = zip(encoder.members, encoder.tables, answers, strict=True)
    for members, table, each in tuples:
        if len(members) == 1:
            column = encoder.base[members[0]]
            own = [each[k] for k in table.tolist()]
            yield _term(engine, encoder.single, column, own, prefix)
            continue
        strides = [math.prod(table.shape[k + 1 :]) for k in range(table.ndim)]
        place = " + ".join(
            f"{stride} * ({codes[i]})"
            for i, stride in zip(members, strides, strict=True)
        )
        listed = [each[k] for k in table.ravel().tolist()]
        ((other, _),) = Counter(listed).most_common(1)
        cases = [(str(k), answer) for k, answer in enumerate(listed)]
        # A text among numbers has no code, nor has a cell of a rejected type.
        yield _case(f"COALESCE({place}, -1)", [("-1", "NULL"), *cases], other)
