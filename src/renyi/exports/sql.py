"""The scorecard as SQL: the scores of `Scorecard.scores`, computed where rows are.

A score is a sum of points, hence one expression: for each feature a CASE finds the
category of a cell, as the encoder does, and gives its points:

* labels by their text. The text of a float is not what an engine would print (1.0 is
  the label "1"), so that floats are compared as numbers, truth values as "True" and
  "False", and times with a zone in UTC; which it is, the type of the column tells when
  the statement runs. The score of bytes is NULL unless the engine has their text;
* numbers by the edges of their bins, NULL and NaN being missing;
* a label that training never saw by the mean points of the feature; or the score is
  NULL if the encoder is to stop at such labels, since an expression cannot stop.

Points and edges are written to the last bit. Decimals and floats of single precision
are compared as the doubles that the engine makes of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.encoding.columns import Column, Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.sources.dialects import Dialect, binned, named

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

# Engines bound how deep an expression nests, and a sum nests one level a term.
_TERMS = 100

# Labels of times with a zone, and those that DuckDB would write alike as bytes.
_ZONED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z")
_PLAIN = re.compile(r"""[^\\'"\x00-\x1f\x7f-\U0010ffff]*""")

SCORE = "renyi_score"
ANSWER = "renyi_prediction"


def expression(card: Scorecard, dialect: str, label: Label | None = None) -> str:
    """Return the score of a class as an expression over the columns of a table."""
    place = _class_place(card, label)
    (tables, starts), two = card.tables, card.n_classes == 2
    column = 0 if two else place
    sign = -1 if two and place == 0 else 1
    engine, intercept = named(dialect), np.atleast_1d(card.intercept)[column]
    points = np.split(sign * tables[:, column], starts[1:])
    first = engine.number(float(sign * intercept))
    terms = [first, *_terms(engine, card.encoder, points)]
    return f"({_sum(terms)})"  # to be part of whatever the user writes


def query(card: Scorecard, table: str | Sequence[str], dialect: str) -> str:
    """Return the query that adds scores and the answer of `map` to rows of a table."""
    engine = named(dialect)
    name = engine.identifier
    labels = {SCORE: card.classes[1]}
    if card.n_classes > 2:
        labels = {f"{SCORE}_{label_text(c)}": c for c in card.classes}
    _check_names(engine, card, [*labels, ANSWER])
    scores = {name(each): expression(card, dialect, c) for each, c in labels.items()}
    columns = list(scores)
    made = ",\n".join(f"{score} AS {column}" for column, score in scores.items())
    rows = _without(engine, engine.table(table), [*columns, name(ANSWER)])
    return (
        f"SELECT *, {_answer(engine, card, columns)} AS {name(ANSWER)}\n"
        f"FROM (SELECT *,\n{made}\nFROM ({rows}) AS {name('given')}) "
        f"AS {name('scored')}"
    )


def _check_names(engine: Dialect, card: Scorecard, made: list[str]) -> None:
    """Check that the engine tells the names of all columns apart."""
    same = str if engine.name == "postgres" else str.lower
    seen = {same(name) for name in card.encoder.input_names}
    for name in made:
        if same(name) in seen:
            raise ValueError(
                f"The query would add a column {name!r} beside one of that name: take "
                "the expressions of the scores instead, without a table, and name them "
                "yourself."
            )
        seen.add(same(name))


def _without(engine: Dialect, table: str, columns: list[str]) -> str:
    """Return the rows of a table that must not have some columns.

    Of two columns of one name, engines take the first without a word: the score of an
    earlier model. The second table here has these columns, all NULL, so that their
    names are ambiguous, which is an error in every engine, if the first has them too.
    """
    row, fresh = engine.identifier("row"), engine.identifier("fresh")
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


def _terms(engine: Dialect, encoder: Encoder, points: Any) -> Iterable[str]:
    """Yield the points of each feature; the last of its points are of the unseen."""
    answers = [[engine.number(float(point)) for point in each] for each in points]
    if encoder.unseen == "error":
        answers = [[*each[:-1], "NULL"] for each in answers]
    if isinstance(encoder, TupleEncoder):
        return _tuple_terms(engine, encoder, answers)
    pairs = zip(encoder.columns, answers, strict=True)
    return (_term(engine, encoder, column, each) for column, each in pairs)


def _term(
    engine: Dialect, encoder: Encoder, column: Column, answers: Sequence[str]
) -> str:
    """Return the CASE of a column's category; its last answer is for unseen labels."""
    if len(set(answers)) == 1:
        return answers[0]
    name, levels = engine.identifier(column.name), column.levels
    known = [*levels.categories, *levels.rare, *encoder.missing]
    labels = [label for label in known if label is not None]
    *found, absent = (answers[code] for code in encoder.code_table(levels, labels))
    if levels.kind == "number":
        bins = answers[: len(levels.edges) + 1]
        missing = [label_text(code) for code in encoder.missing]
        return binned(engine, name, levels.edges, missing, [*bins, absent], "NULL")
    entries = dict(zip(map(label_text, labels), found, strict=True))
    return _by_text(engine, name, entries, absent, answers[-1])


def _by_text(
    engine: Dialect, name: str, entries: Mapping[str, str], absent: str, unseen: str
) -> str:
    """Return the answer for a label's text, for missing cells, and for the unseen."""
    branches = []
    if absent != unseen:
        branches.append(f"WHEN {name} IS NULL THEN {absent}")
    if _hidden(engine, entries):
        branches.append(f"WHEN {engine.is_of(name, [engine.binary])} THEN NULL")
    floats = {text: v for text in entries if (v := _float(text)) is not None}
    if absent != unseen or floats:
        cases = [
            (engine.number(value), entries[text])
            for text, value in floats.items()
            if label_text(value) == text and not math.isnan(value)
        ]
        if engine.nan:
            cases.append((f"CAST('NaN' AS {engine.double})", absent))
        real = _case(_real(engine, name), cases, unseen)
        branches.append(f"WHEN {engine.is_of(name, engine.reals)} THEN {real}")
    if engine.boolean and {"true", "false"} & {text.lower() for text in entries}:
        cases = [(f"'{t.lower()}'", entries.get(t, unseen)) for t in ("True", "False")]
        truth = _case(engine.as_text(name), cases, unseen)
        branches.append(f"WHEN {engine.is_of(name, [engine.boolean])} THEN {truth}")
    if engine.zoned and any(map(_ZONED.fullmatch, entries)):
        zoned = filter(_ZONED.fullmatch, entries)
        cases = [(engine.string(text), entries[text]) for text in zoned]
        moment = name
        if engine.name != "spark":  # what is no time must do no harm
            cast = "TRY_CAST" if engine.name == "duckdb" else "CAST"
            moment = f"{cast}({engine.as_text(name)} AS TIMESTAMPTZ)"
        moment = _case(engine.in_utc(moment), cases, unseen)
        branches.append(f"WHEN {engine.is_of(name, [engine.zoned])} THEN {moment}")
    cases = [
        (engine.string(text), answer)
        for text, answer in entries.items()
        if engine.name != "postgres" or "\0" not in text  # which it has in no text
    ]
    case = _case(engine.as_text(name), cases, unseen)
    return "CASE " + "\n  ".join([*branches, f"ELSE {case} END"]) if branches else case


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


def _hidden(engine: Dialect, entries: Iterable[str]) -> bool:
    """Whether the text of a cell of bytes may differ from the label it has.

    DuckDB writes some bytes as codes, PostgreSQL all of them; the others take bytes for
    the text they are, but labels have a mark where that is no text.
    """
    if engine.name == "duckdb":
        return not all(map(_PLAIN.fullmatch, entries))
    return engine.name == "postgres" or any("\ufffd" in text for text in entries)


def _float(text: str) -> float | None:
    """Return the float that an engine might print like this, if there is one."""
    try:
        return float(text)
    except ValueError:
        return None


# ---- tuples of columns


def _tuple_terms(
    engine: Dialect, encoder: TupleEncoder, answers: list[list[str]]
) -> Iterable[str]:
    """Yield the points of each tuple: a CASE of the number that its codes make."""
    sizes = encoder.base.sizes + 1
    codes = [
        _term(engine, encoder.single, column, [str(k) for k in range(size)])
        for column, size in zip(encoder.base, sizes.tolist(), strict=True)
    ]
    tuples = zip(encoder._members, encoder._tables, answers, strict=True)
    for members, table, each in tuples:
        strides = [math.prod(table.shape[k + 1 :]) for k in range(table.ndim)]
        place = " + ".join(
            f"{stride} * ({codes[i]})"
            for i, stride in zip(members, strides, strict=True)
        )
        found = [each[k] for k in table.ravel().tolist()]
        ((other, _),) = Counter(found).most_common(1)
        made = _case(place, [(str(k), a) for k, a in enumerate(found)], other)
        if "THEN NULL" in place:  # a text among numbers has no code, nor have bytes
            made = f"CASE WHEN {place} IS NULL THEN NULL ELSE {made} END"
        yield made
