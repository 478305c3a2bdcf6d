"""What can be asked for on the command line: commands, options, and their limits.

Only argparse is needed here, so that ``renyi --help`` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from renyi import __version__

_RULES = ("map", "renyi", "sharp")
_DIALECTS = ("duckdb", "postgres", "spark", "sqlite")
_FORMATS = ".csv, .csv.gz, .tsv, .txt, .parquet, .arrow"
_SOURCE = f"a table ({_FORMATS}), marginals (.renyi) or a bundled name"
_TABLES = (
    f"tables ({_FORMATS}), patterns such as 'visits-*.csv.gz', folders of Parquet "
    "files, or a bundled name"
)
_DATABASE = "or, with --table, a DuckDB or SQLite file (.duckdb, .db, .sqlite)"
_MODEL = "a model that fit wrote (.json)"
_MARGINALS = "marginals (.renyi)"
_BEFORE = " (put it before options that take several names)"
_EPILOG = """\
examples:
  renyi fit votes --out votes             learn from a bundled data set
  renyi fit visits.csv --target readmitted --id patient --out visits
  renyi predict visits.json new.csv --id patient --out answers.csv
  renyi marginals build visits.csv --target readmitted --out visits.renyi
  renyi marginals build 'visits-*.parquet' --target readmitted \\
        --where "year = 2024" --checkpoint job --out visits.renyi
  renyi export visits.json --sql duckdb --table visits
  renyi select visits.csv --target readmitted --n-features 10
  renyi certify visits.json visits.renyi --exact --time-limit 300

'renyi COMMAND --help' explains a command.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments; an unknown one is reported by its command."""
        known, rest = self.parse_known_args(args, namespace)
        names = [getattr(known, part, None) for part in ("command", "action")]
        place = " ".join([self.prog, *filter(None, names)])
        if rest:
            self._fail(f"unrecognized arguments: {' '.join(rest)}", place)
        if lacking := _lacking(known):
            self._fail(f"the following arguments are required: {lacking}", place)
        return known

    def error(self, message: str) -> NoReturn:
        """Exit with the message and where to read on."""
        if message.endswith("FILE"):
            message += _BEFORE
        self._fail(message, self.prog)

    def _fail(self, message: str, place: str) -> NoReturn:
        self.exit(2, f"renyi: error: {message}; see '{place} --help'.\n")


def _lacking(known: argparse.Namespace) -> str:
    """Return what a command needs if no option stands in for it."""
    if getattr(known, "files", None) == [] and not known.sql:
        return f"FILE{_BEFORE}"
    if getattr(known, "print_sql", None) is False and known.out is None:
        return "--out"
    return ""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    whole = _Parser(
        prog="renyi",
        description="Classify categorical data from counts of pairs of columns,\n"
        "with a worst-case error that is proven.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"renyi {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True, dest="command")
    _add_fit(commands)
    _add_predict(commands)
    _add_certify(commands)
    _add_minimax(commands)
    _add_hgr(commands)
    _add_select(commands)
    _add_marginals(commands)
    _add_export(commands)
    _add_json(_command(commands, "datasets", "list the bundled data sets"))
    return whole


# ---- commands


def _add_fit(commands: Any) -> None:
    parser = _command(commands, "fit", "train a classifier and certify it")
    _add_files(parser, f"{_TABLES}; {_DATABASE}; or marginals (.renyi)", required=False)
    _add_target(parser)
    _add_rows(parser)
    _add_prefix(parser)
    _add_columns(parser)
    model = parser.add_argument_group("model")
    text = "ridge penalty, or how to choose it"
    _value(model, "--alpha auto|loo|NUMBER", text, _alpha, "auto")
    _add_order(model, "columns in a feature: 2 trains on all pairs of columns")
    text = (
        "map answers the likelier class; renyi and sharp answer at random, with a "
        "smaller bound in closed form"
    )
    model.add_argument("--rule", choices=_RULES, default="map", help=text)
    model.add_argument("--class-weight", choices=("balanced",), help="weigh classes")
    _flag(model, "--no-intercept", "fit the paper's literal form")
    _add_seed(model, "seed of the rules renyi and sharp", None)
    parser.add_argument(
        "--marginals",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="write PREFIX.renyi; by default if its counts take less than 200 MB",
    )
    _add_json(parser)


def _add_predict(commands: Any) -> None:
    parser = _command(commands, "predict", "answer the rows of a table with a model")
    parser.epilog = (
        "Rows of a database are answered inside it, by the statement that 'renyi "
        "export MODEL --sql duckdb --table NAME' writes."
    )
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    _add_files(parser, _TABLES)
    text = "write to a file (.csv, .csv.gz or .parquet), not to stdout"
    _value(parser, "--out FILE", text)
    _add_where(parser)
    _names(parser, "--id COL", "columns to copy beside the answers")
    _flag(parser, "--proba", "add the estimated class probabilities")
    _flag(parser, "--score", "add the scores")
    _add_json(parser)


def _add_certify(commands: Any) -> None:
    parser = _command(
        commands, "certify", "print the worst error of a model under some marginals"
    )
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("file", metavar="MARGINALS", nargs="?", help=_MARGINALS)
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "--level",
        choices=("closed", "lp", "exact"),
        help="how far to go: the closed form (default), a linear program, or the exact "
        "worst case, beside what any rule could promise",
    )
    level.add_argument(
        "--exact",
        action="store_const",
        const="exact",
        dest="level",
        help="short for --level exact",
    )
    _add_time_limit(parser)
    rows = parser.add_argument_group("rows that were not used in training")
    _value(rows, "--rows FILE", "certify by these rows, not by marginals")
    _value(rows, "--target COL", "their class (by default named as in training)")
    share = _number("between 0 and 1", 1)
    _value(rows, "--confidence SHARE", "confidence of the bound (default 0.95)", share)
    _add_json(parser)


def _add_minimax(commands: Any) -> None:
    parser = _command(
        commands, "minimax", "find the smallest worst error that any rule can promise"
    )
    _add_source(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--method",
        choices=("auto", "lp", "exact"),
        default="auto",
        help="lp: an upper bound by one linear program; exact: close the interval; "
        "auto: exact where it takes seconds",
    )
    _add_time_limit(search)
    _add_seed(search, "seed of the search")
    text = "write the worst distribution as a table (.csv, .csv.gz or .parquet)"
    _value(parser, "--worst FILE", text)
    _add_columns(parser, unseen=False)
    _add_json(parser)


def _add_hgr(commands: Any) -> None:
    parser = _command(
        commands, "hgr", "rank columns by their maximal correlation with the target"
    )
    _add_source(parser)
    _flag(parser, "--matrix", "print that of every pair of columns")
    _add_columns(parser, unseen=False, class_conditional=False)
    _add_json(parser)


def _add_select(commands: Any) -> None:
    parser = _command(commands, "select", "select features, and train on them alone")
    _add_source(parser)
    number = parser.add_mutually_exclusive_group()
    _value(number, "--n-features K", "select exactly K features", _whole_number(1))
    text = "penalty on a feature's largest point (default: by cross-validation)"
    _value(number, "--penalty NUMBER", text, _number("above 0"))
    text = "select the fewest features that are certified to err no more"
    _value(number, "--max-error SHARE", text, _number("between 0 and 1", 1))
    _add_order(parser, "columns in a feature: 2 selects among pairs of columns")
    text = "how the refitted model answers"
    parser.add_argument("--rule", choices=_RULES, default="map", help=text)
    _add_prefix(parser)
    text = "draw the path (.svg, .png or .pdf); needs the extra plot"
    _value(parser, "--plot FILE", text)
    _add_columns(parser, class_conditional=False)
    _add_json(parser)


def _add_marginals(commands: Any) -> None:
    parser = _command(commands, "marginals", "build, merge, subtract or show marginals")
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    build = _command(actions, "build", "count the pairs of columns of a table")
    _add_files(build, f"{_TABLES}; {_DATABASE}", required=False)
    _add_target(build)
    text = "take its columns and bins, so that the counts fit together"
    _value(build, "--encoder MODEL_OR_MARGINALS", text)
    text = (
        "columns in a feature: 2 counts pairs of pairs of columns (default 1, or that "
        "of --encoder)"
    )
    _value(build, "--order R", text, _whole_number(1, 9))
    _add_rows(build)
    _flag(
        build,
        "--print-sql",
        "print the statements for --table, and count nothing: those about single "
        "columns are run now, since the others depend on the answers; those that read "
        "rows or count pairs are only printed",
    )
    _add_columns(build)
    merge = _command(actions, "merge", "add up marginals of disjoint rows")
    merge.add_argument("files", metavar="MARGINALS", nargs="+")
    subtract = _command(actions, "subtract", "take the rows of B out of A")
    subtract.add_argument("first", metavar="A", help=_MARGINALS)
    subtract.add_argument("second", metavar="B", help=_MARGINALS)
    show = _command(actions, "show", "print what marginals hold")
    show.add_argument("file", metavar="MARGINALS", help=_MARGINALS)
    text = "print the table of two columns"
    show.add_argument("--pair", nargs=2, metavar=("X", "Y"), help=text)
    _add_json(show)
    for each in (build, merge, subtract):
        out = each.add_argument("--out", metavar="M.renyi", help="where to write")
        out.required = each is not build  # which may just print statements
        _add_json(each)


def _add_export(commands: Any) -> None:
    parser = _command(commands, "export", "write a model as SQL")
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    text = "the engine it is for"
    parser.add_argument("--sql", choices=_DIALECTS, required=True, help=text)
    text = (
        "write a SELECT that adds scores and answers to this table, not only the "
        "expression of a score"
    )
    _value(parser, "--table NAME", text)
    _value(parser, "--label CLASS", "whose score (by default the second of two)")
    _value(parser, "--out FILE.sql", "write to a file, not to stdout")


# ---- options that several commands have


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
    )
    return parser


def _flag(parser: Any, option: str, text: str) -> None:
    parser.add_argument(option, action="store_true", help=text)


def _value(
    parser: Any, usage: str, text: str, read: Any = None, default: Any = None
) -> None:
    """Add an option with one value; `usage` is as in ``--out FILE``."""
    option, metavar = usage.split()
    parser.add_argument(
        option, metavar=metavar, help=text, type=read or str, default=default
    )


def _names(parser: Any, usage: str, text: str) -> None:
    """Add an option with one or more values, which may be given several times."""
    option, metavar = usage.split()
    parser.add_argument(
        option, nargs="+", action="extend", default=[], metavar=metavar, help=text
    )


def _add_json(parser: Any) -> None:
    _flag(parser, "--json", "print one JSON object")


def _add_target(parser: Any) -> None:
    _value(parser, "--target COL", "the column to predict")


def _add_source(parser: Any) -> None:
    parser.add_argument("file", metavar="FILE", help=_SOURCE)
    _add_target(parser)


def _add_files(parser: Any, text: str, required: bool = True) -> None:
    """Add FILE, of which there may be several."""
    files = parser.add_argument(
        "files", metavar="FILE", nargs="+", help=text, default=[]
    )
    # With nargs="*", a file that comes after options would not be found.
    files.required = required


def _add_prefix(parser: Any) -> None:
    text = "write PREFIX.json (model), PREFIX.log and PREFIX.renyi (marginals)"
    _value(parser, "--out PREFIX", text)


def _add_order(parser: Any, text: str) -> None:
    text = f"{text} (default 1, or that of the marginals)"
    _value(parser, "--order R", text, _whole_number(1, 9))


def _add_seed(parser: Any, text: str, default: int | None = 0) -> None:
    _value(parser, "--seed N", text, _whole_number(0, 2**32 - 1), default)


def _add_time_limit(parser: Any) -> None:
    text = "stop with what is known by then, as Ctrl-C does"
    _value(parser, "--time-limit SECONDS", text, _number("above 0"))


def _add_where(parser: Any, unless: str = "") -> None:
    """Add the condition on rows; it needs no extra for what `unless` names."""
    text = (
        'only rows that fulfil a condition, such as "year = 2024" (needs the extra '
        f"duckdb{unless})"
    )
    _value(parser, "--where SQL", text)


def _add_rows(parser: Any) -> None:
    """Add conditions, queries, tables of databases, and what a long count may need."""
    rows = parser.add_argument_group("rows")
    _add_where(rows, ", but for a table of a SQLite database")
    text = "the rows of a query for DuckDB; the files, if any, are its table data"
    _value(rows, "--sql QUERY", text)
    text = "a table of a database (.duckdb, .db, .sqlite), counted inside it"
    _value(rows, "--table NAME", text)
    text = "keep what has been counted: the same command goes on after a kill"
    _value(rows, "--checkpoint FILE", text)


def _add_columns(
    parser: Any, unseen: bool = True, class_conditional: bool = True
) -> None:
    """Add what is to be done with the columns."""
    columns = parser.add_argument_group("columns")
    _names(columns, "--id COL", "identifiers: not used to learn")
    _names(columns, "--drop COL", "columns to leave out")
    _names(columns, "--numeric COL", "columns to bin, whatever they look like")
    _names(columns, "--categorical COL", "columns of labels, even if numbers")
    _names(columns, "--missing CODE", "cells that mean missing (so do ? and '')")
    _value(columns, "--weight COL", "column of row weights")
    text = "bins of a numeric column (default 5)"
    _value(columns, "--bins N", text, _whole_number(2, 10_000))
    text = "merge labels on fewer rows than N"
    _value(columns, "--min-count N", text, _whole_number(1))
    if unseen:
        text = "labels unseen in training: count as the mean (default), or stop"
        columns.add_argument("--unseen", choices=("mean", "error"), help=text)
    if class_conditional:
        text = "count the pairs within each class too"
        _flag(columns, "--class-conditional", text)
    parser.set_defaults(unseen=None, class_conditional=False)


# ---- values, read from text


def _whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number between two others."""
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(
                f"{text!r:.60} is not a whole number {limits}"
            )
        return value

    return read


def _number(limits: str, most: float = float("inf")) -> Callable[[str], float]:
    """Return what reads a number above 0 and below another."""

    def read(text: str) -> float:
        value = _float(text)
        if not 0 < value < most:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not a number {limits}")
        return value

    return read


def _alpha(text: str) -> float | str:
    """Read the ridge penalty, or how to choose it."""
    if text in ("auto", "loo"):
        return text
    value = _float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not auto, loo or a number of at least 0"
        )
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
