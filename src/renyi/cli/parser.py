"""What can be asked for on the command line: commands, options, and their limits.

Only argparse is needed here, so that ``renyi --help`` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from renyi import __version__

_DIALECTS = ("duckdb", "postgres", "spark", "sqlite")
_FORMATS = ".csv, .csv.gz, .tsv, .txt, .parquet, .arrow"
_SOURCE = f"a table ({_FORMATS}), marginals (.renyi) or a bundled name"
_TABLES = (
    f"tables ({_FORMATS}), patterns such as 'visits-*.csv.gz', folders of Parquet "
    "files, or a bundled name"
)
_DATABASE = "or, with --table, a DuckDB or SQLite file (.duckdb, .db, .sqlite)"
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
    """A parser that tells an error in one line."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments; one that is not known is the command's affair."""
        known, rest = self.parse_known_args(args, namespace)
        parts = ("command", "action")
        names = [getattr(known, part, None) for part in parts]
        place = " ".join([self.prog, *filter(None, names)])
        if rest:
            self._refuse(f"unrecognized arguments: {' '.join(rest)}", place)
        if lacking := _lacking(known):
            self._refuse(f"the following arguments are required: {lacking}", place)
        return known

    def error(self, message: str) -> NoReturn:
        """Exit with the message and where to read on."""
        if message.endswith("FILE"):
            message += _BEFORE
        self._refuse(message, self.prog)

    def _refuse(self, message: str, place: str) -> NoReturn:
        self.exit(2, f"renyi: error: {message}; see '{place} --help'.\n")


def _lacking(known: argparse.Namespace) -> str:
    """Return what a command needs if no option stands in for it."""
    if getattr(known, "files", None) == [] and not known.sql:
        return f"FILE{_BEFORE}"
    if getattr(known, "print_sql", None) is False and known.out is None:
        return "--out"
    return ""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    >>> parser().parse_args(["datasets"]).command
    'datasets'
    """
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
    listing = _add(commands, "datasets", "list the bundled data sets")
    _add_json(listing)
    return whole


def _add(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
    )
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_prefix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="PREFIX",
        help="write PREFIX.json (model), PREFIX.log and PREFIX.renyi (marginals)",
    )


def _several(parser: Any, option: str, metavar: str, text: str) -> None:
    parser.add_argument(
        option, nargs="+", action="extend", default=[], metavar=metavar, help=text
    )


def _add_fit(commands: Any) -> None:
    parser = _add(commands, "fit", "train a classifier and certify it")
    known = f"{_TABLES}; {_DATABASE}; or marginals (.renyi)"
    _add_files(parser, known, required=False)
    parser.add_argument("--target", metavar="COL", help="the column to predict")
    _add_sources(parser)
    _add_prefix(parser)
    _add_encoder(parser)
    model = parser.add_argument_group("model")
    model.add_argument(
        "--alpha",
        type=_alpha,
        default="auto",
        metavar="auto|loo|NUMBER",
        help="ridge penalty, or how to choose it",
    )
    _add_order(model, "columns in a feature: 2 trains on all pairs of columns")
    model.add_argument(
        "--rule",
        choices=("map", "renyi", "sharp"),
        default="map",
        help="map answers the likelier class; renyi and sharp answer at random, with "
        "a smaller bound in closed form",
    )
    model.add_argument("--class-weight", choices=("balanced",), help="weigh classes")
    model.add_argument(
        "--no-intercept", action="store_true", help="fit the paper's literal form"
    )
    _add_seed(model, "seed of the rules renyi and sharp", None)
    parser.add_argument(
        "--marginals",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="write PREFIX.renyi; by default if its counts take less than 200 MB",
    )
    _add_json(parser)


def _add_encoder(
    parser: argparse.ArgumentParser, unseen: bool = True, inner: bool = True
) -> None:
    columns = parser.add_argument_group("columns")
    _several(columns, "--id", "COL", "identifiers: not used to learn")
    _several(columns, "--drop", "COL", "columns to leave out")
    _several(columns, "--numeric", "COL", "columns to bin, whatever they look like")
    _several(columns, "--categorical", "COL", "columns of labels, even if numbers")
    _several(columns, "--missing", "CODE", "cells that mean missing (so do ? and '')")
    columns.add_argument("--weight", metavar="COL", help="column of row weights")
    columns.add_argument(
        "--bins",
        type=_whole_number(2, 10_000),
        metavar="N",
        help="bins of a numeric column (default 5)",
    )
    columns.add_argument(
        "--min-count",
        type=_whole_number(1),
        metavar="N",
        help="merge labels on fewer rows than N",
    )
    if unseen:
        columns.add_argument(
            "--unseen",
            choices=("mean", "error"),
            help="labels unseen in training: count as the mean (default), or stop",
        )
    if inner:
        columns.add_argument(
            "--class-conditional",
            action="store_true",
            help="count the pairs within each class too",
        )
    parser.set_defaults(unseen=None, class_conditional=False)


def _add_predict(commands: Any) -> None:
    parser = _add(commands, "predict", "answer the rows of a table with a model")
    parser.add_argument("model", metavar="MODEL", help="a model that fit wrote (.json)")
    parser.epilog = (
        "Rows of a database are answered inside it, by the statement that 'renyi "
        "export MODEL --sql duckdb --table NAME' writes."
    )
    _add_files(parser, _TABLES)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="where to write (.csv, .csv.gz or .parquet), not stdout",
    )
    _add_where(parser)
    _several(parser, "--id", "COL", "columns to copy beside the answers")
    parser.add_argument(
        "--proba", action="store_true", help="add the estimated class probabilities"
    )
    parser.add_argument("--score", action="store_true", help="add the scores")
    _add_json(parser)


def _add_certify(commands: Any) -> None:
    parser = _add(
        commands, "certify", "print the worst error of a model under some marginals"
    )
    parser.add_argument("model", metavar="MODEL", help="a model that fit wrote (.json)")
    parser.add_argument(
        "file", metavar="MARGINALS", nargs="?", help="marginals (.renyi)"
    )
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
    rows.add_argument(
        "--rows", metavar="FILE", help="certify by these rows, not by marginals"
    )
    rows.add_argument(
        "--target", metavar="COL", help="their class (by default named as in training)"
    )
    rows.add_argument(
        "--confidence",
        type=_positive("between 0 and 1", 1),
        metavar="SHARE",
        help="confidence of the bound (default 0.95)",
    )
    _add_json(parser)


def _add_minimax(commands: Any) -> None:
    parser = _add(
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
    parser.add_argument(
        "--worst",
        metavar="FILE",
        help="write the worst distribution as a table (.csv, .csv.gz or .parquet)",
    )
    _add_encoder(parser, unseen=False)
    _add_json(parser)


def _add_hgr(commands: Any) -> None:
    parser = _add(
        commands, "hgr", "rank columns by their maximal correlation with the target"
    )
    _add_source(parser)
    parser.add_argument(
        "--matrix", action="store_true", help="print that of every pair of columns"
    )
    _add_encoder(parser, unseen=False, inner=False)
    _add_json(parser)


def _add_select(commands: Any) -> None:
    parser = _add(commands, "select", "select features, and train on them alone")
    _add_source(parser)
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--n-features",
        type=_whole_number(1),
        metavar="K",
        help="select exactly K features",
    )
    number.add_argument(
        "--penalty",
        type=_positive("above 0"),
        metavar="NUMBER",
        help="penalty on a feature's largest point (default: by cross-validation)",
    )
    number.add_argument(
        "--max-error",
        type=_positive("between 0 and 1", 1),
        metavar="SHARE",
        help="select the fewest features that are certified to err no more",
    )
    _add_order(parser, "columns in a feature: 2 selects among pairs of columns")
    parser.add_argument(
        "--rule",
        choices=("map", "renyi", "sharp"),
        default="map",
        help="how the refitted model answers",
    )
    _add_prefix(parser)
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the path (.svg, .png or .pdf); needs the extra plot",
    )
    _add_encoder(parser, inner=False)
    _add_json(parser)


def _add_order(parser: Any, text: str) -> None:
    parser.add_argument(
        "--order",
        type=_whole_number(1, 9),
        metavar="R",
        help=f"{text} (default 1, or that of the marginals)",
    )


def _add_seed(parser: Any, text: str, default: int | None = 0) -> None:
    seeds = _whole_number(0, 2**32 - 1)
    parser.add_argument("--seed", type=seeds, default=default, metavar="N", help=text)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=_SOURCE)
    parser.add_argument("--target", metavar="COL", help="the column to predict")


def _add_time_limit(parser: Any) -> None:
    parser.add_argument(
        "--time-limit",
        type=_positive("above 0"),
        metavar="SECONDS",
        help="stop with what is known by then, as Ctrl-C does",
    )


def _add_marginals(commands: Any) -> None:
    parser = _add(commands, "marginals", "build, merge, subtract or show marginals")
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    build = _add(actions, "build", "count the pairs of columns of a table")
    _add_files(build, f"{_TABLES}; {_DATABASE}", required=False)
    build.add_argument("--target", metavar="COL", help="the column to predict")
    build.add_argument(
        "--encoder",
        metavar="MODEL_OR_MARGINALS",
        help="take its columns and bins, so that the counts fit together",
    )
    build.add_argument(
        "--order",
        type=_whole_number(1, 9),
        metavar="R",
        help="columns in a feature: 2 counts pairs of pairs of columns (default 1, or "
        "that of --encoder)",
    )
    _add_sources(build)
    _add_print_sql(build)
    _add_encoder(build)
    merge = _add(actions, "merge", "add up marginals of disjoint rows")
    merge.add_argument("files", metavar="MARGINALS", nargs="+")
    subtract = _add(actions, "subtract", "take the rows of B out of A")
    subtract.add_argument("first", metavar="A", help="marginals (.renyi)")
    subtract.add_argument("second", metavar="B", help="marginals (.renyi)")
    show = _add(actions, "show", "print what marginals hold")
    show.add_argument("file", metavar="MARGINALS", help="marginals (.renyi)")
    show.add_argument(
        "--pair", nargs=2, metavar=("X", "Y"), help="print the table of two columns"
    )
    _add_json(show)
    for each in (build, merge, subtract):
        out = each.add_argument("--out", metavar="M.renyi", help="where to write")
        out.required = each is not build  # which may just print statements
        _add_json(each)


# ---- where rows come from


def _add_files(parser: Any, text: str, required: bool = True) -> None:
    """Add FILE, of which there may be several."""
    action = parser.add_argument(
        "files", metavar="FILE", nargs="+", help=text, default=[]
    )
    # With nargs="*", a file that comes after options would not be found.
    action.required = required


def _add_where(parser: Any, unless: str = "") -> None:
    parser.add_argument(
        "--where",
        metavar="SQL",
        help='only rows that fulfil a condition, such as "year = 2024" (needs the '
        f"extra duckdb{unless})",
    )


def _add_sources(parser: Any) -> None:
    group = parser.add_argument_group("rows")
    _add_where(group, ", but for a table of a SQLite database")
    group.add_argument(
        "--sql",
        metavar="QUERY",
        help="the rows of a query for DuckDB; the files, if any, are its table data",
    )
    group.add_argument(
        "--table",
        metavar="NAME",
        help="a table of a database (.duckdb, .db, .sqlite), counted inside it",
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep what has been counted: the same command goes on after a kill",
    )


def _add_print_sql(parser: Any) -> None:
    parser.add_argument(
        "--print-sql",
        action="store_true",
        help="print the statements for --table, and count nothing: those about single "
        "columns are run now, since the others depend on the answers; those that read "
        "rows or count pairs are only printed",
    )


def _add_export(commands: Any) -> None:
    parser = _add(commands, "export", "write a model as SQL")
    parser.add_argument("model", metavar="MODEL", help="a model that fit wrote (.json)")
    parser.add_argument(
        "--sql", choices=_DIALECTS, required=True, help="the engine it is for"
    )
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="write a SELECT that adds scores and answers to this table, not only the "
        "expression of a score",
    )
    parser.add_argument(
        "--label", metavar="CLASS", help="whose score (by default the second of two)"
    )
    parser.add_argument("--out", metavar="FILE.sql", help="where to write, not stdout")


# ---- values, read from text


def _whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads an option that is a whole number between two others."""
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(
                f"it takes a whole number {limits}, not {text!r:.60}"
            )
        return value

    return read


def _alpha(text: str) -> float | str:
    """Read the ridge penalty, or how to choose it."""
    if text in ("auto", "loo"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"alpha is auto, loo or a number of at least 0, not {text!r}"
        )
    return value


def _positive(limits: str, most: float = float("inf")) -> Callable[[str], float]:
    """Return what reads an option that is a number above 0 and below another."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < most:
            raise argparse.ArgumentTypeError(
                f"it takes a number {limits}, not {text!r:.60}"
            )
        return value

    return read
