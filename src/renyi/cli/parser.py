"""Define the commands, their options, and the values that options accept.

Each command is a text with one line per argument, which `add_command` parses. An option
has the same meaning in every command; `_HELP` explains those that several commands
share. This module imports little besides argparse, so that ``renyi --help`` is fast.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from renyi import __version__
from renyi.formatting import either
from renyi.sources import suffixes

if TYPE_CHECKING:
    from renyi.sources.files import TableFile

SMALL = 200_000_000  # bytes; larger pair counts are written only on request
_SOURCE = f"a table ({suffixes.TABLES}), pair counts (.renyi) or a bundled name"
_TABLES = (
    f"tables ({suffixes.TABLES}), patterns ('v*.csv'), Parquet folders, a bundled name"
)
_SHORT = "tables (.csv, .parquet, …), database, or counts"  # one line of help
_DATABASE = "with --table a database (file, or postgresql://…)"
WRITTEN = (".csv", ".csv.gz", ".parquet")  # file endings of predictions
PICTURE = (".svg", ".png", ".pdf")
EXPORTS = {  # file endings of exported models, by format
    "csv": ".csv",
    "md": ".md",
    "html": ".html",
    "python": ".py",
    "javascript": ".js",
    "onnx": ".onnx",
}
_WRITTEN = either(WRITTEN)
_PICTURE = either(PICTURE)
_FORMATS = f"{{{','.join(EXPORTS)}}}"
_MODEL = "a model written by fit (.json)"
_MARGINALS = "pair counts (.renyi)"
PREVALENCE = "share of the second class, as sorted, where the model is used"
_WHERE = 'use only these rows, such as "year = 2024"'
_BEFORE = " (put it before options that take several names)"
_EPILOG = """\
examples:
  renyi fit votes --out votes             learn from a bundled data set
  renyi fit visits.csv --target readmitted --id patient --out visits
  renyi predict visits.json new.csv --id patient --out answers.csv
  renyi marginals build visits.csv --target readmitted --out visits.renyi
  renyi marginals build 'visits-*.parquet' --target readmitted \\
        --where "year = 2024" --out visits.renyi
  renyi export visits.json --sql duckdb --table visits
  renyi export visits.json --points 10 --out visits.html
  renyi select visits.csv --target readmitted --n-features 10
  renyi compare visits.csv --target readmitted --out compare.html
  renyi certify visits.json visits.renyi --exact --time-limit 300
  renyi report visits.json -o visits.html  see the model in a browser
  renyi fit visits.csv --target readmitted --confidence 0.95 --out visits
  renyi genotypes fit study.bed --pheno pop.phe --covar pcs.txt --out study

'renyi COMMAND --help' explains a command.
"""


class Place(str):
    """A path that the command writes."""


class Args(argparse.Namespace):
    """The arguments of a command: its options (`vars`), and facts about them."""

    __slots__ = ("addresses", "argv", "places", "reads", "tables")

    def __init__(self, argv: list[str]) -> None:
        super().__init__()
        self.argv = argv  # without passwords
        self.addresses: dict[str, str] = {}  # text without password: with it
        self.places: dict[Path, str] = {}  # real path of an output: as given
        self.reads: list[str] = []  # inputs that no option names
        self.tables: list[TableFile] | None = None  # None until they are opened


class Arguments(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument."""


class Commands(Protocol):
    """The part of a parser to which commands are added."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        """Add a command and return its parser."""


# ---- options that several commands have

_LEVEL = """
either --level {closed,lp,exact}  how far to go (default closed): the closed form, a
    linear program, or the exact worst case
or --exact  short for --level exact
--time-limit SECONDS
"""
_HELDOUT = "rows that were not used in training:"
_CLASS = "--target COL  the column to predict (default: as in training)"
_TABLE = """
--table NAME  a table of a database
--trust-views  also read views of a database file
"""
_ROWS = f"""
rows:
--where SQL  {_WHERE}
--sql QUERY  rows of a DuckDB query (FILE is its table data)
{_TABLE}
"""
_SEP = "--sep CHAR  between cells of a text table (default: found)"
_NAMES = "--names A,B,…  columns, if there is no header"
_LAYOUT = f"""
{_SEP}
--no-header  the first row is data: columns x1, x2, …
{_NAMES}
"""
_COLUMNS = """
columns:
--id COL ...  columns that identify a row (never predictors)
--drop COL ...  columns to ignore
--numeric COL ...  columns of numbers, to cut into bins
--categorical COL ...  columns of labels, even if numbers
--missing CODE ...  cells that mean missing (so do ? and '')
--bins N  bins of a number (default auto), or age=30,60
--min-count N  merge labels on fewer rows than N
--memory SIZE
"""
_BINNING = """
--binning {supervised}  choose the bins by the classes
--monotone COL ...  along these the class share rises, or falls
"""
_WEIGHT = "--weight COL  column of row weights"
_UNSEEN = """
--unseen {mean,error}  take an unseen label as the mean, or stop
"""
_WITHIN = "--class-conditional  also count the pairs within each class"
# ---- commands

_FIT = f"""train a classifier and certify it
[FILE ...]  {_SHORT}
--target COL
--out PREFIX
--marginals  write PREFIX.renyi (default: below {SMALL / 1e6:.0f} MB)
--details
--json
{_ROWS}
{_SEP}
{_NAMES} (or --no-header)
--no-header
{_COLUMNS}
{_BINNING}
{_WEIGHT}
{_UNSEEN}
{_WITHIN}
model:
--alpha auto|loo|NUMBER
--order R|auto|all
--interactions PAIRS  add pairs of columns, a:b,c:d (or 10, or auto)
--rule {{map,renyi,sharp}}
--class-weight {{balanced}}  weights of the classes
--objective {{error,ranking,logistic}}  error, ranking (2 classes) or logistic (rows)
--calibration {{auto,temperature,sigmoid,affine,discriminant,none}}
--no-intercept  fit the paper's literal form
--seed N
--confidence SHARE  confidence of the bound (rows: --holdout)
--holdout SHARE
"""
_PREDICT = f"""predict the rows of a table with a model
MODEL  {_MODEL}
FILE ...  {_TABLES}; {_DATABASE}
--out FILE  write to a file ({_WRITTEN}), not to stdout
--where SQL  {_WHERE}
{_TABLE}
{_LAYOUT}
--id COL ...  columns that identify a row (copied to the answers)
--proba  add the estimated class probabilities
--score  add the scores
--prevalence SHARE  {PREVALENCE} (answers follow it)
--memory SIZE
--spreadsheet
--json
note:  To predict inside a database, run the statement that 'renyi export MODEL --sql
    duckdb --table NAME' writes.
"""
_EXPLAIN = f"""show the points behind a model's answers, row by row
MODEL  {_MODEL}
FILE ...  {_TABLES}; {_DATABASE}
--row N  this row only, counted from 1 (default: the first three, or all with --out and
    --json)
--out FILE  write a table of the points ({_WRITTEN})
--where SQL  {_WHERE}
{_TABLE}
{_LAYOUT}
--id COL ...  columns that identify a row (copied to the answers)
--memory SIZE
--spreadsheet
--json
"""
_CERTIFY = f"""bound the error of a model by pair counts or by unseen rows
[MODEL]  {_MODEL}, or a table of points (.csv)
[MARGINALS]  {_MARGINALS}
{_LEVEL}
--proof FILE
--prevalence SHARE  {PREVALENCE} (adds a bound)
--memory SIZE
--details
--json
{_HELDOUT}
--rows FILE  evaluate the model on these rows (instead of pair counts)
{_TABLE}
{_LAYOUT}
{_CLASS}
--confidence SHARE  confidence of the bound (default 0.95)
a table of points, with the columns feature, category, points (and class):
--threshold POINTS  total above which the second class is answered (default 0)
two halves of the rows, or two samples:
--halves A.renyi B.renyi  train on the pair counts of each, and certify by those of the
    other
--out FILE.json  write the model: the mean of the two, or the table of points
"""
_VERIFY = f"""check a guarantee in exact arithmetic
[MODEL]  {_MODEL}; not for a proof written by minimax
MARGINALS  {_MARGINALS}
--proof FILE  a proof of the bounds (written by certify or minimax)
--json
note:  The exit code is 0 if it is proved, 1 if not, 2 if a file is wrong. Without renyi
    installed, run the single file renyi/verify.py instead.
"""
_MINIMAX = f"""find the smallest error that any rule can guarantee
FILE  {_SOURCE}
--target COL
--proof FILE
--json
search:
--level {{auto,lp,exact}}  how far to go (default auto): an upper bound by a linear
    program, or the exact worst case; auto is exact where that takes seconds
--time-limit SECONDS
--seed N
{_COLUMNS}
{_LAYOUT}
{_WEIGHT}
{_WITHIN}
"""
_HGR = f"""rank columns by their maximal correlation with the target
FILE  {_SOURCE}
--target COL
--json
{_COLUMNS}
{_LAYOUT}
{_WEIGHT}
"""
_SELECT = f"""select features, and train on them alone
FILE  {_SOURCE}
--target COL
--method {{forward,path}}  add the feature that lowers the risk most (forward, the
    default), or follow the penalties of the paper's Algorithm 1 (path)
either --n-features K  select exactly K features (default: by cross-validation)
or --penalty NUMBER  select by Algorithm 1 at this penalty on a feature's largest point
or --max-error SHARE  select the fewest features with an error certified to be at most
    this
--order R  columns in a feature; 2 uses pairs (default 1, or that of FILE)
--rule {{map,renyi,sharp}}
--out PREFIX
--plot FILE
--details
--json
{_COLUMNS}
{_LAYOUT}
{_WEIGHT}
{_UNSEEN}
"""
_COMPARE = f"""compare several methods, or models, on the same rows
[FILE ...]  {_TABLES}; {_DATABASE}; for --models, rows not used in training
--target COL
--methods NAME ...  train these (default: the quick ones)
--models MODEL ...  compare these models, written by fit (.json)
--folds K  evaluate by cross-validation in K folds (default 10)
--confidence SHARE  confidence of the bound (default 0.95)
--seed N
--out FILE.html  write one page with a chart
--json
--weight COL
{_ROWS}
{_LAYOUT}
{_COLUMNS}
{_UNSEEN}
note:  Methods: map, renyi, sharp (rules of the points), uncalibrated, order2 (pairs of
    columns), every-order (tuples of all sizes), minimax, dcc, mpm, tan, logistic,
    naive-bayes, majority; all for all of them.
"""
_BUILD = f"""count the pairs of columns of a table
[FILE ...]  {_TABLES}; {_DATABASE}
--target COL
--encoder FILE  use its columns and categories (a model, pair counts or an encoder, so
    that the counts can be combined)
--order R  columns in a feature; 2 uses pairs (default 1, or that of --encoder)
--interactions PAIRS  add pairs of columns, a:b,c:d
--tables FILE ...  published tables (CSV) instead of rows: the first cell names both
    columns ("age by income"), or a column is named count
--rounding N  counts are rounded to multiples of N
--suppressed-below N  counts below N are hidden (*, .., c, x, <10)
--secondary  marks also hide larger counts, to protect the small ones
--total LABEL  label of totals, besides Total and All
--perturbed-by N  noise of at most N was added to counts
--out FILE.renyi
--json
{_ROWS}
{_LAYOUT}
{_COLUMNS}
{_BINNING}
{_WEIGHT}
{_UNSEEN}
{_WITHIN}
"""
_MERGE = f"""add up the pair counts of disjoint rows
MARGINALS ...  {_MARGINALS}
--allow-mixed  add exact counts even to private ones; no budget protects their rows
--memory SIZE
--out FILE.renyi
--json
"""
_SUBTRACT = f"""remove the rows of B from A
A  {_MARGINALS}
B  {_MARGINALS}
--memory SIZE
--out FILE.renyi
--json
"""
_RELEASE = f"""make pair counts that may be published
MARGINALS  {_MARGINALS}
--out FILE  write to a file (.renyi)
--encoder FILE  use its columns and categories (written by encoder build): all of them
    are released, and no others, but for what --merge-below merges
--undeclared {{error,merge}}  what labels do that --encoder lacks: stop, or count as
    "(rare)"
--memory SIZE
--json
hide small counts, and round the others:
--rule {{opensafely,ons,cms}}  a rule to follow: 7 or fewer hidden; below 10; below 11
    (the rest is rounded to 5)
--threshold N  hide counts below N
--rounding N  counts are rounded to multiples of N (those that are not hidden;
    default 5)
--merge-below N  first merge categories until no count from 1 to below N is left
add noise, for differential privacy (needs --encoder):
--rho NUMBER  budget of zero-concentrated differential privacy
--epsilon NUMBER  budget of approximate differential privacy
--delta PROBABILITY  goes with --epsilon
--neighbours {{add-remove,replace-one}}  what a person changes (default add-remove)
--rows-per-person N  most rows of a person (default 1)
before anything is written:
--plan  print guarantee and error for several thresholds and budgets
--rows FILE  evaluate the model on these rows (with --plan)
{_LAYOUT}
"""
_ENCODER = f"""write columns, categories and bins, and no count
[FILE ...]  {_TABLES}; {_DATABASE}
--target COL
--out ENCODER.json
--json
{_ROWS}
{_LAYOUT}
{_COLUMNS}
{_BINNING}
"""
_SHOW = f"""print what a file of pair counts contains
MARGINALS  {_MARGINALS}
--pair X Y  print the table of two columns
--json
--memory SIZE
"""
_EXPORT = f"""write a model as a function, as SQL, or as points
MODEL  {_MODEL}
[MARGINALS]  {_MARGINALS}, by which --points chooses and certifies the points (default:
    MODEL's own)
--format {_FORMATS}  a table of the points (csv, md), a function in one file (python,
    javascript), or a file for ONNX; with --points also html; default: by the
    ending of --out
either --sql {{duckdb,postgres,spark,sqlite}}  the engine that SQL is for
or --points N  whole points to add up by hand, at most N for a category (two classes)
--spreadsheet
--prevalence SHARE  {PREVALENCE} (answers follow it)
--table NAME  a table of a database (to add scores and answers to)
--label CLASS  class to score (default: the second of two)
--out FILE  write to a file, not to stdout
--memory SIZE
"""
_REPORT = f"""write an HTML page about a model, and its figures as JSON
MODEL  {_MODEL}
[MARGINALS]  {_MARGINALS} (default: MODEL's own)
--out FILE  where to write (default: MODEL's name with .report.html)
--title TEXT
{_LEVEL}
--path  show in which order features would be selected
--memory SIZE
--json
{_HELDOUT}
--rows FILE  evaluate the model on these rows (none is stored)
{_LAYOUT}
{_CLASS}
"""


class _Formatter(argparse.HelpFormatter):
    """Help in which most options take one line."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, **{"max_help_position": 31, **settings})

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        text = super()._format_args(action, default_metavar)
        return re.sub(r"(\S+) \[\1 \.\.\.\]", r"\1 ...", text)


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    # Later Pythons would print escape sequences for colours.
    color = property(lambda self: False, lambda self, value: None)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; FILE may be left out if --sql or --tables is given."""
        known, _ = self.parse_known_args(args, namespace)
        instead = [getattr(known, name, None) for name in ("sql", "published")]
        if getattr(known, "files", None) == [] and not any(instead):
            names = [getattr(known, part, None) for part in ("command", "action")]
            place = " ".join([self.prog, *filter(None, names)])
            self._fail(f"the following arguments are required: FILE{_BEFORE}", place)
        return known

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; let the command itself report an unknown one."""
        self._given = list(args or [])
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            # argparse finds an optional file only next to the one before it.
            late = any(action.nargs == "?" for action in self._actions)
            late = late and not rest[0].startswith("-")
            advice = " (put it before the options)" if late else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}{advice}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        """Exit with the message, similar options, and where to find help."""
        more = _BEFORE if message.endswith("FILE") else ""
        options = list(self._option_string_actions)
        for text in self._given:
            name = text.partition("=")[0]
            if name.startswith("-") and name not in options:
                meant = option(name.lstrip("-"))
                close = get_close_matches(meant, options, n=1, cutoff=0.7)
                more += f" (did you mean {close[0]}?)" if close else ""
        self._fail(message + more, self.prog)

    def _fail(self, message: str, place: str) -> NoReturn:
        self.exit(2, f"renyi: error: {message}; see '{place} --help'.\n")


def parser(genotypes: bool = True) -> argparse.ArgumentParser:
    """Return the parser of the command line, with or without genotype commands."""
    whole = _Parser(
        prog="renyi",
        description="Train scorecards for categorical data from pair counts, "
        "and bound their error.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"renyi {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=False, dest="command")
    add_command(commands, "fit", _FIT)
    add_command(commands, "predict", _PREDICT)
    add_command(commands, "explain", _EXPLAIN)
    add_command(commands, "certify", _CERTIFY)
    add_command(commands, "verify", _VERIFY, "renyi.cli.certify.run_verify")
    add_command(commands, "minimax", _MINIMAX, "renyi.cli.certify.run_minimax")
    add_command(commands, "hgr", _HGR, "renyi.cli.select.run_hgr")
    add_command(commands, "select", _SELECT)
    add_command(commands, "compare", _COMPARE)
    marginals = add_command(
        commands, "marginals", "build, merge, subtract, release or show pair counts"
    )
    actions = marginals.add_subparsers(metavar="ACTION", required=True, dest="action")
    add_command(actions, "build", _BUILD, "renyi.cli.marginals.build")
    add_command(actions, "merge", _MERGE, "renyi.cli.marginals.merge")
    add_command(actions, "subtract", _SUBTRACT, "renyi.cli.marginals.subtract")
    add_command(actions, "release", _RELEASE, "renyi.cli.release.run")
    add_command(actions, "show", _SHOW, "renyi.cli.marginals.show")
    text = "write columns and categories for several sites to share"
    encoders = add_command(commands, "encoder", text)
    actions = encoders.add_subparsers(metavar="ACTION", required=True, dest="action")
    add_command(actions, "build", _ENCODER, "renyi.cli.release.build_encoder")
    add_command(commands, "export", _EXPORT)
    add_command(commands, "report", _REPORT)
    text = "list the bundled data sets\n--json"
    add_command(commands, "datasets", text, "renyi.cli.inputs.list_datasets")
    wing = add_command(commands, "genotypes", "classify genotypes (PLINK files)")
    if genotypes:
        import_module("renyi.genotypes.options").add_commands(wing)
    return whole


def option(name: str) -> str:
    """Return the option that sets an argument of this name."""
    return f"--{name.replace('_', '-')}"


def add_command(
    commands: Commands, name: str, lines: str, run: str = ""
) -> argparse.ArgumentParser:
    """Add a command; `run` names its function (default: ``run`` in its module).

    The first line says what the command does. Other lines are ``group:``, ``note:`` for
    the end of the help, or an argument with its help after two spaces. Indented lines
    continue the line above. ``either`` and ``or`` mark options that exclude each other.
    """
    about, *rest = lines.replace("\n    ", " ").split("\n")
    whole = f"{about[0].upper()}{about[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=whole,
        allow_abbrev=False,
        formatter_class=_Formatter,
    )
    parser.set_defaults(run=run or f"renyi.cli.{name}.run")
    if _COLUMNS in lines:  # options that the command lacks
        names = ("where", "sql", "table", "trust_views", "unseen", "weight")
        absent = dict.fromkeys(names)
        parser.set_defaults(class_conditional=False, **absent)
    positional: list[str] = []
    group: Any = parser
    one_of: Any = parser
    for line in filter(None, rest):
        usage, _, text = line.partition("  ")
        word, _, after = usage.partition(" ")
        if word == "note:":
            parser.epilog = text
        elif usage.endswith(":"):
            group = parser.add_argument_group(usage[:-1], text or None)
        elif word in ("either", "or"):
            one_of = (
                group.add_mutually_exclusive_group() if word == "either" else one_of
            )
            _add_option(one_of, after, text)
        elif word.startswith("-"):
            _add_option(group, usage, text)
        else:
            _add_positional(group, usage, text)
            positional.append(usage)
    if positional:
        parser.usage = f"%(prog)s {' '.join(positional)} [options]"
    return parser


def _add_positional(parser: Arguments, usage: str, text: str) -> None:
    """Add a positional argument: ``FILE``, ``FILE ...``, or in brackets if optional."""
    name, *several = usage.strip("[]").split()
    names = {"MODEL": "model", "A": "first", "B": "second"}
    optional = usage.startswith("[")
    if not several:
        how = "?" if optional else None
        place = names.get(name, "file")
        parser.add_argument(place, metavar=name, help=text, nargs=how)
        return
    files = parser.add_argument("files", metavar=name, nargs="+", help=text, default=[])
    # With nargs="*", argparse would not find a file after the options.
    files.required = not optional


def _add_option(parser: Arguments, usage: str, text: str) -> None:
    """Add an option: ``--json``, ``--out FILE``, ``--pair X Y`` or ``--id COL ...``.

    The last takes one or more values, and may be given several times. An option without
    help is hidden: the command rejects it with a reason.
    """
    name, first, *more = [*usage.split(), ""]
    more = more[:-1]
    settings: dict[str, Any] = {"help": text or _HELP.get(usage, argparse.SUPPRESS)}
    if first.startswith("{"):
        settings["choices"] = first.strip("{}").split(",")
    elif first:
        settings["type"] = _TYPES.get(name, _TYPES.get(first))
        settings["metavar"] = (first, *more) if more else first
    else:
        settings["action"] = "store_true"
    if more == ["..."]:
        settings |= {"nargs": "+", "action": "extend", "default": [], "metavar": first}
    elif more:
        settings["nargs"] = 2
    names = _TWO_NAMES.get(name, (name,))
    parser.add_argument(*names, **settings | _SETTINGS.get(usage, {}))


def _value(
    what: str, fits: Callable[[Any], bool], read: Callable[[str], Any] = float
) -> Callable[[str], Any]:
    """Return a function that reads a value and rejects one that does not fit."""

    def value(text: str) -> Any:
        try:
            number = read(text)
        except ValueError:
            number = math.nan
        if not fits(number):
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not {what}")
        return number

    return value


def _whole(least: int, most: float = math.inf) -> Callable[[str], Any]:
    limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    return _value(f"a whole number {limits}", lambda n: least <= n <= most, int)


def _bytes(text: str) -> int:
    """Read a size: 2G is 2·10⁹ bytes."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    return int(float(number) * 1000 ** " KMGT".index(unit or " "))


def _interactions(text: str) -> int | str | tuple[tuple[str, str], ...]:
    """Read a number of pairs, "auto", or pairs of columns: a:b,c:d."""
    if text == "auto":
        return text
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    pairs = []
    for part in text.split(","):
        first, mark, second = part.partition(":")
        if not (first and mark and second) or ":" in second:
            raise argparse.ArgumentTypeError(
                f"{text!r:.60} is not auto, a number, or pairs such as age:sex,age:stay"
            )
        pairs.append((first, second))
    return tuple(pairs)


def _bins(text: str) -> Any:
    """Read a number of bins, or a column with a number or edges: age=18,30,65."""
    name, mark, figures = text.rpartition("=")
    try:
        if not mark:
            return _number_of_bins(text)
        if "," not in figures:
            return name, _number_of_bins(figures)
        return name, tuple(float(part) for part in figures.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r:.60} is not a whole number from 2 to 10000, or a column with "
            "edges such as age=18,30,65"
        ) from None


_number_of_bins = _whole(2, 10_000)


def _monotone(text: str) -> tuple[str, str]:
    """Read a column, perhaps with a direction: age, or age=increasing."""
    name, mark, direction = text.rpartition("=")
    if mark and direction in ("increasing", "decreasing", "auto"):
        return name, direction
    return text, "auto"


_POSITIVE = _value("a number above 0", lambda x: 0 < x < math.inf)
_TWO_NAMES = {"--out": ("-o", "--out"), "--rounding": ("--rounding", "--round")}
_TYPES = {  # by option, else by the placeholder of its value
    "--alpha": _value(
        "auto, loo or a number of at least 0",
        lambda x: x in ("auto", "loo") or 0 <= x < math.inf,
        lambda text: text if text in ("auto", "loo") else float(text),
    ),
    "--bins": _bins,
    "--folds": _whole(2, 1000),
    "--interactions": _interactions,
    "--min-count": _whole(1),
    "--monotone": _monotone,
    "--n-features": _whole(1),
    "--merge-below": _whole(2),
    "--out": Place,
    "--plot": Place,
    "--points": _whole(1, 1000),
    "--proof": Place,
    "--rounding": _whole(1),
    "--row": _whole(1),
    "--rows-per-person": _whole(1),
    "--suppressed-below": _whole(1),
    "--perturbed-by": _whole(1),
    "--seed": _whole(0, 2**32 - 1),
    "--threshold": _whole(2),
    "PROBABILITY": _value("a number between 0 and 1", lambda x: 0 < x < 1),
    "FRACTION": _value("a number from 0 to 1", lambda x: 0 <= x <= 1),
    "NUMBER": _POSITIVE,
    "R": _whole(1, 9),
    "R|auto|all": _value(
        "auto, all or a whole number from 1 to 9",
        lambda order: order in ("auto", "all") or 1 <= order <= 9,
        lambda text: text if text in ("auto", "all") else int(text),
    ),
    "SECONDS": _POSITIVE,
    "SHARE": _value("a number between 0 and 1", lambda x: 0 < x < 1),
    "SIZE": _value("a size such as 500M or 2G", lambda n: 1000 <= n < 2**63, _bytes),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "--threshold POINTS": {"type": _value("a number", math.isfinite)},
    "--tables FILE ...": {"dest": "published"},
    "--alpha auto|loo|NUMBER": {"default": "auto"},
    "--bins N": {"action": "append"},
    "--calibration {auto,temperature,sigmoid,affine,discriminant,none}": {
        "default": "auto",
        "metavar": "KIND",
    },
    "--exact": {"action": "store_const", "const": "exact", "dest": "level"},
    "--marginals": {"action": argparse.BooleanOptionalAction},
    "--level {auto,lp,exact}": {"default": "auto"},
    "--objective {error,ranking,logistic}": {"default": "error", "metavar": "NAME"},
    "--out ENCODER.json": {"required": True},
    "--out FILE.renyi": {"required": True},
    "--rule {map,renyi,sharp}": {"default": "map"},
}
_HELP = {
    "--alpha auto|loo|NUMBER": "ridge penalty, or how to choose it",
    "--calibration {auto,temperature,sigmoid,affine,discriminant,none}": (
        "temperature|sigmoid|affine|discriminant|none"
    ),
    "--details": "print all figures and how the model was made",
    "--json": "print one JSON object",
    "--memory SIZE": "memory limit, such as 2G (default: half of it)",
    "--order R": "columns in a feature; 2 uses pairs (default 1)",
    "--order R|auto|all": "columns in a feature (default 1; all: any number)",
    "--out ENCODER.json": "where to write",
    "--out FILE.renyi": "where to write",
    "--out PREFIX": "write PREFIX.json, PREFIX.log and PREFIX.renyi",
    "--plot FILE": f"write a figure ({_PICTURE}); needs the extra plot",
    "--proof FILE": "a proof of the bounds (written for 'renyi verify')",
    "--rule {map,renyi,sharp}": "how to answer; renyi and sharp do so at random",
    "--seed N": "seed of random choices",
    "--spreadsheet": (
        "put ' before cells of CSV that a spreadsheet would compute (=…, @…)"
    ),
    "--target COL": "the column to predict",
    "--time-limit SECONDS": (
        "stop after this time with the result so far, as Ctrl-C does"
    ),
    "--title TEXT": 'the question that the model answers, such as "Will White win?"',
}
